//! A TCP proxy that loses things on purpose: it stands between a client and a service.
//!
//! A trap catches the next request whose bytes contain a pattern. `hold` keeps it until it is released, also when its client has died
//! meanwhile: the commit that lands late. `lose_answer` lets it through and closes the connection at the first byte of the answer: the
//! commit whose outcome nobody was told. `go_away` refuses everybody, as a service that is down.
//! Doesn't know: protocols. A Postgres client that prepares its statements sends the text first and the values in a later request:
//! catch the values.
//!
//!   client ── reader ──▶ queue ── writer (traps) ──▶ service
//!   client ◀──────────────── answers ────────────── service

mod connection;
mod trap;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::Doing;
use crate::{Port, Result};
use connection::Connection;
use trap::Traps;
pub use trap::{Kind, Trap};

pub struct Proxy {
    port: Port,
    service: SocketAddr,
    traps: Arc<Traps>,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
    door: Option<Door>,
}

/// The listening side; without it clients are refused.
struct Door {
    closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Proxy {
    pub fn start(service: SocketAddr) -> Result<Proxy> {
        let (traps, connections) = Default::default();
        let mut proxy = Proxy { port: Port::reserve()?, service, traps, connections, door: None };
        proxy.come_back()?;
        Ok(proxy)
    }

    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The next request with this pattern doesn't reach the service before it is released.
    pub fn hold(&self, pattern: impl AsRef<[u8]>) -> Arc<Trap> {
        self.traps.set(Kind::Hold, pattern.as_ref())
    }

    /// The next request with this pattern reaches the service, its answer doesn't reach the client.
    pub fn lose_answer(&self, pattern: impl AsRef<[u8]>) -> Arc<Trap> {
        self.traps.set(Kind::LoseAnswer, pattern.as_ref())
    }

    /// Cuts every connection and refuses new ones.
    pub fn go_away(&mut self) {
        if let Some(door) = self.door.take() {
            door.closing.store(true, Ordering::SeqCst);
            // Wakes the thread that waits for a client.
            let _ = TcpStream::connect(self.port.address());
            let _ = door.thread.join();
        }
        for connection in lock(&self.connections).drain(..) {
            connection.cut();
        }
    }

    /// Accepts connections again.
    pub fn come_back(&mut self) -> Result<()> {
        if self.door.is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind(self.port.address()).doing("listen")?;
        let closing = Arc::new(AtomicBool::new(false));
        let (service, traps, connections) = (self.service, self.traps.clone(), self.connections.clone());
        let closed = closing.clone();
        let thread = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if closed.load(Ordering::SeqCst) {
                    return;
                }
                // A service that is down closes its clients' connections; so do we.
                let Ok(server) = TcpStream::connect(service) else {
                    continue;
                };
                if let Ok(connection) = Connection::open(client, server, traps.clone()) {
                    let mut connections = lock(&connections);
                    connections.retain(|connection| connection.is_open());
                    connections.push(connection);
                }
            }
        });
        self.door = Some(Door { closing, thread });
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.go_away();
        // What is still held has nowhere to go: its connection is cut.
        self.traps.release_all();
    }
}

/// A test that panics elsewhere must not hide its reason behind a poisoned lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
