//! An Iceberg REST catalog.
//!
//! The requests and answers are those of iceberg-catalog-rest; the client is ours, since theirs can't send a commit made elsewhere.
//! Doesn't know: what is in the updates. Keeps: a commit whose answer doesn't say for certain that nothing was changed is `Unknown`.
//! Tested: here, against a catalog that answers by script; tests/ against the reference server.
// A token's lifetime is the server's business; no commit depends on it.
#![allow(clippy::disallowed_methods)]
use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use iceberg::{TableCreation, TableIdent, TableRequirement, TableUpdate};
use iceberg_catalog_rest::{CommitTableRequest, CreateNamespaceRequest, CreateTableRequest, LoadTableResult};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};

use super::{Answer, Catalog, Loaded};
use crate::config::model::RestAuth;
use crate::sink::SinkError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for an answer. A later one no longer counts; the table says what happened.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A token is renewed this long before it expires.
const TOKEN_MARGIN: Duration = Duration::from_secs(30);
/// Separates the levels of a namespace in a path, as the REST specification has it.
const LEVEL: &str = "%1F";

pub struct RestCatalog {
    client: Client,
    uri: String,
    warehouse: Option<String>,
    auth: RestAuth,
    prefix: Option<String>,
    /// Base of all paths, once the catalog has told its configuration.
    base: OnceCell<String>,
    token: Mutex<Option<Token>>,
}

struct Token {
    value: String,
    renew_at: Option<Instant>,
}

#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    overrides: HashMap<String, String>,
    #[serde(default)]
    defaults: HashMap<String, String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: Option<u64>,
}

impl RestCatalog {
    pub fn new(
        uri: &str,
        warehouse: Option<String>,
        auth: RestAuth,
        prefix: Option<String>,
    ) -> Result<Self, SinkError> {
        let client = Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(ANSWER_TIMEOUT).build();
        Ok(Self {
            client: client.map_err(|e| SinkError::Setting(format!("catalog {uri}: {e}")))?,
            uri: uri.trim_end_matches('/').to_owned(),
            warehouse,
            auth,
            prefix,
            base: OnceCell::new(),
            token: Mutex::new(None),
        })
    }

    fn away(&self, why: impl std::fmt::Display) -> SinkError {
        SinkError::Away { what: format!("catalog {}", self.uri), why: why.to_string() }
    }

    /// An answer that says no to a request that changes nothing, or that certainly changed nothing.
    async fn refusal(&self, response: Response) -> SinkError {
        let status = response.status();
        let why = format!("{status}: {}", message(response).await);
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return self.away(why);
        }
        SinkError::Setting(format!("catalog {}: {why}", self.uri))
    }

    async fn base(&self) -> Result<&str, SinkError> {
        let asked = async {
            let mut request = self.client.get(format!("{}/v1/config", self.uri));
            if let Some(warehouse) = &self.warehouse {
                request = request.query(&[("warehouse", warehouse)]);
            }
            let response = self.authorized(request).await?.send().await.map_err(|e| self.away(e))?;
            if !response.status().is_success() {
                return Err(self.refusal(response).await);
            }
            let told: Configuration = response.json().await.map_err(|e| self.away(e))?;
            let chosen = told.overrides.get("prefix").or(self.prefix.as_ref()).or(told.defaults.get("prefix"));
            let prefix = chosen.map(|p| format!("/{}", p.trim_matches('/'))).unwrap_or_default();
            let uri = told.overrides.get("uri").unwrap_or(&self.uri);
            Ok(format!("{}/v1{prefix}", uri.trim_end_matches('/')))
        };
        self.base.get_or_try_init(|| asked).await.map(String::as_str)
    }

    async fn authorized(&self, request: RequestBuilder) -> Result<RequestBuilder, SinkError> {
        Ok(match &self.auth {
            RestAuth::None => request,
            RestAuth::Bearer(token) => request.bearer_auth(&token.0),
            RestAuth::OAuth2 { .. } => request.bearer_auth(self.token().await?),
        })
    }

    async fn token(&self) -> Result<String, SinkError> {
        let mut held = self.token.lock().await;
        if let Some(token) = held.as_ref().filter(|t| t.renew_at.is_none_or(|at| Instant::now() < at)) {
            return Ok(token.value.clone());
        }
        let RestAuth::OAuth2 { token_uri, credential, scope } = &self.auth else {
            return Err(SinkError::Setting(format!("catalog {}: no credential to get a token with", self.uri)));
        };
        let (id, secret) = credential.0.split_once(':').unwrap_or(("", &credential.0));
        let mut form = vec![("grant_type", "client_credentials"), ("client_secret", secret)];
        form.push(("scope", scope.as_deref().unwrap_or("catalog")));
        if !id.is_empty() {
            form.push(("client_id", id));
        }
        let uri = token_uri.clone().unwrap_or_else(|| format!("{}/v1/oauth/tokens", self.uri));
        let response = self.client.post(uri).form(&form).send().await.map_err(|e| self.away(e))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let answer: TokenAnswer = response.json().await.map_err(|e| self.away(e))?;
        let lifetime = answer.expires_in.map(|s| Duration::from_secs(s).saturating_sub(TOKEN_MARGIN));
        let token = Token { value: answer.access_token, renew_at: lifetime.map(|l| Instant::now() + l) };
        Ok(held.insert(token).value.clone())
    }

    /// Sends a request; once more with a new token where the one it had is no longer taken. The inner error is one of a request
    /// that was or may have been sent.
    async fn send<B: serde::Serialize + Sync>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<Result<Response, reqwest::Error>, SinkError> {
        let url = format!("{}/{path}", self.base().await?);
        let mut renewed = false;
        loop {
            let mut request = self.client.request(method.clone(), &url);
            if let Some(body) = body {
                request = request.json(body);
            }
            match self.authorized(request).await?.send().await {
                Err(e) if e.is_connect() || e.is_builder() => return Err(self.away(e)),
                Ok(response) if is_stale(response.status()) && !renewed && self.can_renew() => {
                    *self.token.lock().await = None;
                    renewed = true;
                }
                sent => return Ok(sent),
            }
        }
    }

    fn can_renew(&self) -> bool {
        matches!(self.auth, RestAuth::OAuth2 { .. })
    }

    /// What the answer to a request that changes something says about its effect.
    async fn judge(&self, sent: Result<Response, reqwest::Error>) -> Result<Answer, SinkError> {
        let response = match sent {
            Ok(response) => response,
            Err(e) => return Ok(Answer::Unknown(e.to_string())),
        };
        Ok(match response.status() {
            status if status.is_success() => Answer::Applied,
            StatusCode::CONFLICT => Answer::Conflict,
            StatusCode::TOO_MANY_REQUESTS => return Err(self.away(message(response).await)),
            status if status.is_client_error() => Answer::Refused(format!("{status}: {}", message(response).await)),
            status => Answer::Unknown(format!("{status}: {}", message(response).await)),
        })
    }
}

/// 419 is what the specification has for an expired session.
fn is_stale(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status.as_u16() == 419
}

/// The catalog's own words, if it has any.
async fn message(response: Response) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        message: String,
    }
    let text = response.text().await.unwrap_or_default();
    match serde_json::from_str::<Body>(&text) {
        Ok(body) => body.error.message,
        Err(_) => text.chars().take(200).collect(),
    }
}

fn encoded(part: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    part.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn namespace_path(table: &TableIdent) -> String {
    let levels: Vec<_> = table.namespace().as_ref().iter().map(|level| encoded(level)).collect();
    format!("namespaces/{}", levels.join(LEVEL))
}

fn table_path(table: &TableIdent) -> String {
    format!("{}/tables/{}", namespace_path(table), encoded(table.name()))
}

#[async_trait]
impl Catalog for RestCatalog {
    async fn load(&self, table: &TableIdent) -> Result<Option<Loaded>, SinkError> {
        let sent = self.send(Method::GET, &table_path(table), None::<&()>).await?;
        let response = sent.map_err(|e| self.away(e))?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                let found: LoadTableResult = response.json().await.map_err(|e| self.away(e))?;
                let metadata_location = found.metadata_location.unwrap_or_default();
                Ok(Some(Loaded { metadata: found.metadata, metadata_location }))
            }
            _ => Err(self.refusal(response).await),
        }
    }

    async fn create(&self, table: &TableIdent, creation: TableCreation) -> Result<Answer, SinkError> {
        let namespace = CreateNamespaceRequest { namespace: table.namespace().clone(), properties: HashMap::new() };
        let made = self.judge(self.send(Method::POST, "namespaces", Some(&namespace)).await?).await?;
        if let Answer::Unknown(_) = made {
            return Ok(made);
        }
        // A namespace that may not be made may be there all the same: the table's own answer decides.
        let request = CreateTableRequest {
            name: creation.name,
            location: creation.location,
            schema: creation.schema,
            partition_spec: creation.partition_spec,
            write_order: creation.sort_order,
            stage_create: Some(false),
            properties: creation.properties,
        };
        let path = format!("{}/tables", namespace_path(table));
        self.judge(self.send(Method::POST, &path, Some(&request)).await?).await
    }

    async fn commit(
        &self,
        table: &TableIdent,
        _: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Answer, SinkError> {
        let request = CommitTableRequest { identifier: Some(table.clone()), requirements, updates };
        match self.send(Method::POST, &table_path(table), Some(&request)).await? {
            // The table is gone: nothing was changed, and loading it again says so.
            Ok(response) if response.status() == StatusCode::NOT_FOUND => Ok(Answer::Conflict),
            sent => self.judge(sent).await,
        }
    }
}

#[cfg(test)]
#[path = "rest_tests.rs"]
mod tests;
