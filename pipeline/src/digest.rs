//! What a table holds, in one comparable value.
//!
//! A digest is a row count and the sum (mod 2^128) of one hash per row. The order of rows, files and batches can't change it; what is
//! appended is added, what is deleted is subtracted, so a running digest must equal a full scan. A sum and not xor: with xor two equal
//! rows would vanish. The encoding of a row is in `encoding`, for other languages in docs/DIGEST.md.
//! Doesn't know: tables, files, snapshots, where batches come from.
//! Keeps: D1 (equal multisets of rows have equal digests, whatever Arrow layout holds them), D2 (digest(a + b) = digest(a) + digest(b)).
//! Tested: digest/tests.rs; vectors in docs/DIGEST.md, checked by digest/vectors.rs and by the Python twin.
mod buckets;
mod encoding;
mod hasher;

use std::fmt;
use std::str::FromStr;

use arrow_schema::DataType;
use thiserror::Error;

pub use buckets::Buckets;
pub use hasher::{Options, RowHash, RowHasher};

/// Row count and sum of row hashes. Forms a group under `merge`: both fields wrap, so `subtract` undoes `merge` in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub rows: u64,
    pub sum: u128,
}

impl Digest {
    pub fn add_row(&mut self, hash: RowHash) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash);
    }

    /// Digest of both multisets together.
    pub fn merge(&mut self, other: Digest) {
        self.rows = self.rows.wrapping_add(other.rows);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Takes rows away that were added before.
    pub fn subtract(&mut self, other: Digest) {
        self.rows = self.rows.wrapping_sub(other.rows);
        self.sum = self.sum.wrapping_sub(other.sum);
    }
}

impl FromIterator<RowHash> for Digest {
    fn from_iter<I: IntoIterator<Item = RowHash>>(hashes: I) -> Self {
        let mut digest = Digest::default();
        hashes.into_iter().for_each(|hash| digest.add_row(hash));
        digest
    }
}

/// `v1:12000:00c4…`: encoding version, rows, sum as 32 hex digits. Short enough for a table property or a snapshot summary.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1:{}:{:032x}", self.rows, self.sum)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let malformed = || DigestError::Malformed { text: text.to_owned() };
        let (rows, sum) = text.strip_prefix("v1:").and_then(|rest| rest.split_once(':')).ok_or_else(malformed)?;
        let is_hex = sum.len() == 32 && sum.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return Err(malformed());
        }
        Ok(Digest {
            rows: rows.parse().map_err(|_| malformed())?,
            sum: u128::from_str_radix(sum, 16).map_err(|_| malformed())?,
        })
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DigestError {
    #[error("column `{column}`: the digest has no encoding for type {data_type}; leave the column out")]
    UnsupportedType { column: String, data_type: DataType },
    #[error("column name `{column}` occurs twice; a digest takes columns by name")]
    DuplicateColumn { column: String },
    #[error(
        "column `{column}`, row {row} of its batch: {value} can't be said in whole microseconds (or days) in 64 bits"
    )]
    NotRepresentable { column: String, row: usize, value: i64 },
    #[error("a batch has other columns than the schema that the digest began with: {expected} and now {found}")]
    SchemaChanged { expected: String, found: String },
    #[error("`{text}` is not a digest of this version (v1:<rows>:<32 hex digits>)")]
    Malformed { text: String },
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
