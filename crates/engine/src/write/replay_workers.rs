//! Replay workers: threads that the caller of `open` provides, which decode log records ahead of the one that applies
//! them.
//!
//! Does: keep a short queue of records in the order of the log, and hand out those that wait. Does not: start threads
//! (the caller does), apply what a record says, or hold more of the log than a few pieces. Without a thread that works
//! on it, the one that opens the store decodes everything itself.

use std::collections::VecDeque;
use std::sync::Condvar;

use nilometer_codec::ColumnBuf;

use crate::error::Malformed;
use crate::log::RecordPlace;
use crate::ranked::{self, Locked, Mutex, Rank};
use crate::record::{self, Record};
use crate::schema::Lsn;

/// Payload handed over at once; short records go together, because handing over costs as much as decoding some.
const BUNDLE_BYTES: usize = 64 << 10;
/// Payload that waits at most, if it is more than one bundle.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Bundles in the queue for each thread that is lent: one that it works on, and some so that it need not wait.
const BUNDLES_EACH: usize = 4;

/// Where threads that are lent find work. One is for one store, while it is opened.
///
/// ```
/// # use std::sync::Arc;
/// # use nilometer_engine::{Engine, ReplayWorkers, Options, SystemClock, disk::RealDisk};
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path();
/// let lent = ReplayWorkers::default();
/// let engine = std::thread::scope(|scope| {
///     scope.spawn(|| lent.work());
///     Engine::open_with(Arc::new(RealDisk), Arc::new(SystemClock), dir, Options::default(), &lent)
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReplayWorkers {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// In the order of the log.
    bundles: VecDeque<Slot>,
    /// How many were taken from the front, so that a place in the queue keeps its number.
    taken: usize,
    /// Payload of those that nobody has begun with.
    waiting_bytes: usize,
    /// Threads that are lent.
    helpers: usize,
    ended: bool,
    /// Room of bundles that are done.
    rooms: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Slot {
    Waiting(Bundle),
    InWork,
    Done(Decoded),
}

/// Consecutive records.
#[derive(Debug, Default)]
struct Bundle {
    payloads: Vec<u8>,
    records: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    lsn: Lsn,
    /// Where its payload ends in the bundle.
    end: usize,
    place: RecordPlace,
}

/// What its records say.
#[derive(Debug)]
struct Decoded {
    bundle: Bundle,
    records: Vec<Result<Record, Malformed>>,
}

/// A bundle that somebody decodes. When it goes, it is back in the queue, decoded or, if that panicked, as it was: then
/// the thread that opens the store comes to it too.
#[derive(Debug)]
struct InWork<'a> {
    lent: &'a ReplayWorkers,
    number: usize,
    bundle: Bundle,
    records: Option<Vec<Result<Record, Malformed>>>,
}

/// A record that was decoded, or not.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) lsn: Lsn,
    pub(crate) payload_bytes: usize,
    pub(crate) place: RecordPlace,
    pub(crate) record: Result<Record, Malformed>,
}

impl Default for ReplayWorkers {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Rank::Replay, Queue::default()),
            changed: Condvar::new(),
        }
    }
}

impl ReplayWorkers {
    /// Decodes until the store is open, or is not. To be called from as many threads as there are to lend.
    pub fn work(&self) {
        let mut page = ColumnBuf::default();
        let mut queue = self.lock();
        queue.helpers += 1;
        while !queue.ended {
            queue = match queue.begin() {
                Some(begun) => {
                    drop(queue);
                    self.decode(begun, &mut page);
                    self.lock()
                }
                None => self.wait(queue),
            };
        }
    }

    fn lock(&self) -> Locked<'_, Queue> {
        self.queue.lock()
    }

    fn wait<'a>(&self, queue: Locked<'a, Queue>) -> Locked<'a, Queue> {
        ranked::wait(&self.changed, queue)
    }

    fn decode(&self, (number, bundle): (usize, Bundle), page: &mut ColumnBuf) {
        let mut work = InWork {
            lent: self,
            number,
            bundle,
            records: None,
        };
        work.records = Some(work.bundle.decode(page));
    }

    /// No work follows: whoever waits for some returns.
    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }
}

impl Queue {
    /// Takes the first bundle that waits.
    fn begin(&mut self) -> Option<(usize, Bundle)> {
        let mut slots = self.bundles.iter_mut().enumerate();
        let (at, slot) = slots.find(|(_, slot)| matches!(slot, Slot::Waiting(_)))?;
        let Slot::Waiting(bundle) = std::mem::replace(slot, Slot::InWork) else {
            return None;
        };
        self.waiting_bytes -= bundle.payloads.len();
        Some((self.taken + at, bundle))
    }

    fn give_back(&mut self, number: usize, done: Slot) {
        if let Slot::Waiting(bundle) = &done {
            self.waiting_bytes += bundle.payloads.len();
        }
        if let Some(slot) = self.bundles.get_mut(number - self.taken) {
            *slot = done;
        }
    }

    fn pop_done(&mut self) -> Option<Decoded> {
        let Some(Slot::Done(_)) = self.bundles.front() else {
            return None;
        };
        let Some(Slot::Done(decoded)) = self.bundles.pop_front() else {
            return None;
        };
        self.taken += 1;
        Some(decoded)
    }

    fn is_full(&self) -> bool {
        self.bundles.len() > self.helpers * BUNDLES_EACH
            || (self.bundles.len() > 1 && self.waiting_bytes >= WAITING_BYTES_MAX)
    }
}

impl Bundle {
    fn decode(&self, page: &mut ColumnBuf) -> Vec<Result<Record, Malformed>> {
        let mut start = 0;
        let each = self.records.iter().map(|entry| {
            let payload = self.payloads.get(start..entry.end).unwrap_or_default();
            start = entry.end;
            record::decode_with(entry.lsn, payload, page)
        });
        each.collect()
    }
}

impl Drop for InWork<'_> {
    fn drop(&mut self) {
        let bundle = std::mem::take(&mut self.bundle);
        let slot = match self.records.take() {
            Some(records) => Slot::Done(Decoded { bundle, records }),
            None => Slot::Waiting(bundle),
        };
        self.lent.lock().give_back(self.number, slot);
        self.lent.changed.notify_all();
    }
}

/// The side of the one thread that opens the store. When it goes, the threads that were lent are given back.
#[derive(Debug)]
pub(crate) struct Ahead<'a> {
    lent: &'a ReplayWorkers,
    open: Bundle,
    page: ColumnBuf,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(lent: &'a ReplayWorkers) -> Self {
        Self {
            lent,
            open: Bundle::default(),
            page: ColumnBuf::default(),
        }
    }

    /// Adds a record behind all others, and hands those to `apply` that are decoded and those that there is no room for.
    pub(crate) fn push<E>(
        &mut self,
        lsn: Lsn,
        payload: &[u8],
        place: &RecordPlace,
        apply: &mut impl FnMut(Ready) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open.payloads.extend_from_slice(payload);
        self.open.records.push(Entry {
            lsn,
            end: self.open.payloads.len(),
            place: place.clone(),
        });
        if self.open.payloads.len() < BUNDLE_BYTES {
            return Ok(());
        }
        self.hand_over();
        self.drain(false, apply)
    }

    /// Hands all that is left to `apply`.
    pub(crate) fn finish<E>(
        &mut self,
        apply: &mut impl FnMut(Ready) -> Result<(), E>,
    ) -> Result<(), E> {
        self.hand_over();
        self.drain(true, apply)
    }

    fn hand_over(&mut self) {
        let bundle = std::mem::take(&mut self.open);
        let mut queue = self.lent.lock();
        self.open.payloads = queue.rooms.pop().unwrap_or_default();
        self.open.payloads.clear();
        queue.waiting_bytes += bundle.payloads.len();
        queue.bundles.push_back(Slot::Waiting(bundle));
        drop(queue);
        self.lent.changed.notify_all();
    }

    fn drain<E>(
        &mut self,
        all: bool,
        apply: &mut impl FnMut(Ready) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut queue = self.lent.lock();
        loop {
            if let Some(decoded) = queue.pop_done() {
                drop(queue);
                let mut start = 0;
                let Bundle { payloads, records } = decoded.bundle;
                for (entry, record) in records.into_iter().zip(decoded.records) {
                    apply(Ready {
                        lsn: entry.lsn,
                        payload_bytes: entry.end - start,
                        place: entry.place,
                        record,
                    })?;
                    start = entry.end;
                }
                queue = self.lent.lock();
                queue.rooms.push(payloads);
            } else if queue.bundles.is_empty() || !(all || queue.is_full()) {
                return Ok(());
            } else if let Some(begun) = queue.begin() {
                drop(queue);
                self.lent.decode(begun, &mut self.page);
                queue = self.lent.lock();
            } else {
                queue = self.lent.wait(queue);
            }
        }
    }
}

impl Drop for Ahead<'_> {
    fn drop(&mut self) {
        self.lent.end();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::{Batch, TableRows};
    use crate::record::encode_batch;
    use crate::schema::TableId;

    /// A batch of so many rows whose first time is its LSN, or bytes that are no record.
    fn payload(lsn: Lsn) -> Vec<u8> {
        if lsn.is_multiple_of(17) {
            return vec![200; lsn as usize % 5000];
        }
        let rows = if lsn.is_multiple_of(3) { 20_000 } else { 5 };
        let times: Vec<i64> = (0..rows).map(|row| (lsn * row * row) as i64).collect();
        let table = TableRows {
            table: TableId(1),
            series: (0..rows as u32).collect(),
            times: times.iter().map(|time| time + lsn as i64).collect(),
            columns: Vec::new(),
        };
        let batch = Batch {
            tables: vec![table],
            ..Batch::default()
        };
        encode_batch(&batch).unwrap()
    }

    fn replayed(threads: usize) -> Vec<(Lsn, usize, bool)> {
        let lent = ReplayWorkers::default();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| lent.work());
            }
            let mut ahead = Ahead::new(&lent);
            let place = RecordPlace::at(Path::new("/log"));
            let mut seen = Vec::new();
            let mut apply = |ready: Ready| {
                if let Ok(Record::Batch(batch)) = &ready.record {
                    assert_eq!(batch.tables[0].times[0], ready.lsn as i64);
                }
                seen.push((ready.lsn, ready.payload_bytes, ready.record.is_ok()));
                Ok::<(), ()>(())
            };
            for lsn in 1..400 {
                ahead.push(lsn, &payload(lsn), &place, &mut apply).unwrap();
            }
            ahead.finish(&mut apply).unwrap();
            seen
        })
    }

    #[test]
    fn records_come_in_their_order_however_many_threads_decode_them() {
        let expected: Vec<(Lsn, usize, bool)> = (1..400)
            .map(|lsn| (lsn, payload(lsn).len(), lsn % 17 != 0))
            .collect();
        for threads in [0, 1, 2, 5] {
            assert_eq!(replayed(threads), expected, "{threads} threads");
        }
    }

    #[test]
    fn the_queue_holds_no_more_of_the_log_than_it_says() {
        let lent = ReplayWorkers::default();
        // Nobody works, as if both threads that were lent never got a processor.
        lent.lock().helpers = 2;
        let mut ahead = Ahead::new(&lent);
        let place = RecordPlace::at(Path::new("/log"));
        let mut applied = 0;
        for lsn in 1..=100 {
            let payload = vec![200; 1 << 20];
            let apply = &mut |_: Ready| {
                applied += 1;
                Ok::<(), ()>(())
            };
            ahead.push(lsn, &payload, &place, apply).unwrap();
            let waiting = lent.lock().waiting_bytes;
            assert!(waiting < WAITING_BYTES_MAX, "{waiting} bytes wait");
        }
        assert!(applied >= 96, "{applied} applied");
    }

    #[test]
    fn a_bundle_is_back_in_the_queue_when_decoding_it_did_not_end() {
        let lent = ReplayWorkers::default();
        let mut ahead = Ahead::new(&lent);
        let place = RecordPlace::at(Path::new("/log"));
        lent.lock().helpers = 1;
        let mut seen = Vec::new();
        let apply = &mut |ready: Ready| {
            seen.push(ready.lsn);
            Ok::<(), ()>(())
        };
        let long = vec![200; BUNDLE_BYTES];
        ahead.push(1, &long, &place, apply).unwrap();
        let (number, bundle) = lent.lock().begin().unwrap();
        drop(InWork {
            lent: &lent,
            number,
            bundle,
            records: None,
        });
        ahead.push(2, &long, &place, apply).unwrap();
        ahead.finish(apply).unwrap();
        assert_eq!(seen, [1, 2]);
        assert_eq!(lent.lock().waiting_bytes, 0);
    }
}
