//! What tables hold: their digests, and their rows as a reader that didn't write them sees them.
//!
//! Where a table lies is asked of its catalog: after a kill there may be two metadata files of one version, and only the catalog knows which counts.
use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::process::Command;

use floodmark_stack::s3;
use sqlx::{Connection, PgConnection, SqliteConnection};

use super::pipelines::TABLES;
use super::{Job, Run};

/// `v1:ROWS:HASH`.
pub type Digest = String;

/// The number of rows that a digest names.
pub fn rows_of(digest: &str) -> u64 {
    digest.split(':').nth(1).and_then(|rows| rows.parse().ok()).unwrap_or_else(|| panic!("no digest: {digest}"))
}

/// The digest of the rows of both: digests add up.
pub fn sum_of(one: &str, other: &str) -> Digest {
    let hash = |digest: &str| u128::from_str_radix(digest.rsplit(':').next().unwrap(), 16).unwrap();
    format!("v1:{}:{:032x}", rows_of(one) + rows_of(other), hash(one).wrapping_add(hash(other)))
}

/// The catalog of a job's tables, as the test asks it.
pub enum Catalog {
    /// In the job's folder.
    Sqlite,
    /// By the database's URL.
    Postgres(String),
    /// By the server's URL.
    Rest(String),
    /// The same, in a namespace of the job's own on a server that others use too.
    RestIn(String, String),
    /// As `Postgres`, with tables on S3: the database's URL, the store's.
    PostgresAndS3(String, String),
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

const POINTER: &str = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = 'shop' AND table_name = ";

impl Job {
    pub fn digest(&self, table: &str) -> Digest {
        self.digest_with(table, &[]).unwrap_or_else(|| panic!("there is no table {table}"))
    }

    /// `None` while there is no such table.
    pub fn digest_with(&self, table: &str, options: &[&str]) -> Option<Digest> {
        let metadata = self.find_metadata(table)?;
        let exported = self.path(&format!("{table}.arrow")).to_string_lossy().into_owned();
        let source = if let Catalog::PostgresAndS3(_, endpoint) = &self.catalog {
            reader("pyiceberg_export.py", &[&metadata, &exported, endpoint, s3::ACCESS_KEY, s3::SECRET_KEY]);
            vec!["digest", "--arrow", &exported]
        } else {
            vec!["digest", metadata.trim_start_matches("file://")]
        };
        let output = self.command(&[&source, options].concat()).output().unwrap();
        assert!(output.status.success(), "{table}: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// Rows of a table; none while it isn't there.
    pub fn rows(&self, table: &str) -> u64 {
        self.digest_with(table, &[]).map_or(0, |digest| rows_of(&digest))
    }

    /// Digests of all tables of the click pipeline.
    pub fn digests(&self) -> BTreeMap<&'static str, Digest> {
        TABLES.map(|table| (table, self.digest(table))).into()
    }

    /// Records that stand in one of the tables as what they are: every record of the log once it was read.
    pub fn records_seen(&self) -> u64 {
        ["events", "duplicates", "errors"].iter().map(|table| self.rows(table)).sum()
    }

    /// Location of the metadata that the catalog points to.
    pub fn metadata(&self, table: &str) -> String {
        self.find_metadata(table).unwrap_or_else(|| panic!("there is no table {table}"))
    }

    fn find_metadata(&self, table: &str) -> Option<String> {
        let query = format!("{POINTER}'{table}'");
        block_on(async {
            match &self.catalog {
                Catalog::Sqlite => {
                    // What a kill in the middle of a commit has left can only be rolled back by who may write.
                    let url = format!("sqlite:{}?mode=rw", self.path("data/catalog.db").display());
                    // Before the first start there is neither the file nor, for a moment, the catalog's table in it.
                    let mut catalog = SqliteConnection::connect(&url).await.ok()?;
                    sqlx::query_scalar(&query).fetch_optional(&mut catalog).await.ok()?
                }
                Catalog::Postgres(url) | Catalog::PostgresAndS3(url, _) => {
                    let mut catalog = PgConnection::connect(url).await.unwrap();
                    sqlx::query_scalar(&query).fetch_optional(&mut catalog).await.ok()?
                }
                Catalog::Rest(url) => pointer(url, "shop", table).await,
                Catalog::RestIn(url, namespace) => pointer(url, namespace, table).await,
            }
        })
    }
}

/// Every commit of one sink into its table follows the one before it: each snapshot names its parent and the epoch it goes on from, and the mark in force is
/// of the last one and of all rows.
pub fn chain_is_whole(job: &Job, pipeline: &str, sink: &str, table: &str) {
    let location = job.metadata(table);
    // `file:///…`, or `file:/…` as Java writes it.
    let metadata = fs::read(location.trim_start_matches("file:").trim_start_matches("//")).unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).unwrap();
    let mut snapshots = metadata["snapshots"].as_array().unwrap().clone();
    snapshots.sort_by_key(|snapshot| snapshot["sequence-number"].as_u64());
    let (mut parent, mut epoch, mut rows) = (serde_json::Value::Null, None, 0);
    for snapshot in &snapshots {
        let summary = &snapshot["summary"];
        let of = |key: &str| summary[format!("floodmark.{key}")].as_str().map(str::to_owned);
        let at = || format!("{table}: {summary}");
        assert_eq!((of("pipeline").as_deref(), of("sink").as_deref()), (Some(pipeline), Some(sink)), "{}", at());
        assert_eq!(snapshot["parent-snapshot-id"], parent, "{}", at());
        assert_eq!(of("previous-checkpoint-id"), epoch, "{}", at());
        let [before, now] =
            [&epoch, &of("max-committed-checkpoint-id")].map(|id| id.as_ref().map(|id| id.parse::<u64>().unwrap()));
        let added: u64 = of("rows").unwrap().parse().unwrap();
        // A fence repeats the epoch, and adds nothing.
        assert!(now > before || (now == before && added == 0), "{}", at());
        rows += added;
        assert_eq!(summary["total-records"].as_str(), Some(rows.to_string().as_str()), "{}", at());
        parent = snapshot["snapshot-id"].clone();
        epoch = of("max-committed-checkpoint-id");
    }
    let mark = metadata["properties"][format!("floodmark.{pipeline}.{sink}")].as_str().unwrap();
    let mark: serde_json::Value = serde_json::from_str(mark).unwrap();
    assert_eq!(mark["snapshot-id"], metadata["current-snapshot-id"], "{table}: {mark}");
    let marked = format!("v1:{}:{}", mark["rows"], mark["digest"].as_str().unwrap());
    assert_eq!(marked, job.digest(table), "{table}");
}

/// What a REST catalog says about where a table's metadata lies.
async fn pointer(url: &str, namespace: &str, table: &str) -> Option<String> {
    let answer = reqwest::get(format!("{url}/v1/namespaces/{namespace}/tables/{table}")).await.unwrap();
    let table: serde_json::Value = answer.error_for_status().ok()?.json().await.unwrap();
    table["metadata-location"].as_str().map(str::to_owned)
}

/// What DuckDB answers to a query about a table, called `t` in it: one line a row, values with commas between.
pub fn duckdb(metadata: &str, query: &str) -> String {
    reader("duckdb_query.py", &[metadata, query])
}

/// What a script of compose/readers prints.
pub fn reader(script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("compose/readers").join(script);
    let output = Command::new(floodmark_stack::python().unwrap()).arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Takes a table out of the SQLite catalog, as a drop does; its files stay.
pub fn forget_table(job: &Job, table: &str) {
    change_catalog(job, &format!("DELETE FROM iceberg_tables WHERE table_name = '{table}'"));
}

/// A statement that changes one row of the SQLite catalog.
pub fn change_catalog(job: &Job, statement: &str) {
    block_on(async {
        let url = format!("sqlite:{}", job.path("data/catalog.db").display());
        let mut catalog = SqliteConnection::connect(&url).await.unwrap();
        let done = sqlx::query(statement).execute(&mut catalog).await.unwrap();
        assert_eq!(done.rows_affected(), 1, "{statement}");
        catalog.close().await.unwrap();
    });
}

/// The SQLite catalog while another holds it: whoever asks it waits, and is told that it is locked.
pub struct CatalogLock(SqliteConnection);

impl CatalogLock {
    pub fn of(job: &Job) -> CatalogLock {
        block_on(async {
            let url = format!("sqlite:{}", job.path("data/catalog.db").display());
            let mut catalog = SqliteConnection::connect(&url).await.unwrap();
            sqlx::query("BEGIN EXCLUSIVE").execute(&mut catalog).await.unwrap();
            CatalogLock(catalog)
        })
    }

    pub fn release(self) {
        block_on(self.0.close()).unwrap();
    }

    /// Nobody holds it now.
    fn is_free(job: &Job) -> bool {
        block_on(async {
            let url = format!("sqlite:{}", job.path("data/catalog.db").display());
            let mut catalog = SqliteConnection::connect(&url).await.unwrap();
            let taken = sqlx::query("BEGIN EXCLUSIVE").execute(&mut catalog).await;
            catalog.close().await.unwrap();
            taken.is_ok()
        })
    }
}

/// Pauses a run at a moment at which it doesn't hold the SQLite catalog, so that others can change it meanwhile.
pub fn pause_beside_the_catalog(job: &Job, run: &mut Run) {
    for _ in 0..20 {
        run.pause();
        if CatalogLock::is_free(job) {
            return;
        }
        run.resume();
    }
    panic!("it holds the catalog all the time: {}", run.said());
}
