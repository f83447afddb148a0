//! The pipeline that was written by hand for Flink (compose/flink, `tuned`) gives floodmark's tables where no record is late, and loses none where
//! records are late: what is measured does the work.
use floodmark_stack::flink::Program;

use crate::rows::{ask, count};
use crate::{LIMIT, Stack, alone, clickstream};

#[test]
fn what_was_written_by_hand_for_flink_gives_floodmarks_tables() {
    let _alone = alone();
    let stack = Stack::start();
    let dials = ["--events", "20000", "--partitions", "2", "--poison", "0", "--late", "0", "--users", "500"];
    stack.generate("clickstream", "two", &dials);
    stack.both_run(&stack.write(&clickstream(&stack, "two", "")), &tuned(&stack));
    stack.are_equal(&["events", "per_type", "sessions", "late"]);
}

#[test]
fn what_was_written_by_hand_for_flink_counts_each_event_or_calls_it_late() {
    let _alone = alone();
    let stack = Stack::start();
    let dials = ["--events", "20000", "--partitions", "2", "--poison", "0", "--event-rate", "50", "--users", "500"];
    stack.generate("clickstream", "two", &dials);
    // So that there are watermarks while the few records are read.
    let tuned = tuned(&stack).with("pipeline.auto-watermark-interval", "1 ms");
    stack.cluster.run(&tuned, LIMIT).unwrap().wait_finished(LIMIT).unwrap();
    let sums = |of: &str| {
        let windows = format!("select events as n, coalesce(revenue_cents, 0) as cents from flinks.{of}");
        let late = "select 1, coalesce(price_cents, 0) from flinks.late";
        ask(&stack, &format!("select sum(n), sum(cents) from ({windows} union all {late})"))
    };
    let all = ask(&stack, "select count(distinct event_id), sum(price_cents) from flinks.events");
    assert_eq!((sums("per_type"), sums("sessions")), (all.clone(), all));
    assert_ne!(count(&stack, "select count(*) from flinks.late"), 0);
    assert_eq!(count(&stack, "select count(*) - count(distinct event_id) from flinks.events"), 0);
}

fn tuned(stack: &Stack) -> Program {
    let dials = [("bound", "5s"), ("size", "10s"), ("gap", "30s")];
    stack.program("floodmark.tuned.Tuned", "two", &dials).with("parallelism.default", "2")
}
