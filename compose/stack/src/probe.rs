//! Asking until the answer is yes, with a limit.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

/// Asks again and again; false when the limit has passed without a yes.
pub fn until(limit: Duration, yes: impl FnMut() -> bool) -> bool {
    until_every(PAUSE, limit, yes)
}

/// The same for a question that costs the one who is asked.
pub fn until_every(pause: Duration, limit: Duration, mut yes: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if yes() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(pause);
    }
}

/// Status of a request without body; `None` while nobody answers.
pub fn http_status(address: SocketAddr, method: &str, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    // "HTTP/1.1 200"
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}
