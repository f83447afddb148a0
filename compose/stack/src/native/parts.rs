//! The parts of the stack: what each needs, how it is started, and what others and people want to know of it.

use std::any::Any;
use std::env;
use std::error::Error;

use crate::Port;
use crate::broker::Broker;
use crate::flink::{Backend, Cluster, Options};
use crate::postgres::Postgres;
use crate::prometheus::Prometheus;
use crate::registry::Registry;
use crate::rest_catalog::{Pointers, RestCatalog, Warehouse};
use crate::s3::{self, S3};
use crate::trino::Trino;

/// The database of the catalogs, and the bucket of the tables.
const LAKE: &str = "lake";

/// As in compose.yaml, where Flink's two are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Kafka,
    Postgres,
    S3,
    Rest,
    Registry,
    Flink,
    Trino,
    Prometheus,
}

/// What others need stands before them.
pub const ALL: [Part; 8] =
    [Part::Kafka, Part::Postgres, Part::S3, Part::Rest, Part::Registry, Part::Flink, Part::Trino, Part::Prometheus];

pub type Facts = Vec<(&'static str, String)>;

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Kafka => "kafka",
            Part::Postgres => "postgres",
            Part::S3 => "s3",
            Part::Rest => "rest",
            Part::Registry => "registry",
            Part::Flink => "flink",
            Part::Trino => "trino",
            Part::Prometheus => "prometheus",
        }
    }

    pub fn named(name: &str) -> Result<Part, String> {
        if name == "grafana" {
            return Err(
                "grafana can't run natively: no package registry has it; compose.yaml does, with --profile watch"
                    .to_string(),
            );
        }
        let all = || ALL.map(Part::name).join(", ");
        ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| format!("no part {name}: there are {}", all()))
    }

    /// These, and what they need.
    pub fn needs(self) -> &'static [Part] {
        match self {
            Part::Rest => &[Part::Postgres, Part::S3],
            Part::Trino => &[Part::Postgres, Part::S3, Part::Rest],
            _ => &[],
        }
    }

    /// It runs as long as the value lives. `fact` asks what another part has written down.
    pub fn start(
        self,
        port: Option<u16>,
        fact: impl Fn(Part, &str) -> Result<String, Box<dyn Error>>,
    ) -> Result<(Box<dyn Any>, Facts), Box<dyn Error>> {
        if self == Part::Kafka {
            return start_kafka(port);
        }
        if self == Part::Flink {
            return start_flink(port);
        }
        let port = port.map_or_else(Port::reserve, Port::given)?;
        let address = ("address", port.address().to_string());
        Ok(match self {
            Part::Postgres => {
                let postgres = Postgres::start_at(port)?;
                postgres.create_database(LAKE)?;
                let facts = vec![address, ("url", postgres.url(LAKE)), ("jdbc", postgres.jdbc_url(LAKE))];
                (Box::new(postgres), facts)
            }
            Part::S3 => {
                let store = S3::start_at(port)?;
                store.create_bucket(LAKE)?;
                let facts = vec![
                    address,
                    ("endpoint", store.endpoint()),
                    ("bucket", LAKE.to_string()),
                    ("region", s3::REGION.to_string()),
                    ("access_key", s3::ACCESS_KEY.to_string()),
                    ("secret_key", s3::SECRET_KEY.to_string()),
                ];
                (Box::new(store), facts)
            }
            Part::Rest => {
                let (url, endpoint) = (fact(Part::Postgres, "jdbc")?, fact(Part::S3, "endpoint")?);
                let (pointers, warehouse) =
                    (Pointers::Jdbc { url: &url }, Warehouse::S3At { endpoint: &endpoint, bucket: LAKE });
                let catalog = RestCatalog::start_at(port, pointers, warehouse)?;
                let facts = vec![address, ("url", catalog.url()), ("warehouse", catalog.warehouse().to_string())];
                (Box::new(catalog), facts)
            }
            Part::Registry => {
                let registry = Registry::start_at(port)?;
                let facts = vec![address, ("url", registry.url())];
                (Box::new(registry), facts)
            }
            Part::Trino => {
                let (catalog, warehouse) = (fact(Part::Rest, "url")?, fact(Part::Rest, "warehouse")?);
                let trino = Trino::start_at(port, &catalog, &warehouse, &fact(Part::S3, "endpoint")?)?;
                let facts = vec![address, ("url", trino.url())];
                (Box::new(trino), facts)
            }
            Part::Prometheus => {
                let target = env::var("FLOODMARK_LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".to_string());
                let prometheus = Prometheus::start_at(port, &target)?;
                let facts = vec![address, ("url", prometheus.url()), ("asks", target)];
                (Box::new(prometheus), facts)
            }
            Part::Kafka | Part::Flink => unreachable!("started above"),
        })
    }
}

fn start_kafka(port: Option<u16>) -> Result<(Box<dyn Any>, Facts), Box<dyn Error>> {
    let nodes: u16 = env::var("KAFKA_NODES").map_or(Ok(1), |nodes| nodes.parse())?;
    let ports = (0..nodes).map(|node| port.map_or_else(Port::reserve, |first| Port::given(first + 100 * node)));
    let brokers = Broker::start_nodes(ports.collect::<Result<_, _>>()?)?;
    let addresses = brokers.iter().map(Broker::address).collect::<Vec<_>>().join(",");
    Ok((Box::new(brokers), vec![("address", addresses)]))
}

/// As large as that of compose.yaml.
fn start_flink(port: Option<u16>) -> Result<(Box<dyn Any>, Facts), Box<dyn Error>> {
    let options = Options {
        backend: Backend::RocksDb,
        heap_mib: 1024,
        managed_mib: 1024,
        starts_fast: false,
        web_port: port,
        ..Options::default()
    };
    let cluster = Cluster::start(options)?;
    let address = cluster.address().to_string();
    let facts =
        vec![("url", format!("http://{address}")), ("conf", cluster.folder().join("conf").display().to_string())];
    Ok((Box::new(cluster), [vec![("address", address)], facts].concat()))
}
