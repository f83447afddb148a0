//! Three brokers that vote: what is acknowledged outlives one of them.
// Real processes, real time.
#![allow(clippy::disallowed_methods)]
use std::error::Error;
use std::time::Duration;

use floodmark_stack::broker::Broker;
use floodmark_stack::{Port, until};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const LIMIT: Duration = Duration::from_secs(300);
const RECORDS: i64 = 100;

#[test]
fn with_one_of_three_killed_records_are_still_taken_and_none_is_missing() -> Result<(), Box<dyn Error>> {
    let ports = (0..3).map(|_| Port::reserve()).collect::<Result<_, _>>()?;
    let mut brokers = Broker::start_nodes(ports)?;
    brokers[0].create_topic("events", 1)?;
    let addresses: Vec<String> = brokers.iter().map(Broker::address).collect();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", addresses.join(","))
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", LIMIT.as_millis().to_string())
        .create()?;
    let send = |value: &str| {
        for _ in 0..RECORDS {
            let record = BaseRecord::<(), str>::to("events").partition(0).payload(value);
            producer.send(record).map_err(|(error, _)| error)?;
        }
        producer.flush(LIMIT)
    };
    send("before")?;
    brokers[2].kill()?;
    send("after")?;
    // The one that was asked may not have heard yet who leads now.
    assert!(until(LIMIT, || brokers[0].offsets("events", 0).is_ok_and(|offsets| offsets == (0, 2 * RECORDS))));
    brokers[2].start_again()?;
    assert!(until(LIMIT, || brokers[2].offsets("events", 0).is_ok_and(|offsets| offsets == (0, 2 * RECORDS))));
    Ok(())
}
