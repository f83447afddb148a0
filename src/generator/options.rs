//! The dials of a generator source, from the text of the pipeline file.
//!
//! Doesn't know: what a dial does. Keeps: an option that no dial has is refused, never passed over.
//! Tested: generator/tests.rs.
use std::collections::BTreeMap;

use crate::cli::units::{self, UnitError};
use crate::workload::WorkloadName;
use crate::workload::dials::Dials;

/// Event time that an endless clickstream may cover: what its dials allow, with room to spare.
const ENDLESS_S: f64 = 100.0 * 365.0 * 86_400.0;

const NAMES: [&str; 14] = [
    "events",
    "rate",
    "seed",
    "partitions",
    "base_time",
    "providers",
    "users",
    "event_rate",
    "late",
    "late_by",
    "disorder",
    "disorder_within",
    "resent",
    "poison",
];

/// What a generator source was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub dials: Dials,
    /// Most records a second, over all partitions.
    pub rate: Option<f64>,
    /// There is always a next record.
    pub endless: bool,
}

impl Options {
    pub fn read(workload: WorkloadName, options: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut dials = Dials::default();
        let mut rate = None;
        for (name, text) in options {
            set(&mut dials, &mut rate, name, text)?;
        }
        let endless = !options.contains_key("events");
        if endless {
            if workload != WorkloadName::Clickstream {
                return Err(format!("{workload} needs `events`: only clickstream can be endless"));
            }
            dials.events = (ENDLESS_S * dials.event_rate) as u64;
        }
        Ok(Self { dials, rate, endless })
    }
}

fn set(dials: &mut Dials, rate: &mut Option<f64>, name: &str, text: &str) -> Result<(), String> {
    let unit = |error: UnitError| format!("`{name}`: {error}");
    let no_number = |_| format!("`{name}`: `{text}` is not a whole number");
    match name {
        "events" => dials.events = units::count(text).map_err(unit)?,
        "rate" => *rate = Some(units::rate(text).map_err(unit)?),
        "seed" => dials.seed = text.parse().map_err(no_number)?,
        "partitions" => dials.partitions = text.parse().map_err(no_number)?,
        "base_time" => dials.base_time_ms = units::time_ms(text).map_err(unit)?,
        "providers" => dials.providers = text.parse().map_err(no_number)?,
        "users" => dials.users = units::count(text).map_err(unit)?,
        "event_rate" => dials.event_rate = units::rate(text).map_err(unit)?,
        "late" => dials.late = units::share(text).map_err(unit)?,
        "late_by" => dials.late_by_ms = units::duration_ms(text).map_err(unit)?,
        "disorder" => dials.disorder = units::share(text).map_err(unit)?,
        "disorder_within" => dials.disorder_within_ms = units::duration_ms(text).map_err(unit)?,
        "resent" => dials.resent = units::share(text).map_err(unit)?,
        "poison" => dials.poison = units::share(text).map_err(unit)?,
        _ => return Err(format!("a generator has no `{name}`; allowed: {}", NAMES.join(", "))),
    }
    Ok(())
}
