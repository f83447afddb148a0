//! What must hold between both paths where records are late in several partitions: Flink's interleaving may call fewer of them late, never others.
//!
//! Doesn't know: how rows were read. Tested: here.
use serde_json::Value;

use super::ParityError;
use super::compare::Readers;
use super::record::Record;
use super::services::{FLINK, OURS};

const SCRIPT: &str = include_str!("../../../compose/readers/late_windows.py");
const TABLES: [&str; 3] = ["shop.per_type", "shop.sessions", "shop.late"];

pub fn check(readers: &Readers, record: &mut Record) -> Result<(), ParityError> {
    let files = [FLINK, OURS].iter().flat_map(|side| TABLES.map(|table| readers.exported(table, side)));
    let counted = readers.ask("late_windows.py", SCRIPT, &files.collect::<Vec<_>>())?;
    let was_restored = record.settings.fault.restores_flink();
    for (holds, what) in judged(&counted, was_restored) {
        record.check(holds, what);
    }
    if was_restored {
        let lost = [("windows", "windows"), ("users", "sessions")].map(|(of, what)| {
            let rows = counted[format!("{of}_lost")].as_u64().unwrap_or_default();
            format!("{rows} of {what}")
        });
        record.told.push(format!(
            "Flink has lost records at its restores, on time nowhere and late nowhere: {}",
            lost.join(", ")
        ));
    }
    Ok(())
}

/// A restored Flink may lose records (what its windows drop as late, the predicate before them has called on time), and doubles none.
fn judged(counted: &Value, flink_was_restored: bool) -> Vec<(bool, String)> {
    let number = |name: &str| counted[name].as_u64().unwrap_or(u64::MAX);
    let (flinks, ours) = (number("late_flink"), number("late_ours"));
    let only_flink = number("late_only_flink");
    let more = number("windows_more_on_time_ours");
    let (windows, users) = (number("windows"), number("users"));
    let (rule, unequal, of_users) = if flink_was_restored {
        ("on time and late together are not more on Flink", number("windows_more_flink"), number("users_more_flink"))
    } else {
        ("on time and late together are equal", number("windows_unequal"), number("users_unequal"))
    };
    vec![
        (
            only_flink == 0 && ours > 0,
            format!("Flink's {flinks} late rows are among floodmark's {ours}: {only_flink} aren't"),
        ),
        (unequal == 0 && windows > 0, format!("{rule}, for each of {windows} types and windows: {unequal} break it")),
        (more == 0, format!("no window has more on time on floodmark than on Flink: {more} have")),
        (of_users == 0 && users > 0, format!("in sessions, {rule}, for each of {users} users: {of_users} break it")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> Value {
        serde_json::json!({
            "late_flink": 3, "late_ours": 5, "late_only_flink": 0,
            "windows": 9, "windows_unequal": 0, "windows_more_flink": 0, "windows_more_on_time_ours": 0,
            "users": 4, "users_unequal": 0, "users_more_flink": 0,
        })
    }

    #[test]
    fn one_row_of_another_kind_breaks_a_rule() {
        assert!(judged(&counted(), false).iter().all(|(holds, _)| *holds));
        for name in ["late_only_flink", "windows_unequal", "windows_more_on_time_ours", "users_unequal"] {
            let mut broken = counted();
            broken[name] = 1.into();
            assert_eq!(judged(&broken, false).iter().filter(|(holds, _)| !holds).count(), 1, "{name}");
        }
    }

    #[test]
    fn a_restored_flink_may_lose_and_not_double() {
        let (mut lost, mut doubled) = (counted(), counted());
        lost["windows_unequal"] = 1.into();
        doubled["windows_more_flink"] = 1.into();
        let broken = |counted: &Value| judged(counted, true).iter().filter(|(holds, _)| !holds).count();
        assert_eq!([broken(&lost), broken(&doubled)], [0, 1]);
    }

    #[test]
    fn what_was_not_counted_does_not_hold() {
        assert!(judged(&Value::Null, false).iter().all(|(holds, _)| !holds));
    }
}
