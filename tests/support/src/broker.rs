//! A real Kafka broker: one KRaft node.
//!
//! Topics aren't made by accident: a client that names an unknown one is told so.
//! What is changed is settled when the call returns: the broker's own metadata shows it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::{Offset, TopicPartitionList};

use crate::error::Doing;
use crate::process::{Signal, run};
use crate::service::Service;
use crate::{Port, Result, StackError, fetched, until};

const CLUSTER_ID: &str = "floodmarkfloodmarkQQQQ";
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

pub struct Broker {
    service: Service,
    clients: Port,
    controller: Port,
}

impl Broker {
    pub fn start() -> Result<Broker> {
        let mut broker = Broker {
            service: Service::new("kafka", Signal::TERM)?,
            clients: Port::reserve()?,
            controller: Port::reserve()?,
        };
        let folder = broker.service.folder();
        fs::write(folder.join("server.properties"), broker.properties()).doing("write server.properties")?;
        fs::write(folder.join("log4j2.properties"), LOGGING).doing("write log4j2.properties")?;
        let mut format = broker.java()?;
        format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties"]);
        run(&mut format)?;
        broker.start_again()?;
        Ok(broker)
    }

    /// For `bootstrap.servers`.
    pub fn address(&self) -> String {
        self.clients.address().to_string()
    }

    pub fn stop(&mut self) -> Result<()> {
        self.service.stop()
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.service.kill()
    }

    /// Starts a stopped or killed broker on the same ports and data.
    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.java()?;
        command.args(["kafka.Kafka", "server.properties"]);
        let admin = self.admin()?;
        let answers = || {
            let metadata = admin.inner().fetch_metadata(None, Duration::from_millis(500));
            metadata.is_ok_and(|metadata| !metadata.brokers().is_empty())
        };
        self.service.start(command, answers)
    }

    /// Its data and its log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.service.folder()
    }

    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<()> {
        self.create_topic_with(topic, partitions, &[])
    }

    /// Creates a topic with settings of its own, as `("cleanup.policy", "compact")`.
    pub fn create_topic_with(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) -> Result<()> {
        let plain = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let new = settings.iter().fold(plain, |new, (key, value)| new.set(key, value));
        accepted(block_on(self.admin()?.create_topics([&new], &options()))?)?;
        self.settled(topic, partitions as usize)
    }

    pub fn delete_topic(&self, topic: &str) -> Result<()> {
        accepted(block_on(self.admin()?.delete_topics(&[topic], &options()))?)?;
        self.settled(topic, 0)
    }

    /// Raises the number of partitions to `total`.
    pub fn add_partitions(&self, topic: &str, total: usize) -> Result<()> {
        let new = NewPartitions::new(topic, total);
        accepted(block_on(self.admin()?.create_partitions([&new], &options()))?)?;
        self.settled(topic, total)
    }

    /// Moves the log's start of a partition, as retention does: records below `offset` are gone.
    pub fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let mut before = TopicPartitionList::new();
        before.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        let done = block_on(self.admin()?.delete_records(&before, &options()))?;
        for element in done.elements() {
            element.error()?;
        }
        Ok(())
    }

    /// First and next offset of a partition.
    pub fn offsets(&self, topic: &str, partition: i32) -> Result<(i64, i64)> {
        Ok(self.admin()?.inner().fetch_watermarks(topic, partition, REQUEST_LIMIT)?)
    }

    fn settled(&self, topic: &str, partitions: usize) -> Result<()> {
        let admin = self.admin()?;
        let shown = || {
            let Ok(metadata) = admin.inner().fetch_metadata(None, REQUEST_LIMIT) else {
                return false;
            };
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            let led = found.map_or(0, |topic| topic.partitions().iter().filter(|p| p.leader() >= 0).count());
            led == partitions
        };
        if until(REQUEST_LIMIT, shown) {
            return Ok(());
        }
        Err(StackError::TopicNotSettled { topic: topic.to_string(), limit: REQUEST_LIMIT })
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        Ok(ClientConfig::new()
            .set("bootstrap.servers", self.address())
            .set("reconnect.backoff.max.ms", "200")
            .create()?)
    }

    /// A JVM tuned to start fast, in the broker's folder.
    fn java(&self) -> Result<Command> {
        let mut java = Command::new("java");
        java.args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dlog4j2.configurationFile=log4j2.properties")
            .arg("-cp")
            .arg(fetched("kafka/lib")?.join("*"))
            .current_dir(self.service.folder());
        Ok(java)
    }

    fn properties(&self) -> String {
        let (clients, controller) = (self.clients.address(), self.controller.address());
        format!(
            "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
listeners=PLAINTEXT://{clients},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{clients}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=data
auto.create.topics.enable=false
# Records of the past are kept: event times begin years before a test runs.
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# A killed broker may register again after this.
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
"
        )
    }
}

const LOGGING: &str = "rootLogger.level=info
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %c{1} %m%n
";

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(REQUEST_LIMIT)).request_timeout(Some(REQUEST_LIMIT))
}

fn accepted(results: Vec<TopicResult>) -> Result<()> {
    results
        .into_iter()
        .try_for_each(|result| result.map(drop).map_err(|(topic, code)| StackError::Topic { topic, code }))
}
