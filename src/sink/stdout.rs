//! Rows on standard output: at least once, no fence, for looking at a pipeline and for pipes.
//!
//! Doesn't know: what was printed before this start. Keeps: within one start no epoch is printed twice. Its mark is what this start has
//! printed, so a recovery must not judge it. Tested: here.
use std::io::Write;

use async_trait::async_trait;
use floodmark_pipeline::ids::{CheckpointId, Epoch, Incarnation};
use floodmark_pipeline::mark::Mark;

use super::mark_json::unmarked;
use super::ndjson::lines;
use super::{Found, Opened, Outcome, PendingEpoch, RowDigest, SharedSegments, Sink, SinkError};

pub struct StdoutSink {
    out: Box<dyn Write + Send>,
    segments: SharedSegments,
    digest: RowDigest,
    mark: Mark,
}

impl StdoutSink {
    pub fn new(
        out: Box<dyn Write + Send>,
        pipeline: &str,
        sink: &str,
        segments: SharedSegments,
        digest: RowDigest,
    ) -> Self {
        Self { out, segments, digest, mark: unmarked("stdout", pipeline, sink) }
    }

    async fn print(&mut self, epoch: &PendingEpoch) -> Result<(), SinkError> {
        let closed = |e: std::io::Error| SinkError::Setting(format!("standard output: {e}"));
        let mut delta = self.mark.digest;
        for segment in &epoch.segments {
            let batches = self.segments.read(segment).await?;
            for batch in &batches {
                delta = delta.plus((self.digest)(batch)?);
            }
            let text = lines(&batches).map_err(|e| SinkError::Segment(e.to_string()))?;
            self.out.write_all(&text).map_err(closed)?;
        }
        self.out.flush().map_err(closed)?;
        self.mark.digest = delta;
        self.mark.epoch = Some(epoch.epoch);
        self.mark.offsets = epoch.offsets.clone();
        self.mark.event_time_watermark = epoch.event_time_watermark;
        self.mark.replay_from = epoch.replay_from.clone();
        Ok(())
    }
}

#[async_trait]
impl Sink for StdoutSink {
    async fn look(&mut self) -> Result<Found, SinkError> {
        Ok(Found::Here(self.mark.clone()))
    }

    async fn open(&mut self, ours: Incarnation) -> Result<Opened, SinkError> {
        self.mark.fence = Some(ours);
        Ok(Opened::Here(self.mark.clone()))
    }

    async fn commit(&mut self, _: Option<Epoch>, epochs: &[PendingEpoch], _: bool) -> Result<Outcome, SinkError> {
        let printed = epochs.iter().position(|e| Some(e.epoch) == self.mark.epoch).map_or(0, |at| at + 1);
        for epoch in &epochs[printed..] {
            self.print(epoch).await?;
        }
        Ok(Outcome::Applied(self.mark.clone()))
    }

    async fn tag(&mut self, _: &str, _: CheckpointId) -> Result<(), SinkError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::conformance::{Rows, digest, epoch, start};
    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_epoch_is_printed_once_in_a_start() {
        let rows = Rows::default();
        let out = Shared::default();
        let mut sink = StdoutSink::new(Box::new(out.clone()), "p", "s", rows.shared(), digest);
        sink.open(start(1)).await.unwrap();
        let first = rows.epoch(epoch(start(1), 1), &["a", "b"]);
        let second = rows.epoch(epoch(start(1), 2), &["c"]);
        sink.commit(None, std::slice::from_ref(&first), false).await.unwrap();
        let outcome = sink.commit(None, &[first, second], false).await.unwrap();
        let Outcome::Applied(mark) = outcome else { panic!("{outcome:?}") };
        assert_eq!((mark.epoch, mark.digest.rows), (Some(epoch(start(1), 2)), 3));
        let printed = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(printed, "{\"name\":\"a\"}\n{\"name\":\"b\"}\n{\"name\":\"c\"}\n");
    }
}
