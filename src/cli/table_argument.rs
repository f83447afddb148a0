//! How a table is named on the command line: its folder, its metadata.json, a name in a catalog, or a sink of a pipeline file.
//!
//! Doesn't know: what is read of it. Tested: here, tests/readers.rs.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use iceberg::{NamespaceIdent, TableIdent};

use crate::config;
use crate::config::model::{RestAuth, SinkConnector};
use crate::digest::CompareError;
use crate::host::Computer;
use crate::iceberg::catalog::rest::RestCatalog;
use crate::iceberg::catalog::sql::SqlCatalog;
use crate::iceberg::catalog::{Catalog, Loaded, name_of};
use crate::iceberg::storage::Stores;
use crate::table::{LoadedTable, locate};

#[derive(Args, Clone, Debug, Default)]
pub struct CatalogArgs {
    /// Find tables by name (`shop.events`) in this catalog: sqlite:PATH, postgres://… or the URL of a REST catalog
    #[arg(long, value_name = "URI")]
    catalog: Option<String>,
    /// The catalog's name in a SQL catalog's tables
    #[arg(long, value_name = "NAME", default_value = "floodmark", requires = "catalog")]
    catalog_name: String,
    /// Warehouse to ask a REST catalog for
    #[arg(long, value_name = "NAME", requires = "catalog")]
    warehouse: Option<String>,
    /// Find tables by the name of the Iceberg sink in this pipeline file that writes them
    #[arg(long, value_name = "FILE", conflicts_with = "catalog")]
    pipeline: Option<PathBuf>,
}

impl CatalogArgs {
    pub async fn load(&self, argument: &str) -> Result<LoadedTable, CompareError> {
        if let Some(file) = &self.pipeline {
            return sink_of(file, argument).await;
        }
        let file_io = Stores::default().file_io();
        let Some(uri) = &self.catalog else {
            return Ok(locate::load(argument, file_io).await?);
        };
        let catalog: Box<dyn Catalog> = if uri.starts_with("http://") || uri.starts_with("https://") {
            Box::new(RestCatalog::new(uri, self.warehouse.clone(), RestAuth::None, None)?)
        } else {
            // The warehouse is where tables would be made; none is made here.
            Box::new(SqlCatalog::new(uri, &self.catalog_name, String::new(), file_io.clone())?)
        };
        let ident = ident(argument).ok_or_else(|| CompareError::TableName { name: argument.to_owned() })?;
        let loaded = catalog.load(&ident).await?.ok_or_else(|| missing(&ident))?;
        Ok(LoadedTable { metadata: Arc::new(loaded.metadata), file_io })
    }
}

async fn sink_of(file: &Path, name: &str) -> Result<LoadedTable, CompareError> {
    let shown = file.display().to_string();
    let pipeline = config::load(file).map_err(|_| CompareError::PipelineFile { file: shown.clone() })?;
    let sinks = pipeline.sinks.iter().filter_map(|(id, sink)| match &sink.connector {
        SinkConnector::Iceberg(config) => Some((pipeline.plan.node(*id).name.as_str(), config)),
        _ => None,
    });
    let sinks: Vec<_> = sinks.collect();
    let Some((_, config)) = sinks.iter().find(|(sink, _)| *sink == name) else {
        let sinks: Vec<_> = sinks.iter().map(|(sink, _)| *sink).collect();
        return Err(CompareError::NoSink { file: shown, name: name.to_owned(), has: sinks.join(", ") });
    };
    let table = crate::iceberg::table(config, &pipeline.settings.s3, Arc::new(Computer::default()))?;
    let Loaded { metadata, .. } = table.load().await?.ok_or_else(|| missing(&table.ident))?;
    Ok(LoadedTable { metadata: Arc::new(metadata), file_io: table.io })
}

/// `shop.events`; a namespace may have several levels.
fn ident(argument: &str) -> Option<TableIdent> {
    let (namespace, table) = argument.rsplit_once('.')?;
    let levels = namespace.split('.').map(str::to_owned).collect();
    Some(TableIdent::new(NamespaceIdent::from_vec(levels).ok()?, table.to_owned()))
}

fn missing(ident: &TableIdent) -> CompareError {
    CompareError::NoTable { name: name_of(ident) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(arguments: &CatalogArgs, table: &str) -> String {
        crate::cli::block_on(arguments.load(table)).unwrap_err().to_string()
    }

    #[test]
    fn a_table_that_the_catalog_lacks_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let uri = format!("sqlite:{}/catalog.db", folder.path().display());
        let arguments = CatalogArgs { catalog: Some(uri), catalog_name: "floodmark".to_owned(), ..Default::default() };
        assert_eq!(error(&arguments, "shop.events"), "the catalog has no table shop.events");
        assert_eq!(error(&arguments, "events"), "`events` is no table's name; write it as NAMESPACE.TABLE");
    }

    #[test]
    fn a_pipeline_file_that_is_not_there_is_named() {
        let arguments = CatalogArgs { pipeline: Some("missing.toml".into()), ..Default::default() };
        assert_eq!(error(&arguments, "lake"), "missing.toml can't be used; `floodmark check missing.toml` says why");
    }
}
