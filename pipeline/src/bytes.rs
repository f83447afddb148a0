//! Small-endian reading of the byte strings that state and keys are made of.
//!
//! Keeps: reading never panics; a string that ends early is an error.

/// Stored bytes that don't have the form that their version says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored bytes are damaged: {0}")]
pub struct Damaged(pub &'static str);

/// Reads from the front of a byte string.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Damaged> {
        if n > self.0.len() {
            return Err(Damaged("they end early"));
        }
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Result<u8, Damaged> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32, Damaged> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Damaged> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Damaged> {
        self.array().map(i64::from_le_bytes)
    }

    /// A byte string behind its 32-bit length.
    pub fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    pub fn end(self) -> Result<(), Damaged> {
        if self.0.is_empty() { Ok(()) } else { Err(Damaged("they go on behind their end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_front_smallest_byte_first() {
        let stored = [7, 1, 2, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, b'a', b'b'];
        let mut cursor = Cursor(&stored);
        assert_eq!(cursor.u8(), Ok(7));
        assert_eq!(cursor.u32(), Ok(0x0201));
        assert_eq!(cursor.i64(), Ok(-2));
        assert_eq!(cursor.bytes(), Ok(&b"ab"[..]));
        assert_eq!(cursor.end(), Ok(()));
        assert_eq!(Cursor(&[0, 1, 0, 0, 0, 0, 0, 0x80]).u64(), Ok(0x8000_0000_0000_0100));
    }

    #[test]
    fn a_string_ends_where_its_form_says_neither_before_nor_behind() {
        assert_eq!(Cursor(&[1, 2, 3]).u32(), Err(Damaged("they end early")));
        assert_eq!(Cursor(&[3, 0, 0, 0, b'a', b'b']).bytes(), Err(Damaged("they end early")));
        assert_eq!(Cursor(&[0]).end(), Err(Damaged("they go on behind their end")));
    }
}
