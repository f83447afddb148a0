//! Decimals from text, exactly: no float on the way.
//!
//! Doesn't know: JSON beyond the look of its numbers, columns.
//! Keeps: a number that the type can't hold to its last digit is refused, never rounded.
//! Tested: here.
use super::value::Fault;

const TOO_LARGE: Fault = Fault::Range("more digits than the precision");
const TOO_FINE: Fault = Fault::Range("more decimals than the scale");

/// The unscaled value of `text` (a number as JSON writes it; a leading `+` or zeros are fine) as decimal(precision, scale).
pub fn parse(text: &str, precision: u8, scale: i8) -> Result<i128, Fault> {
    let number = Number::parse(text.as_bytes()).ok_or(Fault::Type)?;
    let Some(mantissa) = number.mantissa else { return Err(TOO_LARGE) };
    if mantissa == 0 {
        return Ok(0);
    }
    let shift = number.exponent + i64::from(scale);
    if shift < 0 {
        return Err(TOO_FINE);
    }
    let unscaled = u32::try_from(shift)
        .ok()
        .and_then(|shift| 10_i128.checked_pow(shift))
        .and_then(|factor| mantissa.checked_mul(factor))
        .ok_or(TOO_LARGE)?;
    match 10_i128.checked_pow(u32::from(precision)) {
        Some(limit) if unscaled >= limit => Err(TOO_LARGE),
        _ => Ok(if number.negative { -unscaled } else { unscaled }),
    }
}

/// `± mantissa · 10^exponent`, the mantissa without trailing zeros; `None` where it has more digits than 128 bits.
struct Number {
    negative: bool,
    mantissa: Option<i128>,
    exponent: i64,
}

impl Number {
    fn parse(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let mut number = Self { negative, mantissa: Some(0), exponent: 0 };
        let whole = text.iter().take_while(|b| b.is_ascii_digit()).count();
        let mut rest = &text[whole..];
        let mut fraction: &[u8] = &[];
        if let [b'.', after @ ..] = rest {
            let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
            (fraction, rest) = after.split_at(digits);
            if digits == 0 {
                return None;
            }
        }
        if whole == 0 {
            return None;
        }
        number.take_digits(&text[..whole], fraction);
        match rest {
            [] => {}
            [b'e' | b'E', exponent @ ..] => number.exponent += parse_exponent(exponent)?,
            _ => return None,
        }
        Some(number)
    }

    fn take_digits(&mut self, whole: &[u8], fraction: &[u8]) {
        let mut zeros = 0_u32;
        for digit in whole.iter().chain(fraction).map(|b| i128::from(b - b'0')) {
            if digit == 0 {
                zeros += 1;
                continue;
            }
            self.mantissa = self.mantissa.and_then(|m| {
                let factor = if m == 0 { 0 } else { 10_i128.checked_pow(zeros + 1)? };
                m.checked_mul(factor)?.checked_add(digit)
            });
            zeros = 0;
        }
        self.exponent = i64::from(zeros) - fraction.len() as i64;
    }
}

/// Far beyond any scale it no longer matters how far.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |v, b| (v * 10 + i64::from(b - b'0')).min(1 << 40));
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_to_its_last_digit() {
        assert_eq!(parse("12.34", 10, 2), Ok(1234));
        assert_eq!(parse("-0.01", 10, 2), Ok(-1));
        assert_eq!(parse("1.50", 3, 1), Ok(15));
        assert_eq!(parse("1e3", 6, 2), Ok(100_000));
        assert_eq!(parse("1500e-3", 3, 1), Ok(15));
        assert_eq!(parse("007.10", 3, 1), Ok(71));
        assert_eq!(parse("0e999999999999999999999", 3, 1), Ok(0));
        assert_eq!(parse("0.0000000000000000000000000000000000000000000000", 3, 1), Ok(0));
        assert_eq!(parse("99999999999999999999999999999999999999", 38, 0), Ok(10_i128.pow(38) - 1));
        assert_eq!(parse("1200", 2, -2), Ok(12));
    }

    #[test]
    fn what_does_not_fit_is_refused_not_rounded() {
        assert_eq!(parse("12.345", 10, 2), Err(TOO_FINE));
        assert_eq!(parse("1e-99999999999", 10, 2), Err(TOO_FINE));
        assert_eq!(parse("1250", 2, -2), Err(TOO_FINE));
        assert_eq!(parse("100", 2, 0), Err(TOO_LARGE));
        assert_eq!(parse("1e99999999999", 38, 0), Err(TOO_LARGE));
        assert_eq!(parse("100000000000000000000000000000000000000", 38, 0), Err(TOO_LARGE));
        assert_eq!(parse("1000000000000000000000000000000000000000000000000000000001", 38, 0), Err(TOO_LARGE));
    }

    #[test]
    fn text_that_is_no_number_is_of_another_type() {
        for text in ["", "-", ".5", "5.", "1e", "1e+", "0x10", "1 ", "NaN", "1_000", "--1"] {
            assert_eq!(parse(text, 10, 2), Err(Fault::Type), "{text}");
        }
    }
}
