//! Places of rows at one moment: segments, a head on its way into one, and the head that takes more.
//!
//! Does: hold them together, so that who has a state has every row once. Does not: change; who maintains the store puts
//! another in its place.

use std::collections::{BTreeSet, HashMap};
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
    /// Positions of the segments that have rows of a table, ascending. Made when it is first asked for.
    by_table: Arc<OnceLock<HashMap<TableId, Vec<u32>>>>,
    pub(crate) flushed_lsn: Lsn,
    /// Deletes that rows in segments still wait for, in LSN order.
    pub(crate) tombstones: Vec<Arc<Tombstone>>,
    pub(crate) windows: BTreeSet<Window>,
    pub(crate) written_bytes: u64,
    pub(crate) definition_bytes: u64,
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
        let (few, listed) = if self.segments.len() <= FEW_SEGMENTS {
            (self.segments.as_slice(), None)
        } else {
            let by_table = self.by_table.get_or_init(|| by_table(&self.segments));
            ([].as_slice(), by_table.get(&table))
        };
        let listed = listed.map_or([].as_slice(), Vec::as_slice).iter();
        few.iter()
            .chain(listed.filter_map(|at| self.segments.get(*at as usize)))
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

fn by_table(segments: &[Arc<Segment>]) -> HashMap<TableId, Vec<u32>> {
    let mut by_table: HashMap<TableId, Vec<u32>> = HashMap::new();
    for (at, segment) in (0..).zip(segments) {
        for table in segment.tables() {
            let known = by_table.entry(table).or_default();
            if known.last() != Some(&at) {
                known.push(at);
            }
        }
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
