//! What a reader of the plan should know and can't see in it.
//!
//! Doesn't know: how the plan is drawn.
use floodmark_pipeline::plan::NodeKind;

use crate::config::model::{Pipeline, SourceConnector, StateBackend};
use crate::config::words::column_names;

pub fn of(pipeline: &Pipeline) -> Vec<String> {
    let mut notes = vec![];
    let plan = &pipeline.plan;
    for id in plan.ids() {
        let node = plan.node(id);
        match (&node.kind, pipeline.sources.get(&id)) {
            (NodeKind::Source(source), Some(config)) => {
                let from_kafka = matches!(config.connector, SourceConnector::Kafka(_));
                if from_kafka && source.max_future.is_some() {
                    notes.push(format!(
                        "{}: max_future compares with the log timestamp. On a topic with CreateTime that is the producer's clock, and the test is only as good as that",
                        node.name
                    ));
                }
                if from_kafka && source.event_time.is_some() && config.idle.is_none() {
                    notes.push(format!(
                        "{}: a partition without new records holds the watermark, and windows wait for it; `watermark = {{ idle = \"30s\" }}` lets them go on",
                        node.name
                    ));
                }
            }
            (NodeKind::Dedup(dedup), _) => {
                let key = plan.input_schema(id).map(|s| column_names(s, &dedup.key)).unwrap_or_default();
                notes.push(format!(
                    "{}: which copy stays is a function of the log when copies lie in one partition (records keyed by {key}); others are removed too, and counted",
                    node.name
                ));
            }
            _ => {}
        }
    }
    if pipeline.settings.state == StateBackend::Memory {
        notes.push("state = \"memory\": all keyed state has to fit in memory".into());
    }
    notes
}
