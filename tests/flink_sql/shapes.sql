-- Pipeline `shapes` as a job of Apache Flink 1.20, printed by `floodmark flink-sql`.
-- What differs from floodmark stands above the statement that it concerns, by the key of the pipeline file.
-- Put the values of ${SHAPES_SECRET} in before you submit it.

-- [pipeline]
-- retain: a job can't set it: set state.checkpoints.num-retained for the cluster
SET 'pipeline.name' = 'shapes';
SET 'parallelism.default' = '2';
SET 'pipeline.max-parallelism' = '128';
SET 'execution.checkpointing.interval' = '10000 ms';
SET 'state.backend.type' = 'hashmap';
SET 'execution.checkpointing.incremental' = 'false';
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
SET 'table.exec.uid.format' = 'shapes_<id>_<transformation>';

-- Catalogs
CREATE CATALOG `lake` WITH (
  'type' = 'iceberg',
  'catalog-type' = 'rest',
  'uri' = 'http://localhost:8181',
  'token' = '${SHAPES_SECRET}',
  'warehouse' = 's3://bucket/warehouse',
  'base-namespace' = 'shop',
  'io-impl' = 'org.apache.iceberg.aws.s3.S3FileIO',
  's3.endpoint' = 'http://localhost:7070',
  's3.path-style-access' = 'true',
  'client.region' = 'us-east-1',
  's3.access-key-id' = 'user',
  's3.secret-access-key' = '${SHAPES_SECRET}'
);

-- [source.web]
-- idle: Flink goes by the clock: a partition without records for this long is idle, also when the broker was away, and what it brings later
--   may be late. The decision isn't kept
-- align: it becomes scan.watermark.alignment, which is approximate. No result depends on it
-- start: where the log has lost records that a restored job wants to read, Flink goes on at another offset without a word. floodmark
--   refuses
-- format: Flink's json is more lenient. It takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null
--   where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings; text of a time needs its seconds,
--   and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error
-- max_future: a record beyond it moves no watermark, and counts as one that can't be decoded (on_error)
CREATE TEMPORARY TABLE `web.log` (
  `id` STRING,
  `user` ROW<`home` ROW<`city` STRING>, `name` STRING>,
  `price` DECIMAL(10, 2),
  `count` INT,
  `weight` DOUBLE,
  `day` STRING,
  `at` STRING,
  `local` STRING,
  `_topic` STRING NOT NULL METADATA FROM 'topic' VIRTUAL,
  `_partition` INT NOT NULL METADATA FROM 'partition' VIRTUAL,
  `_offset` BIGINT NOT NULL METADATA FROM 'offset' VIRTUAL,
  `_timestamp` TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' VIRTUAL,
  `_timestamp_type` STRING NOT NULL METADATA FROM 'timestamp-type' VIRTUAL,
  `_key` BYTES,
  `_headers` MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  `_time` AS CAST(CASE WHEN `at` LIKE '%Z' THEN CAST(CAST(REPLACE(REPLACE(`at`, 'T', ' '), 'Z', '') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) ELSE CAST(CAST(DATE_FORMAT(TO_TIMESTAMP_LTZ((CAST(`at` AS BIGINT) - MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000)) / 1000000, 0), 'yyyy-MM-dd HH:mm:ss') || '.' || LPAD(CAST(MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000) AS STRING), 6, '0') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) END AS TIMESTAMP(3)),
  WATERMARK FOR `_time` AS CASE WHEN `_timestamp_type` <> 'NoTimestampType' AND `_time` > CAST(`_timestamp` AS TIMESTAMP(3)) + INTERVAL '36' HOUR THEN CAST(NULL AS TIMESTAMP(3)) ELSE `_time` - INTERVAL '30' DAY - INTERVAL '0.001' SECOND END
) WITH (
  'connector' = 'kafka',
  'topic' = 'web.eu;web.us',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.isolation.level' = 'read_committed',
  'properties.sasl.mechanism' = 'SCRAM-SHA-512',
  'properties.security.protocol' = 'SASL_SSL',
  'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="${SHAPES_SECRET}";',
  'scan.startup.mode' = 'timestamp',
  'scan.startup.timestamp-millis' = '1767225600000',
  'scan.topic-partition-discovery.interval' = '60000 ms',
  'key.format' = 'raw',
  'key.fields' = '_key',
  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY',
  'scan.watermark.emit.strategy' = 'on-event',
  'scan.watermark.idle-timeout' = '90000 ms',
  'scan.watermark.alignment.group' = 'web',
  'scan.watermark.alignment.max-drift' = '600000 ms',
  'scan.watermark.alignment.update-interval' = '1 s'
);
CREATE TEMPORARY VIEW `web` AS
SELECT
  `id`,
  `user`.`home`.`city` AS `city`,
  `user`.`name` AS `user_name`,
  `price`,
  `count`,
  `weight`,
  CASE WHEN SUBSTRING(`day`, 5, 1) = '-' THEN CAST(`day` AS DATE) ELSE TIMESTAMPADD(DAY, CAST(`day` AS INT), DATE '1970-01-01') END AS `day`,
  CASE WHEN `at` LIKE '%Z' THEN CAST(CAST(REPLACE(REPLACE(`at`, 'T', ' '), 'Z', '') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) ELSE CAST(CAST(DATE_FORMAT(TO_TIMESTAMP_LTZ((CAST(`at` AS BIGINT) - MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000)) / 1000000, 0), 'yyyy-MM-dd HH:mm:ss') || '.' || LPAD(CAST(MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000) AS STRING), 6, '0') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) END AS `at`,
  CASE WHEN SUBSTRING(`local`, 5, 1) = '-' THEN CAST(REPLACE(`local`, 'T', ' ') AS TIMESTAMP(6)) ELSE CAST(CAST(TO_TIMESTAMP_LTZ(CAST(`local` AS BIGINT), 3) AS TIMESTAMP_LTZ(6)) AS TIMESTAMP(6)) END AS `local`,
  `_offset` AS `place`,
  DECODE(`_key`, 'UTF-8') AS `key`,
  `_headers`['trace'] AS `trace`,
  `_topic`,
  `_partition`,
  `_offset`,
  `_time`
FROM `web.log`
WHERE CASE
  WHEN `id` IS NULL THEN CAST('no id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `user`.`name` IS NULL THEN CAST('no user_name: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `price` IS NULL THEN CAST('no price: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN CASE WHEN SUBSTRING(`day`, 5, 1) = '-' THEN CAST(`day` AS DATE) ELSE TIMESTAMPADD(DAY, CAST(`day` AS INT), DATE '1970-01-01') END IS NULL THEN CAST('no day: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `_time` IS NULL THEN CAST('no at: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `_timestamp_type` <> 'NoTimestampType' AND `_time` > CAST(`_timestamp` AS TIMESTAMP(3)) + INTERVAL '36' HOUR THEN CAST('event time too far ahead of the log timestamp: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  ELSE TRUE END;

-- [source.shop]
-- start: where the log has lost records that a restored job wants to read, Flink goes on at another offset without a word. floodmark
--   refuses
-- format: Flink's json is more lenient. It takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null
--   where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings; text of a time needs its seconds,
--   and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error
CREATE TEMPORARY TABLE `shop.log` (
  `id` STRING,
  `user` ROW<`home` ROW<`city` STRING>, `name` STRING>,
  `price` DECIMAL(10, 2),
  `count` INT,
  `weight` DOUBLE,
  `day` STRING,
  `at` STRING,
  `local` STRING,
  `_topic` STRING NOT NULL METADATA FROM 'topic' VIRTUAL,
  `_partition` INT NOT NULL METADATA FROM 'partition' VIRTUAL,
  `_offset` BIGINT NOT NULL METADATA FROM 'offset' VIRTUAL,
  `_timestamp` TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'timestamp' VIRTUAL,
  `_timestamp_type` STRING NOT NULL METADATA FROM 'timestamp-type' VIRTUAL,
  `_key` BYTES,
  `_headers` MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL,
  `_time` AS CAST(`_timestamp` AS TIMESTAMP(3)),
  WATERMARK FOR `_time` AS `_time` - INTERVAL '0.001' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'shop',
  'properties.bootstrap.servers' = 'localhost:9092',
  'properties.isolation.level' = 'read_committed',
  'scan.startup.mode' = 'specific-offsets',
  'scan.startup.specific-offsets' = 'partition:0,offset:17;partition:1,offset:4',
  'scan.topic-partition-discovery.interval' = '60000 ms',
  'key.format' = 'raw',
  'key.fields' = '_key',
  'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY',
  'scan.watermark.emit.strategy' = 'on-event'
);
CREATE TEMPORARY VIEW `shop` AS
SELECT
  `id`,
  `user`.`home`.`city` AS `city`,
  `user`.`name` AS `user_name`,
  `price`,
  `count`,
  `weight`,
  CASE WHEN SUBSTRING(`day`, 5, 1) = '-' THEN CAST(`day` AS DATE) ELSE TIMESTAMPADD(DAY, CAST(`day` AS INT), DATE '1970-01-01') END AS `day`,
  CASE WHEN `at` LIKE '%Z' THEN CAST(CAST(REPLACE(REPLACE(`at`, 'T', ' '), 'Z', '') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) ELSE CAST(CAST(DATE_FORMAT(TO_TIMESTAMP_LTZ((CAST(`at` AS BIGINT) - MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000)) / 1000000, 0), 'yyyy-MM-dd HH:mm:ss') || '.' || LPAD(CAST(MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000) AS STRING), 6, '0') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) END AS `at`,
  CASE WHEN SUBSTRING(`local`, 5, 1) = '-' THEN CAST(REPLACE(`local`, 'T', ' ') AS TIMESTAMP(6)) ELSE CAST(CAST(TO_TIMESTAMP_LTZ(CAST(`local` AS BIGINT), 3) AS TIMESTAMP_LTZ(6)) AS TIMESTAMP(6)) END AS `local`,
  `_offset` AS `place`,
  DECODE(`_key`, 'UTF-8') AS `key`,
  `_headers`['trace'] AS `trace`,
  `_topic`,
  `_partition`,
  `_offset`,
  `_time`
FROM `shop.log`
WHERE CASE
  WHEN `id` IS NULL THEN CAST('no id: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `user`.`name` IS NULL THEN CAST('no user_name: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN `price` IS NULL THEN CAST('no price: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN CASE WHEN SUBSTRING(`day`, 5, 1) = '-' THEN CAST(`day` AS DATE) ELSE TIMESTAMPADD(DAY, CAST(`day` AS INT), DATE '1970-01-01') END IS NULL THEN CAST('no day: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  WHEN CASE WHEN `at` LIKE '%Z' THEN CAST(CAST(REPLACE(REPLACE(`at`, 'T', ' '), 'Z', '') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) ELSE CAST(CAST(DATE_FORMAT(TO_TIMESTAMP_LTZ((CAST(`at` AS BIGINT) - MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000)) / 1000000, 0), 'yyyy-MM-dd HH:mm:ss') || '.' || LPAD(CAST(MOD(MOD(CAST(`at` AS BIGINT), 1000000) + 1000000, 1000000) AS STRING), 6, '0') AS TIMESTAMP(6)) AS TIMESTAMP_LTZ(6)) END IS NULL THEN CAST('no at: ' || `_topic` || ' ' || CAST(`_partition` AS STRING) || ' offset ' || CAST(`_offset` AS STRING) AS BOOLEAN)
  ELSE TRUE END;

-- [dedup.clean]
-- horizon: Flink's dedup forgets nothing, so its state grows for ever and no record is too old. To forget after a time on the clock, set
--   table.exec.state.ttl: then a duplicate that comes later passes as new
-- discard: Flink doesn't count the rows of an output that nobody takes
CREATE TEMPORARY VIEW `clean.input` AS
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_time`
FROM `web`
UNION ALL
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_time`
FROM `shop`;
CREATE TEMPORARY VIEW `clean.arrived` AS
SELECT *, PROCTIME() AS `_arrival`
FROM `clean.input`;
CREATE TEMPORARY VIEW `clean.counted` AS
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_time`,
  COUNT(*) OVER copies AS `_copy`,
  FIRST_VALUE(`_topic`) OVER copies AS `_first_topic`,
  FIRST_VALUE(`_partition`) OVER copies AS `_first_partition`,
  FIRST_VALUE(`_offset`) OVER copies AS `_first_offset`
FROM `clean.arrived`
WINDOW copies AS (PARTITION BY `id`, `user_name` ORDER BY `_arrival` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW);
CREATE TEMPORARY VIEW `clean` AS
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_time`
FROM `clean.counted`
WHERE `_copy` = 1;
CREATE TEMPORARY VIEW `clean.duplicates` AS
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_first_topic`, `_first_partition`, `_first_offset`
FROM `clean.counted`
WHERE `_copy` > 1;

-- [window.hops]
-- aggregates: a sum of decimals beyond 38 digits goes wrong without a word. With floodmark its window goes to the errors output
-- aggregates: integers are summed as DECIMAL and compared with the range of BIGINT: Flink's SUM(BIGINT) and its cast to BIGINT wrap
--   silently
CREATE TEMPORARY VIEW `clean.judged` AS
SELECT *,
  CURRENT_WATERMARK(`_time`) + INTERVAL '0.001' SECOND AS `_watermark`,
  COALESCE(`_time` <= CURRENT_WATERMARK(`_time`) + INTERVAL '0.001' SECOND, FALSE) AS `_late`
FROM `clean`;
CREATE TEMPORARY VIEW `hops.on_time` AS
SELECT *
FROM `clean.judged`
WHERE NOT `_late`;
CREATE TEMPORARY VIEW `hops.all` AS
SELECT `window_start`, `window_end`, `city`, `day`,
  COUNT(*) AS `n`,
  COUNT(`count`) AS `priced`,
  SUM(CAST(`count` AS DECIMAL(19, 0))) AS `total`,
  COUNT(`count`) AS `_count_2`,
  SUM(`price`) AS `turnover`,
  SUM(`price`) / COUNT(`price`) AS `mean`,
  SUM(CAST(`count` AS DECIMAL(19, 0))) / COUNT(`count`) AS `mean_count`,
  MAX(`weight`) AS `most`,
  MIN(`at`) AS `first`
FROM TABLE(HOP(TABLE `hops.on_time`, DESCRIPTOR(`_time`), INTERVAL '90' SECOND, INTERVAL '12' MINUTE))
GROUP BY `window_start`, `window_end`, `city`, `day`;
CREATE TEMPORARY VIEW `hops` AS
SELECT
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `window_end`,
  `city`, `day`,
  `n`,
  `priced`,
  CAST(`total` AS BIGINT) AS `total`,
  CAST(`turnover` AS DECIMAL(38, 2)) AS `turnover`,
  CAST(`mean` AS DECIMAL(38, 6)) AS `mean`,
  CAST(`mean_count` AS DECIMAL(38, 6)) AS `mean_count`,
  `most`,
  `first`
FROM `hops.all`
WHERE NOT (`total` IS NOT NULL AND `total` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0)));
CREATE TEMPORARY VIEW `hops.errors` AS
SELECT
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `window_end`,
  `city`, `day`,
  'hops' AS `_window_node`,
  'overflow' AS `_reason`,
  CASE WHEN `total` IS NOT NULL AND `total` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0)) THEN 'sum: a total of ' || CAST(`total` AS STRING) || ' over ' || CAST(`_count_2` AS STRING) || ' values doesn''t fit int64' END AS `_detail`
FROM `hops.all`
WHERE `total` IS NOT NULL AND `total` NOT BETWEEN CAST('-9223372036854775808' AS DECIMAL(38, 0)) AND CAST('9223372036854775807' AS DECIMAL(38, 0));
CREATE TEMPORARY VIEW `hops.too_late` AS
SELECT *
FROM `clean.judged`
WHERE `_late`;
CREATE TEMPORARY VIEW `hops.late` AS
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`,
  CAST(`_watermark` AS TIMESTAMP_LTZ(6)) AS `_watermark`,
  'hops' AS `_window_node`,
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `_window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `_window_end`,
  'late' AS `_reason`
FROM TABLE(HOP(TABLE `hops.too_late`, DESCRIPTOR(`_time`), INTERVAL '90' SECOND, INTERVAL '12' MINUTE));

-- [window.all]
CREATE TEMPORARY VIEW `all.on_time` AS
SELECT *
FROM `clean.judged`
WHERE NOT `_late`;
CREATE TEMPORARY VIEW `all.all` AS
SELECT `window_start`, `window_end`,
  COUNT(*) AS `n`
FROM TABLE(TUMBLE(TABLE `all.on_time`, DESCRIPTOR(`_time`), INTERVAL '1.500' SECOND))
GROUP BY `window_start`, `window_end`;
CREATE TEMPORARY VIEW `all` AS
SELECT
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `window_end`,
  `n`
FROM `all.all`;
CREATE TEMPORARY VIEW `all.too_late` AS
SELECT *
FROM `clean.judged`
WHERE `_late`;
CREATE TEMPORARY VIEW `all.late` AS
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`,
  CAST(`_watermark` AS TIMESTAMP_LTZ(6)) AS `_watermark`,
  'all' AS `_window_node`,
  CAST(`window_start` AS TIMESTAMP_LTZ(6)) AS `_window_start`,
  CAST(`window_end` AS TIMESTAMP_LTZ(6)) AS `_window_end`,
  'late' AS `_reason`
FROM TABLE(TUMBLE(TABLE `all.too_late`, DESCRIPTOR(`_time`), INTERVAL '1.500' SECOND));

-- [sink.lake]
-- sort: Flink's SQL can't give a table a sort order, and its writer doesn't sort
-- commit_interval: Flink commits at every checkpoint, every 10s
CREATE DATABASE IF NOT EXISTS `lake`.`eu`;
CREATE TABLE IF NOT EXISTS `lake`.`eu`.`events` (
  `id` STRING NOT NULL,
  `city` STRING,
  `user_name` STRING NOT NULL,
  `price` DECIMAL(10, 2) NOT NULL,
  `count` INT,
  `weight` DOUBLE,
  `day` DATE NOT NULL,
  `at` TIMESTAMP_LTZ(6) NOT NULL,
  `local` TIMESTAMP(6),
  `place` BIGINT NOT NULL,
  `key` STRING,
  `trace` BYTES
) PARTITIONED BY (`city`) WITH (
  'format-version' = '2',
  'write.target-file-size-bytes' = '67108864',
  'flink.max-continuous-empty-commits' = '20',
  'write.metadata.delete-after-commit.enabled' = 'true'
);

-- [sink.twice]
-- type: printed by the TaskManagers, into their output
CREATE TEMPORARY TABLE `twice` (
  `id` STRING NOT NULL,
  `city` STRING,
  `user_name` STRING NOT NULL,
  `price` DECIMAL(10, 2) NOT NULL,
  `count` INT,
  `weight` DOUBLE,
  `day` DATE NOT NULL,
  `at` TIMESTAMP_LTZ(6) NOT NULL,
  `local` TIMESTAMP(6),
  `place` BIGINT NOT NULL,
  `key` STRING,
  `trace` BYTES,
  `_topic` STRING NOT NULL,
  `_partition` INT NOT NULL,
  `_offset` BIGINT NOT NULL,
  `_first_topic` STRING NOT NULL,
  `_first_partition` INT NOT NULL,
  `_first_offset` BIGINT NOT NULL
) WITH (
  'connector' = 'print',
  'print-identifier' = 'twice'
);

-- [sink.hops_out]
-- dir: files lie in a folder of the sink's name below it, named by Flink, without marks: what is read of them before a checkpoint completes
--   may be written again
CREATE TEMPORARY TABLE `hops_out` (
  `window_start` TIMESTAMP_LTZ(6) NOT NULL,
  `window_end` TIMESTAMP_LTZ(6) NOT NULL,
  `city` STRING,
  `day` DATE NOT NULL,
  `n` BIGINT NOT NULL,
  `priced` BIGINT NOT NULL,
  `total` BIGINT,
  `turnover` DECIMAL(38, 2) NOT NULL,
  `mean` DECIMAL(38, 6) NOT NULL,
  `mean_count` DECIMAL(38, 6),
  `most` DOUBLE,
  `first` TIMESTAMP_LTZ(6) NOT NULL
) WITH (
  'connector' = 'filesystem',
  'path' = 's3://bucket/out/hops_out',
  'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601',
  'json.encode.decimal-as-plain-number' = 'true',
  'sink.rolling-policy.rollover-interval' = '10000 ms',
  'sink.rolling-policy.check-interval' = '10000 ms'
);

-- [sink.overflows]
-- type: printed by the TaskManagers, into their output
CREATE TEMPORARY TABLE `overflows` (
  `window_start` TIMESTAMP_LTZ(6) NOT NULL,
  `window_end` TIMESTAMP_LTZ(6) NOT NULL,
  `city` STRING,
  `day` DATE NOT NULL,
  `_window_node` STRING NOT NULL,
  `_reason` STRING NOT NULL,
  `_detail` STRING NOT NULL
) WITH (
  'connector' = 'print',
  'print-identifier' = 'overflows'
);

-- [sink.all_out]
-- type: printed by the TaskManagers, into their output
CREATE TEMPORARY TABLE `all_out` (
  `window_start` TIMESTAMP_LTZ(6) NOT NULL,
  `window_end` TIMESTAMP_LTZ(6) NOT NULL,
  `n` BIGINT NOT NULL
) WITH (
  'connector' = 'print',
  'print-identifier' = 'all_out'
);

-- [sink.late]
-- type: printed by the TaskManagers, into their output
CREATE TEMPORARY TABLE `late` (
  `id` STRING NOT NULL,
  `city` STRING,
  `user_name` STRING NOT NULL,
  `price` DECIMAL(10, 2) NOT NULL,
  `count` INT,
  `weight` DOUBLE,
  `day` DATE NOT NULL,
  `at` TIMESTAMP_LTZ(6) NOT NULL,
  `local` TIMESTAMP(6),
  `place` BIGINT NOT NULL,
  `key` STRING,
  `trace` BYTES,
  `_topic` STRING NOT NULL,
  `_partition` INT NOT NULL,
  `_offset` BIGINT NOT NULL,
  `_watermark` TIMESTAMP_LTZ(6) NOT NULL,
  `_window_node` STRING NOT NULL,
  `_window_start` TIMESTAMP_LTZ(6),
  `_window_end` TIMESTAMP_LTZ(6),
  `_reason` STRING NOT NULL
) WITH (
  'connector' = 'print',
  'print-identifier' = 'late'
);

-- All sinks are one job: what they share is read and computed once.
BEGIN STATEMENT SET;
INSERT INTO `lake`.`eu`.`events`
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`
FROM `clean`;
INSERT INTO `twice`
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_first_topic`, `_first_partition`, `_first_offset`
FROM `clean.duplicates`;
INSERT INTO `hops_out`
SELECT `window_start`, `window_end`, `city`, `day`, `n`, `priced`, `total`, `turnover`, `mean`, `mean_count`, `most`, `first`
FROM `hops`;
INSERT INTO `overflows`
SELECT `window_start`, `window_end`, `city`, `day`, `_window_node`, `_reason`, `_detail`
FROM `hops.errors`;
INSERT INTO `all_out`
SELECT `window_start`, `window_end`, `n`
FROM `all`;
INSERT INTO `late`
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_watermark`, `_window_node`, `_window_start`, `_window_end`, `_reason`
FROM `hops.late`
UNION ALL
SELECT `id`, `city`, `user_name`, `price`, `count`, `weight`, `day`, `at`, `local`, `place`, `key`, `trace`, `_topic`, `_partition`, `_offset`, `_watermark`, `_window_node`, `_window_start`, `_window_end`, `_reason`
FROM `all.late`;
END;
