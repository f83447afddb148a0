//! A mark as JSON, the form in which sinks keep it.
//!
//! Doesn't know: where it is kept. Keeps: what was written is read back equal, field by field; 128-bit numbers are hex text, since JSON
//! readers cut them. Tested: here.
use std::sync::Arc;

use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation, PartitionName};
use floodmark_pipeline::mark::{Mark, ReplayFrom, RunningDigest};
use floodmark_pipeline::time::EventTime;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MarkJson {
    table_uuid: String,
    pipeline: String,
    sink: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<EpochJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fence: Option<IncarnationJson>,
    #[serde(default)]
    offsets: Vec<OffsetJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event_time_watermark: Option<i64>,
    #[serde(default)]
    replay_from: Vec<OffsetJson>,
    rows: u64,
    digest: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct EpochJson {
    checkpoint_id: u64,
    incarnation: IncarnationJson,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct IncarnationJson {
    number: u64,
    token: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct OffsetJson {
    source: String,
    topic: String,
    partition: i32,
    offset: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    watermark: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a hexadecimal number of 128 bits")]
pub struct NotHex(String);

fn hex(text: String) -> Result<u128, NotHex> {
    u128::from_str_radix(&text, 16).map_err(|_| NotHex(text))
}

impl From<Incarnation> for IncarnationJson {
    fn from(incarnation: Incarnation) -> Self {
        Self { number: incarnation.number, token: format!("{:032x}", incarnation.token) }
    }
}

impl TryFrom<IncarnationJson> for Incarnation {
    type Error = NotHex;

    fn try_from(json: IncarnationJson) -> Result<Self, NotHex> {
        Ok(Self { number: json.number, token: hex(json.token)? })
    }
}

impl OffsetJson {
    fn new(partition: &PartitionName, offset: i64, watermark: Option<EventTime>) -> Self {
        let PartitionName { source, topic, partition } = partition;
        let (source, topic) = (source.to_string(), topic.to_string());
        Self { source, topic, partition: *partition, offset, watermark: watermark.map(|w| w.0) }
    }

    fn name(&self) -> PartitionName {
        PartitionName {
            source: self.source.as_str().into(),
            topic: self.topic.as_str().into(),
            partition: self.partition,
        }
    }
}

impl From<&Mark> for MarkJson {
    fn from(mark: &Mark) -> Self {
        let epoch = |e: Epoch| EpochJson { checkpoint_id: e.checkpoint.0, incarnation: e.incarnation.into() };
        Self {
            table_uuid: mark.table_uuid.clone(),
            pipeline: mark.pipeline.clone(),
            sink: mark.sink.clone(),
            epoch: mark.epoch.map(epoch),
            fence: mark.fence.map(Into::into),
            offsets: mark.offsets.iter().map(|(p, offset)| OffsetJson::new(p, *offset, None)).collect(),
            event_time_watermark: mark.event_time_watermark.map(|w| w.0),
            replay_from: mark.replay_from.iter().map(|(p, r)| OffsetJson::new(p, r.offset, r.watermark)).collect(),
            rows: mark.digest.rows,
            digest: format!("{:032x}", mark.digest.sum),
        }
    }
}

impl TryFrom<MarkJson> for Mark {
    type Error = NotHex;

    fn try_from(json: MarkJson) -> Result<Self, NotHex> {
        let epoch = |e: EpochJson| {
            Ok(Epoch { incarnation: e.incarnation.try_into()?, checkpoint: CheckpointId(e.checkpoint_id) })
        };
        let replay = |r: &OffsetJson| ReplayFrom { offset: r.offset, watermark: r.watermark.map(EventTime) };
        Ok(Self {
            table_uuid: json.table_uuid,
            pipeline: json.pipeline,
            sink: json.sink,
            epoch: json.epoch.map(epoch).transpose()?,
            fence: json.fence.map(TryInto::try_into).transpose()?,
            offsets: Arc::new(json.offsets.iter().map(|o| (o.name(), o.offset)).collect()),
            event_time_watermark: json.event_time_watermark.map(EventTime),
            replay_from: Arc::new(json.replay_from.iter().map(|r| (r.name(), replay(r))).collect()),
            digest: RunningDigest { rows: json.rows, sum: hex(json.digest)? },
        })
    }
}

/// A sink never written by us: no epoch, no fence.
pub fn unmarked(table_uuid: &str, pipeline: &str, sink: &str) -> Mark {
    Mark {
        table_uuid: table_uuid.to_owned(),
        pipeline: pipeline.to_owned(),
        sink: sink.to_owned(),
        epoch: None,
        fence: None,
        offsets: Default::default(),
        event_time_watermark: None,
        replay_from: Default::default(),
        digest: RunningDigest::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read_back(mark: &Mark) -> Mark {
        let text = serde_json::to_string(&MarkJson::from(mark)).unwrap();
        serde_json::from_str::<MarkJson>(&text).unwrap().try_into().unwrap()
    }

    #[test]
    fn a_mark_is_read_back_equal() {
        let incarnation = Incarnation { number: 7, token: u128::MAX - 5 };
        let partition = PartitionName { source: "events".into(), topic: "a.b".into(), partition: 3 };
        let mark = Mark {
            epoch: Some(Epoch { incarnation, checkpoint: CheckpointId(41) }),
            fence: Some(Incarnation { number: 8, token: 1 }),
            offsets: BTreeMap::from([(partition.clone(), 1_000)]).into(),
            event_time_watermark: Some(EventTime(-5)),
            replay_from: BTreeMap::from([(partition, ReplayFrom { offset: 900, watermark: Some(EventTime(12)) })])
                .into(),
            digest: RunningDigest { rows: 12, sum: u128::MAX },
            ..unmarked("uuid", "p", "s")
        };
        assert_eq!(read_back(&mark), mark);
    }

    #[test]
    fn no_epoch_and_no_fence_are_read_back_as_none() {
        let mark = unmarked("uuid", "p", "s");
        assert_eq!(read_back(&mark), mark);
    }
}
