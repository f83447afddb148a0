//! A real S3 store: versitygw where Go could build it, else SeaweedFS. Both take conditional puts and check signatures.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Doing;
use crate::probe::http_status;
use crate::process::Signal;
use crate::service::Service;
use crate::{Port, Result, StackError, fetched};

pub const REGION: &str = "us-east-1";
pub const ACCESS_KEY: &str = "testkey";
pub const SECRET_KEY: &str = "testsecret";

pub struct S3 {
    service: Service,
    port: Port,
    store: Store,
}

enum Store {
    Versitygw { program: PathBuf },
    SeaweedFs { program: PathBuf, master: Port, volume: Port, filer: Port },
}

impl S3 {
    pub fn start() -> Result<S3> {
        S3::start_at(Port::reserve()?)
    }

    pub fn start_at(port: Port) -> Result<S3> {
        match fetched("versitygw/bin/versitygw") {
            Ok(program) => S3::start_store(Store::Versitygw { program }, port),
            Err(_) => S3::start_store(seaweedfs()?, port),
        }
    }

    /// The store of machines without a new Go.
    pub fn start_seaweedfs() -> Result<S3> {
        S3::start_store(seaweedfs()?, Port::reserve()?)
    }

    fn start_store(store: Store, port: Port) -> Result<S3> {
        let service = Service::new("s3", Signal::TERM)?;
        fs::create_dir(service.folder().join("data")).doing("make the data folder")?;
        fs::write(service.folder().join("s3.json"), seaweedfs_identities()).doing("write s3.json")?;
        let mut s3 = S3 { service, port, store };
        s3.start_again()?;
        Ok(s3)
    }

    /// Starts a stopped or killed store on the same port and data.
    pub fn start_again(&mut self) -> Result<()> {
        let command = self.command();
        let address = self.port.address();
        match &self.store {
            // Any answer will do: without a signature it is a refusal.
            Store::Versitygw { .. } => self.service.start(command, || http_status(address, "GET", "/").is_some()),
            // Its gateway answers before there is a volume to write to.
            Store::SeaweedFs { master, filer, .. } => {
                let (master, filer) = (master.address(), filer.address());
                self.service.start(command, || {
                    http_status(master, "GET", "/dir/assign") == Some(200)
                        && http_status(filer, "GET", "/").is_some_and(|status| status < 500)
                        && http_status(address, "GET", "/").is_some_and(|status| status < 500)
                })
            }
        }
    }

    pub fn create_bucket(&self, name: &str) -> Result<()> {
        match &self.store {
            Store::Versitygw { .. } => {
                fs::create_dir(self.service.folder().join("data").join(name)).doing("make a bucket")
            }
            Store::SeaweedFs { filer, .. } => {
                match http_status(filer.address(), "POST", &format!("/buckets/{name}/")) {
                    Some(200..=299) => Ok(()),
                    status => Err(StackError::Bucket { name: name.to_string(), status }),
                }
            }
        }
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

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Its data and its log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.service.folder()
    }

    fn command(&self) -> Command {
        let port = self.port.number();
        let mut command = match &self.store {
            Store::Versitygw { program } => {
                let mut command = Command::new(program);
                command
                    .args(["--port", &format!("127.0.0.1:{port}"), "--region", REGION, "--quiet", "posix", "data"])
                    .env("ROOT_ACCESS_KEY", ACCESS_KEY)
                    .env("ROOT_SECRET_KEY", SECRET_KEY);
                command
            }
            Store::SeaweedFs { program, master, volume, filer } => {
                let mut command = Command::new(program);
                command
                    .args(["-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=data"])
                    .arg(format!("-master.port={}", master.number()))
                    .args(["-master.telemetry=false", "-master.electionTimeout=1s"])
                    .args(["-master.volumeSizeLimitMB=1024", "-master.volumePreallocate=false"])
                    .arg(format!("-volume.port={}", volume.number()))
                    .args(["-volume.max=50", "-volume.preStopSeconds=1", "-filer"])
                    .arg(format!("-filer.port={}", filer.number()))
                    .args(["-filer.localSocket=filer.sock", "-s3", "-s3.localSocket=s3.sock"])
                    .arg(format!("-s3.port={port}"))
                    .args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.config=s3.json"]);
                command
            }
        };
        command.current_dir(self.service.folder());
        command
    }
}

fn seaweedfs() -> Result<Store> {
    Ok(Store::SeaweedFs {
        program: fetched("seaweedfs/bin/weed")?,
        master: Port::reserve()?,
        volume: Port::reserve()?,
        filer: Port::reserve()?,
    })
}

fn seaweedfs_identities() -> String {
    format!(
        r#"{{"identities": [{{"name": "admin", "credentials": [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],
"actions": ["Admin", "Read", "Write", "List", "Tagging"]}}]}}"#
    )
}
