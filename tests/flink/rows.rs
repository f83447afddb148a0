//! Questions about the tables of both engines at once, answered by DuckDB, which wrote none of them.
//!
//! Doesn't know: which tables there are. Keeps: where a table lies is asked of its catalog.
use std::path::Path;
use std::process::Command;

use sqlx::{Connection, PgConnection};

use crate::Stack;

/// One line a row, values with commas between. A query names tables as `ours.NAME` and `flinks.NAME`.
pub fn ask(stack: &Stack, query: &str) -> Vec<String> {
    let mut query = query.to_owned();
    let mut any = None;
    for catalog in ["ours", "flinks"] {
        for (table, metadata) in metadata(&stack.postgres.url(catalog)) {
            query = query.replace(&format!("{catalog}.{table}"), &format!("iceberg_scan('{metadata}')"));
            any = Some(metadata);
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("compose/readers/duckdb_query.py");
    let output = Command::new(floodmark_stack::python().unwrap()).arg(script).args([&any.unwrap(), &query]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{query}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The one number that answers a query.
pub fn count(stack: &Stack, query: &str) -> u64 {
    let answer = ask(stack, query);
    assert_eq!(answer.len(), 1, "{query}");
    answer[0].parse().unwrap_or_else(|_| panic!("{query}\n{}", answer[0]))
}

/// Every table of a catalog with its newest metadata file; none after one that its name begins with.
fn metadata(catalog: &str) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut catalog = PgConnection::connect(catalog).await.unwrap();
        let tables =
            sqlx::query_as("SELECT table_name, metadata_location FROM iceberg_tables ORDER BY length(table_name) DESC");
        // An engine that has run nothing has made no catalog. Whoever asks about its tables is told that there are none.
        tables.fetch_all(&mut catalog).await.unwrap_or_default()
    })
}
