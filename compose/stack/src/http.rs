//! One HTTP request a connection: enough for the small answers of services on this machine.
//!
//! Doesn't know: TLS, redirects, chunked bodies (said as an error).

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Generous: a starved JVM answers late.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// Sends JSON if there is any.
pub fn request(address: SocketAddr, method: &str, path: &str, json: Option<&str>) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let body = json.unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&answer).ok_or_else(|| Error::new(ErrorKind::InvalidData, "the answer isn't plain HTTP"))
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if head.to_ascii_lowercase().contains("transfer-encoding:") {
        return None;
    }
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_its_status_and_its_body() {
        let answer = parse(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (404, "{}"));
    }

    #[test]
    fn an_answer_in_chunks_is_refused_rather_than_misread() {
        assert!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n").is_none());
    }
}
