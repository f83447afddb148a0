//! Each real service of the stack starts, does one real thing, survives a kill where that matters, and leaves nothing behind.
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use floodmark_stack::broker::Broker;
use floodmark_stack::postgres::Postgres;
use floodmark_stack::proxy::Proxy;
use floodmark_stack::rest_catalog::{Pointers, RestCatalog, Warehouse};
use floodmark_stack::s3::{self, S3};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use sqlx::{Connection, PgConnection};

type Outcome = Result<(), Box<dyn Error>>;

const LIMIT: Duration = Duration::from_secs(30);

/// Processes whose working folder is, or was, inside `folder`.
fn processes_in(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let working_folders = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    let folder = folder.to_string_lossy().into_owned();
    working_folders.filter(|cwd| cwd.to_string_lossy().starts_with(&folder)).collect()
}

/// Drops a running service and looks for what it left.
fn leaves_nothing<S>(service: S, folder: impl Fn(&S) -> &Path) {
    let folder = folder(&service).to_path_buf();
    assert_ne!(processes_in(&folder), Vec::<PathBuf>::new());
    drop(service);
    assert_eq!(processes_in(&folder), Vec::<PathBuf>::new());
    assert!(!folder.exists());
}

async fn produce(broker: &Broker, topic: &str, values: &[&str]) -> Outcome {
    let producer: FutureProducer = ClientConfig::new().set("bootstrap.servers", broker.address()).create()?;
    for value in values {
        let record = FutureRecord::<(), str>::to(topic).partition(0).payload(value);
        producer.send(record, LIMIT).await.map_err(|(error, _)| error)?;
    }
    Ok(())
}

fn consume(broker: &Broker, topic: &str, from: i64, count: usize) -> Result<Vec<String>, Box<dyn Error>> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", broker.address()).set("group.id", "stack").create()?;
    let mut partition = TopicPartitionList::new();
    partition.add_partition_offset(topic, 0, Offset::Offset(from))?;
    consumer.assign(&partition)?;
    let mut values = Vec::new();
    while values.len() < count {
        let message = consumer.poll(LIMIT).ok_or("no message within the limit")??;
        values.push(String::from_utf8(message.payload().unwrap_or_default().to_vec())?);
    }
    Ok(values)
}

#[tokio::test]
async fn a_broker_keeps_its_records_through_a_kill_and_changes_its_topics_when_asked() -> Outcome {
    let mut broker = Broker::start()?;
    broker.create_topic("events", 1)?;
    produce(&broker, "events", &["a", "b", "c"]).await?;
    broker.kill()?;
    broker.start_again()?;
    assert_eq!(consume(&broker, "events", 0, 3)?, ["a", "b", "c"]);

    broker.delete_records("events", 0, 2)?;
    assert_eq!(broker.offsets("events", 0)?, (2, 3));
    broker.add_partitions("events", 3)?;
    assert_eq!(broker.offsets("events", 2)?, (0, 0));
    broker.delete_topic("events")?;
    broker.create_topic_with("events", 1, &[("cleanup.policy", "compact")])?;
    assert_eq!(broker.offsets("events", 0)?, (0, 0));
    leaves_nothing(broker, Broker::folder);
    Ok(())
}

async fn select_one(url: &str) -> Result<i32, sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::query_scalar("SELECT 1").fetch_one(&mut connection).await
}

#[tokio::test]
async fn postgres_answers_also_after_a_kill() -> Outcome {
    let mut postgres = Postgres::start()?;
    postgres.create_database("lake")?;
    assert_eq!(select_one(&postgres.url("lake")).await?, 1);
    postgres.kill()?;
    assert!(select_one(&postgres.url("lake")).await.is_err());
    postgres.start_again()?;
    assert_eq!(select_one(&postgres.url("lake")).await?, 1);
    leaves_nothing(postgres, Postgres::folder);
    Ok(())
}

/// Creates a namespace and a table, so that the catalog writes its pointer and the table's metadata.
async fn create_table(catalog: &str) -> Result<serde_json::Value, Box<dyn Error>> {
    let client = reqwest::Client::new();
    let config = client.get(format!("{catalog}/v1/config")).send().await?;
    assert_eq!(config.status(), 200);
    let namespace = serde_json::json!({ "namespace": ["shop"] });
    let created = client.post(format!("{catalog}/v1/namespaces")).json(&namespace).send().await?;
    created.error_for_status()?;
    let table = serde_json::json!({
        "name": "events",
        "schema": { "type": "struct", "fields": [{ "id": 1, "name": "id", "required": true, "type": "long" }] }
    });
    let created = client.post(format!("{catalog}/v1/namespaces/shop/tables")).json(&table).send().await?;
    Ok(created.error_for_status()?.json().await?)
}

fn metadata_location(table: &serde_json::Value) -> &str {
    table["metadata-location"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn the_rest_catalog_makes_a_table_on_sqlite_and_local_files() -> Outcome {
    let catalog = RestCatalog::start(Pointers::Sqlite, Warehouse::Local)?;
    let table = create_table(&catalog.url()).await?;
    // Hadoop's paths write `file:/` where the warehouse was given as `file:///`.
    let metadata = Path::new(metadata_location(&table).trim_start_matches("file:"));
    assert!(metadata.starts_with(catalog.folder().join("warehouse")), "{}", metadata.display());
    assert!(metadata.exists());
    leaves_nothing(catalog, RestCatalog::folder);
    Ok(())
}

fn bucket(store: &S3, name: &str) -> object_store::Result<AmazonS3> {
    AmazonS3Builder::new()
        .with_endpoint(store.endpoint())
        .with_allow_http(true)
        .with_region(s3::REGION)
        .with_access_key_id(s3::ACCESS_KEY)
        .with_secret_access_key(s3::SECRET_KEY)
        .with_bucket_name(name)
        .build()
}

#[tokio::test]
async fn the_rest_catalog_makes_a_table_on_postgres_and_s3_through_a_proxy() -> Outcome {
    let postgres = Postgres::start()?;
    postgres.create_database("rest")?;
    let store = S3::start()?;
    store.create_bucket("lake")?;
    let pointers = Pointers::Postgres { server: &postgres, database: "rest" };
    let catalog = RestCatalog::start(pointers, Warehouse::S3 { store: &store, bucket: "lake" })?;
    let proxy = Proxy::start(catalog.address())?;
    let create = proxy.lose_answer("POST /v1/namespaces/shop/tables");
    assert!(create_table(&format!("http://{}", proxy.address())).await.is_err());
    assert!(create.wait_answered(LIMIT));

    let table = reqwest::get(format!("{}/v1/namespaces/shop/tables/events", catalog.url())).await?;
    let table: serde_json::Value = table.error_for_status()?.json().await?;
    let path = metadata_location(&table).trim_start_matches("s3://lake/").into();
    assert_ne!(bucket(&store, "lake")?.head(&path).await?.size, 0);
    Ok(())
}

#[tokio::test]
async fn the_s3_store_creates_an_object_once() -> Outcome {
    let store = S3::start()?;
    store.create_bucket("lake")?;
    let lake = bucket(&store, "lake")?;
    let path = "checkpoints/manifest-1".into();
    lake.put_opts(&path, "first".into(), PutMode::Create.into()).await?;
    let second = lake.put_opts(&path, "second".into(), PutMode::Create.into()).await;
    assert!(matches!(second, Err(StoreError::AlreadyExists { .. })), "{second:?}");
    assert_eq!(lake.get(&path).await?.bytes().await?, "first");
    leaves_nothing(store, S3::folder);
    Ok(())
}

#[test]
fn the_readers_that_wrote_none_of_our_tables_are_there() -> Outcome {
    let script = "import pyiceberg, duckdb, duckdb_extensions; print(pyiceberg.__version__, duckdb.__version__)";
    let output = std::process::Command::new(floodmark_stack::python()?).args(["-c", script]).output()?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0.12.0 1.5.5\n", "{output:?}");
    Ok(())
}
