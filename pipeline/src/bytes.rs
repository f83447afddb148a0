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
