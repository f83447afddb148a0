//! What a process is ordered to do at its step points, by a file that a test puts there while it runs or before.
//!
//! Doesn't know: what the steps are. Keeps: an order is taken by one visit and carried out once; visits count from then on.
use std::io::Write;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use super::{ORDERS, Point};

/// Until a signal to ourselves has reached every thread.
const REACHED_ALL: Duration = Duration::from_millis(50);

static ORDERS_FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| std::env::var_os(ORDERS).map(PathBuf::from));
static WAITING: Mutex<Option<Order>> = Mutex::new(None);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// SIGKILL.
    Kill,
    /// SIGSTOP: the process stands still until it is woken.
    Stop,
    Panic,
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    point: String,
    /// Visits still to come, the one that carries it out included.
    visits: u64,
    action: Action,
}

/// True if the step shall fail.
pub fn visit(point: Point) -> bool {
    let Some(file) = ORDERS_FILE.as_ref() else { return false };
    let due = {
        // The lock guards a plain value: a panic that was ordered leaves it whole.
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_none() {
            *waiting = take(file);
        }
        due(&mut waiting, point)
    };
    due.is_some_and(|order| carry_out(&order))
}

/// Whoever removes the file has the order.
fn take(file: &std::path::Path) -> Option<Order> {
    let text = std::fs::read_to_string(file).ok()?;
    std::fs::remove_file(file).ok()?;
    let order = parse(&text);
    if order.is_none() {
        tracing::error!("{ORDERS}: {text:?} is no order: POINT VISITS kill|stop|panic|fail");
    }
    order
}

fn parse(text: &str) -> Option<Order> {
    let mut words = text.split_whitespace();
    let point = words.next().filter(|name| Point::ALL.iter().any(|point| point.name() == *name))?.to_owned();
    let visits = words.next()?.parse().ok().filter(|visits| *visits > 0)?;
    let action = match words.next()? {
        "kill" => Action::Kill,
        "stop" => Action::Stop,
        "panic" => Action::Panic,
        "fail" => Action::Fail,
        _ => return None,
    };
    words.next().is_none().then_some(Order { point, visits, action })
}

/// Counts a visit; the order, if this is the one it waits for.
fn due(waiting: &mut Option<Order>, point: Point) -> Option<Order> {
    let order = waiting.as_mut().filter(|order| order.point == point.name())?;
    order.visits -= 1;
    if order.visits == 0 { waiting.take() } else { None }
}

fn carry_out(order: &Order) -> bool {
    let _ = writeln!(std::io::stderr(), "ordered at {}: {:?}", order.point, order.action);
    match order.action {
        Action::Kill => signal(Signal::KILL),
        Action::Stop => signal(Signal::STOP),
        Action::Panic => std::panic::panic_any(format!("ordered at {}", order.point)),
        Action::Fail => return true,
    }
    false
}

/// Goes no further than this point: a signal takes a moment to be felt.
fn signal(signal: Signal) {
    if let Err(error) = kill_process(getpid(), signal) {
        tracing::error!("{ORDERS}: no signal to ourselves: {error}");
    }
    std::thread::sleep(REACHED_ALL);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(point: Point, visits: u64, action: Action) -> Order {
        Order { point: point.name().into(), visits, action }
    }

    #[test]
    fn an_order_names_a_point_a_visit_and_an_action() {
        assert_eq!(parse("manifest 3 kill\n"), Some(order(Point::Manifest, 3, Action::Kill)));
        for none in ["", "nowhere 1 kill", "manifest 0 kill", "manifest 1 sleep", "manifest 1 kill now"] {
            assert_eq!(parse(none), None, "{none}");
        }
    }

    #[test]
    fn it_is_due_once_at_its_visit() {
        let mut waiting = Some(order(Point::Manifest, 2, Action::Fail));
        assert_eq!(due(&mut waiting, Point::Manifest), None);
        assert_eq!(due(&mut waiting, Point::Segment), None);
        assert!(due(&mut waiting, Point::Manifest).is_some());
        assert_eq!(due(&mut waiting, Point::Manifest), None);
    }

    #[test]
    fn it_is_taken_from_its_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("orders");
        assert_eq!(take(&file), None);
        std::fs::write(&file, "read 1 stop").unwrap();
        assert_eq!(take(&file), Some(order(Point::Read, 1, Action::Stop)));
        assert_eq!(take(&file), None);
    }
}
