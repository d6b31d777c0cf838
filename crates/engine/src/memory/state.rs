//! Places of rows at one moment: segments, a head on its way into one, and the head that takes more.
//!
//! Does: hold them together, so that who has a state has every row once. Does not: change; who maintains the store puts
//! another in its place.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use crate::catalogue::SetAside;
use crate::head::Head;
use crate::manifest::{Contents, FileKind};
use crate::relation::Pin;
use crate::schema::{Lsn, TableId};
use crate::segment::{Segment, Window};
use crate::tombstone::Tombstone;

/// What a snapshot reads together.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) version: Arc<Version>,
    /// Rows on their way into a segment.
    pub(crate) frozen: Option<Arc<Frozen>>,
    pub(crate) head: Arc<Head>,
    /// What the transaction that reads has written itself.
    pub(crate) own: Option<OwnHead>,
}

/// Rows and deletes that nobody else sees.
#[derive(Debug, Clone)]
pub(crate) struct OwnHead {
    pub(crate) head: Arc<Head>,
    /// The last of its statements that is seen.
    pub(crate) lsn: Lsn,
}

/// Segments that are gone over for each table: a look into a few takes no longer than a list of them.
const FEW_SEGMENTS: usize = 16;

/// The immutable part of the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    /// Counts up from version to version.
    pub(crate) number: u64,
    /// In the order in which their rows count: [`crate::segment::SegmentMeta::place`].
    pub(crate) segments: Vec<Arc<Segment>>,
    /// What there is of each table. Made when it is first asked for.
    by_table: Arc<OnceLock<HashMap<TableId, OfTable>>>,
    pub(crate) flushed_lsn: Lsn,
    /// Deletes that rows in segments still wait for, in LSN order.
    pub(crate) tombstones: Vec<Arc<Tombstone>>,
    pub(crate) windows: BTreeSet<Window>,
    pub(crate) written_bytes: u64,
    pub(crate) definition_bytes: u64,
}

/// What there is of a table.
#[derive(Debug, Clone, Default)]
struct OfTable {
    /// The segments that have rows of it, ascending.
    listed: Vec<Listed>,
    partitions: u64,
}

/// A segment that has rows of a table.
#[derive(Debug, Clone, Copy)]
struct Listed {
    /// Its position in the version.
    at: u32,
    /// The times that these rows lie between.
    min_time: i64,
    max_time: i64,
}

impl Version {
    /// The part of it that may hold rows above `lsn`.
    pub(crate) fn since(&self, lsn: Lsn) -> Self {
        let newer = self.segments.iter().filter(|s| s.meta.max_lsn > lsn);
        Self {
            segments: newer.cloned().collect(),
            by_table: Arc::default(),
            ..self.clone()
        }
    }

    /// The segments that may have rows of a table, in their order. Ten thousand tables with files of their own are not gone over
    /// for each of them.
    pub(crate) fn segments_of(
        &self,
        table: TableId,
    ) -> impl DoubleEndedIterator<Item = &Arc<Segment>> {
        let (few, listed) = self.few_or_listed(table);
        let listed = listed.iter();
        let listed = listed.filter_map(|it| self.segments.get(it.at as usize));
        few.iter().chain(listed)
    }

    /// The segments that may have rows of a table in a range of time, in their order. Of ten thousand partitions only those are
    /// touched: their times stand side by side.
    pub(crate) fn segments_in(
        &self,
        table: TableId,
        time: &RangeInclusive<i64>,
    ) -> impl Iterator<Item = &Arc<Segment>> {
        let (from, until) = (*time.start(), *time.end());
        let (few, listed) = self.few_or_listed(table);
        let listed = listed
            .iter()
            .filter(move |it| it.max_time >= from && it.min_time <= until);
        let listed = listed.filter_map(|it| self.segments.get(it.at as usize));
        few.iter().chain(listed)
    }

    /// How many segments have rows of a table.
    pub(crate) fn segments_with_rows(&self, table: TableId) -> u64 {
        let (few, listed) = self.few_or_listed(table);
        let few = few.iter();
        let few = few.filter(|segment| segment.groups(table).next().is_some());
        (few.count() + listed.len()) as u64
    }

    /// How many partitions a table has.
    pub(crate) fn partitions(&self, table: TableId) -> u64 {
        if self.segments.len() <= FEW_SEGMENTS {
            let edge = |time| Window {
                table,
                start: time,
                end: time,
            };
            let own = self.windows.range(edge(i64::MIN)..=edge(i64::MAX));
            return own.count() as u64;
        }
        self.of_table(table).map_or(0, |own| own.partitions)
    }

    /// All segments if there are few, or those that have rows of a table.
    fn few_or_listed(&self, table: TableId) -> (&[Arc<Segment>], &[Listed]) {
        if self.segments.len() <= FEW_SEGMENTS {
            return (self.segments.as_slice(), [].as_slice());
        }
        let own = self.of_table(table);
        let listed = own.map_or([].as_slice(), |own| own.listed.as_slice());
        ([].as_slice(), listed)
    }

    fn of_table(&self, table: TableId) -> Option<&OfTable> {
        let make = || by_table(&self.segments, &self.windows);
        self.by_table.get_or_init(make).get(&table)
    }

    pub(crate) fn new(number: u64, mut segments: Vec<Arc<Segment>>, contents: &Contents) -> Self {
        segments.sort_by_key(|segment| segment.meta.place());
        Self {
            number,
            segments,
            by_table: Arc::default(),
            flushed_lsn: contents.flushed_lsn,
            tombstones: contents.tombstones.clone(),
            windows: contents.windows.clone(),
            written_bytes: contents.written_bytes,
            definition_bytes: name_bytes(contents),
        }
    }

    /// The same with other files beside the segments.
    pub(crate) fn with_files(&self, contents: &Contents) -> Self {
        Self {
            definition_bytes: name_bytes(contents),
            ..self.clone()
        }
    }
}

fn by_table(segments: &[Arc<Segment>], windows: &BTreeSet<Window>) -> HashMap<TableId, OfTable> {
    let mut by_table: HashMap<TableId, OfTable> = HashMap::new();
    for (at, segment) in (0..).zip(segments) {
        for (table, min_time, max_time) in segment.spans() {
            let known = &mut by_table.entry(table).or_default().listed;
            match known.last_mut() {
                Some(last) if last.at == at => {
                    last.min_time = last.min_time.min(min_time);
                    last.max_time = last.max_time.max(max_time);
                }
                _ => known.push(Listed {
                    at,
                    min_time,
                    max_time,
                }),
            }
        }
    }
    for window in windows {
        by_table.entry(window.table).or_default().partitions += 1;
    }
    by_table
}

/// Bytes of the files that say what has which name.
fn name_bytes(contents: &Contents) -> u64 {
    let kinds = [FileKind::Definitions, FileKind::Index].into_iter();
    let files = kinds.flat_map(|kind| contents.files_of(kind));
    files.map(|file| file.bytes).sum()
}

impl State {
    /// The heads, oldest first, each with the last LSN that counts in it, if that is `visible` for what was acknowledged.
    pub(crate) fn heads(&self, visible: Lsn) -> impl Iterator<Item = (&Arc<Head>, Lsn)> {
        let frozen = self.frozen.iter().map(move |it| (&it.head, visible));
        let own = self.own.iter().map(|own| (&own.head, own.lsn));
        frozen.chain([(&self.head, visible)]).chain(own)
    }

    /// Deletes up to `visible`, in LSN order.
    pub(crate) fn all_tombstones(&self, visible: Lsn) -> Vec<Arc<Tombstone>> {
        let filed = self.version.tombstones.iter();
        let filed = filed.filter(|tombstone| tombstone.lsn <= visible).cloned();
        let heads = self.heads(visible);
        filed
            .chain(heads.flat_map(|(head, visible)| head.tombstones(visible)))
            .collect()
    }

    /// Deletes in a table up to `visible`, in LSN order.
    pub(crate) fn tombstones(&self, table: TableId, visible: Lsn) -> Vec<Arc<Tombstone>> {
        let mut all = self.all_tombstones(visible);
        all.retain(|tombstone| tombstone.table == table);
        all
    }
}

/// A head that takes no more rows.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) head: Arc<Head>,
    /// The last LSN that it may hold; the head after it starts above.
    pub(crate) lsn: Lsn,
    pub(crate) min_lsn: Lsn,
    pub(crate) definitions: Vec<u8>,
    pub(crate) series: Option<SetAside>,
    /// Keeps what relations were at `lsn`.
    pub(crate) _pin: Arc<Pin>,
}
