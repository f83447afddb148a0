//! librdkafka's settings under the names of Java's Kafka client.
//!
//! Doesn't know: what they do. Keeps: one that has no such name is refused or named, never left out without a word. Tested: here.
use crate::config::model::{KafkaConfig, Secret};
use crate::flink_sql::job::Job;

use super::option;

/// Both clients call them so.
const SAME: [&str; 20] = [
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "fetch.max.bytes",
    "fetch.min.bytes",
    "group.id",
    "heartbeat.interval.ms",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.ms",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "security.protocol",
    "session.timeout.ms",
    "ssl.endpoint.identification.algorithm",
];

/// librdkafka's name, Java's.
const RENAMED: [(&str, &str); 6] = [
    ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ("fetch.wait.max.ms", "fetch.max.wait.ms"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.ms"),
    ("socket.receive.buffer.bytes", "receive.buffer.bytes"),
    ("socket.send.buffer.bytes", "send.buffer.bytes"),
];

/// Together they are one setting of Java's client.
const LOGIN: [&str; 2] = ["sasl.username", "sasl.password"];

pub fn of(job: &Job<'_>, node: &str, kafka: &KafkaConfig) -> Vec<(String, String)> {
    let mut options = vec![];
    for (key, value) in &kafka.properties {
        let value = job.shown(value);
        match java_name(key) {
            Some(java) => options.push(option(&format!("properties.{java}"), &value)),
            None if key == "ssl.ca.location" => options.extend([
                option("properties.ssl.truststore.type", "PEM"),
                option("properties.ssl.truststore.location", &value),
            ]),
            None if LOGIN.contains(&key.as_str()) => {}
            None => {
                let why = format!("Java's Kafka client has no setting for `{key}`");
                job.give_up(node, "properties", &why, &format!("`{key}` is left out"));
            }
        }
    }
    options.extend(login(job, node, kafka));
    options
}

fn java_name(key: &str) -> Option<&str> {
    let renamed = RENAMED.iter().find(|(ours, _)| *ours == key).map(|(_, java)| *java);
    renamed.or_else(|| SAME.contains(&key).then_some(key))
}

fn login(job: &Job<'_>, node: &str, kafka: &KafkaConfig) -> Option<(String, String)> {
    let get = |key: &str| kafka.properties.get(key);
    let (user, password) = (get(LOGIN[0]), get(LOGIN[1]));
    let (Some(user), Some(password)) = (user, password) else {
        if user.is_some() || password.is_some() {
            let why = "Java's Kafka client logs in with `sasl.username` and `sasl.password` together";
            job.give_up(node, "properties", why, "the one that stands alone is left out");
        }
        return None;
    };
    let mechanism = get("sasl.mechanism").or_else(|| get("sasl.mechanisms")).map_or("PLAIN", |m| m.0.as_str());
    let module = if mechanism.starts_with("SCRAM") { "scram.ScramLoginModule" } else { "plain.PlainLoginModule" };
    let quoted = |secret: &Secret| format!("\"{}\"", job.shown(secret).replace('\\', "\\\\").replace('"', "\\\""));
    let login = format!(
        "org.apache.kafka.common.security.{module} required username={} password={};",
        quoted(user),
        quoted(password)
    );
    Some(option("properties.sasl.jaas.config", &login))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_javas_names() {
        assert_eq!(java_name("sasl.mechanisms"), Some("sasl.mechanism"));
        assert_eq!(java_name("client.id"), Some("client.id"));
        assert_eq!(java_name("broker.address.family"), None);
    }
}
