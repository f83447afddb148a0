-- Pipeline `orders` as a job of Apache Flink 1.20, printed by `floodmark flink-sql`.
-- What differs from floodmark stands above the statement that it concerns, by the key of the pipeline file.

-- [pipeline]
-- dir: the folder of Flink's checkpoints is the cluster's (execution.checkpointing.dir), and never floodmark's own
SET 'pipeline.name' = 'orders';
SET 'parallelism.default' = '2';
SET 'pipeline.max-parallelism' = '128';
SET 'execution.checkpointing.interval' = '1000 ms';
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
SET 'table.exec.uid.format' = 'orders_<id>_<transformation>';

-- Catalogs
CREATE CATALOG `floodmark` WITH (
  'type' = 'iceberg',
  'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog',
  'uri' = 'jdbc:postgresql://localhost:5432/lake',
  'jdbc.schema-version' = 'V1',
  'jdbc.user' = 'flink',
  'warehouse' = 'file:///lake'
);

-- [source.orders]
-- on_error: Flink can't hand on a record that can't be decoded. The job stops at it, so its errors output has no rows. `--accept-loss
--   on_error` skips such records silently
-- start: where the log has lost records that a restored job wants to read, Flink goes on at another offset without a word. floodmark
--   refuses
-- format: Flink's json is more lenient. It takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null
--   where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings; text of a time needs its seconds,
--   and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error
CREATE TEMPORARY TABLE `orders.log` (
  `order_id` BIGINT,
  `business_key` STRING,
  `event_id` BIGINT,
  `customer_id` BIGINT,
  `status` STRING,
  `amount_cents` BIGINT,
  `updated_at` STRING,
  `seed` INT,
  `_topic` STRING NOT NULL METADATA FROM 'topic' VIRTUAL,
  `_partition` INT NOT NULL METADATA FROM 'partition' VIRTUAL,
  `_offset` BIGINT NOT NULL METADATA FROM 'offset' VIRTUAL,
  `_timestamp` TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' VIRTUAL,
  `_timestamp_type` STRING NOT NULL METADATA FROM 'timestamp-type' VIRTUAL
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.isolation.level' = 'read_committed',
  'scan.startup.mode' = 'earliest-offset',
  'scan.topic-partition-discovery.interval' = '10000 ms',
  'format' = 'json'
);
CREATE TEMPORARY VIEW `orders` AS
SELECT
  `order_id`,
  `business_key`,
  `event_id`,
  `customer_id`,
  `status`,
  `amount_cents`,
  CASE WHEN SUBSTRING(`updated_at`, 5, 1) = '-' THEN CAST(REPLACE(`updated_at`, 'T', ' ') AS TIMESTAMP(6)) ELSE CAST(CAST(TO_TIMESTAMP_LTZ(CAST(`updated_at` AS BIGINT), 3) AS TIMESTAMP_LTZ(6)) AS TIMESTAMP(6)) END AS `updated_at`,
  `seed`,
  `_topic`,
  `_partition`,
  `_offset`
FROM `orders.log`
WHERE CASE
  WHEN `order_id` IS NULL THEN CAST('no order_id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `business_key` IS NULL THEN CAST('no business_key: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `event_id` IS NULL THEN CAST('no event_id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `customer_id` IS NULL THEN CAST('no customer_id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `status` IS NULL THEN CAST('no status: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `amount_cents` IS NULL THEN CAST('no amount_cents: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN CASE WHEN SUBSTRING(`updated_at`, 5, 1) = '-' THEN CAST(REPLACE(`updated_at`, 'T', ' ') AS TIMESTAMP(6)) ELSE CAST(CAST(TO_TIMESTAMP_LTZ(CAST(`updated_at` AS BIGINT), 3) AS TIMESTAMP_LTZ(6)) AS TIMESTAMP(6)) END IS NULL THEN CAST('no updated_at: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `seed` IS NULL THEN CAST('no seed: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  ELSE TRUE END;

-- [sink.lake]
-- sort: Flink's SQL can't give a table a sort order, and its writer doesn't sort
-- commit_interval: Flink commits at every checkpoint, every 1s
-- partition: Flink's SQL can't make a table partitioned by bucket(4, order_id). It makes one without partitions, unless the table is there
--   already: floodmark makes it so
CREATE DATABASE IF NOT EXISTS `floodmark`.`cdc_lab`;
CREATE TABLE IF NOT EXISTS `floodmark`.`cdc_lab`.`orders` (
  `order_id` BIGINT NOT NULL,
  `business_key` STRING NOT NULL,
  `event_id` BIGINT NOT NULL,
  `customer_id` BIGINT NOT NULL,
  `status` STRING NOT NULL,
  `amount_cents` BIGINT NOT NULL,
  `updated_at` TIMESTAMP(6) NOT NULL,
  `seed` INT NOT NULL
) WITH (
  'format-version' = '2',
  'write.target-file-size-bytes' = '536870912',
  'flink.max-continuous-empty-commits' = '120'
);

-- [sink.bad]
-- dir: files lie in a folder of the sink's name below it, named by Flink, without marks: what is read of them before a checkpoint completes
--   may be written again
-- from: `orders.errors` has no rows on Flink, and is left out

-- All sinks are one job: what they share is read and computed once.
BEGIN STATEMENT SET;
INSERT INTO `floodmark`.`cdc_lab`.`orders`
SELECT `order_id`, `business_key`, `event_id`, `customer_id`, `status`, `amount_cents`, `updated_at`, `seed`
FROM `orders`;
END;
