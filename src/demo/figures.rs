//! Processor time of the child processes that have ended.
//!
//! Cost is told in CPU-seconds, since those hold on a machine that does other things too.
use nix::sys::resource::{UsageWho, getrusage};

use super::DemoError;

/// User and system seconds of all children waited for so far.
pub fn cpu_of_children() -> Result<f64, DemoError> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|errno| DemoError::ProcessorTime(errno.into()))?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
