//! A real Trino server that reads the tables of a REST catalog on an S3 store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Doing;
use crate::http::request;
use crate::process::Signal;
use crate::s3;
use crate::service::Service;
use crate::{Port, Result, StackError, fetched, java};

const OLDEST_JAVA: u32 = 24;

pub struct Trino {
    service: Service,
    port: Port,
}

impl Trino {
    /// Its catalog is called `lake`.
    pub fn start_at(port: Port, catalog: &str, warehouse: &str, s3_endpoint: &str) -> Result<Trino> {
        let mut service = Service::new("trino", Signal::TERM)?;
        let folder = service.folder().to_path_buf();
        let java = java::at_least(OLDEST_JAVA, "Trino")?;
        let program = unpacked("trino-server-core-")?;
        let iceberg = unpacked("trino-iceberg-")?;
        let put = |path: &str, text: String| fs::write(folder.join(path), text).doing(format!("write {path}"));
        fs::create_dir_all(folder.join("catalog")).doing("make the catalog folder")?;
        fs::create_dir_all(folder.join("plugin")).doing("make the plugin folder")?;
        std::os::unix::fs::symlink(iceberg, folder.join("plugin/iceberg")).doing("link the plugin")?;
        put("config.properties", config(port.number()))?;
        put("catalog/lake.properties", lake(catalog, warehouse, s3_endpoint))?;
        put("log.properties", "io.trino=INFO\n".to_string())?;

        let mut server = Command::new(java);
        server
            .args(["-Xmx1536M", "-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", "-XX:-OmitStackTraceInFastThrow"])
            .args(["-Djdk.attach.allowAttachSelf=true", "-Djdk.nio.maxCachedBufferSize=2000000"])
            .args(["-Dfile.encoding=UTF-8", "--enable-native-access=ALL-UNNAMED"])
            .args(["-Dnode.environment=floodmark", "-Dnode.id=trino", "-Dnode.data-dir=data"])
            .args(["-Dlog.levels-file=log.properties", "-Dconfig=config.properties"])
            .args(["-Dcatalog.config-dir=catalog", "-Dplugin.dir=plugin", "-cp"])
            .arg(program.join("lib/*"))
            .arg("io.trino.server.TrinoServer")
            .current_dir(&folder);
        let address = port.address();
        service.start(server, || {
            let info = request(address, "GET", "/v1/info", None);
            info.is_ok_and(|info| info.status == 200 && info.body.contains(r#""starting":false"#))
        })?;
        Ok(Trino { service, port })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Its data and its log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.service.folder()
    }
}

/// The archives unpack into folders with their versions.
fn unpacked(prefix: &str) -> Result<PathBuf> {
    let folders = fs::read_dir(fetched("trino")?).doing("look for Trino")?.flatten();
    let mut folders = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with(prefix));
    folders.next().map(|folder| folder.path()).ok_or(StackError::NotInstalled { what: "Trino" })
}

fn config(port: u16) -> String {
    format!(
        "coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
node.internal-address=127.0.0.1
catalog.management=static
query.max-memory=512MB
query.max-memory-per-node=512MB
memory.heap-headroom-per-node=256MB
"
    )
}

fn lake(catalog: &str, warehouse: &str, s3_endpoint: &str) -> String {
    let (region, key, secret) = (s3::REGION, s3::ACCESS_KEY, s3::SECRET_KEY);
    format!(
        "connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri={catalog}
iceberg.rest-catalog.warehouse={warehouse}
fs.native-s3.enabled=true
s3.endpoint={s3_endpoint}
s3.region={region}
s3.path-style-access=true
s3.aws-access-key={key}
s3.aws-secret-key={secret}
"
    )
}
