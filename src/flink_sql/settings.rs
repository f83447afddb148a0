//! `[pipeline]` as SET statements, with those that make Flink's results comparable.
//!
//! Doesn't know: nodes. Tested: flink_sql/tests.rs.
use super::job::Job;
use crate::config::model::StateBackend;

/// Those of every job, and why.
const FIXED: [(&str, &str); 12] = [
    ("execution.runtime-mode", "streaming"),
    ("execution.checkpointing.mode", "EXACTLY_ONCE"),
    // With unaligned ones rows of a restored job meet no watermark, and Iceberg's sink may lose rows.
    ("execution.checkpointing.unaligned.enabled", "false"),
    ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"),
    ("table.local-time-zone", "UTC"),
    // Dedup forgets nothing: Flink would forget by the clock.
    ("table.exec.state.ttl", "0 ms"),
    ("table.exec.mini-batch.enabled", "false"),
    ("table.optimizer.agg-phase-strategy", "ONE_PHASE"),
    // One dedup and one late predicate for all sinks. Without it each sink has its own, and a row may be late for one and on time for another.
    ("table.optimizer.reuse-optimize-block-with-digest-enabled", "true"),
    ("table.exec.sink.not-null-enforcer", "ERROR"),
    ("table.exec.legacy-cast-behaviour", "DISABLED"),
    ("table.exec.uid.generation", "ALWAYS"),
];

pub fn statements(job: &Job<'_>) -> Vec<String> {
    let (settings, plan) = (&job.pipeline.settings, job.plan());
    let mut set = vec![("pipeline.name", plan.pipeline.clone())];
    if job.is_given("pipeline", "workers") {
        set.push(("parallelism.default", settings.workers.to_string()));
    } else {
        job.note("pipeline", "workers", "not given, so the cluster's parallelism.default holds");
    }
    let backend = match settings.state {
        StateBackend::Memory => "hashmap",
        StateBackend::RocksDb => "rocksdb",
    };
    set.extend([
        ("pipeline.max-parallelism", plan.max_parallelism.to_string()),
        ("execution.checkpointing.interval", format!("{} ms", settings.checkpoint_interval.as_millis())),
        ("state.backend.type", backend.to_owned()),
        ("execution.checkpointing.incremental", (settings.state == StateBackend::RocksDb).to_string()),
    ]);
    set.extend(FIXED.map(|(key, value)| (key, value.to_owned())));
    set.push(("table.exec.uid.format", format!("{}_<id>_<transformation>", plan.pipeline)));
    set.into_iter().map(|(key, value)| format!("SET '{key}' = '{value}'")).collect()
}
