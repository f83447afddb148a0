//! Iceberg's own REST catalog server (the fixture of its test suite), on SQLite or Postgres, over a local or S3 warehouse.
//!
//! It asks for no credentials and doesn't hand the S3 settings to its clients: each client sets its own.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::error::Doing;
use crate::postgres::Postgres;
use crate::probe::http_status;
use crate::process::Signal;
use crate::s3::{self, S3};
use crate::service::Service;
use crate::{Port, Result, fetched};

/// Where the catalog keeps its pointers.
pub enum Pointers<'a> {
    Sqlite,
    Postgres {
        server: &'a Postgres,
        database: &'a str,
    },
    /// Any database of JDBC's.
    Jdbc {
        url: &'a str,
    },
}

/// Where the tables lie.
pub enum Warehouse<'a> {
    Local,
    S3 {
        store: &'a S3,
        bucket: &'a str,
    },
    /// A store that another process has started.
    S3At {
        endpoint: &'a str,
        bucket: &'a str,
    },
}

pub struct RestCatalog {
    service: Service,
    port: Port,
    warehouse: String,
    settings: Vec<(&'static str, String)>,
}

impl RestCatalog {
    pub fn start(pointers: Pointers<'_>, warehouse: Warehouse<'_>) -> Result<RestCatalog> {
        RestCatalog::start_at(Port::reserve()?, pointers, warehouse)
    }

    pub fn start_at(port: Port, pointers: Pointers<'_>, warehouse: Warehouse<'_>) -> Result<RestCatalog> {
        let service = Service::new("rest-catalog", Signal::TERM)?;
        let folder = service.folder();
        let mut settings = Vec::new();
        match pointers {
            Pointers::Sqlite => {
                settings.push(("CATALOG_URI", format!("jdbc:sqlite:{}", folder.join("catalog.db").display())));
                // SQLite has one writer: a second connection would only see it busy.
                settings.push(("CATALOG_CLIENTS", "1".to_string()));
            }
            Pointers::Postgres { server, database } => {
                settings.push(("CATALOG_URI", server.jdbc_url(database)));
            }
            Pointers::Jdbc { url } => settings.push(("CATALOG_URI", url.to_string())),
        }
        let warehouse = match warehouse {
            Warehouse::Local => {
                let local = folder.join("warehouse");
                fs::create_dir(&local).doing("make the warehouse")?;
                format!("file://{}", local.display())
            }
            Warehouse::S3 { store, bucket } => on_s3(&mut settings, store.endpoint(), bucket),
            Warehouse::S3At { endpoint, bucket } => on_s3(&mut settings, endpoint.to_string(), bucket),
        };
        let mut catalog = RestCatalog { service, port, warehouse, settings };
        catalog.start_again()?;
        Ok(catalog)
    }

    /// Starts a stopped or killed server on the same port and data.
    pub fn start_again(&mut self) -> Result<()> {
        let mut server = Command::new("java");
        server
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(fetched("rest/lib")?.join("*"))
            .arg("org.apache.iceberg.rest.RESTCatalogServer")
            .current_dir(self.service.folder())
            .env("CATALOG_REST_PORT", self.port.number().to_string())
            .env("CATALOG_CATALOG_NAME", "rest")
            .env("CATALOG_CATALOG__IMPL", "org.apache.iceberg.jdbc.JdbcCatalog")
            .env("CATALOG_JDBC_SCHEMA__VERSION", "V1")
            .env("CATALOG_WAREHOUSE", &self.warehouse)
            .envs(self.settings.iter().map(|(key, value)| (key, value)));
        let address = self.port.address();
        self.service.start(server, || http_status(address, "GET", "/v1/config") == Some(200))
    }

    pub fn stop(&mut self) -> Result<()> {
        self.service.stop()
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.service.kill()
    }

    /// Host and port, for a proxy in front of it.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// `file:///…` or `s3://…`.
    pub fn warehouse(&self) -> &str {
        &self.warehouse
    }

    /// Its data and its log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.service.folder()
    }
}

fn on_s3(settings: &mut Vec<(&'static str, String)>, endpoint: String, bucket: &str) -> String {
    settings.extend([
        ("CATALOG_IO__IMPL", "org.apache.iceberg.aws.s3.S3FileIO".to_string()),
        ("CATALOG_S3_ENDPOINT", endpoint),
        ("CATALOG_S3_PATH__STYLE__ACCESS", "true".to_string()),
        ("AWS_REGION", s3::REGION.to_string()),
        ("AWS_ACCESS_KEY_ID", s3::ACCESS_KEY.to_string()),
        ("AWS_SECRET_ACCESS_KEY", s3::SECRET_KEY.to_string()),
    ]);
    format!("s3://{bucket}/warehouse")
}
