//! One client's connection through the proxy: three threads, which end when both sides have closed or the proxy cuts it.
//!
//! Requests are read as they come, also behind a held one: a client that dies must not take back what it has sent.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::lock;
use super::trap::{Kind, Trap, Traps};

/// How much of the past is kept to find a pattern that came in pieces.
const MEMORY: usize = 4096;
/// How long the service may take to answer a caught request whose client has gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

pub struct Connection {
    client: TcpStream,
    server: TcpStream,
    traps: Arc<Traps>,
    /// The caught request that the service hasn't answered yet.
    caught: Mutex<Option<Arc<Trap>>>,
    open: AtomicBool,
}

impl Connection {
    pub fn open(client: TcpStream, server: TcpStream, traps: Arc<Traps>) -> Result<Arc<Connection>> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let open = AtomicBool::new(true);
        let connection = Arc::new(Connection { client, server, traps, caught: Mutex::default(), open });
        let (sender, requests) = channel();
        let [reader, writer, answers] = [connection.clone(), connection.clone(), connection.clone()];
        thread::spawn(move || reader.read_requests(sender));
        thread::spawn(move || writer.forward_requests(requests));
        thread::spawn(move || answers.forward_answers());
        Ok(connection)
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    pub fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn read_requests(&self, requests: Sender<Vec<u8>>) {
        while let Some(chunk) = read(&self.client) {
            if requests.send(chunk).is_err() {
                return;
            }
        }
    }

    fn forward_requests(&self, requests: Receiver<Vec<u8>>) {
        let mut before = Vec::new();
        let mut last_caught = None;
        for chunk in requests {
            if let Some(trap) = self.traps.spring(&before, &chunk) {
                if trap.kind() == Kind::Hold {
                    trap.wait_released();
                }
                // Before the request goes: its answer may come at once.
                *lock(&self.caught) = Some(trap.clone());
                last_caught = Some(trap);
            }
            if (&self.server).write_all(&chunk).is_err() {
                return;
            }
            before.extend_from_slice(&chunk);
            before.drain(..before.len().saturating_sub(MEMORY));
        }
        // The client has closed. A service that sees this too early might drop what it was just sent.
        if let Some(trap) = last_caught {
            trap.wait_answered(ANSWER_LIMIT);
        }
        let _ = self.server.shutdown(Shutdown::Write);
    }

    /// Reads all that the service says, whether or not the client is still there.
    fn forward_answers(&self) {
        let mut losing = false;
        while let Some(chunk) = read(&self.server) {
            if let Some(trap) = lock(&self.caught).take() {
                losing |= trap.kind() == Kind::LoseAnswer;
                if losing {
                    let _ = self.client.shutdown(Shutdown::Both);
                }
                trap.answered();
            }
            if !losing {
                let _ = (&self.client).write_all(&chunk);
            }
        }
        if let Some(trap) = lock(&self.caught).take() {
            trap.answered();
        }
        self.cut();
        self.open.store(false, Ordering::SeqCst);
    }
}

/// What comes next; `None` at the end.
fn read(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut chunk = vec![0; 64 * 1024];
    let length = stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
    chunk.truncate(length);
    Some(chunk)
}
