//! A real Prometheus, Debian's, that asks a floodmark for its metrics.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::Doing;
use crate::probe::http_status;
use crate::process::Signal;
use crate::service::Service;
use crate::{Port, Result, StackError};

pub struct Prometheus {
    service: Service,
    port: Port,
}

impl Prometheus {
    /// `target` is the `listen` of a pipeline file; nothing needs to answer there yet.
    pub fn start_at(port: Port, target: &str) -> Result<Prometheus> {
        let mut service = Service::new("prometheus", Signal::TERM)?;
        if Command::new("prometheus").arg("--version").output().is_err() {
            return Err(StackError::NotInstalled { what: "Debian's package prometheus" });
        }
        let config = format!(
            "global:\n  scrape_interval: 5s\nscrape_configs:\n  - job_name: floodmark\n    static_configs:\n      - targets: [\"{target}\"]\n"
        );
        fs::write(service.folder().join("prometheus.yml"), config).doing("write prometheus.yml")?;
        let mut server = Command::new("prometheus");
        server
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={}", port.address()))
            .current_dir(service.folder());
        let address = port.address();
        service.start(server, || http_status(address, "GET", "/-/ready") == Some(200))?;
        Ok(Prometheus { service, port })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Its data and its log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.service.folder()
    }
}
