//! The proxy against a service of lines: each line that it gets is kept and answered with `ok <line>`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::until;

const LIMIT: Duration = Duration::from_secs(20);

struct Lines {
    address: SocketAddr,
    got: Arc<Mutex<Vec<String>>>,
}

impl Lines {
    fn start() -> Lines {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lines = Lines { address: listener.local_addr().unwrap(), got: Arc::default() };
        let got = lines.got.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let got = got.clone();
                thread::spawn(move || answer(stream, &got));
            }
        });
        lines
    }

    fn got(&self) -> Vec<String> {
        self.got.lock().unwrap().clone()
    }
}

fn answer(stream: TcpStream, got: &Mutex<Vec<String>>) {
    for line in BufReader::new(&stream).lines().map_while(|line| line.ok()) {
        got.lock().unwrap().push(line.clone());
        if writeln!(&stream, "ok {line}").is_err() {
            return;
        }
    }
}

fn say(client: &TcpStream, text: &str) {
    (&mut &*client).write_all(text.as_bytes()).unwrap();
}

fn hear(client: &TcpStream) -> String {
    let mut line = String::new();
    let _ = BufReader::new(client).read_line(&mut line);
    line
}

#[test]
fn requests_and_answers_go_through() {
    let service = Lines::start();
    let proxy = Proxy::start(service.address).unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    say(&client, "one\n");
    assert_eq!(hear(&client), "ok one\n");
    say(&client, "two\n");
    assert_eq!(hear(&client), "ok two\n");
}

#[test]
fn a_held_request_reaches_the_service_only_when_it_is_released() {
    let service = Lines::start();
    let proxy = Proxy::start(service.address).unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    let commit = proxy.hold("commit");
    say(&client, "begin\n");
    assert_eq!(hear(&client), "ok begin\n");
    // The pattern comes in two pieces.
    say(&client, "com");
    say(&client, "mit 1\n");
    assert!(commit.wait_caught(LIMIT));
    assert_eq!(service.got(), ["begin"]);
    commit.release();
    assert_eq!(hear(&client), "ok commit 1\n");
}

#[test]
fn a_held_request_lands_although_its_client_is_gone() {
    let service = Lines::start();
    let proxy = Proxy::start(service.address).unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    let commit = proxy.hold("commit");
    say(&client, "commit 1\n");
    assert!(commit.wait_caught(LIMIT));
    say(&client, "and its end\n");
    drop(client);
    let other = TcpStream::connect(proxy.address()).unwrap();
    say(&other, "commit 2\n");
    assert_eq!(hear(&other), "ok commit 2\n");
    commit.release();
    assert!(commit.wait_answered(LIMIT));
    assert!(until(LIMIT, || service.got() == ["commit 2", "commit 1", "and its end"]), "{:?}", service.got());
}

#[test]
fn a_lost_answer_leaves_the_request_done_and_the_client_without_a_word() {
    let service = Lines::start();
    let proxy = Proxy::start(service.address).unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    let commit = proxy.lose_answer("commit");
    say(&client, "begin\n");
    assert_eq!(hear(&client), "ok begin\n");
    say(&client, "commit 1\n");
    assert_eq!((&client).read(&mut [0; 8]).unwrap_or(0), 0);
    assert!(commit.wait_answered(LIMIT));
    assert_eq!(service.got(), ["begin", "commit 1"]);
    let again = TcpStream::connect(proxy.address()).unwrap();
    say(&again, "commit 1\n");
    assert_eq!(hear(&again), "ok commit 1\n");
}

#[test]
fn a_proxy_that_went_away_refuses_and_comes_back() {
    let service = Lines::start();
    let mut proxy = Proxy::start(service.address).unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    say(&client, "one\n");
    assert_eq!(hear(&client), "ok one\n");
    proxy.go_away();
    assert_eq!((&client).read(&mut [0; 8]).unwrap_or(0), 0);
    assert!(TcpStream::connect(proxy.address()).is_err());
    proxy.come_back().unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    say(&client, "two\n");
    assert_eq!(hear(&client), "ok two\n");
}
