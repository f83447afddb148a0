//! Bounded queues between workers: one for each (exchange, sender, receiver), and what a sender keeps when one is full.
//!
//! A sender never waits. What doesn't fit it keeps, in order, behind what it has kept already; the worker then takes nothing from upstream until
//! it is gone, and goes on serving what lies nearer the sinks (DESIGN.md 4). So the queue nearest the sinks can always move, and no ring of full
//! queues can form. Tested: here, and with capacity 1 in `tests/`.
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use floodmark_pipeline::ids::WorkerId;

use super::element::Element;
use super::topology::EdgeId;

/// One bounded first-in-first-out queue.
#[derive(Debug)]
struct Queue {
    elements: Mutex<VecDeque<Element>>,
    capacity: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Element>> {
        // A panic of another worker while it held the lock leaves the queue whole: pushes and pops are single steps.
        self.elements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_push(&self, element: Element) -> Result<(), Element> {
        let mut elements = self.lock();
        if elements.len() >= self.capacity {
            return Err(element);
        }
        elements.push_back(element);
        Ok(())
    }
}

/// Wakes one worker.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BellState {
    rung: bool,
    /// Somebody waits. Nobody else needs to be woken, which would cost a call of the system at each element.
    awaited: bool,
}

impl Bell {
    pub fn ring(&self) {
        let awaited = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.rung = true;
            state.awaited
        };
        if awaited {
            self.changed.notify_one();
        }
    }

    /// Returns when the bell was rung since the last wait, or after `limit`.
    pub fn wait(&self, limit: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.awaited = true;
        let waited = self.changed.wait_timeout_while(state, limit, |state| !state.rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = BellState::default();
    }
}

/// All queues of a job.
#[derive(Debug)]
pub struct Exchanges {
    workers: usize,
    queues: Vec<Queue>,
    bells: Vec<Arc<Bell>>,
}

impl Exchanges {
    pub fn new(edges: usize, workers: u16, capacity: usize) -> Self {
        let workers = usize::from(workers);
        let queue = || Queue { elements: Mutex::default(), capacity };
        Self {
            workers,
            queues: std::iter::repeat_with(queue).take(edges * workers * workers).collect(),
            bells: std::iter::repeat_with(Arc::default).take(workers).collect(),
        }
    }

    pub fn bell(&self, worker: WorkerId) -> Arc<Bell> {
        self.bells[usize::from(worker.0)].clone()
    }

    pub fn pop(&self, edge: EdgeId, sender: usize, receiver: WorkerId) -> Option<Element> {
        let element = self.queue(edge, sender, usize::from(receiver.0)).lock().pop_front()?;
        self.bells[sender].ring();
        Some(element)
    }

    fn try_push(&self, edge: EdgeId, sender: WorkerId, receiver: usize, element: Element) -> Result<(), Element> {
        self.queue(edge, usize::from(sender.0), receiver).try_push(element)?;
        self.bells[receiver].ring();
        Ok(())
    }

    fn queue(&self, edge: EdgeId, sender: usize, receiver: usize) -> &Queue {
        &self.queues[(edge.0 * self.workers + sender) * self.workers + receiver]
    }
}

/// A worker's sending side: pushes, and keeps what doesn't fit.
#[derive(Debug)]
pub struct Sender {
    worker: WorkerId,
    exchanges: Arc<Exchanges>,
    /// Indexed by edge and receiver.
    kept: Vec<VecDeque<Element>>,
    /// Number of elements kept.
    count: usize,
}

impl Sender {
    pub fn new(worker: WorkerId, edges: usize, exchanges: Arc<Exchanges>) -> Self {
        let kept = std::iter::repeat_with(VecDeque::new).take(edges * exchanges.workers).collect();
        Self { worker, exchanges, kept, count: 0 }
    }

    pub fn send(&mut self, edge: EdgeId, receiver: usize, element: Element) {
        let kept = &mut self.kept[edge.0 * self.exchanges.workers + receiver];
        if kept.is_empty() {
            if let Err(element) = self.exchanges.try_push(edge, self.worker, receiver, element) {
                kept.push_back(element);
                self.count += 1;
            }
        } else {
            kept.push_back(element);
            self.count += 1;
        }
    }

    pub fn receivers(&self) -> usize {
        self.exchanges.workers
    }

    /// Pushes what was kept, as far as it fits. Returns the kept edge nearest the sinks, if any is left.
    pub fn flush(&mut self) -> Option<EdgeId> {
        if self.count == 0 {
            return None;
        }
        let workers = self.exchanges.workers;
        let mut last = None;
        for (place, kept) in self.kept.iter_mut().enumerate() {
            let edge = EdgeId(place / workers);
            while let Some(element) = kept.pop_front() {
                match self.exchanges.try_push(edge, self.worker, place % workers, element) {
                    Ok(()) => self.count -= 1,
                    Err(element) => {
                        kept.push_front(element);
                        last = Some(edge);
                        break;
                    }
                }
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use floodmark_pipeline::ids::CheckpointId;

    use super::super::element::{CheckpointBarrier, SignalMessage};
    use super::*;

    fn barrier(checkpoint: u64) -> Element {
        let partitions = Arc::default();
        let barrier = CheckpointBarrier { checkpoint: CheckpointId(checkpoint), drain: false, partitions };
        Element::Signal(SignalMessage::Barrier(barrier))
    }

    fn id(element: Option<Element>) -> Option<u64> {
        match element? {
            Element::Signal(SignalMessage::Barrier(barrier)) => Some(barrier.checkpoint.0),
            Element::Rows(_) => None,
        }
    }

    #[test]
    fn what_does_not_fit_is_kept_in_order_and_holds_back_only_its_own_queue() {
        let exchanges = Arc::new(Exchanges::new(2, 2, 1));
        let mut sender = Sender::new(WorkerId(0), 2, exchanges.clone());
        for n in 1..=3 {
            sender.send(EdgeId(0), 1, barrier(n));
        }
        sender.send(EdgeId(1), 1, barrier(9));
        assert_eq!(sender.flush(), Some(EdgeId(0)));
        assert_eq!(id(exchanges.pop(EdgeId(1), 0, WorkerId(1))), Some(9), "another queue goes on");
        let mut got = vec![];
        for _ in 0..3 {
            got.extend(id(exchanges.pop(EdgeId(0), 0, WorkerId(1))));
            sender.flush();
        }
        assert_eq!(got, [1, 2, 3]);
        assert_eq!(sender.flush(), None);
    }
}
