//! What a job answers over HTTP while it runs.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

/// Status code and body of a page; nothing while nobody answers.
pub fn get(address: SocketAddr, page: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {page} HTTP/1.1\r\nHost: floodmark\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

pub fn status(address: SocketAddr) -> Option<Value> {
    serde_json::from_str(&get(address, "/status")?.1).ok()
}
