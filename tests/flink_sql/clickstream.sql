-- Pipeline `clickstream` as a job of Apache Flink 1.20, printed by `floodmark flink-sql`.
-- What differs from floodmark stands above the statement that it concerns, by the key of the pipeline file.

-- [pipeline]
-- dir: the folder of Flink's checkpoints is the cluster's (execution.checkpointing.dir), and never floodmark's own
SET 'pipeline.name' = 'clickstream';
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
SET 'table.exec.uid.format' = 'clickstream_<id>_<transformation>';

-- Catalogs
CREATE CATALOG `floodmark` WITH (
  'type' = 'iceberg',
  'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog',
  'uri' = 'jdbc:postgresql://localhost:5432/lake',
  'jdbc.schema-version' = 'V1',
  'jdbc.user' = 'flink',
  'warehouse' = 'file:///lake'
);

-- [source.events]
-- on_error: Flink can't hand on a record that can't be decoded. The job stops at it, so its errors output has no rows. `--accept-loss
--   on_error` skips such records silently
-- type: read from Kafka, as asked by --kafka. Rows have topic, partition and offset of there
-- start: where the log has lost records that a restored job wants to read, Flink goes on at another offset without a word. floodmark
--   refuses
-- end: at the end Flink fires all windows and commits at once, beside its checkpoints: a failure just then may commit rows twice. A job
--   that is restored after it has read all doesn't end
-- format: Flink's json is more lenient. It takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null
--   where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings; text of a time needs its seconds,
--   and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error
CREATE TEMPORARY TABLE `events.log` (
  `event_id` STRING,
  `user_id` STRING,
  `event_type` STRING,
  `product_id` STRING,
  `price_cents` BIGINT,
  `event_time_ms` STRING,
  `source` STRING,
  `schema_version` INT,
  `_topic` STRING NOT NULL METADATA FROM 'topic' VIRTUAL,
  `_partition` INT NOT NULL METADATA FROM 'partition' VIRTUAL,
  `_offset` BIGINT NOT NULL METADATA FROM 'offset' VIRTUAL,
  `_timestamp` TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' VIRTUAL,
  `_timestamp_type` STRING NOT NULL METADATA FROM 'timestamp-type' VIRTUAL,
  `_time` AS CAST(CASE WHEN `event_time_ms` LIKE '%Z' THEN CAST(CAST(REPLACE(REPLACE(`event_time_ms`, 'T', ' '), 'Z', '') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) ELSE CAST(TO_TIMESTAMP_LTZ(CAST(`event_time_ms` AS BIGINT), 3) AS TIMESTAMP_LTZ(6)) END AS TIMESTAMP(3)),
  WATERMARK FOR `_time` AS `_time` - INTERVAL '5' SECOND - INTERVAL '0.001' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'events',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.isolation.level' = 'read_committed',
  'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset',
  'format' = 'json',
  'scan.watermark.emit.strategy' = 'on-event'
);
CREATE TEMPORARY VIEW `events` AS
SELECT
  `event_id`,
  `user_id`,
  `event_type`,
  `product_id`,
  `price_cents`,
  CASE WHEN `event_time_ms` LIKE '%Z' THEN CAST(CAST(REPLACE(REPLACE(`event_time_ms`, 'T', ' '), 'Z', '') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) ELSE CAST(TO_TIMESTAMP_LTZ(CAST(`event_time_ms` AS BIGINT), 3) AS TIMESTAMP_LTZ(6)) END AS `event_time_ms`,
  `source`,
  `schema_version`,
  `_topic`,
  `_partition`,
  `_offset`,
  `_time`
FROM `events.log`
WHERE CASE
  WHEN `event_id` IS NULL THEN CAST('no event_id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `user_id` IS NULL THEN CAST('no user_id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `event_type` IS NULL THEN CAST('no event_type: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `product_id` IS NULL THEN CAST('no product_id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `_time` IS NULL THEN CAST('no event_time_ms: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `source` IS NULL THEN CAST('no source: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `schema_version` IS NULL THEN CAST('no schema_version: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  ELSE TRUE END;

-- [dedup.clean]
-- horizon: Flink's dedup forgets nothing, so its state grows for ever and no record is too old. To forget after a time on the clock, set
--   table.exec.state.ttl: then a duplicate that comes later passes as new
-- discard: Flink doesn't count the rows of an output that nobody takes
-- horizon: no record is too old to be judged, so the late output has no rows
CREATE TEMPORARY VIEW `clean` AS
SELECT `event_id`, `user_id`, `event_type`, `product_id`, `price_cents`, `event_time_ms`, `source`, `schema_version`, `_topic`, `_partition`, `_offset`, `_time`
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY `event_id` ORDER BY PROCTIME()) AS `_copy`
  FROM `events`
)
WHERE `_copy` = 1;

-- [window.per_type]
-- aggregates: integers are summed as DECIMAL and compared with the range of BIGINT: Flink's SUM(BIGINT) and its cast to BIGINT wrap
--   silently
CREATE TEMPORARY VIEW `per_type.judged` AS
SELECT *,
  CURRENT_WATERMARK(`_time`) + INTERVAL '0.001' SECOND AS `_watermark`,
  COALESCE(`window_time` <= CURRENT_WATERMARK(`_time`) + INTERVAL '0.001' SECOND, FALSE) AS `_late`
FROM TABLE(TUMBLE(TABLE `clean`, DESCRIPTOR(`_time`), INTERVAL '10' SECOND));
CREATE TEMPORARY VIEW `per_type.all` AS
SELECT `window_start`, `window_end`, `event_type`,
  COUNT(*) AS `events`,
  SUM(CAST(`price_cents` AS DECIMAL(19, 0))) AS `revenue_cents`,
  COUNT(`price_cents`) AS `_count_1`
FROM `per_type.judged`
WHERE NOT `_late`
GROUP BY `window_start`, `window_end`, `event_type`;
CREATE TEMPORARY VIEW `per_type` AS
SELECT
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `window_end`,
  `event_type`,
  `events`,
  CAST(`revenue_cents` AS BIGINT) AS `revenue_cents`
FROM `per_type.all`
WHERE NOT (`revenue_cents` IS NOT NULL AND `revenue_cents` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0)));
CREATE TEMPORARY VIEW `per_type.errors` AS
SELECT
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `window_end`,
  `event_type`,
  'per_type' AS `_window_node`,
  'overflow' AS `_reason`,
  CASE WHEN `revenue_cents` IS NOT NULL AND `revenue_cents` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0)) THEN 'sum: a total of ' || CAST(`revenue_cents` AS STRING) || ' over ' || CAST(`_count_1` AS STRING) || ' values doesn''t fit int64' END AS `_detail`
FROM `per_type.all`
WHERE `revenue_cents` IS NOT NULL AND `revenue_cents` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0));
CREATE TEMPORARY VIEW `per_type.late` AS
SELECT `event_id`, `user_id`, `event_type`, `product_id`, `price_cents`, `event_time_ms`, `source`, `schema_version`, `_topic`, `_partition`, `_offset`,
  CAST(`_watermark` AS TIMESTAMP_LTZ(6)) AS `_watermark`,
  'per_type' AS `_window_node`,
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `_window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `_window_end`,
  'late' AS `_reason`
FROM `per_type.judged`
WHERE `_late`;

-- [window.sessions]
-- aggregates: integers are summed as DECIMAL and compared with the range of BIGINT: Flink's SUM(BIGINT) and its cast to BIGINT wrap
--   silently
CREATE TEMPORARY VIEW `clean.judged` AS
SELECT *,
  CURRENT_WATERMARK(`_time`) + INTERVAL '0.001' SECOND AS `_watermark`,
  COALESCE(`_time` <= CURRENT_WATERMARK(`_time`) + INTERVAL '0.001' SECOND, FALSE) AS `_late`
FROM `clean`;
CREATE TEMPORARY VIEW `sessions.on_time` AS
SELECT *
FROM `clean.judged`
WHERE NOT `_late`;
CREATE TEMPORARY VIEW `sessions.all` AS
SELECT `window_start`, `window_end`, `user_id`,
  COUNT(*) AS `events`,
  SUM(CAST(`price_cents` AS DECIMAL(19, 0))) AS `revenue_cents`,
  COUNT(`price_cents`) AS `_count_1`
FROM TABLE(SESSION(TABLE `sessions.on_time` PARTITION BY (`user_id`), DESCRIPTOR(`_time`), INTERVAL '30' SECOND))
GROUP BY `window_start`, `window_end`, `user_id`;
CREATE TEMPORARY VIEW `sessions` AS
SELECT
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `window_end`,
  `user_id`,
  `events`,
  CAST(`revenue_cents` AS BIGINT) AS `revenue_cents`
FROM `sessions.all`
WHERE NOT (`revenue_cents` IS NOT NULL AND `revenue_cents` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0)));
CREATE TEMPORARY VIEW `sessions.errors` AS
SELECT
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `window_end`,
  `user_id`,
  'sessions' AS `_window_node`,
  'overflow' AS `_reason`,
  CASE WHEN `revenue_cents` IS NOT NULL AND `revenue_cents` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0)) THEN 'sum: a total of ' || CAST(`revenue_cents` AS STRING) || ' over ' || CAST(`_count_1` AS STRING) || ' values doesn''t fit int64' END AS `_detail`
FROM `sessions.all`
WHERE `revenue_cents` IS NOT NULL AND `revenue_cents` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0));
CREATE TEMPORARY VIEW `sessions.late` AS
SELECT `event_id`, `user_id`, `event_type`, `product_id`, `price_cents`, `event_time_ms`, `source`, `schema_version`, `_topic`, `_partition`, `_offset`,
  CAST(`_watermark` AS TIMESTAMP_LTZ(6)) AS `_watermark`,
  'sessions' AS `_window_node`,
  CAST(`_time` AS TIMESTAMP_LTZ(6)) AS `_window_start`,
  CAST(`_time` + INTERVAL '30' SECOND AS TIMESTAMP_LTZ(6)) AS `_window_end`,
  'late' AS `_reason`
FROM `clean.judged`
WHERE `_late`;

-- [sink.lake]
-- partition: Flink's SQL can't make a table partitioned by day(event_time_ms). It makes one without partitions, unless the table is there
--   already: floodmark makes it so
CREATE DATABASE IF NOT EXISTS `floodmark`.`shop`;
CREATE TABLE IF NOT EXISTS `floodmark`.`shop`.`events` (
  `event_id` STRING NOT NULL,
  `user_id` STRING NOT NULL,
  `event_type` STRING NOT NULL,
  `product_id` STRING NOT NULL,
  `price_cents` BIGINT,
  `event_time_ms` TIMESTAMP_LTZ(6) NOT NULL,
  `source` STRING NOT NULL,
  `schema_version` INT NOT NULL
) WITH (
  'format-version' = '2',
  'write.target-file-size-bytes' = '536870912',
  'flink.max-continuous-empty-commits' = '600'
);

-- [sink.per_type_lake]
CREATE DATABASE IF NOT EXISTS `floodmark`.`shop`;
CREATE TABLE IF NOT EXISTS `floodmark`.`shop`.`per_type` (
  `window_start` TIMESTAMP_LTZ(6) NOT NULL,
  `window_end` TIMESTAMP_LTZ(6) NOT NULL,
  `event_type` STRING NOT NULL,
  `events` BIGINT NOT NULL,
  `revenue_cents` BIGINT
) WITH (
  'format-version' = '2',
  'write.target-file-size-bytes' = '536870912',
  'flink.max-continuous-empty-commits' = '600'
);

-- [sink.sessions_lake]
CREATE DATABASE IF NOT EXISTS `floodmark`.`shop`;
CREATE TABLE IF NOT EXISTS `floodmark`.`shop`.`sessions` (
  `window_start` TIMESTAMP_LTZ(6) NOT NULL,
  `window_end` TIMESTAMP_LTZ(6) NOT NULL,
  `user_id` STRING NOT NULL,
  `events` BIGINT NOT NULL,
  `revenue_cents` BIGINT
) WITH (
  'format-version' = '2',
  'write.target-file-size-bytes' = '536870912',
  'flink.max-continuous-empty-commits' = '600'
);

-- [sink.late]
-- from: `clean.late` has no rows on Flink, and is left out
CREATE DATABASE IF NOT EXISTS `floodmark`.`shop`;
CREATE TABLE IF NOT EXISTS `floodmark`.`shop`.`late` (
  `event_id` STRING NOT NULL,
  `user_id` STRING NOT NULL,
  `event_type` STRING NOT NULL,
  `product_id` STRING NOT NULL,
  `price_cents` BIGINT,
  `event_time_ms` TIMESTAMP_LTZ(6) NOT NULL,
  `source` STRING NOT NULL,
  `schema_version` INT NOT NULL,
  `_topic` STRING NOT NULL,
  `_partition` INT NOT NULL,
  `_offset` BIGINT NOT NULL,
  `_watermark` TIMESTAMP_LTZ(6) NOT NULL,
  `_window_node` STRING NOT NULL,
  `_window_start` TIMESTAMP_LTZ(6),
  `_window_end` TIMESTAMP_LTZ(6),
  `_reason` STRING NOT NULL
) WITH (
  'format-version' = '2',
  'write.target-file-size-bytes' = '536870912',
  'flink.max-continuous-empty-commits' = '600'
);

-- [sink.bad]
-- from: `events.errors` has no rows on Flink, and is left out

-- [sink.overflows]
-- dir: files lie in a folder of the sink's name below it, named by Flink, without marks: what is read of them before a checkpoint completes
--   may be written again
CREATE TEMPORARY TABLE `overflows` (
  `window_start` TIMESTAMP_LTZ(6) NOT NULL,
  `window_end` TIMESTAMP_LTZ(6) NOT NULL,
  `event_type` STRING NOT NULL,
  `_window_node` STRING NOT NULL,
  `_reason` STRING NOT NULL,
  `_detail` STRING NOT NULL
) WITH (
  'connector' = 'filesystem',
  'path' = 'file:///here/data/overflows/overflows',
  'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601',
  'json.encode.decimal-as-plain-number' = 'true',
  'sink.rolling-policy.rollover-interval' = '1000 ms',
  'sink.rolling-policy.check-interval' = '1000 ms'
);

-- [sink.session_overflows]
-- dir: files lie in a folder of the sink's name below it, named by Flink, without marks: what is read of them before a checkpoint completes
--   may be written again
CREATE TEMPORARY TABLE `session_overflows` (
  `window_start` TIMESTAMP_LTZ(6) NOT NULL,
  `window_end` TIMESTAMP_LTZ(6) NOT NULL,
  `user_id` STRING NOT NULL,
  `_window_node` STRING NOT NULL,
  `_reason` STRING NOT NULL,
  `_detail` STRING NOT NULL
) WITH (
  'connector' = 'filesystem',
  'path' = 'file:///here/data/overflows/session_overflows',
  'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601',
  'json.encode.decimal-as-plain-number' = 'true',
  'sink.rolling-policy.rollover-interval' = '1000 ms',
  'sink.rolling-policy.check-interval' = '1000 ms'
);

-- All sinks are one job: what they share is read and computed once.
BEGIN STATEMENT SET;
INSERT INTO `floodmark`.`shop`.`events`
SELECT `event_id`, `user_id`, `event_type`, `product_id`, `price_cents`, `event_time_ms`, `source`, `schema_version`
FROM `clean`;
INSERT INTO `floodmark`.`shop`.`per_type`
SELECT `window_start`, `window_end`, `event_type`, `events`, `revenue_cents`
FROM `per_type`;
INSERT INTO `floodmark`.`shop`.`sessions`
SELECT `window_start`, `window_end`, `user_id`, `events`, `revenue_cents`
FROM `sessions`;
INSERT INTO `floodmark`.`shop`.`late`
SELECT `event_id`, `user_id`, `event_type`, `product_id`, `price_cents`, `event_time_ms`, `source`, `schema_version`, `_topic`, `_partition`, `_offset`, `_watermark`, `_window_node`, `_window_start`, `_window_end`, `_reason`
FROM `per_type.late`
UNION ALL
SELECT `event_id`, `user_id`, `event_type`, `product_id`, `price_cents`, `event_time_ms`, `source`, `schema_version`, `_topic`, `_partition`, `_offset`, `_watermark`, `_window_node`, `_window_start`, `_window_end`, `_reason`
FROM `sessions.late`;
INSERT INTO `overflows`
SELECT `window_start`, `window_end`, `event_type`, `_window_node`, `_reason`, `_detail`
FROM `per_type.errors`;
INSERT INTO `session_overflows`
SELECT `window_start`, `window_end`, `user_id`, `_window_node`, `_reason`, `_detail`
FROM `sessions.errors`;
END;
