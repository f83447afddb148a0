//! What a start does about something that is away: with `--wait` it is tried until it is there, and said every 10 s.
use std::sync::Arc;
use std::time::Duration;

use super::start::StartError;
use crate::host::Host;
use crate::sink::SinkError;
use crate::source::SourceError;

const TRY_EVERY: Duration = Duration::from_millis(500);
const SAY_EVERY: u32 = 20;

pub struct Patience {
    pub host: Arc<dyn Host>,
    pub waits: bool,
}

impl Patience {
    pub async fn with<T>(&self, mut attempt: impl AsyncFnMut() -> Result<T, StartError>) -> Result<T, StartError> {
        let mut tries: u32 = 0;
        loop {
            match attempt().await {
                Err(error) if self.waits && is_away(&error) => {
                    if tries.is_multiple_of(SAY_EVERY) {
                        tracing::warn!("waiting: {error}");
                    }
                    tries += 1;
                    self.host.sleep(TRY_EVERY).await;
                }
                result => return result,
            }
        }
    }
}

fn is_away(error: &StartError) -> bool {
    matches!(error, StartError::Sink(SinkError::Away { .. }) | StartError::Source { error: SourceError::Away(..), .. })
}
