//! A warehouse in a temporary folder with a SQLite catalog, a catalog that misbehaves on order, and other engines' commits.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::{Array, RecordBatch, StringArray};
use async_trait::async_trait;
use floodmark_pipeline::schema::Schema;
use futures::TryStreamExt;
use iceberg::spec::{MAIN_BRANCH, Operation, Snapshot, SnapshotReference, SnapshotRetention, Summary, TableMetadata};
use iceberg::table::StaticTable;
use iceberg::{TableCreation, TableIdent, TableRequirement, TableUpdate};

use crate::config::model::{CatalogConfig, IcebergConfig, Location, S3Settings, Secret};
use crate::host::Computer;
use crate::iceberg::catalog::{Answer, Catalog, Loaded};
use crate::iceberg::commit::Table;
use crate::iceberg::manifest::Manifests;
use crate::iceberg::mark::Identity;
use crate::iceberg::sink::IcebergSink;
use crate::iceberg::table;
use crate::sink::conformance::{Rows, World, digest, schema};
use crate::sink::{Sink, SinkError};

pub struct Lake {
    pub dir: tempfile::TempDir,
    pub rows: Rows,
    pub config: IcebergConfig,
    pub schema: Schema,
    pub catalog: Arc<Faulty>,
    pub table: Table,
}

pub fn lake() -> Lake {
    lake_with(|_| {})
}

pub fn lake_with(set: impl FnOnce(&mut IcebergConfig)) -> Lake {
    let dir = tempfile::tempdir().unwrap();
    let mut config = IcebergConfig {
        catalog: CatalogConfig::Sql {
            uri: Secret(format!("sqlite:{}/catalog.db", dir.path().display())),
            name: "lake".into(),
            warehouse: Location::File(dir.path().join("warehouse")),
        },
        namespace: vec!["shop".into()],
        table: "events".into(),
        partition: vec![],
        sort: vec![],
        target_file_size_bytes: 1 << 20,
        mark_interval: Duration::from_secs(600),
        properties: BTreeMap::new(),
    };
    set(&mut config);
    let mut table = table(&config, &S3Settings::default(), Arc::new(Computer::default())).unwrap();
    let catalog = Arc::new(Faulty { inner: table.catalog.clone(), faults: Mutex::default(), held: Mutex::default() });
    table.catalog = catalog.clone();
    Lake { dir, rows: Rows::default(), config, schema: schema(), catalog, table }
}

impl Lake {
    pub fn open(&self, sink: &str) -> IcebergSink {
        let identity = Identity { pipeline: "p".into(), sink: sink.into() };
        IcebergSink::new(
            self.table.clone(),
            identity,
            self.config.clone(),
            self.schema.clone(),
            self.rows.shared(),
            digest,
        )
    }

    pub async fn load(&self) -> Loaded {
        self.table.load_present().await.unwrap()
    }

    pub async fn metadata(&self) -> TableMetadata {
        self.load().await.metadata
    }

    pub async fn batches(&self) -> Vec<RecordBatch> {
        let Some(found) = self.table.load().await.unwrap() else { return vec![] };
        let table =
            StaticTable::from_metadata(found.metadata, self.table.ident.clone(), self.table.io.clone()).await.unwrap();
        table.scan().build().unwrap().to_arrow().await.unwrap().try_collect().await.unwrap()
    }

    /// Files below the table's folder whose name ends so.
    pub fn files(&self, suffix: &str) -> Vec<String> {
        fn walk(dir: &std::path::Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() { walk(&path, found) } else { found.push(path.display().to_string()) }
            }
        }
        let mut found = vec![];
        walk(&self.dir.path().join("warehouse"), &mut found);
        found.retain(|name| name.ends_with(suffix));
        found
    }

    /// Updates by another engine.
    pub async fn foreign(&self, updates: Vec<TableUpdate>) {
        let base = self.load().await;
        let answer = self.catalog.inner.commit(&self.table.ident, &base, vec![], updates).await.unwrap();
        assert_eq!(answer, Answer::Applied);
    }

    /// Somebody sets `main` back to a snapshot.
    pub async fn set_back(&self, to: i64) {
        let retention = SnapshotRetention::branch(None, None, None);
        let reference = SnapshotReference::new(to, retention);
        self.foreign(vec![TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.into(), reference }]).await;
    }

    /// An empty snapshot by another engine.
    pub async fn foreign_snapshot(&self, id: i64) {
        foreign_snapshot(&self.table, &*self.catalog.inner, id).await;
    }

    pub async fn sql(&self, statement: &str) {
        let pool = sqlx::AnyPool::connect(&format!("sqlite://{}/catalog.db", self.dir.path().display())).await.unwrap();
        sqlx::query(statement).execute(&pool).await.unwrap();
        pool.close().await;
    }
}

async fn foreign_snapshot(table: &Table, catalog: &dyn Catalog, id: i64) {
    let base = catalog.load(&table.ident).await.unwrap().unwrap();
    let prefix = format!("foreign-{id}");
    let mut manifests =
        Manifests { io: &table.io, base: &base.metadata, snapshot_id: id, prefix: &prefix, written: vec![] };
    let manifest_list = manifests.write(&[]).await.unwrap();
    let snapshot = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(base.metadata.current_snapshot_id())
        .with_sequence_number(base.metadata.next_sequence_number())
        .with_timestamp_ms(base.metadata.last_updated_ms())
        .with_manifest_list(manifest_list)
        .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
        .with_schema_id(base.metadata.current_schema_id())
        .build();
    let changed = base.metadata.clone().into_builder(None).set_branch_snapshot(snapshot, MAIN_BRANCH).unwrap();
    let updates = changed.build().unwrap().changes;
    assert_eq!(catalog.commit(&table.ident, &base, vec![], updates).await.unwrap(), Answer::Applied);
}

#[async_trait]
impl World for Lake {
    fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.open("out"))
    }

    fn rows(&self) -> &Rows {
        &self.rows
    }

    async fn visible(&self) -> Vec<String> {
        let mut names = vec![];
        for batch in self.batches().await {
            let column = batch.column(0).as_any().downcast_ref::<StringArray>().unwrap();
            names.extend(column.iter().map(|name| name.unwrap().to_owned()));
        }
        names.sort();
        names
    }
}

/// What is to go wrong with a commit.
pub enum Fault {
    /// It is applied, and the answer lost.
    LoseAnswer,
    /// It is held on its way; see [`Faulty::release`].
    Hold,
    /// Another engine commits just before it.
    Overtake(Table, i64),
    Away,
}

type Request = (Vec<TableRequirement>, Vec<TableUpdate>);

pub struct Faulty {
    inner: Arc<dyn Catalog>,
    faults: Mutex<VecDeque<Fault>>,
    held: Mutex<Vec<Request>>,
}

impl Faulty {
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// What was held arrives now, and is judged by what the table is now.
    pub async fn release(&self, table: &TableIdent) -> Vec<Answer> {
        let held: Vec<_> = self.held.lock().unwrap().drain(..).collect();
        let mut answers = vec![];
        for (requirements, updates) in held {
            let now = self.inner.load(table).await.unwrap().unwrap();
            answers.push(self.inner.commit(table, &now, requirements, updates).await.unwrap());
        }
        answers
    }
}

#[async_trait]
impl Catalog for Faulty {
    async fn load(&self, table: &TableIdent) -> Result<Option<Loaded>, SinkError> {
        self.inner.load(table).await
    }

    async fn create(&self, table: &TableIdent, creation: TableCreation) -> Result<Answer, SinkError> {
        self.inner.create(table, creation).await
    }

    async fn commit(
        &self,
        table: &TableIdent,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Answer, SinkError> {
        let fault = self.faults.lock().unwrap().pop_front();
        match fault {
            None => self.inner.commit(table, base, requirements, updates).await,
            Some(Fault::LoseAnswer) => {
                assert_eq!(self.inner.commit(table, base, requirements, updates).await?, Answer::Applied);
                Ok(Answer::Unknown("lost".into()))
            }
            Some(Fault::Hold) => {
                self.held.lock().unwrap().push((requirements, updates));
                Ok(Answer::Unknown("held".into()))
            }
            Some(Fault::Overtake(other, id)) => {
                foreign_snapshot(&other, &*self.inner, id).await;
                self.inner.commit(table, base, requirements, updates).await
            }
            Some(Fault::Away) => Err(SinkError::Away { what: "catalog".into(), why: "on order".into() }),
        }
    }
}
