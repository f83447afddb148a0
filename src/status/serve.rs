//! Serves a job's status over HTTP, and takes savepoints by it.
//!
//! ```text
//!   GET  /status            everything, as JSON
//!   GET  /metrics           for Prometheus
//!   GET  /healthz           200, or 503 and why
//!   POST /savepoint/NAME    answers when the savepoint is durable and every table tagged
//! ```
//! Doesn't know: how a status comes about. Keeps: a page in somebody's browser can't ask for savepoints.
//! Tested: tests.rs beside it (what is served), tests/run_and_stop.rs.
use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use super::{Status, health, metrics};
use crate::job::{Request, SavepointRequest};

#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address}: {error}; another job may use it: change `listen` in [pipeline]")]
pub struct ListenError {
    address: SocketAddr,
    error: std::io::Error,
}

#[derive(Clone)]
struct Desk {
    status: watch::Receiver<Status>,
    requests: UnboundedSender<Request>,
}

/// Takes the address; nothing is answered yet.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|error| ListenError { address, error })
}

/// Answers until the job's process ends.
pub async fn serve(listener: TcpListener, status: watch::Receiver<Status>, requests: UnboundedSender<Request>) {
    let pages = Router::new()
        .route("/status", get(status_page))
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(health_page))
        .route("/savepoint/{name}", post(savepoint))
        .fallback(elsewhere)
        .with_state(Desk { status, requests });
    if let Err(error) = axum::serve(listener, pages).await {
        tracing::warn!("status is no longer served: {error}");
    }
}

impl Desk {
    fn now(&self) -> Status {
        self.status.borrow().clone()
    }
}

async fn status_page(State(desk): State<Desk>) -> Json<Status> {
    Json(desk.now())
}

async fn elsewhere() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "here are /status, /metrics, /healthz, and POST /savepoint/NAME\n")
}

async fn metrics_page(State(desk): State<Desk>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics::page(&desk.now())).into_response()
}

async fn health_page(State(desk): State<Desk>) -> (StatusCode, String) {
    match health::check(&desk.now()) {
        Ok(()) => (StatusCode::OK, "ok\n".into()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn savepoint(State(desk): State<Desk>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    if headers.contains_key(header::ORIGIN) {
        return (StatusCode::FORBIDDEN, "savepoints are not taken from web pages\n").into_response();
    }
    let (answer, answered) = oneshot::channel();
    // A job that is gone drops the request, and with it the sender of the answer.
    let _ = desk.requests.send(Request::Savepoint(SavepointRequest { name, answer }));
    match answered.await {
        Ok(Ok(savepoint)) => Json(savepoint).into_response(),
        Ok(Err(why)) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
        Err(_) => (StatusCode::CONFLICT, "the job ended before the savepoint was complete\n").into_response(),
    }
}
