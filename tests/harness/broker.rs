//! One broker for all the tests of a file that leave it alone; each has topics of its own.
use std::sync::OnceLock;

use floodmark_stack::broker::Broker;

pub fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| Broker::start().unwrap())
}
