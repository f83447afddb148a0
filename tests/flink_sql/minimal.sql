-- Pipeline `minimal` as a job of Apache Flink 1.20, printed by `floodmark flink-sql`.
-- What differs from floodmark stands above the statement that it concerns, by the key of the pipeline file.

-- [pipeline]
-- workers: not given, so the cluster's parallelism.default holds
SET 'pipeline.name' = 'minimal';
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
SET 'table.exec.uid.format' = 'minimal_<id>_<transformation>';

-- [source.lines]
-- path: records of late rows have no line number here: their _offset is -1
-- format: Flink's json is more lenient. It takes numbers in quotes, cuts the fraction off an integer, rounds a decimal or makes it null
--   where it doesn't fit, takes what isn't `true` for false, and numbers, arrays and objects for strings; text of a time needs its seconds,
--   and `Z` as its zone. A record without value (a tombstone) is passed over silently. floodmark calls each of these an error
CREATE TEMPORARY TABLE `lines.log` (
  `id` BIGINT,
  `name` STRING,
  `_topic` STRING NOT NULL METADATA FROM 'file.path' VIRTUAL
) WITH (
  'connector' = 'filesystem',
  'path' = 'file:///here/data/lines.ndjson',
  'format' = 'json'
);
CREATE TEMPORARY VIEW `lines` AS
SELECT
  `id`,
  `name`,
  `_topic`,
  0 AS `_partition`,
  CAST(-1 AS BIGINT) AS `_offset`
FROM `lines.log`
WHERE CASE
  WHEN `id` IS NULL THEN CAST('no id: ' || `_topic` AS BOOLEAN)
  ELSE TRUE END;

-- [sink.out]
-- type: printed by the TaskManagers, into their output
CREATE TEMPORARY TABLE `out` (
  `id` BIGINT NOT NULL,
  `name` STRING
) WITH (
  'connector' = 'print',
  'print-identifier' = 'out'
);

-- All sinks are one job: what they share is read and computed once.
BEGIN STATEMENT SET;
INSERT INTO `out`
SELECT `id`, `name`
FROM `lines`;
END;
