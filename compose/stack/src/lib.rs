//! The real services that tests and drills run against, each a child process on free ports in a folder of its own.
//!
//! A value is the running service: `start` returns when it answers, dropping it stops it and removes its folder.
//! What they run from is brought by `scripts/fetch-stack`; nothing here downloads or installs.
//! Doesn't know: floodmark.
//! Keeps: nothing outlives the process that started it, however that ends (see `guard`).
//! Tested: tests/stack.rs for the services, compose/stack/tests/flink.rs for Flink; proxy, mount, port and process where they stand.
// Real services, real time.
#![allow(clippy::disallowed_methods)]

pub mod broker;
mod error;
pub mod flink;
mod guard;
pub mod http;
mod java;
pub mod mount;
pub mod native;
mod port;
pub mod postgres;
mod probe;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod registry;
pub mod rest_catalog;
pub mod s3;
mod service;
pub mod trino;

use std::env;
use std::path::PathBuf;

pub use error::{Result, StackError};
pub use port::Port;
pub use probe::until;

/// Where `scripts/fetch-stack` puts things.
fn cache() -> PathBuf {
    match env::var_os("FLOODMARK_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/floodmark"),
    }
}

/// A file of the cache, if it was fetched.
pub fn fetched(path: &str) -> Result<PathBuf> {
    let path = cache().join(path);
    if path.exists() { Ok(path) } else { Err(StackError::NotFetched { path }) }
}

/// The Python with PyIceberg, pyarrow and DuckDB: readers that wrote none of our tables.
pub fn python() -> Result<PathBuf> {
    fetched("python/bin/python")
}
