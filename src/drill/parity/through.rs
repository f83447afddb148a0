//! Both paths through the feed and its faults, to their ends, watched.
//!
//! Doesn't know: how a path is hurt, what its tables must hold. Keeps: both are hurt at once, while records are written. Tested: tests/flink/main.rs.
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use floodmark_stack::process::Process;
use floodmark_stack::until;

use super::class::Class;
use super::fault::{BROKER_AWAY, Fault, Struck};
use super::feed::{Feed, Written};
use super::paths::Hit;
use super::paths::flink::Flink;
use super::paths::ours::{self, Ours};
use super::plan::{Part, Strike, parts};
use super::record::Record;
use super::services::{FLINK, OURS, Services};
use super::tables::Tables;
use super::watch::{Sample, Watch, new_rows_after_ms};
use super::{ParityError, Settings};
use crate::workload::dials::Dials;
use crate::workload::ledger::Ledger;

/// For rows to become visible, and for the broker to take a part, on a machine that is busy with something else.
const LIMIT: Duration = Duration::from_secs(300);
/// For a path to end after the last record was written; and a second more for each thousand records.
const END_LIMIT: Duration = Duration::from_secs(600);

pub struct Both<'a> {
    pub settings: &'a Settings,
    pub services: &'a mut Services,
    pub flink: Flink,
    pub ours: Ours,
    pub feed: Feed,
    /// When the feed begins.
    pub began: Instant,
}

impl Both<'_> {
    pub fn through(&mut self, record: &mut Record, say: &mut dyn FnMut(&str)) -> Result<(), ParityError> {
        let written = Arc::new(Written::to(&self.feed)?);
        let watches = [(FLINK, self.watch_flink(&written)?), (OURS, self.watch_ours(&written)?)];
        let done = self.feed_and_strike(&written, record, say).and_then(|()| {
            say("all is written; waiting for both to end …");
            self.wait_for_ends(&record.dials)
        });
        record.timeline = watches.into_iter().map(|(path, watch)| (path, watch.end())).collect();
        for struck in &mut record.faults {
            let samples = record.timeline.get(struck.path).map_or(&[][..], Vec::as_slice);
            struck.new_rows_after_ms = new_rows_after_ms(samples, struck.at_ms, struck.rows);
        }
        done?;
        for (path, all) in [(FLINK, self.flink.visible()?), (OURS, self.ours.visible()?)] {
            let samples = record.timeline.get(path).map_or(&[][..], Vec::as_slice);
            // Without a sample after its last commit it is the end of the watch.
            let last = samples.iter().find(|sample| sample.rows == Some(all)).or(samples.last());
            record.all_rows_after_ms.insert(path, last.map_or(0, |sample| sample.at_ms));
            for struck in record.faults.clone().iter().filter(|struck| struck.path == path) {
                let Struck { rows, share, .. } = struck;
                let what = format!("{path} was hit at {share} of the feed with {rows} of {all} rows visible");
                record.check(struck.is_within(all), what);
            }
        }
        Ok(())
    }

    fn feed_and_strike(
        &mut self,
        written: &Written,
        record: &mut Record,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ParityError> {
        if self.settings.class == Class::D4 {
            // Written before the paths began, so that they meet the partitions in orders of their own.
            return Ok(());
        }
        let at = if self.settings.fault == Fault::None { &[][..] } else { &self.settings.at };
        for Part { records, strike } in parts(self.settings.events, at) {
            if strike.is_some() {
                self.wait_for_rows(&record.faults)?;
            }
            say(&format!("writing records {} to {} …", records.start, records.end));
            let mut process = self.feed.write(&records)?;
            if let Some(strike) = strike {
                self.wait_for_place(written, &mut process, strike)?;
                let holds = self.settings.fault.holds_the_feed();
                if holds {
                    process.pause();
                }
                let struck = self.strike(strike)?;
                if holds {
                    process.resume();
                }
                for struck in struck {
                    say(&format!("  {}: {} ({} rows visible)", struck.path, struck.seen, struck.rows));
                    record.faults.push(struck);
                }
            }
            let status = process.wait(LIMIT + self.feed.takes(&records))?;
            if !status.success() {
                let why = format!("{status}\n{}", process.output_tail());
                return Err(ParityError::Child { what: "generate", why });
            }
        }
        Ok(())
    }

    /// Until both show rows that they didn't show at their last fault.
    fn wait_for_rows(&mut self, faults: &[Struck]) -> Result<(), ParityError> {
        let before = |path: &str| faults.iter().rfind(|struck| struck.path == path).map_or(0, |struck| struck.rows);
        let (flink, ours) = (before(FLINK), before(OURS));
        let (mut seen, mut failed) = (Ok((0, 0)), Ok(()));
        until(LIMIT, || {
            seen = self.flink.visible().and_then(|flink| Ok((flink, self.ours.visible()?)));
            failed = self.flink.must_run().and_then(|()| self.ours.must_run());
            failed.is_err() || seen.as_ref().is_ok_and(|(a, b)| *a > flink && *b > ours)
        });
        failed?;
        let (a, b) = seen?;
        if a > flink && b > ours {
            return Ok(());
        }
        let what = format!("no new rows: Flink has shown {a} after {flink}, floodmark {b} after {ours}");
        Err(ParityError::Late { limit_s: LIMIT.as_secs(), what })
    }

    /// Until so many records are written.
    fn wait_for_place(&mut self, written: &Written, feed: &mut Process, strike: Strike) -> Result<(), ParityError> {
        let mut count = 0;
        let reached = until(LIMIT, || {
            count = written.count();
            count >= strike.place || !matches!(feed.exit_status(), Ok(None))
        });
        // The feed may end between the last look and now.
        if reached && (count >= strike.place || written.count() >= strike.place) {
            return Ok(());
        }
        let what = format!("{count} records are written, of {} before the fault: {}", strike.place, feed.output_tail());
        Err(ParityError::Late { limit_s: LIMIT.as_secs(), what })
    }

    fn strike(&mut self, strike: Strike) -> Result<Vec<Struck>, ParityError> {
        let (fault, at_ms) = (self.settings.fault, self.began.elapsed().as_millis() as u64);
        let hits = if fault == Fault::Broker { self.take_a_broker_away()? } else { self.strike_paths(fault)? };
        let struck = |(path, Hit { rows, seen })| Struck {
            path,
            fault,
            share: strike.share,
            at_ms,
            rows,
            seen,
            new_rows_after_ms: None,
        };
        Ok(hits.into_iter().map(struck).collect())
    }

    /// Both at once.
    fn strike_paths(&mut self, fault: Fault) -> Result<Vec<(&'static str, Hit)>, ParityError> {
        let (flink, ours) = (&mut self.flink, &mut self.ours);
        let hurts_flink = self.settings.class.hurts_flink();
        let (of_flink, of_ours) = std::thread::scope(|scope| {
            let of_flink = hurts_flink.then(|| scope.spawn(|| flink.strike(fault)));
            let of_ours = ours.strike(fault);
            let joined = of_flink.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            (joined, of_ours)
        });
        let mut hits = Vec::new();
        if let Some(hit) = of_flink {
            hits.push((FLINK, hit?));
        }
        hits.push((OURS, of_ours?));
        Ok(hits)
    }

    fn take_a_broker_away(&mut self) -> Result<Vec<(&'static str, Hit)>, ParityError> {
        let Some(broker) = self.services.brokers.last_mut() else { return Ok(Vec::new()) };
        broker.kill()?;
        let rows = [(FLINK, self.flink.visible()?), (OURS, self.ours.visible()?)];
        std::thread::sleep(BROKER_AWAY);
        broker.start_again()?;
        let seen = format!("one of three brokers was gone for {} s, and is back", BROKER_AWAY.as_secs());
        Ok(rows.map(|(path, rows)| (path, Hit { rows, seen: seen.clone() })).into())
    }

    fn wait_for_ends(&mut self, dials: &Dials) -> Result<(), ParityError> {
        let rows = Ledger::derive(self.settings.class.workload(), dials)?.total.events;
        let limit = END_LIMIT + Duration::from_millis(self.settings.events);
        self.ours.finish(limit)?;
        self.flink.finish(rows, limit)
    }

    fn watch_flink(&self, written: &Arc<Written>) -> Result<Watch, ParityError> {
        let (tables, job) = (Tables::of(&self.services.catalog(FLINK))?, self.flink.job_from_now_on());
        let (written, watched) = (Arc::clone(written), self.watched());
        Ok(Watch::start(self.began, move || {
            let job = job.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Sample {
                at_ms: 0,
                written: written.count(),
                rows: tables.visible(watched).ok(),
                checkpoint: job.checkpoints().ok().and_then(|counters| counters.newest).map(|newest| newest.id),
                lag: job.pending().ok().flatten(),
            }
        }))
    }

    fn watch_ours(&self, written: &Arc<Written>) -> Result<Watch, ParityError> {
        let (tables, address) = (Tables::of(&self.services.catalog(OURS))?, self.ours.address());
        let (written, watched) = (Arc::clone(written), self.watched());
        Ok(Watch::start(self.began, move || {
            let (status, written) = (ours::status(address), written.count());
            let partitions = status.as_ref().and_then(|status| status["partitions"].as_array());
            // Until it has looked at them it knows none.
            let partitions = partitions.filter(|all| !all.is_empty());
            let read = partitions.map(|all| all.iter().filter_map(|one| one["offset"].as_u64()).sum::<u64>());
            Sample {
                at_ms: 0,
                written,
                rows: tables.visible(watched).ok(),
                checkpoint: status.as_ref().and_then(|status| status["checkpoint"]["id"].as_u64()),
                lag: read.map(|read| written.saturating_sub(read)),
            }
        }))
    }

    fn watched(&self) -> &'static str {
        self.settings.class.tables()[0].name
    }
}
