//! One suite for all backends: whatever happens, memory, RocksDB with a budget far too small, and a naive map answer alike and have one digest.
//!
//! The workers of a world share the key groups; a crash brings all of them back from the last snapshot, perhaps in another number.
mod model;
mod world;

use floodmark_pipeline::state::Bucket;
use proptest::prelude::*;

use self::model::Model;
use self::world::World;
use crate::backend::BackendKind;

/// Ids are drawn from so few that most come again; buckets from those not expired.
#[derive(Clone, Debug)]
enum Step {
    Admit(Vec<(u16, i64)>),
    Expire(i64),
    Put(Vec<(u8, u8)>),
    Delete(Vec<u8>),
    ResetIds,
    ResetValues,
    Snapshot,
    Crash { workers: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((0..2_000u16, 1..8i64), 1..300).prop_map(Step::Admit),
        2 => (1..3i64).prop_map(Step::Expire),
        2 => prop::collection::vec((any::<u8>(), any::<u8>()), 1..60).prop_map(Step::Put),
        1 => prop::collection::vec(any::<u8>(), 1..30).prop_map(Step::Delete),
        1 => prop_oneof![Just(Step::ResetIds), Just(Step::ResetValues)],
        3 => Just(Step::Snapshot),
        1 => (1..4u16).prop_map(|workers| Step::Crash { workers }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn backends_and_a_map_can_not_be_told_apart(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps);
    }
}

fn run(steps: &[Step]) {
    let mut model = Model::default();
    let mut saved = model.clone();
    let mut worlds = [World::new(BackendKind::Memory, 1 << 20), World::new(BackendKind::Rocksdb, 40 << 10)];
    for step in steps {
        match step {
            Step::Admit(ids) => {
                let expected = model.admit(ids);
                for world in &mut worlds {
                    assert_eq!(world.admit(ids, model.expired), expected, "{:?}", world.kind);
                }
            }
            Step::Expire(buckets) => {
                model.expire(Bucket(model.expired.0 + buckets));
                worlds.iter_mut().for_each(|world| world.expire(model.expired));
            }
            Step::Put(entries) => {
                entries.iter().for_each(|(key, value)| model.put(*key, *value));
                worlds.iter_mut().for_each(|world| world.put(entries));
            }
            Step::Delete(keys) => {
                keys.iter().for_each(|key| model.delete(*key));
                worlds.iter_mut().for_each(|world| world.delete(keys));
            }
            Step::ResetIds => {
                model.reset_ids();
                worlds.iter_mut().for_each(World::reset_ids);
            }
            Step::ResetValues => {
                model.reset_values();
                worlds.iter_mut().for_each(World::reset_values);
            }
            Step::Snapshot => {
                saved = model.clone();
                for world in &mut worlds {
                    assert_eq!(world.snapshot(), model.digest(), "{:?}", world.kind);
                }
            }
            Step::Crash { workers } => {
                model = saved.clone();
                for world in &mut worlds {
                    world.crash(*workers);
                    assert_eq!(world.digest(), model.digest(), "{:?}", world.kind);
                    assert_eq!(world.values(), model.values(), "{:?}", world.kind);
                }
            }
        }
    }
}

#[test]
fn a_rescale_drops_entries_that_were_replaced_in_a_newer_bucket() {
    let ids: Vec<(u16, i64)> = (0..900).map(|id| (id, 1)).collect();
    let again: Vec<(u16, i64)> = (0..900).map(|id| (id, 6)).collect();
    run(&[
        Step::Admit(ids[..300].to_vec()),
        Step::Admit(ids[300..].to_vec()),
        Step::Snapshot,
        Step::Admit(again[..500].to_vec()),
        Step::Snapshot,
        Step::Crash { workers: 3 },
        Step::Admit(again[400..].to_vec()),
        Step::Snapshot,
        Step::Crash { workers: 2 },
        Step::Admit(again),
        Step::Expire(3),
        Step::Admit(ids.iter().map(|(id, _)| (*id, 2)).collect()),
        Step::Snapshot,
        Step::Crash { workers: 2 },
    ]);
}

#[test]
fn a_store_in_memory_comes_back_over_rocksdb_and_the_other_way() {
    let ids: Vec<(u16, i64)> = (0..1_500).map(|id| (id, i64::from(id % 5) + 1)).collect();
    let mut model = Model::default();
    let mut world = World::new(BackendKind::Memory, 4 << 20);
    model.admit(&ids);
    world.admit(&ids, model.expired);
    world.put(&[(1, 2), (3, 4)]);
    for kind in [BackendKind::Rocksdb, BackendKind::Memory, BackendKind::Rocksdb] {
        let before = world.snapshot();
        world.kind = kind;
        world.crash(2);
        assert_eq!(world.digest(), before);
        assert_eq!(world.admit(&ids, model.expired), model.admit(&ids));
    }
}

#[test]
fn a_snapshot_stays_whole_while_the_store_goes_on() {
    let ids: Vec<(u16, i64)> = (0..2_000).map(|id| (id, i64::from(id % 5) + 1)).collect();
    for (kind, budget) in [(BackendKind::Memory, 1 << 20), (BackendKind::Rocksdb, 40 << 10)] {
        let mut model = Model::default();
        let mut world = World::new(kind, budget);
        model.admit(&ids[..1_000]);
        world.admit(&ids[..1_000], model.expired);
        world.snapshot();
        world.admit(&ids[1_000..], model.expired);
        world.expire(Bucket(model.expired.0 + 3));
        world.snapshot_and_lose();
        world.crash(1);
        assert_eq!(world.digest(), model.digest(), "{kind:?}");
        assert_eq!(world.admit(&ids, model.expired), model.admit(&ids), "{kind:?}");
    }
}

#[test]
fn what_a_reset_node_remembered_does_not_come_back_with_a_restore() {
    let ids: Vec<(u16, i64)> = (0..1_200).map(|id| (id, i64::from(id % 5) + 1)).collect();
    for workers in [1, 2] {
        run(&[
            Step::Admit(ids[..800].to_vec()),
            Step::Put(vec![(1, 2), (3, 4)]),
            Step::Snapshot,
            Step::ResetIds,
            Step::Admit(ids[400..].to_vec()),
            Step::Snapshot,
            Step::Crash { workers },
            Step::Admit(ids.clone()),
            Step::ResetValues,
            Step::Put(vec![(3, 5)]),
            Step::Snapshot,
            Step::Crash { workers },
            Step::Snapshot,
        ]);
    }
}

#[test]
fn filters_of_quiet_buckets_come_back_and_deny_nothing_that_came_after_them() {
    let ids = |from: u16, to: u16, ahead| (from..to).map(|id| (id, ahead)).collect::<Vec<_>>();
    let mut steps = vec![];
    for bucket in 1..5u16 {
        steps.extend([Step::Admit(ids(bucket * 400, bucket * 400 + 300, i64::from(bucket))), Step::Snapshot]);
    }
    steps.extend([Step::Snapshot, Step::Crash { workers: 1 }]);
    // Late ones into an old bucket that has its filter in a file.
    steps.extend([Step::Admit(ids(700, 800, 1)), Step::Snapshot, Step::Crash { workers: 1 }]);
    steps.extend([Step::Admit(ids(0, 2_000, 5)), Step::Snapshot, Step::Snapshot, Step::Crash { workers: 1 }]);
    steps.extend([Step::Admit(ids(0, 2_000, 6)), Step::Snapshot]);
    run(&steps);
}
