//! A real schema registry: Apicurio Registry, which also speaks the Confluent registry's API. Schemas are kept in memory.

use std::path::Path;
use std::process::Command;

use crate::http::request;
use crate::probe::http_status;
use crate::process::Signal;
use crate::service::Service;
use crate::{Port, Result, StackError, fetched, java};

const OLDEST_JAVA: u32 = 21;

pub struct Registry {
    service: Service,
    port: Port,
}

impl Registry {
    pub fn start_at(port: Port) -> Result<Registry> {
        let mut service = Service::new("registry", Signal::TERM)?;
        let management = Port::reserve()?;
        let mut server = Command::new(java::at_least(OLDEST_JAVA, "the schema registry")?);
        server
            .args([
                "-Xmx512m",
                "-XX:+UseSerialGC",
                "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
                "-jar",
            ])
            .arg(fetched("registry/quarkus-run.jar")?)
            .current_dir(service.folder())
            .env("QUARKUS_HTTP_HOST", "127.0.0.1")
            .env("QUARKUS_HTTP_PORT", port.number().to_string())
            .env("QUARKUS_MANAGEMENT_HOST", "127.0.0.1")
            .env("QUARKUS_MANAGEMENT_PORT", management.number().to_string())
            .env("APICURIO_STORAGE_KIND", "sql")
            .env("APICURIO_STORAGE_SQL_KIND", "h2");
        let address = port.address();
        service.start(server, || http_status(address, "GET", "/apis/ccompat/v7/subjects") == Some(200))?;
        let registry = Registry { service, port };
        registry.set_compatibility()?;
        Ok(registry)
    }

    /// Base address for Confluent's clients.
    pub fn url(&self) -> String {
        format!("http://{}/apis/ccompat/v7", self.port.address())
    }

    /// Its log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.service.folder()
    }

    /// Apicurio compares nothing unless told to; Confluent's default is this.
    fn set_compatibility(&self) -> Result<()> {
        let path = "/apis/ccompat/v7/config";
        let asked = || format!("PUT {path}");
        let answer = request(self.port.address(), "PUT", path, Some(r#"{"compatibility": "BACKWARD"}"#));
        let answer = answer.map_err(|source| StackError::NoAnswer { request: asked(), source })?;
        if answer.status == 200 {
            return Ok(());
        }
        Err(StackError::Refused { request: asked(), status: answer.status, answer: answer.body })
    }
}
