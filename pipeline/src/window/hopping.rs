//! Tumbling and hopping windows: a table of (key, window) → accumulators, and an index of window ends.
//!
//! Doesn't know: lateness. Keeps: every open window stands in the index under its end, exactly once.
use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::output::{Fired, FiredWindow};
use super::{Change, Inputs, Place, value};
use crate::aggregate::Accumulator;
use crate::bytes::{Cursor, Damaged};
use crate::hash::KeyHash;
use crate::time::{EventTime, Span};

type WindowKey = (KeyHash, EventTime);

#[derive(Default)]
pub(super) struct HoppingTable {
    windows: HashMap<WindowKey, OpenWindow, FixedState>,
    by_end: BTreeMap<EventTime, Vec<WindowKey>>,
    dirty: Vec<WindowKey>,
    /// Stored windows that have fired since the last barrier.
    gone: Vec<WindowKey>,
}

struct OpenWindow {
    key: Box<[u8]>,
    end: EventTime,
    accs: Box<[Accumulator]>,
    dirty: bool,
    stored: bool,
}

/// Starts of the windows that hold `time`, newest first. They begin at `offset + k · slide`, also before 1970 (floor, not truncation).
pub(super) fn starts(time: EventTime, size: Span, slide: Span, offset: Span) -> impl Iterator<Item = EventTime> {
    let last = time.0 - (time.0.wrapping_sub(offset.0)).rem_euclid(slide.0);
    (0..).map(move |k| EventTime(last.saturating_sub(k * slide.0))).take_while(move |start| start.plus(size) > time)
}

/// How many windows hold `time`.
pub(super) fn windows_of(time: EventTime, size: Span, slide: Span, offset: Span) -> u64 {
    let from_offset = time.0.wrapping_sub(offset.0);
    let first_not = from_offset.saturating_sub(size.0).div_euclid(slide.0);
    (from_offset.div_euclid(slide.0) - first_not) as u64
}

impl HoppingTable {
    pub(super) fn add(&mut self, place: &Place<'_>, start: EventTime, end: EventTime, inputs: &Inputs<'_>) {
        let at = (place.hash, start);
        let window = match self.windows.entry(at) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(free) => {
                self.by_end.entry(end).or_default().push(at);
                let accs = vec![Accumulator::default(); inputs.len()].into();
                free.insert(OpenWindow { key: place.key(), end, accs, dirty: false, stored: false })
            }
        };
        inputs.add(place.row, &mut window.accs);
        if !window.dirty {
            window.dirty = true;
            self.dirty.push(at);
        }
    }

    pub(super) fn fire(&mut self, watermark: EventTime) -> Fired {
        let mut fired = vec![];
        while let Some(first) = self.by_end.first_entry()
            && crate::watermark::too_late_for_window(*first.key(), Some(watermark))
        {
            for at in first.remove() {
                let Some(window) = self.windows.remove(&at) else { continue };
                if window.stored {
                    self.gone.push(at);
                }
                fired.push(FiredWindow { start: at.1, end: window.end, key: window.key, accs: window.accs });
            }
        }
        Fired::new(fired)
    }

    pub(super) fn changes(&mut self) -> Vec<Change> {
        let gone = self.gone.drain(..).map(|at| Change { hash: at.0, key: state_key(at), value: None });
        let mut changes: Vec<_> = gone.collect();
        for at in self.dirty.drain(..) {
            let Some(window) = self.windows.get_mut(&at) else { continue };
            if window.dirty {
                window.dirty = false;
                window.stored = true;
                changes.push(Change { hash: at.0, key: state_key(at), value: Some(window.bytes()) });
            }
        }
        changes
    }

    pub(super) fn load(&mut self, key: &[u8], bytes: &[u8], aggregates: usize) -> Result<(), Damaged> {
        let mut cursor = Cursor(key);
        let hash = KeyHash(u128::from_be_bytes(cursor.array()?));
        let at = (hash, EventTime(cursor.i64()?));
        let (key, mut cursor) = value::open(bytes)?;
        let end = EventTime(cursor.i64()?);
        let accs = value::accs(&mut cursor, aggregates)?;
        cursor.end()?;
        self.by_end.entry(end).or_default().push(at);
        self.windows.insert(at, OpenWindow { key, end, accs, dirty: false, stored: true });
        Ok(())
    }

    pub(super) fn open(&self) -> usize {
        self.windows.len()
    }

    /// Start of the first window to fire.
    pub(super) fn oldest(&self) -> Option<EventTime> {
        self.by_end.values().flatten().next().map(|at| at.1)
    }
}

impl OpenWindow {
    fn bytes(&self) -> Vec<u8> {
        let mut out = value::start(&self.key);
        out.extend(self.end.0.to_le_bytes());
        value::push_accs(&mut out, &self.accs);
        out
    }
}

/// The hash comes first and big-endian, so that the keys of a key group are one range.
fn state_key((hash, start): WindowKey) -> Vec<u8> {
    let mut key = hash.0.to_be_bytes().to_vec();
    key.extend(start.0.to_le_bytes());
    key
}
