//! Every answer of the plan, reached.
use std::collections::BTreeMap;

use super::*;
use crate::ids::{Incarnation, PartitionName};
use crate::mark::RunningDigest;

fn epoch(checkpoint: u64) -> Epoch {
    Epoch { incarnation: Incarnation { number: 3, token: 30 }, checkpoint: CheckpointId(checkpoint) }
}

fn mark(epoch: Option<Epoch>) -> FoundMark {
    FoundMark::Here(Box::new(Mark {
        table_uuid: "t".into(),
        pipeline: "p".into(),
        sink: "lake".into(),
        epoch,
        fence: None,
        offsets: Offsets::default(),
        event_time_watermark: None,
        replay_from: Default::default(),
        digest: RunningDigest::default(),
    }))
}

fn sink(found: FoundMark, recorded: Option<Recorded>) -> SinkState {
    SinkState { name: "lake".into(), found, recorded, in_file: true, lost: vec![] }
}

fn recorded(base: Option<u64>, epochs: &[u64]) -> Option<Recorded> {
    let name = PartitionName { source: "events".into(), topic: "t".into(), partition: 0 };
    Some(Recorded {
        base: base.map(epoch),
        epochs: epochs.iter().copied().map(epoch).collect(),
        offsets: BTreeMap::from([(name, 120)]).into(),
    })
}

/// A start on manifest 7 with one sink.
fn on_seven(found: FoundMark, recorded: Option<Recorded>) -> Observed {
    let manifest = ManifestSummary {
        name: "manifests/3-7".into(),
        pipeline: "p".into(),
        checkpoint: CheckpointId(7),
        epoch: epoch(7),
    };
    let sinks = vec![sink(found, recorded)];
    Observed { pipeline: "p".into(), manifest: Some(manifest), sinks, ..Observed::default() }
}

fn holds(observed: &Observed) -> (Option<Epoch>, usize) {
    match plan(observed) {
        Plan::Resume { sinks, .. } => (sinks[0].base, sinks[0].holds),
        other => panic!("{other:?}"),
    }
}

fn said(observed: &Observed) -> String {
    told(&[refused(observed)], "p.toml")
}

fn refused(observed: &Observed) -> Refusal {
    match plan(observed) {
        Plan::Refuse(mut refusals) => refusals.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_found_starts_fresh() {
    let observed = Observed { sinks: vec![sink(FoundMark::Absent, None)], ..Observed::default() };
    assert!(matches!(plan(&observed), Plan::StartFresh { .. }));
    let empty_table = Observed { sinks: vec![sink(mark(None), None)], ..Observed::default() };
    assert!(matches!(plan(&empty_table), Plan::StartFresh { .. }));
}

#[test]
fn a_table_with_epochs_and_no_manifest_is_never_a_fresh_start() {
    let mut observed = Observed { sinks: vec![sink(mark(Some(epoch(4))), None)], ..Observed::default() };
    assert!(matches!(refused(&observed), Refusal::StateLost { .. }));
    observed.accept_gap = vec!["lake".into()];
    let Plan::StartFresh { sinks } = plan(&observed) else { panic!("accepted") };
    assert_eq!(sinks[0].base, Some(epoch(4)), "the next commit follows what is there");
}

#[test]
fn epochs_that_the_sink_holds_are_not_committed_again() {
    let list = || recorded(Some(4), &[5, 6, 7]);
    assert_eq!(holds(&on_seven(mark(Some(epoch(4))), list())), (Some(epoch(4)), 0));
    assert_eq!(holds(&on_seven(mark(Some(epoch(6))), list())), (Some(epoch(6)), 2));
    assert_eq!(holds(&on_seven(mark(Some(epoch(7))), list())), (Some(epoch(7)), 3));
}

#[test]
fn an_empty_mark_is_the_base_only_while_nothing_was_committed() {
    assert_eq!(holds(&on_seven(mark(None), recorded(None, &[5, 6, 7]))), (None, 0));
    assert_eq!(holds(&on_seven(FoundMark::Absent, recorded(None, &[5, 6, 7]))), (None, 0));
    for found in [mark(None), FoundMark::Absent] {
        let refusal = refused(&on_seven(found, recorded(Some(4), &[5, 6, 7])));
        assert!(matches!(refusal, Refusal::SinkBehind { found: None, .. }), "{refusal:?}");
    }
}

#[test]
fn a_sink_behind_is_refused_with_the_gap_unless_accepted() {
    let mut observed = on_seven(mark(Some(epoch(2))), recorded(Some(4), &[5, 6, 7]));
    let refusal = said(&observed);
    assert!(refusal.starts_with("the table is behind the state\n  sink lake should hold checkpoint 4"), "{refusal}");
    assert!(refusal.contains("events:t-0 up to 120"), "{refusal}");
    observed.accept_gap = vec!["lake".into()];
    assert_eq!(holds(&observed), (Some(epoch(2)), 0));
}

#[test]
fn a_sink_ahead_is_refused() {
    let observed = on_seven(mark(Some(epoch(19))), recorded(Some(4), &[5, 6, 7]));
    assert!(matches!(refused(&observed), Refusal::SinkAhead { .. }));
    assert!(said(&observed).starts_with("the table is ahead of the state\n  sink lake holds checkpoint 19"));
}

#[test]
fn an_equal_number_of_another_start_is_ahead_or_behind_but_never_ours() {
    let twin = Epoch { incarnation: Incarnation { number: 3, token: 31 }, checkpoint: CheckpointId(6) };
    assert!(matches!(refused(&on_seven(mark(Some(twin)), recorded(Some(4), &[5, 6, 7]))), Refusal::SinkBehind { .. }));
    let of_the_newest = Epoch { checkpoint: CheckpointId(7), ..twin };
    let refusal = refused(&on_seven(mark(Some(of_the_newest)), recorded(Some(4), &[5, 6, 7])));
    assert!(matches!(refusal, Refusal::SinkBehind { .. }), "it is no checkpoint newer than those known: {refusal:?}");
}

#[test]
fn a_sink_new_to_the_manifest_must_be_new_to_the_table_too() {
    assert_eq!(holds(&on_seven(FoundMark::Absent, None)), (None, 0));
    assert!(matches!(refused(&on_seven(mark(Some(epoch(9))), None)), Refusal::SinkAhead { .. }));
}

#[test]
fn a_table_of_another_pipeline_is_written_into_only_if_asked() {
    let found = || FoundMark::OfAnother { pipeline: "old".into(), epoch: epoch(3) };
    let mut fresh = Observed { sinks: vec![sink(found(), None)], ..Observed::default() };
    assert!(matches!(refused(&fresh), Refusal::AnotherPipeline { .. }));
    fresh.accept_gap = vec!["lake".into()];
    assert!(matches!(plan(&fresh), Plan::StartFresh { .. }));
    // A sink added to a job that runs, and one that has committed nothing yet.
    for recorded in [None, recorded(None, &[5])] {
        let mut observed = on_seven(found(), recorded);
        assert!(matches!(refused(&observed), Refusal::AnotherPipeline { .. }));
        observed.accept_gap = vec!["lake".into()];
        assert_eq!(holds(&observed), (None, 0));
    }
    // What was ours there is gone: another has made the table again.
    assert!(matches!(refused(&on_seven(found(), recorded(Some(4), &[5]))), Refusal::SinkBehind { .. }));
}

#[test]
fn a_sink_that_was_left_out_for_a_while_is_told_from_one_that_ran_ahead() {
    let mut observed = on_seven(mark(Some(epoch(3))), None);
    let refusal = said(&observed);
    assert!(refusal.starts_with("the table holds rows from before its sink was left out of the file\n"), "{refusal}");
    observed.accept_gap = vec!["lake".into()];
    assert_eq!(holds(&observed), (Some(epoch(3)), 0));
}

#[test]
fn a_table_of_other_columns_is_refused_and_an_edit_that_explains_it_is_told_first() {
    let found = || FoundMark::Differs("shop.events: column `a` is not in the table".into());
    let fresh = Observed { sinks: vec![sink(found(), None)], ..Observed::default() };
    assert!(matches!(refused(&fresh), Refusal::Table { .. }));
    let mut observed = on_seven(found(), recorded(None, &[5]));
    assert!(matches!(refused(&observed), Refusal::Table { .. }));
    let (node, key) = ("events".into(), "schema.a".into());
    let (was, is, resettable) = ("not set".into(), "string".into(), false);
    observed.edits = vec![Edit::Changed { node, line: 3, key, was, is, resettable }];
    assert!(matches!(refused(&observed), Refusal::NodeChanged { .. }));
}

#[test]
fn state_that_is_not_whole_is_refused() {
    let mut observed = on_seven(mark(None), recorded(None, &[5]));
    observed.state_problems = vec!["state/x: missing".into()];
    assert_eq!(refused(&observed), Refusal::State("state/x: missing".into()));
    observed.state_problems = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
    assert_eq!(refused(&observed), Refusal::State("a\n  b\n  c\n  and 2 files more".into()), "one refusal for all");
}

#[test]
fn a_table_rolled_back_is_refused_even_without_a_manifest() {
    let found = || FoundMark::RolledBack("snapshot 12 is gone".into());
    assert!(matches!(refused(&on_seven(found(), recorded(Some(4), &[5]))), Refusal::RolledBack { .. }));
    let lost = Observed { sinks: vec![sink(found(), None)], ..Observed::default() };
    assert!(matches!(refused(&lost), Refusal::RolledBack { .. }));
}

#[test]
fn a_retired_sink_that_is_away_keeps_its_rows_until_they_are_given_up() {
    let mut observed = on_seven(FoundMark::Unreachable("connection refused".into()), recorded(Some(4), &[5, 6]));
    assert!(matches!(refused(&observed), Refusal::RetiredUnreachable { pending: 2, .. }));
    observed.forget = vec!["lake".into()];
    assert_eq!(holds(&observed), (Some(epoch(4)), 2));
}

#[test]
fn a_sink_without_marks_goes_on_from_the_list() {
    assert_eq!(holds(&on_seven(FoundMark::NoMark, recorded(Some(4), &[5, 6]))), (Some(epoch(4)), 0));
}

#[test]
fn another_pipelines_manifest_is_refused() {
    let mut observed = on_seven(mark(None), recorded(None, &[]));
    observed.pipeline = "q".into();
    assert!(matches!(refused(&observed), Refusal::OtherPipeline { .. }));
}

#[test]
fn an_edited_file_is_compared_node_by_node() {
    let mut observed = on_seven(mark(None), recorded(None, &[5]));
    observed.edits = vec![
        Edit::Added { node: "per_hour".into() },
        Edit::Removed { node: "old".into(), is_sink: true },
        Edit::Removed { node: "window".into(), is_sink: false },
        Edit::Reset { node: "clean".into() },
    ];
    let Plan::Resume { added, retire, reset, from, .. } = plan(&observed) else { panic!("compatible") };
    assert_eq!((added, retire, reset), (vec!["per_hour".into()], vec!["old".into()], vec!["clean".into()]));
    assert_eq!(from, CheckpointId(7));
    observed.edits.push(changed(true));
    let refusal = said(&observed);
    assert!(refusal.contains("node clean is not what its state was made by (line 12)\n  horizon was 24h, and is 1h"));
}

fn changed(resettable: bool) -> Edit {
    let (node, key, was, is) = ("clean".into(), "horizon".into(), "24h".into(), "1h".into());
    Edit::Changed { node, line: 12, key, was, is, resettable }
}

#[test]
fn a_reset_is_a_way_on_only_where_there_is_state_to_leave_behind() {
    let mut observed = on_seven(mark(None), recorded(None, &[5]));
    for resettable in [true, false] {
        observed.edits = vec![changed(resettable)];
        assert_eq!(said(&observed).contains("floodmark run p.toml --reset clean "), resettable);
    }
}

#[test]
fn a_log_that_is_not_the_one_that_was_read_is_refused() {
    let mut observed = on_seven(mark(None), recorded(None, &[5]));
    observed.log_problems = vec!["events:t-0: offset 12 is no longer in the log, which begins at 40".into()];
    assert!(matches!(refused(&observed), Refusal::Log(_)));
}

#[test]
fn rows_that_wait_and_can_not_be_read_are_given_up_only_if_asked() {
    let mut observed = on_seven(mark(Some(epoch(5))), recorded(Some(4), &[5, 6, 7]));
    observed.sinks[0].lost = vec![(epoch(6), "segments/6-0: missing".into())];
    let refusal = said(&observed);
    assert_eq!(
        refusal,
        "rows that wait for a sink can't be read\n  sink lake: segments/6-0: missing\n  choose: bring the file back from a copy of the checkpoint directory\n          floodmark run p.toml --accept-gap lake   go on, and leave these rows out for ever"
    );
    observed.accept_gap = vec!["lake".into()];
    assert_eq!(holds(&observed), (Some(epoch(5)), 1));
    let Plan::Resume { sinks, .. } = plan(&observed) else { panic!("accepted") };
    assert_eq!(sinks[0].without, [epoch(6)], "and no other");
    observed.accept_gap.clear();
    observed.sinks[0].in_file = false;
    assert!(said(&observed).contains("floodmark run p.toml --forget lake "));
}
