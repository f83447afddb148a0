//! Questions to the JobManager's REST API, with its answers as JSON.

use std::net::SocketAddr;

use serde_json::Value;

use super::Status;
use crate::http::request;
use crate::{Result, StackError};

#[derive(Clone, Copy, Debug)]
pub struct Rest {
    address: SocketAddr,
}

impl Rest {
    pub fn new(address: SocketAddr) -> Rest {
        Rest { address }
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.ask("GET", path, None)
    }

    pub fn ask(&self, method: &str, path: &str, json: Option<&Value>) -> Result<Value> {
        let name = || format!("{method} {path}");
        let answer = request(self.address, method, path, json.map(Value::to_string).as_deref());
        let answer = answer.map_err(|source| StackError::NoAnswer { request: name(), source })?;
        if !(200..300).contains(&answer.status) {
            return Err(StackError::Refused { request: name(), status: answer.status, answer: answer.body });
        }
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer.body)
            .map_err(|source| StackError::NoAnswer { request: name(), source: source.into() })
    }

    pub fn task_managers(&self) -> Result<Vec<String>> {
        let answer = self.get("/taskmanagers")?;
        Ok(list(&answer["taskmanagers"]).iter().map(|one| text(&one["id"])).collect())
    }

    pub fn jobs(&self) -> Result<Vec<(String, Status)>> {
        let answer = self.get("/jobs")?;
        let jobs = list(&answer["jobs"]).iter();
        Ok(jobs.map(|job| (text(&job["id"]), Status::of(&job["status"]))).collect())
    }

    pub fn slots(&self) -> Result<(u64, u64)> {
        let answer = self.get("/overview")?;
        Ok((number(&answer["slots-total"]), number(&answer["slots-available"])))
    }

    pub fn settings(&self) -> Result<Vec<(String, String)>> {
        let answer = self.get("/jobmanager/config")?;
        Ok(list(&answer).iter().map(|one| (text(&one["key"]), text(&one["value"]))).collect())
    }
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
