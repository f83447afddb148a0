//! Tables of one path, by the catalog that it has for itself.
//!
//! Doesn't know: who writes them. Tested: tests/flink/main.rs.
use std::sync::Arc;

use iceberg::io::FileIO;
use iceberg::{NamespaceIdent, TableIdent};
use tokio::runtime::{Builder, Runtime};

use super::ParityError;
use crate::digest::source::RowSource;
use crate::iceberg::catalog::sql::SqlCatalog;
use crate::iceberg::catalog::{Catalog, Loaded};
use crate::iceberg::storage::Stores;
use crate::table::{At, LoadedTable};

/// Its questions block: each thread has one of its own.
pub struct Tables {
    catalog: SqlCatalog,
    io: FileIO,
    runtime: Runtime,
}

impl Tables {
    /// By the catalog's URI. Nothing is asked of it yet.
    pub fn of(catalog: &str) -> Result<Self, ParityError> {
        let io = Stores::default().file_io();
        let runtime = Builder::new_current_thread().enable_all().build().map_err(ParityError::Start)?;
        let catalog = runtime.block_on(async { SqlCatalog::new(catalog, "floodmark", String::new(), io.clone()) })?;
        Ok(Self { catalog, io, runtime })
    }

    /// Rows that a reader sees now; none before the table is there.
    pub fn visible(&self, table: &str) -> Result<u64, ParityError> {
        let Some(Loaded { metadata, .. }) = self.load(table)? else { return Ok(0) };
        let rows = metadata.current_snapshot().and_then(|s| s.summary().additional_properties.get("total-records"));
        Ok(rows.and_then(|rows| rows.parse().ok()).unwrap_or(0))
    }

    /// Where the metadata lies.
    pub fn metadata(&self, table: &str) -> Result<String, ParityError> {
        let location = self.present(table)?.metadata_location;
        // Java writes `file:/…`.
        Ok(format!("file:///{}", location.trim_start_matches("file:").trim_start_matches('/')))
    }

    pub fn rows(&self, table: &str) -> Result<RowSource, ParityError> {
        let metadata = Arc::new(self.present(table)?.metadata);
        let loaded = LoadedTable { metadata, file_io: self.io.clone() };
        Ok(RowSource::Table { name: table.to_owned(), table: loaded, at: At::Current })
    }

    fn present(&self, table: &str) -> Result<Loaded, ParityError> {
        self.load(table)?.ok_or_else(|| ParityError::NoTable { table: table.to_owned() })
    }

    fn load(&self, table: &str) -> Result<Option<Loaded>, ParityError> {
        let levels: Vec<String> = table.split('.').map(str::to_owned).collect();
        let (namespace, name) = levels.split_at(levels.len() - 1);
        let namespace = NamespaceIdent::from_vec(namespace.to_vec());
        let namespace = namespace.map_err(|_| ParityError::NoTable { table: table.to_owned() })?;
        let ident = TableIdent::new(namespace, name.concat());
        Ok(self.runtime.block_on(self.catalog.load(&ident))?)
    }
}
