//! A simulated Iceberg catalog and warehouse: the real sink, encoder and commit protocol over a store and a pointer in memory.
//!
//! Keeps: a request is applied only where all that it requires holds of the table as it is when it arrives.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::compute::cast;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use async_trait::async_trait;
use floodmark_pipeline::schema::Schema;
use iceberg::spec::TableMetadataBuilder;
use iceberg::{NamespaceIdent, TableCreation, TableIdent, TableRequirement, TableUpdate};

use super::executor::ProcessId;
use super::gate::{Class, Fate, Gate};
use super::store::{Disk, SimulatedStore};
use crate::config::model::IcebergConfig;
use crate::host::Host;
use crate::iceberg::catalog::{Answer, Catalog, Loaded, name_of};
use crate::iceberg::commit::Table;
use crate::iceberg::mark::Identity;
use crate::iceberg::sink::IcebergSink;
use crate::iceberg::storage::Stores;
use crate::job::running_digest;
use crate::sink::ndjson::lines;
use crate::sink::{SharedSegments, SinkError};
use crate::table::{At, LoadedTable};

const BUCKET: &str = "lake";

/// Where all tables point to; a clone is the same.
type Pointers = Arc<Mutex<BTreeMap<TableIdent, Loaded>>>;

/// What outlives processes. A clone is the same lake.
#[derive(Clone)]
pub struct Lake {
    pointers: Pointers,
    warehouse: Disk,
}

impl Lake {
    pub fn new(is_durable: bool) -> Self {
        Self { pointers: Pointers::default(), warehouse: Disk::new("lake", is_durable, None) }
    }

    /// The sink of one process.
    pub fn sink(
        &self,
        identity: Identity,
        config: &IcebergConfig,
        schema: Schema,
        segments: SharedSegments,
        (gate, host, process): (&Gate, Arc<dyn Host>, ProcessId),
    ) -> IcebergSink {
        let store = SimulatedStore { disk: self.warehouse.clone(), gate: gate.clone(), process };
        let catalog = SimulatedCatalog { pointers: self.pointers.clone(), gate: gate.clone(), process };
        let io = Stores::over(BUCKET, Arc::new(store)).file_io();
        let table = Table { catalog: Arc::new(catalog), ident: ident(config), io, host };
        IcebergSink::new(table, identity, config.clone(), schema, segments, running_digest)
    }

    /// Rows of a table, sorted, as lines of JSON.
    pub fn rows(&self, config: &IcebergConfig, schema: &Schema) -> Result<Vec<String>, String> {
        let found = self.pointers.lock().unwrap_or_else(PoisonError::into_inner).get(&ident(config)).cloned();
        let Some(found) = found else { return Ok(vec![]) };
        let file_io = Stores::over(BUCKET, self.warehouse.objects()).file_io();
        let table = LoadedTable { metadata: Arc::new(found.metadata), file_io };
        let mut rows = vec![];
        futures::executor::block_on(async {
            let mut scan = table.scan(&At::Current).await.map_err(|error| error.to_string())?;
            while let Some(batch) = scan.next().await.map_err(|error| error.to_string())? {
                let text = as_sunk(schema, &batch).and_then(|batch| lines(&[batch]));
                let text = text.map_err(|error| error.to_string())?;
                rows.extend(String::from_utf8_lossy(&text).lines().map(str::to_owned));
            }
            rows.sort();
            Ok(rows)
        })
    }

    pub fn cut_power(&self) {
        self.warehouse.cut_power();
    }
}

/// Columns as the engine hands them to a sink: those of a table are Iceberg's.
fn as_sunk(schema: &Schema, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = schema.arrow();
    let columns = schema.fields().iter().map(|field| {
        let found = batch.column_by_name(field.name());
        let found = found.ok_or_else(|| ArrowError::SchemaError(format!("no column {}", field.name())))?;
        cast(found, field.data_type())
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(schema, columns)
}

fn ident(config: &IcebergConfig) -> TableIdent {
    TableIdent::new(NamespaceIdent::new(config.namespace.join(".")), config.table.clone())
}

struct SimulatedCatalog {
    pointers: Pointers,
    gate: Gate,
    process: ProcessId,
}

impl SimulatedCatalog {
    async fn request(&self, class: Class, table: &TableIdent, what: &str) -> Result<Fate, SinkError> {
        match self.gate.request(self.process, class, format!("{}: {what}", table.name())).await {
            Fate::Refused(why) => Err(SinkError::Away { what: name_of(table), why: why.into() }),
            fate => Ok(fate),
        }
    }
}

#[async_trait]
impl Catalog for SimulatedCatalog {
    async fn load(&self, table: &TableIdent) -> Result<Option<Loaded>, SinkError> {
        match self.request(Class::LoadTable, table, "load").await? {
            Fate::Go => Ok(self.pointers.lock().unwrap_or_else(PoisonError::into_inner).get(table).cloned()),
            _ => Err(SinkError::Away { what: name_of(table), why: "no answer".into() }),
        }
    }

    async fn create(&self, table: &TableIdent, mut creation: TableCreation) -> Result<Answer, SinkError> {
        let fate = self.request(Class::MakeTable, table, "make").await?;
        creation.location = Some(format!("s3://{BUCKET}/{}", table.name()));
        let invalid = |e: iceberg::Error| SinkError::Setting(e.to_string());
        let built = TableMetadataBuilder::from_table_creation(creation).and_then(TableMetadataBuilder::build);
        let made = Loaded { metadata: built.map_err(invalid)?.metadata, metadata_location: "first".into() };
        let mut pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        if pointers.contains_key(table) {
            return Ok(Answer::Conflict);
        }
        pointers.insert(table.clone(), made);
        Ok(if fate == Fate::Go { Answer::Applied } else { Answer::Unknown("no answer".into()) })
    }

    async fn commit(
        &self,
        table: &TableIdent,
        _: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Answer, SinkError> {
        let fate = self.request(Class::CommitTable, table, "commit").await?;
        let (pointers, of) = (self.pointers.clone(), table.clone());
        let arrive = move || apply(&pointers, &of, &requirements, updates);
        Ok(match fate {
            Fate::Later { ms } => {
                self.gate.later(ms, format!("{}: the held request arrives", table.name()), arrive);
                Answer::Unknown("held".into())
            }
            Fate::AnswerLost => {
                arrive();
                Answer::Unknown("the answer was lost".into())
            }
            Fate::Go | Fate::Refused(_) => arrive(),
        })
    }
}

fn apply(pointers: &Pointers, of: &TableIdent, requirements: &[TableRequirement], updates: Vec<TableUpdate>) -> Answer {
    let mut pointers = pointers.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(now) = pointers.get_mut(of) else { return Answer::Conflict };
    if requirements.iter().any(|requirement| requirement.check(Some(&now.metadata)).is_err()) {
        return Answer::Conflict;
    }
    let builder = now.metadata.clone().into_builder(None);
    let built = updates.into_iter().try_fold(builder, |builder, update| update.apply(builder));
    match built.and_then(TableMetadataBuilder::build) {
        Ok(built) => {
            now.metadata = built.metadata;
            Answer::Applied
        }
        Err(error) => Answer::Refused(error.to_string()),
    }
}
