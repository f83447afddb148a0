//! How the cluster is set up: one config.yaml for all processes, and the command lines that Flink's shell scripts would have made.

use std::path::Path;
use std::process::Command;

use crate::{Result, fetched};

/// Java 17 hides these from the reflection that Flink lives on.
const EXPORTED: [&str; 3] =
    ["java.base/sun.net.util", "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5"];
const OPENED: [&str; 12] = [
    "java.base/java.lang",
    "java.base/java.net",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
    "java.base/java.lang.reflect",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Heap,
    /// With incremental checkpoints.
    RocksDb,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub task_managers: usize,
    /// Of each TaskManager.
    pub slots: u32,
    pub backend: Backend,
    /// Of each TaskManager. RocksDB lives in the managed memory.
    pub heap_mib: u32,
    pub managed_mib: u32,
    /// JVMs that start fast and never get fast; without it they are as Flink has them.
    pub starts_fast: bool,
    /// A free one if none is given.
    pub web_port: Option<u16>,
    /// Further lines of config.yaml; they win over ours.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    /// Small, for tests.
    fn default() -> Options {
        Options {
            task_managers: 1,
            slots: 2,
            backend: Backend::Heap,
            heap_mib: 384,
            managed_mib: 128,
            starts_fast: true,
            web_port: None,
            settings: Vec::new(),
        }
    }
}

impl Options {
    pub fn with(mut self, key: &str, value: &str) -> Options {
        self.settings.push((key.to_string(), value.to_string()));
        self
    }
}

pub fn config_yaml(options: &Options, rpc: u16, web: u16, folder: &Path) -> String {
    let backend = match options.backend {
        Backend::Heap => "hashmap",
        Backend::RocksDb => "rocksdb",
    };
    let place = |name: &str| format!("file://{}", folder.join(name).display());
    let ours = [
        ("jobmanager.rpc.address", "127.0.0.1".to_string()),
        ("jobmanager.rpc.port", rpc.to_string()),
        ("jobmanager.bind-host", "127.0.0.1".to_string()),
        ("taskmanager.host", "127.0.0.1".to_string()),
        ("taskmanager.bind-host", "127.0.0.1".to_string()),
        ("rest.address", "127.0.0.1".to_string()),
        ("rest.bind-address", "127.0.0.1".to_string()),
        ("rest.port", web.to_string()),
        ("rest.bind-port", web.to_string()),
        ("execution.target", "remote".to_string()),
        ("web.tmpdir", folder.join("tmp").display().to_string()),
        ("io.tmp.dirs", folder.join("tmp").display().to_string()),
        ("taskmanager.numberOfTaskSlots", options.slots.to_string()),
        ("state.backend.type", backend.to_string()),
        ("execution.checkpointing.incremental", (options.backend == Backend::RocksDb).to_string()),
        ("execution.checkpointing.dir", place("checkpoints")),
        ("execution.checkpointing.savepoint-dir", place("savepoints")),
        ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION".to_string()),
        // A dead TaskManager is found by two heartbeats that can't be sent; the time limit stays Flink's, so that a starved one isn't taken for dead.
        ("heartbeat.interval", "1 s".to_string()),
        // Counters as old as this are shown; the defaults are 10 s and 3 s.
        ("metrics.fetcher.update-interval", "500".to_string()),
        ("web.refresh-interval", "500".to_string()),
    ];
    let ours = ours.map(|(key, value)| (key.to_string(), value));
    let set_by_options = |key: &String| options.settings.iter().any(|(set, _)| set == key);
    let lines = ours.iter().filter(|(key, _)| !set_by_options(key)).chain(&options.settings);
    lines.map(|(key, value)| format!("{key}: \"{value}\"\n")).collect()
}

/// A JVM with all of Flink on its class path, in the cluster's folder.
pub fn java(options: &Options, folder: &Path, memory: &[&str]) -> Result<Command> {
    let mut java = Command::new("java");
    // Neither in the temporary folder nor beside it is anything left when it is killed.
    java.args(memory).arg("-XX:-UsePerfData").arg(format!("-Djava.io.tmpdir={}", folder.join("tmp").display()));
    if options.starts_fast {
        java.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    }
    java.args(EXPORTED.map(|package| format!("--add-exports={package}=ALL-UNNAMED")))
        .args(OPENED.map(|package| format!("--add-opens={package}=ALL-UNNAMED")))
        .arg("-Dlog4j.configurationFile=conf/log4j.properties")
        .arg("-cp")
        .arg(format!("{}/*:{}/*", fetched("flink/lib")?.display(), fetched("flink-connectors/lib")?.display()))
        .env("FLINK_CONF_DIR", folder.join("conf"))
        .current_dir(folder);
    Ok(java)
}

/// Every size is spelled out: those that Flink's scripts would compute.
pub fn task_manager(options: &Options, folder: &Path, name: &str) -> Result<Command> {
    const NETWORK: u32 = 64;
    const FRAMEWORK_HEAP: u32 = 128;
    const OFF_HEAP: u32 = 128;
    let heap = format!("-Xmx{}m", options.heap_mib + FRAMEWORK_HEAP);
    let direct = format!("-XX:MaxDirectMemorySize={}m", NETWORK + 2 * OFF_HEAP);
    let mut java = java(options, folder, &[&heap, &direct])?;
    java.args(["org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", "conf"]);
    let sizes = [
        ("network.min", NETWORK),
        ("network.max", NETWORK),
        ("managed.size", options.managed_mib),
        ("task.heap.size", options.heap_mib),
        ("task.off-heap.size", OFF_HEAP),
        ("framework.heap.size", FRAMEWORK_HEAP),
        ("framework.off-heap.size", OFF_HEAP),
        ("jvm-metaspace.size", 512),
        ("jvm-overhead.min", 192),
        ("jvm-overhead.max", 192),
    ];
    java.args(["-D", &format!("taskmanager.resource-id={name}"), "-D", "taskmanager.cpu.cores=2"]);
    for (key, mib) in sizes {
        java.args(["-D", &format!("taskmanager.memory.{key}={mib}mb")]);
    }
    Ok(java)
}

pub const LOGGING: &str = "rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1} %m%n
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_the_options_stands_once_and_wins() {
        let options = Options::default().with("heartbeat.interval", "10 s");
        let yaml = config_yaml(&options, 1, 2, Path::new("/cluster"));
        let lines: Vec<&str> = yaml.lines().filter(|line| line.starts_with("heartbeat.interval")).collect();
        assert_eq!(lines, [r#"heartbeat.interval: "10 s""#]);
        assert!(yaml.contains("execution.checkpointing.dir: \"file:///cluster/checkpoints\"\n"));
    }
}
