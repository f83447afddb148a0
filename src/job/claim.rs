//! The claim of a start: a number above every other, and its fence in every sink; and what fails once a newer start has made its own.
//!
//! Doesn't know: what is found or planned. Keeps: no sink is left without the fence of the number that was claimed last. Tested: tests/zombie.rs, src/simulate.
use floodmark_pipeline::ids::Incarnation;
use floodmark_pipeline::recovery::Observed;

use super::Failure;
use super::look::Manifests;
use super::patience::Patience;
use super::retired::Retired;
use super::sinks::OpenSink;
use super::start::{StartError, marks};
use crate::checkpoint::dir::CheckpointDir;
use crate::sink::Opened;
use crate::steps::{self, Point};

/// Claims a number above every one in the directory and in the marks, and puts the fence into every sink.
pub async fn claim_and_fence(
    patience: &Patience,
    dir: &CheckpointDir,
    found: &Manifests,
    observed: &Observed,
    sinks: &mut [OpenSink],
    retired: &mut [Retired],
) -> Result<Incarnation, Failure> {
    let mut above = newest_number(found, observed);
    'claim: loop {
        above = above.max(dir.newest_claim().await.map_err(StartError::Dir)?);
        let ours = Incarnation { number: above + 1, token: patience.host.token() };
        if !dir.claim(ours).await.map_err(StartError::Dir)? {
            continue;
        }
        steps::reached(Point::Claimed);
        let in_file = sinks.iter_mut().map(|(_, sink)| sink);
        for sink in in_file.chain(retired.iter_mut().filter_map(Retired::sink)) {
            let opened = patience.with(async || Ok(sink.open(ours).await?)).await?;
            match opened {
                Opened::Here(_) => {}
                Opened::ClaimAgain => {
                    above = ours.number;
                    continue 'claim;
                }
                Opened::Fenced { by } => {
                    return Err(Failure::Fenced(super::fenced(by.number)));
                }
            }
        }
        return Ok(ours);
    }
}

fn newest_number(found: &Manifests, observed: &Observed) -> u64 {
    let manifests = found.chosen.iter().chain(&found.older).map(|m| m.manifest.incarnation.number);
    let fences = marks(observed).filter_map(|m| m.fence).map(|f| f.number);
    manifests.chain(fences).max().unwrap_or(0)
}

/// What failed because a newer start owns all by now, and has removed what we stand on, is no failure of ours: whoever slept so long is fenced.
pub async fn unless_fenced<T>(
    dir: &CheckpointDir,
    ours: Incarnation,
    result: Result<T, Failure>,
) -> Result<T, Failure> {
    let Err(failure) = &result else { return result };
    match dir.newer_start(ours).await {
        Ok(Some(by)) if !matches!(failure, Failure::Fenced(_)) => {
            tracing::warn!("a newer start is there, and then: {failure}");
            Err(Failure::Fenced(super::fenced(by)))
        }
        _ => result,
    }
}
