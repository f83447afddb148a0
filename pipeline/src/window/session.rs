//! Session windows: for each key a few intervals that grow, and merge when they touch.
//!
//! A record at t opens [t, t + gap); intervals that overlap or touch are one session, in whatever order their records come.
//! Doesn't know: lateness. Keeps: the sessions of a key are sorted and don't touch; every key that has one stands in the index at or before its earliest end.
use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::output::{Fired, FiredWindow};
use super::{Change, Inputs, Place, value};
use crate::aggregate::Accumulator;
use crate::bytes::{Cursor, Damaged};
use crate::hash::KeyHash;
use crate::time::{EventTime, Span};

#[derive(Default)]
pub(super) struct SessionTable {
    keys: HashMap<KeyHash, KeySessions, FixedState>,
    /// Keys by a time at which one of their sessions may end; looked at again, and put back, when that time has come.
    by_end: BTreeMap<EventTime, Vec<KeyHash>>,
    /// How many open sessions begin at each time.
    starts: BTreeMap<EventTime, u32>,
    dirty: Vec<KeyHash>,
    gone: Vec<KeyHash>,
}

struct KeySessions {
    key: Box<[u8]>,
    sessions: Vec<Session>,
    /// The time this key stands under in the index.
    indexed: EventTime,
    dirty: bool,
    stored: bool,
}

struct Session {
    start: EventTime,
    end: EventTime,
    accs: Box<[Accumulator]>,
}

impl SessionTable {
    pub(super) fn add(&mut self, place: &Place<'_>, time: EventTime, gap: Span, inputs: &Inputs<'_>) {
        let end = time.plus(gap);
        let of_key = self.keys.entry(place.hash).or_insert_with(|| {
            self.by_end.entry(end).or_default().push(place.hash);
            KeySessions { key: place.key(), sessions: Vec::with_capacity(1), indexed: end, dirty: false, stored: false }
        });
        inputs.add(place.row, of_key.session_at(time, end, inputs, &mut self.starts));
        if end < of_key.indexed {
            // An earlier session than any before: found at its own end, and once more at the old time, where nothing may be due.
            of_key.indexed = end;
            self.by_end.entry(end).or_default().push(place.hash);
        }
        if !of_key.dirty {
            of_key.dirty = true;
            self.dirty.push(place.hash);
        }
    }

    pub(super) fn fire(&mut self, watermark: EventTime) -> Fired {
        let mut fired = vec![];
        while let Some(first) = self.by_end.first_entry()
            && *first.key() <= watermark
        {
            for hash in first.remove() {
                self.fire_key(hash, watermark, &mut fired);
            }
        }
        Fired::new(fired)
    }

    fn fire_key(&mut self, hash: KeyHash, watermark: EventTime, fired: &mut Vec<FiredWindow>) {
        let Some(of_key) = self.keys.get_mut(&hash) else { return };
        let due = of_key.sessions.iter().take_while(|s| s.end <= watermark).count();
        for session in of_key.sessions.drain(..due) {
            let key = of_key.key.clone();
            forget(&mut self.starts, session.start);
            fired.push(FiredWindow { start: session.start, end: session.end, key, accs: session.accs });
        }
        match of_key.sessions.first().map(|s| s.end) {
            Some(next) => {
                if of_key.indexed <= watermark {
                    of_key.indexed = next;
                    self.by_end.entry(next).or_default().push(hash);
                }
                if due > 0 && !of_key.dirty {
                    of_key.dirty = true;
                    self.dirty.push(hash);
                }
            }
            None => {
                if of_key.stored {
                    self.gone.push(hash);
                }
                self.keys.remove(&hash);
            }
        }
    }

    pub(super) fn changes(&mut self) -> Vec<Change> {
        let mut changes = vec![];
        for hash in self.gone.drain(..) {
            // A key that came back after its sessions had fired is written below.
            if !self.keys.contains_key(&hash) {
                changes.push(Change { hash, key: state_key(hash), value: None });
            }
        }
        for hash in self.dirty.drain(..) {
            let Some(of_key) = self.keys.get_mut(&hash) else { continue };
            if of_key.dirty {
                of_key.dirty = false;
                of_key.stored = true;
                changes.push(Change { hash, key: state_key(hash), value: Some(of_key.bytes()) });
            }
        }
        changes
    }

    pub(super) fn load(&mut self, key: &[u8], bytes: &[u8], aggregates: usize) -> Result<(), Damaged> {
        let mut cursor = Cursor(key);
        let hash = KeyHash(u128::from_be_bytes(cursor.array()?));
        cursor.end()?;
        let (key, mut cursor) = value::open(bytes)?;
        let n = cursor.u32()?;
        let mut sessions = vec![];
        for _ in 0..n {
            let (start, end) = (EventTime(cursor.i64()?), EventTime(cursor.i64()?));
            sessions.push(Session { start, end, accs: value::accs(&mut cursor, aggregates)? });
        }
        cursor.end()?;
        let indexed = sessions.first().map(|s| s.end).ok_or(Damaged("a key without sessions"))?;
        self.by_end.entry(indexed).or_default().push(hash);
        for session in &sessions {
            *self.starts.entry(session.start).or_default() += 1;
        }
        self.keys.insert(hash, KeySessions { key, sessions, indexed, dirty: false, stored: true });
        Ok(())
    }

    pub(super) fn open(&self) -> usize {
        self.keys.values().map(|k| k.sessions.len()).sum()
    }

    pub(super) fn oldest(&self) -> Option<EventTime> {
        self.starts.keys().next().copied()
    }
}

impl KeySessions {
    /// The session that [start, end) belongs to, after all that it touches have become one.
    fn session_at(
        &mut self,
        start: EventTime,
        end: EventTime,
        inputs: &Inputs<'_>,
        starts: &mut BTreeMap<EventTime, u32>,
    ) -> &mut [Accumulator] {
        let first = self.sessions.partition_point(|s| s.end < start);
        let touching = self.sessions[first..].iter().take_while(|s| s.start <= end).count();
        if touching == 0 {
            let accs = vec![Accumulator::default(); inputs.len()].into();
            self.sessions.insert(first, Session { start, end, accs });
            *starts.entry(start).or_default() += 1;
            return &mut self.sessions[first].accs;
        }
        let merged: Vec<_> = self.sessions.drain(first + 1..first + touching).collect();
        let session = &mut self.sessions[first];
        if start < session.start {
            forget(starts, session.start);
            session.start = start;
            *starts.entry(start).or_default() += 1;
        }
        session.end = session.end.max(end);
        for other in merged {
            forget(starts, other.start);
            session.end = session.end.max(other.end);
            for ((acc, function), more) in session.accs.iter_mut().zip(&inputs.functions).zip(other.accs) {
                acc.merge(*function, more);
            }
        }
        &mut self.sessions[first].accs
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = value::start(&self.key);
        out.extend((self.sessions.len() as u32).to_le_bytes());
        for session in &self.sessions {
            out.extend(session.start.0.to_le_bytes());
            out.extend(session.end.0.to_le_bytes());
            value::push_accs(&mut out, &session.accs);
        }
        out
    }
}

/// One session fewer begins at `start`.
fn forget(starts: &mut BTreeMap<EventTime, u32>, start: EventTime) {
    if let std::collections::btree_map::Entry::Occupied(mut count) = starts.entry(start) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

fn state_key(hash: KeyHash) -> Vec<u8> {
    hash.0.to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rows, window};
    use super::super::{Table, WindowState};
    use crate::plan::Assigner;
    use crate::time::{EventTime, Span};

    /// How often keys stand in the index.
    fn indexed(state: &WindowState) -> usize {
        let Table::Session(table) = &state.table else { panic!("a table of sessions") };
        table.by_end.values().flatten().count()
    }

    #[test]
    fn a_session_that_takes_more_records_does_not_grow_the_index() {
        let mut state = window(Assigner::Session { gap: Span(10) });
        state.assign(&rows(&[("a", 5, None); 100]));
        state.assign(&rows(&[("a", 9, None), ("a", 12, None)]));
        assert_eq!(indexed(&state), 1);
        state.assign(&rows(&[("b", 5, None), ("a", 4, None)]));
        assert_eq!(indexed(&state), 3, "another key, and an earlier end of the first");
        state.fire(EventTime(22));
        assert_eq!(indexed(&state), 0);
    }
}
