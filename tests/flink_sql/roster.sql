-- Pipeline `roster` as a job of Apache Flink 1.20, printed by `floodmark flink-sql`.
-- What differs from floodmark stands above the statement that it concerns, by the key of the pipeline file.

-- [pipeline]
-- dir: the folder of Flink's checkpoints is the cluster's (execution.checkpointing.dir), and never floodmark's own
SET 'pipeline.name' = 'roster';
SET 'parallelism.default' = '2';
SET 'pipeline.max-parallelism' = '128';
SET 'execution.checkpointing.interval' = '250 ms';
SET 'state.backend.type' = 'rocksdb';
SET 'execution.checkpointing.incremental' = 'true';
SET 'execution.runtime-mode' = 'streaming';
SET 'execution.checkpointing.mode' = 'EXACTLY_ONCE';
SET 'execution.checkpointing.unaligned.enabled' = 'false';
SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';
SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '0 ms';
SET 'table.exec.mini-batch.enabled' = 'false';
SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
SET 'table.optimizer.reuse-optimize-block-with-digest-enabled' = 'true';
SET 'table.exec.sink.not-null-enforcer' = 'ERROR';
SET 'table.exec.legacy-cast-behaviour' = 'DISABLED';
SET 'table.exec.uid.generation' = 'ALWAYS';
SET 'table.exec.uid.format' = 'roster_<id>_<transformation>';

-- Catalogs
CREATE CATALOG `floodmark` WITH (
  'type' = 'iceberg',
  'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog',
  'uri' = 'jdbc:postgresql://localhost:5432/lake',
  'jdbc.schema-version' = 'V1',
  'jdbc.user' = 'flink',
  'warehouse' = 'file:///lake'
);

-- [source.updates]
-- start: where the log has lost records that a restored job wants to read, Flink goes on at another offset without a word. floodmark
--   refuses
-- format: Flink's json is more lenient. It takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null
--   where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings; text of a time needs its seconds,
--   and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error
CREATE TEMPORARY TABLE `updates.log` (
  `npi` STRING,
  `source` STRING,
  `first_name` STRING,
  `last_name` STRING,
  `credential` STRING,
  `city` STRING,
  `state` STRING,
  `zip` STRING,
  `specialty` STRING,
  `network_status` STRING,
  `revision` INT,
  `seq` BIGINT,
  `_topic` STRING NOT NULL METADATA FROM 'topic' VIRTUAL,
  `_partition` INT NOT NULL METADATA FROM 'partition' VIRTUAL,
  `_offset` BIGINT NOT NULL METADATA FROM 'offset' VIRTUAL,
  `_timestamp` TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' VIRTUAL,
  `_timestamp_type` STRING NOT NULL METADATA FROM 'timestamp-type' VIRTUAL
) WITH (
  'connector' = 'kafka',
  'topic' = 'roster.updates',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.isolation.level' = 'read_committed',
  'scan.startup.mode' = 'earliest-offset',
  'scan.topic-partition-discovery.interval' = '60000 ms',
  'format' = 'json'
);
CREATE TEMPORARY VIEW `updates` AS
SELECT
  `npi`,
  `source`,
  `first_name`,
  `last_name`,
  `credential`,
  `city`,
  `state`,
  `zip`,
  `specialty`,
  `network_status`,
  `revision`,
  `seq`,
  `_topic`,
  `_partition`,
  `_offset`
FROM `updates.log`
WHERE CASE
  WHEN `npi` IS NULL THEN CAST('no npi: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `source` IS NULL THEN CAST('no source: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `first_name` IS NULL THEN CAST('no first_name: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `last_name` IS NULL THEN CAST('no last_name: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `credential` IS NULL THEN CAST('no credential: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `city` IS NULL THEN CAST('no city: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `state` IS NULL THEN CAST('no state: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `zip` IS NULL THEN CAST('no zip: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `specialty` IS NULL THEN CAST('no specialty: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `network_status` IS NULL THEN CAST('no network_status: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `revision` IS NULL THEN CAST('no revision: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `seq` IS NULL THEN CAST('no seq: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  ELSE TRUE END;

-- [sink.lake]
-- commit_interval: Flink commits at every checkpoint, every 250ms
CREATE DATABASE IF NOT EXISTS `floodmark`.`roster`;
CREATE TABLE IF NOT EXISTS `floodmark`.`roster`.`updates` (
  `npi` STRING NOT NULL,
  `source` STRING NOT NULL,
  `first_name` STRING NOT NULL,
  `last_name` STRING NOT NULL,
  `credential` STRING NOT NULL,
  `city` STRING NOT NULL,
  `state` STRING NOT NULL,
  `zip` STRING NOT NULL,
  `specialty` STRING NOT NULL,
  `network_status` STRING NOT NULL,
  `revision` INT NOT NULL,
  `seq` BIGINT NOT NULL
) WITH (
  'format-version' = '2',
  'write.target-file-size-bytes' = '536870912',
  'flink.max-continuous-empty-commits' = '1200'
);

-- All sinks are one job: what they share is read and computed once.
BEGIN STATEMENT SET;
INSERT INTO `floodmark`.`roster`.`updates`
SELECT `npi`, `source`, `first_name`, `last_name`, `credential`, `city`, `state`, `zip`, `specialty`, `network_status`, `revision`, `seq`
FROM `updates`;
END;
