//! A program for the cluster, handed over by Flink's own command line client (`flink run --detached`), in a JVM of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::conf::{self, Options};
use super::trace::reason;
use crate::error::Doing;
use crate::process::Process;
use crate::{Result, StackError, fetched};

/// For planning and handing over. Alone it takes five seconds.
const LIMIT: Duration = Duration::from_secs(300);
/// Before the id of each job that a program has become.
const SUBMITTED: &str = "Job has been submitted with JobID ";

#[derive(Clone, Debug)]
pub struct Program {
    source: Source,
    arguments: Vec<String>,
    /// Checkpoint or savepoint.
    from: Option<PathBuf>,
    settings: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Source {
    Sql(String),
    Jar { file: PathBuf, class: String },
}

impl Program {
    /// Statements that end with `;` at the end of a line; `SET` and `BEGIN STATEMENT SET; … END;` as in Flink's SQL client.
    pub fn sql(script: impl Into<String>) -> Program {
        Program::new(Source::Sql(script.into()))
    }

    /// A class with a `main` in a jar.
    pub fn jar(file: impl Into<PathBuf>, class: &str) -> Program {
        Program::new(Source::Jar { file: file.into(), class: class.to_string() })
    }

    fn new(source: Source) -> Program {
        Program { source, arguments: Vec::new(), from: None, settings: Vec::new() }
    }

    pub fn argument(mut self, argument: &str) -> Program {
        self.arguments.push(argument.to_string());
        self
    }

    /// Starts from this checkpoint or savepoint.
    pub fn from(mut self, state: &Path) -> Program {
        self.from = Some(state.to_path_buf());
        self
    }

    /// As `("parallelism.default", "2")`.
    pub fn with(mut self, key: &str, value: &str) -> Program {
        self.settings.push((key.to_string(), value.to_string()));
        self
    }
}

/// The ids of its jobs, in their order.
pub fn submit(options: &Options, folder: &Path, program: &Program) -> Result<Vec<String>> {
    let place = tempfile::tempdir_in(folder.join("tmp")).doing("make a folder for the program")?;
    let mut java = conf::java(options, folder, &["-Xmx384m"])?;
    java.args(["org.apache.flink.client.cli.CliFrontend", "run", "--detached"]);
    for (key, value) in &program.settings {
        java.arg(format!("-D{key}={value}"));
    }
    if let Some(state) = &program.from {
        java.arg("--fromSavepoint").arg(state);
    }
    match &program.source {
        Source::Sql(script) => {
            let file = place.path().join("script.sql");
            fs::write(&file, script).doing("write the script")?;
            java.args(["--class", "floodmark.RunSql"]).arg(fetched("flink-runner/runner.jar")?).arg(file);
        }
        Source::Jar { file, class } => {
            java.args(["--class", class]).arg(file);
        }
    }
    java.args(&program.arguments);
    let output = place.path().join("output");
    File::create(&output).doing("make the output file")?;
    let mut client = Process::start(java, &output)?;
    let status = client.wait(LIMIT)?;
    let said = fs::read_to_string(&output).unwrap_or_default();
    let ids: Vec<String> = said.lines().filter_map(|line| line.strip_prefix(SUBMITTED)).map(str::to_string).collect();
    if status.success() && !ids.is_empty() {
        return Ok(ids);
    }
    Err(StackError::NotSubmitted { reason: reason(&told(&said)), output: client.output_tail() })
}

/// Without the client's log, which goes before: what it says to whoever called it.
fn told(said: &str) -> String {
    const BEGIN: &str = " The program finished with the following exception:";
    said.rsplit_once(BEGIN).map_or(said, |(_, told)| told).to_string()
}
