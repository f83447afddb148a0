//! One broker for all the tests of a file that leave it alone; each has topics of its own. And who writes to it beside `floodmark generate`.
use std::sync::OnceLock;
use std::time::Duration;

use floodmark_stack::broker::Broker;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer};

/// How long a broker may take for anything.
pub const LONG: Duration = Duration::from_secs(60);

pub fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| Broker::start().unwrap())
}

/// With an id: of transactions.
pub fn producer(broker: &Broker, transactional_id: Option<&str>) -> BaseProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address()).set("linger.ms", "5");
    config.set("queue.buffering.max.messages", "1000000");
    if let Some(id) = transactional_id {
        config.set("transactional.id", id);
    }
    let producer: BaseProducer = config.create().unwrap();
    if transactional_id.is_some() {
        producer.init_transactions(LONG).unwrap();
    }
    producer
}
