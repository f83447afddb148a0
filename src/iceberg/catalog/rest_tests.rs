//! The REST client against a server that answers as told: certain, uncertain, away, tokens.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode as Code;
use axum::response::IntoResponse;
use iceberg::NamespaceIdent;
use iceberg::spec::{Schema, TableMetadata, TableMetadataBuilder};

use super::*;
use crate::config::model::Secret;

/// A catalog that answers by script and remembers what it was asked.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn answer(&self, status: u16, body: &str) {
        self.answers.lock().unwrap().push_back((status, body.to_owned()));
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().drain(..).collect()
    }

    async fn serve(&self) -> String {
        async fn handle(State(script): State<Script>, request: Request) -> impl IntoResponse {
            let token = request.headers().get("authorization").map(|v| v.to_str().unwrap().to_owned());
            let line = format!("{} {}", request.method(), request.uri());
            script.asked.lock().unwrap().push(token.map_or(line.clone(), |token| format!("{line} [{token}]")));
            let (status, body) = script.answers.lock().unwrap().pop_front().expect("an answer for each request");
            (Code::from_u16(status).unwrap(), body)
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(handle).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        uri
    }

    async fn catalog(&self, auth: RestAuth) -> RestCatalog {
        RestCatalog::new(&self.serve().await, Some("lake".into()), auth, None).unwrap()
    }
}

fn ident() -> TableIdent {
    TableIdent::new(NamespaceIdent::from_vec(vec!["shop".into(), "eu 1".into()]).unwrap(), "events".into())
}

fn metadata() -> TableMetadata {
    let creation = TableCreation::builder().name("t".into()).location("file:///t".into());
    let creation = creation.schema(Schema::builder().build().unwrap()).build();
    TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata
}

fn loaded() -> Loaded {
    Loaded { metadata: metadata(), metadata_location: String::new() }
}

async fn commit(catalog: &RestCatalog) -> Result<Answer, SinkError> {
    catalog.commit(&ident(), &loaded(), vec![], vec![]).await
}

const NO_PREFIX: &str = r#"{"defaults":{},"overrides":{}}"#;

#[tokio::test]
async fn paths_have_the_prefix_of_the_configuration_and_a_table_is_loaded() {
    let script = Script::default();
    let catalog = script.catalog(RestAuth::None).await;
    script.answer(200, r#"{"defaults":{"prefix":"no"},"overrides":{"prefix":"acc/1"}}"#);
    let table = serde_json::json!({ "metadata-location": "file:///t/m.json", "metadata": metadata() });
    script.answer(200, &table.to_string());
    let found = catalog.load(&ident()).await.unwrap().unwrap();
    assert_eq!(found.metadata_location, "file:///t/m.json");
    script.answer(404, "{}");
    assert!(catalog.load(&ident()).await.unwrap().is_none());
    let path = "GET /v1/acc/1/namespaces/shop%1Feu%201/tables/events";
    assert_eq!(script.asked(), ["GET /v1/config?warehouse=lake", path, path]);
}

#[tokio::test]
async fn an_answer_says_for_certain_or_the_outcome_is_unknown() {
    let script = Script::default();
    let catalog = script.catalog(RestAuth::None).await;
    script.answer(200, NO_PREFIX);
    script.answer(200, "not what a catalog answers, but it has said yes");
    assert_eq!(commit(&catalog).await.unwrap(), Answer::Applied);
    script.answer(409, r#"{"error":{"message":"moved","type":"CommitFailedException","code":409}}"#);
    assert_eq!(commit(&catalog).await.unwrap(), Answer::Conflict);
    script.answer(404, "{}");
    assert_eq!(commit(&catalog).await.unwrap(), Answer::Conflict, "loading it again says that it is gone");
    for status in [500, 502, 503, 504] {
        script.answer(status, "?");
        assert!(matches!(commit(&catalog).await.unwrap(), Answer::Unknown(_)), "{status}");
    }
    script.answer(400, r#"{"error":{"message":"bad ref","type":"BadRequestException","code":400}}"#);
    assert_eq!(commit(&catalog).await.unwrap(), Answer::Refused("400 Bad Request: bad ref".into()));
    script.answer(429, "slow down");
    assert!(matches!(commit(&catalog).await, Err(SinkError::Away { .. })));
}

#[tokio::test]
async fn a_connection_lost_after_sending_is_unknown_and_one_never_made_is_away() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let catalog = RestCatalog::new(&uri, None, RestAuth::None, None).unwrap();
    catalog.base.set(format!("{uri}/v1")).unwrap();
    let answered = tokio::join!(commit(&catalog), async {
        let (socket, _) = listener.accept().await.unwrap();
        socket.readable().await.unwrap();
        drop(socket);
        drop(listener);
    });
    assert!(matches!(answered.0.unwrap(), Answer::Unknown(_)));
    assert!(matches!(commit(&catalog).await, Err(SinkError::Away { .. })));
}

#[tokio::test]
async fn a_token_that_is_no_longer_taken_is_renewed_once() {
    let script = Script::default();
    let credential = Secret("id:secret".into());
    let catalog = script.catalog(RestAuth::OAuth2 { token_uri: None, credential, scope: None }).await;
    script.answer(200, r#"{"access_token":"one","token_type":"bearer","expires_in":3600}"#);
    script.answer(200, NO_PREFIX);
    script.answer(401, "{}");
    script.answer(200, r#"{"access_token":"two","token_type":"bearer"}"#);
    script.answer(200, "{}");
    assert_eq!(commit(&catalog).await.unwrap(), Answer::Applied);
    let path = "POST /v1/namespaces/shop%1Feu%201/tables/events";
    assert_eq!(
        script.asked(),
        [
            "POST /v1/oauth/tokens".to_owned(),
            "GET /v1/config?warehouse=lake [Bearer one]".to_owned(),
            format!("{path} [Bearer one]"),
            "POST /v1/oauth/tokens".to_owned(),
            format!("{path} [Bearer two]"),
        ]
    );
    script.answer(401, "{}");
    script.answer(200, r#"{"access_token":"three","token_type":"bearer"}"#);
    script.answer(401, r#"{"error":{"message":"go away","type":"NotAuthorizedException","code":401}}"#);
    assert_eq!(commit(&catalog).await.unwrap(), Answer::Refused("401 Unauthorized: go away".into()));
}

#[tokio::test]
async fn a_bearer_token_is_sent_as_it_is_and_a_refusal_is_told() {
    let script = Script::default();
    let catalog = script.catalog(RestAuth::Bearer(Secret("mine".into()))).await;
    script.answer(403, r#"{"error":{"message":"not yours","type":"ForbiddenException","code":403}}"#);
    let refused = catalog.load(&ident()).await.unwrap_err().to_string();
    assert_eq!(refused, format!("catalog {}: 403 Forbidden: not yours", catalog.uri));
    assert_eq!(script.asked(), ["GET /v1/config?warehouse=lake [Bearer mine]"]);
}
