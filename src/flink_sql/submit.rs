//! Hands a printed job to a running Flink cluster, by the JobManager's own REST API.
//!
//! Flink takes programs, not SQL: what goes there is a small jar that runs the SQL it gets as its argument (compose/flink, class `floodmark.RunSql`).
//! Doesn't know: what the job does. Keeps: a jar that was uploaded is removed again, whatever came of the job; nothing is started twice.
//! Tested: here (what the cluster answers), tests/flink/main.rs (a real one).
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

/// The class in the jar.
const ENTRY: &str = "floodmark.RunSql";
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The JobManager plans the job before it answers.
const LIMIT: Duration = Duration::from_secs(300);
const BOUNDARY: &str = "floodmark-runner-jar";

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("{path}: {source}; `--runner` names the jar that runs SQL, which scripts/fetch-stack makes of compose/flink", path = path.display())]
    Runner { path: PathBuf, source: std::io::Error },
    #[error("{cluster} doesn't answer: {error}")]
    NoAnswer { cluster: String, error: reqwest::Error },
    /// Nothing was started.
    #[error("{cluster} refuses to {what}: {why}")]
    Refused { cluster: String, what: &'static str, why: String },
    /// It may have been started.
    #[error(
        "{cluster} was asked to start the job and hasn't answered ({error}): look at its list of jobs before you try again"
    )]
    Unknown { cluster: String, error: reqwest::Error },
}

/// Where it goes, and what with.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// `http://HOST:PORT` of the JobManager.
    pub url: String,
    pub runner: PathBuf,
    /// Savepoint or checkpoint to start from, as the cluster finds it.
    pub from: Option<String>,
}

/// The id of the job that it has become.
pub async fn submit(cluster: &Cluster, script: &str) -> Result<String, SubmitError> {
    let client = Client::builder().no_proxy().connect_timeout(CONNECT_LIMIT).timeout(LIMIT).build();
    let asked = Asked { client: client.map_err(|error| cluster.no_answer(error))?, cluster };
    let jar = asked.upload(&cluster.runner).await?;
    let started = asked.start(&jar, script).await;
    // One that stays behind does no harm, and what became of the job is worth more.
    let _ = asked.request(Method::DELETE, &format!("/jars/{jar}")).send().await;
    started
}

struct Asked<'a> {
    client: Client,
    cluster: &'a Cluster,
}

impl Asked<'_> {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.cluster.url.trim_end_matches('/')))
    }

    /// The id under which the cluster keeps it.
    async fn upload(&self, jar: &Path) -> Result<String, SubmitError> {
        let bytes = std::fs::read(jar).map_err(|source| SubmitError::Runner { path: jar.to_owned(), source })?;
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"runner.jar\"\r\nContent-Type: application/x-java-archive\r\n\r\n"
        );
        let body = [head.as_bytes(), &bytes, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat();
        let form = format!("multipart/form-data; boundary={BOUNDARY}");
        let request = self.request(Method::POST, "/jars/upload").header("Content-Type", form).body(body);
        let answer = self.answer(request, "take the jar", |error| self.cluster.no_answer(error)).await?;
        let stored = answer["filename"].as_str().and_then(|file| file.rsplit('/').next()).map(str::to_owned);
        stored.ok_or_else(|| self.cluster.refuses("take the jar", answer.to_string()))
    }

    async fn start(&self, jar: &str, script: &str) -> Result<String, SubmitError> {
        let mut program = json!({ "entryClass": ENTRY, "programArgsList": ["--sql", script] });
        if let Some(from) = &self.cluster.from {
            program["savepointPath"] = json!(from);
        }
        let request = self.request(Method::POST, &format!("/jars/{jar}/run")).json(&program);
        let unknown = |error| SubmitError::Unknown { cluster: self.cluster.url.clone(), error };
        let answer = self.answer(request, "run the job", unknown).await?;
        let id = answer["jobid"].as_str().map(str::to_owned);
        id.ok_or_else(|| self.cluster.refuses("run the job", answer.to_string()))
    }

    /// Of one that was never connected to it is certain that it did nothing.
    async fn answer(
        &self,
        request: RequestBuilder,
        what: &'static str,
        lost: impl Fn(reqwest::Error) -> SubmitError,
    ) -> Result<Value, SubmitError> {
        let answer = request.send().await;
        let answer =
            answer.map_err(|error| if error.is_connect() { self.cluster.no_answer(error) } else { lost(error) })?;
        let well = answer.status().is_success();
        let text = answer.text().await.map_err(&lost)?;
        if !well {
            return Err(self.cluster.refuses(what, reason(&text)));
        }
        serde_json::from_str(&text).map_err(|_| self.cluster.refuses(what, reason(&text)))
    }
}

impl Cluster {
    fn no_answer(&self, error: reqwest::Error) -> SubmitError {
        SubmitError::NoAnswer { cluster: self.url.clone(), error: error.without_url() }
    }

    fn refuses(&self, what: &'static str, why: String) -> SubmitError {
        SubmitError::Refused { cluster: self.url.clone(), what, why }
    }
}

/// What a person wants to know of a stack trace in JSON: its last cause.
fn reason(answer: &str) -> String {
    let errors: Value = serde_json::from_str(answer).unwrap_or_default();
    let told =
        errors["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
    let told = if told.is_empty() { answer } else { &told };
    let cause = told.lines().rev().find_map(|line| line.trim().strip_prefix("Caused by: "));
    let first = || told.lines().map(str::trim).find(|line| !line.is_empty());
    cause.or_else(first).unwrap_or("it doesn't say why").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_stack_trace_the_last_cause_is_told() {
        let trace = r#"{"errors":["Internal server error.","<Exception on server side:\njava.lang.A: outer\n\tat B\nCaused by: C: middle\n\tat D\nCaused by: E: no table t\n\t... 3 more\n"]}"#;
        assert_eq!(reason(trace), "E: no table t");
        assert_eq!(reason(r#"{"errors":["Jar file x does not exist"]}"#), "Jar file x does not exist");
        assert_eq!(reason("<html>\n404"), "<html>");
        assert_eq!(reason(""), "it doesn't say why");
    }

    #[tokio::test]
    async fn a_runner_that_is_not_there_and_a_cluster_that_is_not_there_are_named() {
        let nowhere = || Cluster { url: "http://127.0.0.1:9".into(), runner: "no/runner.jar".into(), from: None };
        let error = submit(&nowhere(), "SELECT 1;").await.unwrap_err().to_string();
        assert!(error.starts_with("no/runner.jar: No such file or directory"), "{error}");
        let jar = tempfile::NamedTempFile::new().unwrap();
        let cluster = Cluster { runner: jar.path().to_owned(), ..nowhere() };
        let error = submit(&cluster, "SELECT 1;").await.unwrap_err();
        assert!(matches!(error, SubmitError::NoAnswer { .. }), "{error}");
        assert!(error.to_string().starts_with("http://127.0.0.1:9 doesn't answer: "), "{error}");
    }
}
