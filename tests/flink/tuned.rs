//! The pipeline that was written by hand for Flink (compose/flink, `tuned`) gives floodmark's tables where no record is late: what is measured does the work.
use crate::{Stack, alone, clickstream};

#[test]
fn what_was_written_by_hand_for_flink_gives_floodmarks_tables() {
    let _alone = alone();
    let stack = Stack::start();
    let dials = ["--events", "20000", "--partitions", "2", "--poison", "0", "--late", "0", "--users", "500"];
    stack.generate("clickstream", "two", &dials);
    let tuned = stack.program("floodmark.tuned.Tuned", "two", &[("bound", "5s"), ("size", "10s"), ("gap", "30s")]);
    stack.both_run(&stack.write(&clickstream(&stack, "two", "")), &tuned.with("parallelism.default", "2"));
    stack.are_equal(&["events", "per_type", "sessions", "late"]);
}
