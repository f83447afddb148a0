//! The JDBC catalog's tables in SQLite or Postgres: the form that PyIceberg, Trino and Flink's JdbcCatalog read and write too.
//!
//! A commit writes the next metadata.json and moves the table's pointer to it, if it still points to the base (compare-and-set).
//! Doesn't know: what is in the updates. Keeps: a statement whose answer was lost is `Unknown`, never an error to be retried blindly.
//! Tested: here and in ../tests (SQLite); Postgres in tests/.
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use iceberg::io::FileIO;
use iceberg::spec::{TableMetadata, TableMetadataBuilder};
use iceberg::{MetadataLocation, TableCreation, TableIdent, TableRequirement, TableUpdate};
use sqlx::any::{AnyPoolOptions, AnyQueryResult};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool, ConnectOptions, Connection, Row};

use super::{Answer, Catalog, Loaded};
use crate::iceberg::storage::why;
use crate::sink::SinkError;

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the answer to one statement. A later answer no longer counts; the table says what happened.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

const CREATE_TABLES: &str = "CREATE TABLE IF NOT EXISTS iceberg_tables (\
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, \
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), \
    PRIMARY KEY (catalog_name, table_namespace, table_name))";
const CREATE_NAMESPACE_PROPERTIES: &str = "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (\
    catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, \
    property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))";
/// A catalog of the form before views (V0) lacks this column; Iceberg's own V1 adds it just so.
const ADD_TYPE: &str = "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)";
const HAS_TYPE: &str = "SELECT iceberg_type FROM iceberg_tables WHERE 1 = 0";
const ADD_NAMESPACE: &str = "INSERT INTO iceberg_namespace_properties \
    (catalog_name, namespace, property_key, property_value) VALUES ($1, $2, 'exists', 'true') ON CONFLICT DO NOTHING";
const ADD_TABLE: &str = "INSERT INTO iceberg_tables \
    (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) VALUES ($1, $2, $3, $4, 'TABLE') \
    ON CONFLICT DO NOTHING";
const FIND_TABLE: &str = "SELECT metadata_location FROM iceberg_tables \
    WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3";
const MOVE_TABLE: &str = "UPDATE iceberg_tables SET metadata_location = $1, previous_metadata_location = $2 \
    WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5 AND metadata_location = $2";

pub struct SqlCatalog {
    pool: AnyPool,
    /// For messages: the URI without user and password.
    shown: String,
    file: Option<CatalogFile>,
    name: String,
    warehouse: String,
    io: FileIO,
    /// Tables that were said to lie elsewhere.
    told: OnceLock<()>,
}

/// The file of a SQLite catalog: looking must not make it, and nothing may go into one that no longer has its name.
struct CatalogFile {
    path: PathBuf,
    /// Device and inode, from when it was first there.
    seen: OnceLock<(u64, u64)>,
}

impl CatalogFile {
    /// False: it isn't there yet.
    fn look(&self) -> Result<bool, String> {
        match std::fs::metadata(&self.path) {
            Ok(found) => {
                let found = (found.dev(), found.ino());
                let same = *self.seen.get_or_init(|| found) == found;
                same.then_some(true)
                    .ok_or_else(|| "the file was replaced while it was open: start the job again".into())
            }
            Err(e) if e.kind() == ErrorKind::NotFound && self.seen.get().is_none() => Ok(false),
            Err(e) if e.kind() == ErrorKind::NotFound => Err("the file is gone: bring it back".into()),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl SqlCatalog {
    /// `warehouse` is the location below which tables are made. Connects only when first asked.
    pub fn new(uri: &str, name: &str, warehouse: String, io: FileIO) -> Result<Self, SinkError> {
        sqlx::any::install_default_drivers();
        let (url, file, shown) = match uri.strip_prefix("sqlite:") {
            Some(path) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                let file = CatalogFile { path: PathBuf::from(path), seen: OnceLock::new() };
                (format!("sqlite://{path}?mode=rwc"), Some(file), format!("catalog sqlite:{path}"))
            }
            None => (uri.to_owned(), None, shown(uri)),
        };
        let options = AnyPoolOptions::new().max_connections(2).acquire_timeout(CONNECTION_TIMEOUT);
        let pool = options.connect_lazy(&url).map_err(|e| SinkError::Setting(format!("{shown}: {e}")))?;
        Ok(Self { pool, shown, file, name: name.to_owned(), warehouse, io, told: OnceLock::new() })
    }

    fn away(&self, why: impl std::fmt::Display) -> SinkError {
        SinkError::Away { what: self.shown.clone(), why: why.to_string() }
    }

    /// False: a SQLite catalog that isn't there yet.
    fn is_there(&self) -> Result<bool, SinkError> {
        self.file.as_ref().map_or(Ok(true), CatalogFile::look).map_err(|why| self.away(why))
    }

    async fn connection(&self) -> Result<PoolConnection<Any>, SinkError> {
        self.is_there()?;
        match self.pool.acquire().await {
            Err(sqlx::Error::PoolTimedOut) => Err(self.away(self.why_no_connection().await)),
            acquired => acquired.map_err(|e| self.away(e)),
        }
    }

    /// The pool tries again and again, and says only that its time was over; why, one more try says.
    async fn why_no_connection(&self) -> String {
        let options = self.pool.connect_options();
        match tokio::time::timeout(ANSWER_TIMEOUT, options.connect()).await {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(_)) | Err(_) => format!("no connection within {} s", CONNECTION_TIMEOUT.as_secs()),
        }
    }

    /// Where the table's metadata lies, if there is such a table.
    async fn pointer(&self, table: &TableIdent) -> Result<Option<String>, SinkError> {
        if !self.is_there()? {
            return Ok(None);
        }
        let mut connection = self.connection().await?;
        let [namespace, name] = key(table);
        let find = sqlx::query(FIND_TABLE).bind(&self.name).bind(namespace).bind(name).fetch_optional(&mut *connection);
        match tokio::time::timeout(ANSWER_TIMEOUT, find).await {
            Ok(Ok(row)) => row.map(|row| row.try_get(0)).transpose().map_err(|e| self.away(e)),
            Ok(Err(sqlx::Error::Database(e))) if is_missing_table(&*e) => Ok(None),
            Ok(Err(e)) => Err(self.away(e)),
            Err(_) => {
                drop_connection(connection).await;
                Err(self.away("no answer"))
            }
        }
    }

    async fn make_tables(&self) -> Result<(), SinkError> {
        if let Some(folder) = self.file.as_ref().and_then(|file| file.path.parent()) {
            std::fs::create_dir_all(folder).map_err(|e| self.away(e))?;
        }
        let mut connection = self.connection().await?;
        for statement in [CREATE_TABLES, CREATE_NAMESPACE_PROPERTIES] {
            sqlx::query(statement).execute(&mut *connection).await.map_err(|e| self.away(e))?;
        }
        if sqlx::query(HAS_TYPE).fetch_optional(&mut *connection).await.is_err() {
            sqlx::query(ADD_TYPE).execute(&mut *connection).await.map_err(|e| self.away(e))?;
        }
        Ok(())
    }

    async fn execute<'q>(
        &self,
        statement: sqlx::query::Query<'q, Any, <Any as sqlx::Database>::Arguments<'q>>,
    ) -> Result<Answer, SinkError> {
        let mut connection = self.connection().await?;
        match tokio::time::timeout(ANSWER_TIMEOUT, statement.execute(&mut *connection)).await {
            // Whoever looks for the table will find the file that is there now.
            Ok(_) if let Err(moved) = self.is_there() => Ok(Answer::Unknown(moved.to_string())),
            Ok(result) => self.judge(result),
            Err(_) => {
                drop_connection(connection).await;
                Ok(Answer::Unknown(format!("{}: no answer", self.shown)))
            }
        }
    }

    /// A catalog that was copied with its pipeline points to where the tables of the first one lie.
    fn tell_where(&self, table: &TableIdent, location: &str) {
        if !location.starts_with(&self.warehouse) && self.told.set(()).is_ok() {
            tracing::warn!(
                "{} lies in {location}, not in the warehouse of the pipeline file ({}): that is where its rows go",
                super::name_of(table),
                self.warehouse
            );
        }
    }

    /// What the answer to a sent statement says about its effect.
    fn judge(&self, result: Result<AnyQueryResult, sqlx::Error>) -> Result<Answer, SinkError> {
        match result {
            Ok(done) if done.rows_affected() == 0 => Ok(Answer::Conflict),
            Ok(_) => Ok(Answer::Applied),
            Err(sqlx::Error::Database(e)) => match effect_of(e.code().as_deref().unwrap_or_default()) {
                Effect::NoneNow => Err(self.away(e)),
                Effect::NoneEver => Ok(Answer::Refused(e.to_string())),
                Effect::Unknown => Ok(Answer::Unknown(e.to_string())),
            },
            Err(e) => Ok(Answer::Unknown(e.to_string())),
        }
    }
}

enum Effect {
    NoneNow,
    NoneEver,
    Unknown,
}

/// SQLite's primary result codes and Postgres' SQLSTATE classes. Only what certainly had no effect is called so.
fn effect_of(code: &str) -> Effect {
    if let Ok(sqlite) = code.parse::<u32>()
        && code.len() < 5
    {
        return match sqlite & 0xff {
            5 | 6 | 13 => Effect::NoneNow,            // busy, locked, disk full
            1 | 8 | 14 | 19 | 26 => Effect::NoneEver, // no such table, read-only, can't open, constraint, not a database
            _ => Effect::Unknown,
        };
    }
    match code.get(..2) {
        Some("40") if code != "40003" => Effect::NoneNow, // serialization failure, deadlock
        Some("53" | "55") => Effect::NoneNow,             // out of resources, lock not available
        Some("22" | "23" | "25" | "28" | "42") => Effect::NoneEver,
        _ => Effect::Unknown,
    }
}

fn is_missing_table(error: &dyn sqlx::error::DatabaseError) -> bool {
    error.code().as_deref() == Some("42P01") || error.message().starts_with("no such table")
}

/// A connection that owes an answer must not serve the next statement.
async fn drop_connection(connection: PoolConnection<Any>) {
    if let Err(e) = connection.detach().close_hard().await {
        tracing::debug!("closing a connection to the catalog: {e}");
    }
}

fn shown(uri: &str) -> String {
    let host = uri.rsplit_once('@').map_or_else(|| uri.split_once("://").map_or(uri, |(_, h)| h), |(_, host)| host);
    format!("catalog {}://{host}", uri.split(':').next().unwrap_or_default())
}

fn key(table: &TableIdent) -> [String; 2] {
    [table.namespace().as_ref().join("."), table.name().to_owned()]
}

#[async_trait]
impl Catalog for SqlCatalog {
    async fn load(&self, table: &TableIdent) -> Result<Option<Loaded>, SinkError> {
        let Some(metadata_location) = self.pointer(table).await? else {
            return Ok(None);
        };
        match TableMetadata::read_from(&self.io, &metadata_location).await {
            Ok(metadata) => {
                self.tell_where(table, metadata.location());
                Ok(Some(Loaded { metadata, metadata_location }))
            }
            Err(e) if matches!(self.io.exists(&metadata_location).await, Ok(false)) => {
                Err(SinkError::Setting(format!(
                    "{}: {metadata_location} is missing, to which {} points: restore the file or the catalog ({e})",
                    super::name_of(table),
                    self.shown
                )))
            }
            Err(e) => Err(SinkError::Away { what: metadata_location, why: e.to_string() }),
        }
    }

    async fn create(&self, table: &TableIdent, mut creation: TableCreation) -> Result<Answer, SinkError> {
        self.make_tables().await?;
        let [namespace, name] = key(table);
        let added = self.execute(sqlx::query(ADD_NAMESPACE).bind(&self.name).bind(&namespace)).await?;
        if let Answer::Unknown(_) | Answer::Refused(_) = added {
            return Ok(added);
        }
        let folder = format!("{}/{}/{name}", self.warehouse, namespace.replace('.', "/"));
        let location = creation.location.get_or_insert(folder).clone();
        let invalid = |e: iceberg::Error| SinkError::Setting(format!("{}: {e}", super::name_of(table)));
        let metadata = TableMetadataBuilder::from_table_creation(creation).map_err(invalid)?;
        let metadata = metadata.build().map_err(invalid)?.metadata;
        let file = MetadataLocation::new_with_metadata(&location, &metadata);
        metadata.write_to(&self.io, &file).await.map_err(|e| self.away(why(&e)))?;
        let add = sqlx::query(ADD_TABLE).bind(&self.name).bind(namespace).bind(name).bind(file.to_string());
        self.execute(add).await
    }

    async fn commit(
        &self,
        table: &TableIdent,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Answer, SinkError> {
        if requirements.iter().any(|requirement| requirement.check(Some(&base.metadata)).is_err()) {
            return Ok(Answer::Conflict);
        }
        let refused = |e: iceberg::Error| Ok(Answer::Refused(e.to_string()));
        let mut builder = base.metadata.clone().into_builder(Some(base.metadata_location.clone()));
        for update in updates {
            builder = match update.apply(builder) {
                Ok(builder) => builder,
                Err(e) => return refused(e),
            };
        }
        let metadata = match builder.build() {
            Ok(built) => built.metadata,
            Err(e) => return refused(e),
        };
        let file = match MetadataLocation::from_str(&base.metadata_location) {
            Ok(last) => last.with_next_version().with_new_metadata(&metadata),
            // A name that follows no convention, as of a table that was registered.
            Err(_) => MetadataLocation::new_with_metadata(metadata.location(), &metadata),
        };
        metadata.write_to(&self.io, &file).await.map_err(|e| self.away(why(&e)))?;
        let file = file.to_string();
        let [namespace, name] = key(table);
        let moved = sqlx::query(MOVE_TABLE).bind(&file).bind(&base.metadata_location);
        let answer = self.execute(moved.bind(&self.name).bind(namespace).bind(name)).await?;
        if answer == Answer::Conflict
            && let Err(e) = self.io.delete(&file).await
        {
            tracing::debug!("{file} was never used and stays behind: {e}");
        }
        Ok(answer)
    }
}
