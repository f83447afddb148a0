//! What `digest` and `diff` read: from an argument to a source of rows.
//!
//! Doesn't know: what is done with the rows. Tested: cli/diff.rs, cli/digest.rs.
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use floodmark_pipeline::digest::Options;

use crate::digest::source::RowSource;
use crate::digest::{CompareError, orders};
use crate::table::At;

use super::table_argument::CatalogArgs;

/// How rows are read and written down; the same for both commands.
#[derive(Args, Clone, Debug)]
pub struct RowsArgs {
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Read this snapshot id, branch or tag instead of the current state
    #[arg(long, value_name = "ID|REF", value_parser = at)]
    pub snapshot: Option<At>,
    /// Leave out columns whose name begins with `_`
    #[arg(long)]
    pub without_meta: bool,
    /// Digest of another kind: `orders` looks at the eight columns of the orders workload only
    #[arg(long = "as", value_name = "KIND")]
    pub kind: Option<Kind>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Orders,
}

impl RowsArgs {
    pub fn options(&self) -> Options {
        Options { without_meta: self.without_meta }
    }

    /// `arrow:FILE` is an Arrow IPC file or stream; anything else a table.
    pub async fn source(&self, argument: &str) -> Result<RowSource, CompareError> {
        let source = match argument.strip_prefix("arrow:") {
            Some(file) => RowSource::ArrowFile(PathBuf::from(file)),
            None => {
                let table = self.catalog.load(argument).await?;
                RowSource::Table { name: argument.to_owned(), table, at: self.snapshot.clone().unwrap_or(At::Current) }
            }
        };
        Ok(match self.kind {
            Some(Kind::Orders) => RowSource::Columns(Box::new(source), &orders::COLUMNS),
            None => source,
        })
    }
}

fn at(text: &str) -> Result<At, std::convert::Infallible> {
    Ok(text.parse().map_or_else(|_| At::Ref(text.to_owned()), At::Snapshot))
}
