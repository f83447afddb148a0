//! A real Kafka broker: one KRaft node, alone or one of several that vote.
//!
//! Topics aren't made by accident: a client that names an unknown one is told so.
//! What is changed is settled when the call returns: the broker's own metadata shows it.

use std::fs;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
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
    node: i32,
    clients: Port,
    /// The nodes' controllers, this one's among them.
    voters: Arc<[Port]>,
}

impl Broker {
    pub fn start() -> Result<Broker> {
        Broker::start_at(Port::reserve()?)
    }

    pub fn start_at(clients: Port) -> Result<Broker> {
        let mut broker = Broker::prepared(1, clients, [Port::reserve()?].into())?;
        broker.start_again()?;
        Ok(broker)
    }

    /// A node for each port. With three, what is acknowledged is on two of them.
    pub fn start_nodes(clients: Vec<Port>) -> Result<Vec<Broker>> {
        let voters: Arc<[Port]> = clients.iter().map(|_| Port::reserve()).collect::<Result<_>>()?;
        let nodes = (1..).zip(clients).map(|(node, clients)| Broker::prepared(node, clients, voters.clone()));
        let mut nodes: Vec<Broker> = nodes.collect::<Result<_>>()?;
        // None of them answers before most of them run.
        thread::scope(|scope| {
            let starts: Vec<_> = nodes.iter_mut().map(|node| scope.spawn(|| node.start_again())).collect();
            starts.into_iter().try_for_each(|start| start.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })?;
        Ok(nodes)
    }

    /// Formatted, and not started.
    fn prepared(node: i32, clients: Port, voters: Arc<[Port]>) -> Result<Broker> {
        let broker = Broker { service: Service::new("kafka", Signal::TERM)?, node, clients, voters };
        let folder = broker.service.folder();
        fs::write(folder.join("server.properties"), broker.properties()).doing("write server.properties")?;
        fs::write(folder.join("log4j2.properties"), LOGGING).doing("write log4j2.properties")?;
        let mut format = broker.java()?;
        format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties"]);
        run(&mut format)?;
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
        let (admin, node) = (self.admin()?, self.node);
        let answers = || {
            let metadata = admin.inner().fetch_metadata(None, Duration::from_millis(500));
            metadata.is_ok_and(|metadata| metadata.brokers().iter().any(|broker| broker.id() == node))
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
        let plain = NewTopic::new(topic, partitions, TopicReplication::Fixed(self.voters.len() as i32));
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
        let (node, clients) = (self.node, self.clients.address());
        let controller = self.voters[node as usize - 1].address();
        let voters = (1..).zip(&*self.voters).map(|(node, port)| format!("{node}@{}", port.address()));
        let voters = voters.collect::<Vec<_>>().join(",");
        let copies = self.voters.len();
        let in_sync = copies.min(2);
        format!(
            "process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{clients},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{clients}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=data
auto.create.topics.enable=false
# Records of the past are kept: event times begin years before a test runs.
log.retention.ms=-1
default.replication.factor={copies}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={copies}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync}
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
