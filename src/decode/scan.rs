//! The grammar of JSON (RFC 8259), token by token: where a value ends, not what it means.
//!
//! Nothing is copied or allocated, and passing over a value costs about as much as looking at it.
//! Doesn't know: fields, types, how large a number may be.
//! Keeps: what was passed is valid JSON; what is handed out is a whole token; recursion ends at [`MAX_DEPTH`].
//! Tested: here; decode/json/tests.rs, with serde_json as a second opinion on what is JSON.

/// Containers in each other that a document may have.
pub const MAX_DEPTH: usize = 512;

/// Why a text is not JSON, and from which byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct NotJson {
    pub what: &'static str,
    pub at: usize,
}

/// A string as it stands in the document, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawString<'a> {
    pub text: &'a str,
    pub escaped: bool,
}

pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The first byte of the next token, and where it stands.
    pub fn peek(&mut self) -> Option<(u8, usize)> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some((byte, self.at));
            }
            self.at += 1;
        }
    }

    /// All from a token's start to where the scanner is.
    pub fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Nothing but white space may follow.
    pub fn end(&mut self) -> Result<(), NotJson> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.refuse("more than one value"),
        }
    }

    /// Passes the `{` of container number `depth`. Whether the object has members.
    pub fn open_object(&mut self, depth: usize) -> Result<bool, NotJson> {
        self.open(b'{', b'}', depth)
    }

    /// Passes a member's key and the colon behind it.
    pub fn key(&mut self) -> Result<RawString<'a>, NotJson> {
        if !self.take(b'"') {
            return self.refuse("no key in quotes");
        }
        let start = self.at;
        let escaped = self.string()?;
        let text = self.text.get(start..self.at - 1).unwrap_or_default();
        if !self.take(b':') {
            return self.refuse("no `:` behind a key");
        }
        Ok(RawString { text, escaped })
    }

    /// Behind a member: whether another one follows.
    pub fn more_members(&mut self) -> Result<bool, NotJson> {
        self.more(b'}', "no `,` or `}` behind a value")
    }

    /// Passes a value that stands in `depth` containers.
    pub fn value(&mut self, depth: usize) -> Result<&'a str, NotJson> {
        let Some((first, start)) = self.peek() else { return self.refuse("the text ends before a value") };
        match first {
            b'"' => {
                self.at += 1;
                self.string()?;
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b'{' => self.object(depth + 1)?,
            b'[' => self.array(depth + 1)?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => return self.refuse("no value"),
        }
        Ok(self.since(start))
    }

    fn object(&mut self, depth: usize) -> Result<(), NotJson> {
        let mut more = self.open_object(depth)?;
        while more {
            self.key()?;
            self.value(depth)?;
            more = self.more_members()?;
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), NotJson> {
        let mut more = self.open(b'[', b']', depth)?;
        while more {
            self.value(depth)?;
            more = self.more(b']', "no `,` or `]` behind a value")?;
        }
        Ok(())
    }

    fn open(&mut self, open: u8, close: u8, depth: usize) -> Result<bool, NotJson> {
        if depth > MAX_DEPTH {
            return self.refuse("more than 512 objects and arrays in each other");
        }
        if !self.take(open) {
            return self.refuse("no object or array");
        }
        Ok(!self.take(close))
    }

    fn more(&mut self, close: u8, what: &'static str) -> Result<bool, NotJson> {
        if self.take(b',') {
            Ok(true)
        } else if self.take(close) {
            Ok(false)
        } else {
            self.refuse(what)
        }
    }

    fn take(&mut self, token: u8) -> bool {
        let found = self.peek().is_some_and(|(byte, _)| byte == token);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> Result<(), NotJson> {
        if !self.rest().starts_with(word.as_bytes()) {
            return self.refuse("no value");
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes a string whose opening quote has been passed. Whether it has escapes.
    fn string(&mut self) -> Result<bool, NotJson> {
        let mut escaped = false;
        loop {
            self.at += plain(self.rest());
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.refuse("a control character in a string"),
                None => return self.refuse("a string without its closing quote"),
            }
        }
    }

    /// Half of a surrogate pair is grammar, though no text.
    fn escape(&mut self) -> Result<(), NotJson> {
        match self.rest() {
            [_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
            [_, b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => self.at += 6,
            _ => return self.refuse("no such escape in a string"),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), NotJson> {
        self.at += usize::from(self.rest().first() == Some(&b'-'));
        match self.rest() {
            [b'0', b'0'..=b'9', ..] => return self.refuse("a number with a leading zero"),
            _ => self.digits()?,
        }
        if self.rest().first() == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let [b'e' | b'E', rest @ ..] = self.rest() {
            self.at += 1 + usize::from(matches!(rest.first(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { self.refuse("no digit in a number") } else { Ok(()) }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[cold]
    fn refuse<T>(&self, what: &'static str) -> Result<T, NotJson> {
        Err(NotJson { what, at: self.at })
    }
}

/// Number of bytes before the first that ends or interrupts a string. Looks at eight at a time.
fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk() {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let tail = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '));
    tail.map_or(bytes.len(), |tail| at + tail)
}

/// The high bit of each byte that is a quote, a backslash or a control character. Right for the lowest such byte; a borrow may spoil higher ones.
fn special(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let below = |word: u64, limit: u8| word.wrapping_sub(EACH * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    (equal(b'"') | equal(b'\\') | below(word, b' ')) & (EACH << 7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        let mut scanner = Scanner::new(text);
        scanner.value(0).and_then(|_| scanner.end()).unwrap_err().to_string()
    }

    #[test]
    fn a_refusal_says_what_and_where() {
        assert_eq!(refused("[1,"), "the text ends before a value at byte 3");
        assert_eq!(refused("{\"a\" 1}"), "no `:` behind a key at byte 5");
        assert_eq!(refused("{\"a\":1]"), "no `,` or `}` behind a value at byte 6");
        assert_eq!(refused("{'a':1}"), "no key in quotes at byte 1");
        assert_eq!(refused("\"a\\x\""), "no such escape in a string at byte 2");
        assert_eq!(refused("\"a"), "a string without its closing quote at byte 2");
        assert_eq!(refused("01"), "a number with a leading zero at byte 0");
        assert_eq!(refused("1 2"), "more than one value at byte 2");
    }

    #[test]
    fn a_value_is_handed_out_as_it_stands() {
        let mut scanner = Scanner::new(" { \"k\\n\" : [1, {\"x\":\"]\"}] , \"b\":-1.5e+3}");
        assert_eq!(scanner.open_object(1), Ok(true));
        assert_eq!(scanner.key(), Ok(RawString { text: "k\\n", escaped: true }));
        assert_eq!(scanner.value(1), Ok("[1, {\"x\":\"]\"}]"));
        assert_eq!(scanner.more_members(), Ok(true));
        assert_eq!(scanner.key(), Ok(RawString { text: "b", escaped: false }));
        assert_eq!(scanner.value(1), Ok("-1.5e+3"));
        assert_eq!(scanner.more_members(), Ok(false));
        assert_eq!(scanner.end(), Ok(()));
    }

    proptest! {
        #[test]
        fn eight_bytes_at_a_time_find_what_one_at_a_time_would(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(b'"'), Just(b'\\'), 0x1e..0x22_u8, 0x7e..0x82_u8], 0..40)) {
            let first = bytes.iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20);
            prop_assert_eq!(plain(&bytes), first.unwrap_or(bytes.len()));
        }
    }
}
