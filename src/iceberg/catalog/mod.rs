//! What the sink needs of a catalog, and no more: where a table stands, making it, and one compare-and-set.
//!
//! Doesn't know: marks, epochs. Keeps: `Conflict` and `Refused` are certain (nothing was changed); whatever isn't certain is `Unknown`.
//! Tested: sql.rs and rest.rs here; the sink's tests drive both through this trait.
pub mod rest;
pub mod sql;

use async_trait::async_trait;
use iceberg::spec::TableMetadata;
use iceberg::{TableCreation, TableIdent, TableRequirement, TableUpdate};

use crate::sink::SinkError;

/// A table as the catalog shows it.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub metadata: TableMetadata,
    pub metadata_location: String,
}

/// How a request to change something ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Applied,
    /// A requirement doesn't hold (any more), or the table was there already.
    Conflict,
    /// It may have been applied, or may still be.
    Unknown(String),
    /// Not applied, and asking again won't help.
    Refused(String),
}

/// Errors are those of requests that changed nothing: [`SinkError::Away`], or a catalog that isn't what the pipeline file says.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Looks, and changes nothing.
    async fn load(&self, table: &TableIdent) -> Result<Option<Loaded>, SinkError>;

    /// Makes the table, and its namespace if that is missing. Without a location in `creation` the catalog chooses one.
    async fn create(&self, table: &TableIdent, creation: TableCreation) -> Result<Answer, SinkError>;

    /// Applies `updates` if all `requirements` hold for the table as it is then. `base` is what they were made from.
    async fn commit(
        &self,
        table: &TableIdent,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Answer, SinkError>;
}

/// `shop.events`, as users write it.
pub fn name_of(table: &TableIdent) -> String {
    format!("{}.{}", table.namespace().as_ref().join("."), table.name())
}
