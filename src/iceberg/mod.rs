//! The Iceberg sink and what it is made of.
//!
//! ```text
//! sink ── open ──> table (make, check) ──> fence ─┐
//!   └──── commit ──> append ──> parts, writer ────┴─> commit (settle) ──> manifest, snapshot ──> catalog
//! ```
//! Knows the iceberg crate's `spec` only; catalogs and storage are ours (`catalog/`, `storage.rs`).
mod append;
mod bounds;
pub mod catalog;
pub mod commit;
mod fence;
mod manifest;
pub mod mark;
mod others;
mod partition;
mod parts;
pub mod sink;
mod snapshot;
pub mod storage;
mod table;
mod tag;
mod writer;

use std::sync::Arc;

use iceberg::{NamespaceIdent, TableIdent};

use crate::config::model::{CatalogConfig, IcebergConfig, S3Settings};
use crate::host::Host;
use crate::sink::SinkError;
use catalog::Catalog;
use catalog::rest::RestCatalog;
use catalog::sql::SqlCatalog;
use commit::Table;
use storage::Stores;

/// Opens the way to a table. Nothing is asked of catalog or store yet.
pub fn table(config: &IcebergConfig, s3: &S3Settings, host: Arc<dyn Host>) -> Result<Table, SinkError> {
    let io = Stores::new(s3.clone()).file_io();
    let setting = |e: &dyn std::fmt::Display| SinkError::Setting(e.to_string());
    let namespace = NamespaceIdent::from_vec(config.namespace.clone()).map_err(|e| setting(&e))?;
    let catalog: Arc<dyn Catalog> = match &config.catalog {
        CatalogConfig::Sql { uri, name, warehouse } => {
            let warehouse = storage::location_of(warehouse).map_err(|e| setting(&e))?;
            Arc::new(SqlCatalog::new(&uri.0, name, warehouse, io.clone())?)
        }
        CatalogConfig::Rest { uri, warehouse, auth, prefix } => {
            Arc::new(RestCatalog::new(uri, warehouse.clone(), auth.clone(), prefix.clone())?)
        }
    };
    Ok(Table { catalog, ident: TableIdent::new(namespace, config.table.clone()), io, host })
}

#[cfg(test)]
mod tests;
