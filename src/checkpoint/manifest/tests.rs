//! A manifest survives its bytes, and bytes that were torn or changed are no manifest.
use proptest::prelude::*;

use super::*;

/// A manifest with something in every field.
pub fn manifest(number: u64, checkpoint: u64) -> Manifest {
    let incarnation = Incarnation { number, token: u128::from(number) << 100 };
    let name = |topic: &str| PartitionName { source: "events".into(), topic: topic.into(), partition: 2 };
    let epoch = Epoch { incarnation, checkpoint: CheckpointId(checkpoint) };
    let watermark = PartitionWatermark {
        max_seen: Some(EventTime(-5)),
        bound: Span(0),
        floor: Some(Floor { watermark: EventTime(-9), cause: WatermarkCause::Returned }),
    };
    let from = ReplayFrom { offset: 3, watermark: None };
    let partition = |topic, status| PartitionRecord {
        name: name(topic),
        identity: "id".into(),
        begin: 11,
        position: Position { offset: 17, resume: vec![1, 2] },
        time: PartitionTime::new(watermark, BTreeMap::from([(-2, from)])),
        status,
        end: Some(40),
    };
    let pending = PendingEpoch {
        epoch,
        commit_id: 99,
        segments: vec![SegmentRef { path: "segments/x".into(), offset: 5, length: 6, rows: 7, digest: Some(1 << 80) }],
        offsets: BTreeMap::from([(name("a"), 17)]).into(),
        event_time_watermark: Some(EventTime(4)),
        replay_from: BTreeMap::from([(name("a"), from)]).into(),
    };
    Manifest {
        pipeline: "shop".into(),
        incarnation,
        checkpoint: CheckpointId(checkpoint),
        created_ms: 1,
        max_parallelism: 128,
        partitions: vec![partition("a", Status::Live), partition("b", Status::Ended)],
        nodes: vec![NodeRecord {
            name: "clean".into(),
            fingerprint: BTreeMap::from([("horizon".into(), "24h".into())]).into(),
            line: 12,
            watermark: Some(EventTime(4)),
            fired_floor: None,
            counters: NodeCounters { records_in: 9, duplicates: 2, ..NodeCounters::default() },
            state: StateDigest { entries: 7, sum: u128::MAX },
        }],
        state: vec![vec![StateFileRecord {
            name: "1.sst".into(),
            path: "state/y".into(),
            length: 8,
            digest: 1 << 90,
            immutable: true,
        }]],
        state_digest: u128::MAX,
        sinks: vec![SinkRecord {
            name: "lake".into(),
            base: Some(epoch),
            epochs: vec![pending],
            definition: "d".into(),
        }],
        decisions: vec![Decision {
            checkpoint: CheckpointId(2),
            partition: PartitionIndex(1),
            kind: DecisionKind::Ended,
            offset: 17,
            watermark: Some(EventTime(4)),
        }],
        settings: BTreeMap::from([("workers".into(), "2".into())]),
        restored_from: Some("manifests/z".into()),
    }
}

#[test]
fn what_is_written_is_read() {
    let manifest = manifest(3, 7);
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
}

#[test]
fn a_torn_or_changed_manifest_is_none() {
    let bytes = manifest(3, 7).encode();
    for length in 0..bytes.len() {
        assert_eq!(Manifest::decode(&bytes[..length]), Err(Unreadable::Torn), "cut at {length}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(Manifest::decode(&changed), Err(Unreadable::Torn), "changed at {at}");
    }
}

#[test]
fn an_object_that_is_needed_is_named() {
    assert_eq!(manifest(3, 7).objects().collect::<Vec<_>>(), ["state/y", "segments/x"]);
}

proptest! {
    /// The digest keeps out what was torn; what was written wrongly must not bring a start down either.
    #[test]
    fn bytes_with_the_right_digest_are_a_manifest_or_an_error(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec(any::<u8>(), 0..8),
        is_cut in any::<bool>(),
    ) {
        let mut content = manifest(3, 7).encode();
        content.truncate(content.len() - DIGEST_BYTES);
        let at = at.index(content.len());
        content.iter_mut().skip(at).zip(&changes).for_each(|(byte, change)| *byte = *change);
        content.truncate(if is_cut { at } else { content.len() });
        let digest = xxh3_128(&content);
        content.extend(digest.to_le_bytes());
        let _ = Manifest::decode(&content).map(|manifest| manifest.objects().count());
    }
}
