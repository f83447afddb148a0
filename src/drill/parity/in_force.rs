//! Settings as the two running jobs tell them, and that those which decide what is compared are in force.
//!
//! Doesn't know: how they were set. Tested: tests/flink/main.rs.
use std::collections::BTreeMap;

use serde_json::Value;

use super::ParityError;
use super::paths::flink::Flink;
use super::paths::ours::Ours;
use super::services::{FLINK, OURS};
use crate::config::model::Pipeline;

pub fn read(flink: &Flink, ours: &Ours, pipeline: &Pipeline) -> Result<BTreeMap<&'static str, Value>, ParityError> {
    let (of_flink, status) = (flink.settings()?, ours.told());
    let checkpoints = &of_flink["job"]["checkpoints"];
    let (interval, workers) = (pipeline.settings.checkpoint_interval.as_millis() as u64, pipeline.settings.workers);
    let wanted = [
        ("Flink's checkpointing mode", &checkpoints["mode"], Value::from("exactly_once")),
        ("Flink's checkpointing interval", &checkpoints["interval"], interval.into()),
        ("Flink's parallelism", &of_flink["job"]["execution"]["job-parallelism"], workers.into()),
        ("floodmark's checkpoint interval", &status["settings"]["checkpoint.interval_ms"], interval.to_string().into()),
        ("floodmark's workers", &status["settings"]["workers"], workers.to_string().into()),
    ];
    for (what, found, wanted) in wanted {
        if *found != wanted {
            return Err(ParityError::NotInForce(format!("{what} is {found} instead of {wanted}")));
        }
    }
    let settings = status["settings"].clone();
    Ok([(FLINK, of_flink), (OURS, settings)].into())
}
