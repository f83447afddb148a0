//! What librdkafka says on its own: errors of connections, logs, statistics.
//!
//! Doesn't know: partitions, offsets. Keeps: trouble is told from its first sign until a broker is seen to answer again; it is a state, never an
//! error, since librdkafka goes on by itself.
//! Tested: here, tests/kafka_source.rs.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use serde::Deserialize;

/// Why the brokers can't be worked with now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub code: RDKafkaErrorCode,
    pub reason: String,
}

/// The ear of one client.
#[derive(Debug, Default)]
pub struct Watch {
    trouble: Mutex<Option<Trouble>>,
}

impl Watch {
    pub fn trouble(&self) -> Option<Trouble> {
        self.lock().clone()
    }

    /// A broker has answered.
    pub fn answered(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, code: RDKafkaErrorCode, reason: &str) {
        let mut trouble = self.lock();
        // "All brokers are down" comes after the reason why one is, and says less.
        if code == RDKafkaErrorCode::AllBrokersDown && trouble.is_some() {
            return;
        }
        *trouble = Some(Trouble { code, reason: reason.to_owned() });
    }
}

impl ClientContext for Watch {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        // Connections that come and go are told as trouble, not again and again.
        match level {
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => {
                tracing::info!(target: "kafka", "{facility}: {message}")
            }
            _ => tracing::debug!(target: "kafka", "{facility}: {message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            // The group only names reported offsets: reading goes on without it.
            Some(RDKafkaErrorCode::GroupAuthorizationFailed) | None => {
                tracing::debug!(target: "kafka", "{error}: {reason}");
            }
            Some(code) => self.note(code, reason),
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if self.trouble().is_some() && serde_json::from_slice(statistics).is_ok_and(|s: Statistics| s.connected()) {
            self.answered();
        }
    }
}

impl ConsumerContext for Watch {}

/// The part of librdkafka's statistics that tells connections.
#[derive(Deserialize)]
struct Statistics {
    brokers: BTreeMap<String, BrokerState>,
}

#[derive(Deserialize)]
struct BrokerState {
    /// Negative for the bootstrap address and the group's coordinator, which are other names of brokers.
    nodeid: i32,
    state: String,
}

impl Statistics {
    /// At least one broker is connected, and none that is needed isn't ("INIT": not needed now).
    fn connected(&self) -> bool {
        let mut real = self.brokers.values().filter(|b| b.nodeid >= 0 && b.state != "INIT").peekable();
        real.peek().is_some() && real.all(|b| b.state == "UP")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch_in_trouble() -> Watch {
        let watch = Watch::default();
        watch.error(KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure), "b1: Connection refused");
        watch.error(KafkaError::Global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
        watch
    }

    fn statistics(state: &str) -> Vec<u8> {
        format!(r#"{{"brokers":{{"b1/1":{{"nodeid":1,"state":"{state}"}},"boot":{{"nodeid":-1,"state":"DOWN"}}}}}}"#)
            .into_bytes()
    }

    #[test]
    fn trouble_keeps_the_reason_that_says_most() {
        assert_eq!(watch_in_trouble().trouble().map(|t| t.reason).as_deref(), Some("b1: Connection refused"));
    }

    #[test]
    fn trouble_ends_when_the_needed_brokers_are_connected() {
        let watch = watch_in_trouble();
        for still in ["CONNECT", "DOWN", "INIT"] {
            watch.stats_raw(&statistics(still));
            assert!(watch.trouble().is_some(), "{still}");
        }
        watch.stats_raw(&statistics("UP"));
        assert_eq!(watch.trouble(), None);
    }

    #[test]
    fn a_group_that_may_not_be_used_is_no_trouble() {
        let watch = Watch::default();
        watch.error(KafkaError::Global(RDKafkaErrorCode::GroupAuthorizationFailed), "group");
        assert_eq!(watch.trouble(), None);
    }
}
