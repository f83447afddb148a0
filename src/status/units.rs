//! Numbers as people read them in a line.
//!
//! Doesn't know: what is counted. Tested: here.

/// `1,234,567`
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `0.8s`, `42s`, `7m`, `3h`, `320d`: as exact as a glance needs.
pub fn age(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{}s", ms / 1_000, ms / 100 % 10),
        10_000..120_000 => format!("{}s", ms / 1_000),
        120_000..7_200_000 => format!("{}m", ms / 60_000),
        7_200_000..172_800_000 => format!("{}h", ms / 3_600_000),
        _ => format!("{}d", ms / 86_400_000),
    }
}

/// `512B`, `3.2MiB`
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes}B");
    }
    let power = (bytes.ilog2() / 10).min(4);
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[power as usize - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn an_age_has_one_unit() {
        let ages = [850, 9_999, 42_000, 125_000, 7_300_000, 86_400_000 * 320];
        assert_eq!(ages.map(age), ["0.8s", "9.9s", "42s", "2m", "2h", "320d"]);
    }

    #[test]
    fn a_size_has_a_tenth() {
        assert_eq!(
            [0, 1_023, 1_024, 3_355_443, 4 << 30, u64::MAX].map(size),
            ["0B", "1023B", "1.0KiB", "3.1MiB", "4.0GiB", "16777215.9TiB"]
        );
    }
}
