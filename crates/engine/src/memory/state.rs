//! Places of rows at one moment: segments, a head on its way into one, and the head that takes more.
//!
//! Does: hold them together, so that who has a state has every row once. Does not: change; who maintains the store puts
//! another in its place.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Files of rows that it has staged; the version of its snapshot has them too.
    pub(crate) staged: Vec<Arc<Segment>>,
}

impl OwnHead {
    /// Whether a segment is one of those that it has staged.
    pub(crate) fn has(&self, segment: &Arc<Segment>) -> bool {
        self.staged.iter().any(|it| Arc::ptr_eq(it, segment))
    }
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
    /// The deletes of each table. Made when one is first asked for.
    deletes_by_table: Arc<OnceLock<HashMap<TableId, Vec<Arc<Tombstone>>>>>,
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

    /// The same with segments of a transaction, which are newer than all others.
    pub(crate) fn with_own(&self, staged: &[Arc<Segment>]) -> Self {
        Self {
            segments: self.segments.iter().chain(staged).cloned().collect(),
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
            deletes_by_table: Arc::default(),
            flushed_lsn: contents.flushed_lsn,
            tombstones: contents.tombstones.clone(),
            windows: contents.windows.clone(),
            written_bytes: contents.written_bytes,
            definition_bytes: name_bytes(contents),
        }
    }

    /// Deletes in a table that rows in segments still wait for, in LSN order.
    fn tombstones_of(&self, table: TableId) -> &[Arc<Tombstone>] {
        let by_table = self.deletes_by_table.get_or_init(|| {
            let mut by_table: HashMap<TableId, Vec<Arc<Tombstone>>> = HashMap::new();
            for tombstone in &self.tombstones {
                let own = by_table.entry(tombstone.table).or_default();
                own.push(Arc::clone(tombstone));
            }
            by_table
        });
        by_table.get(&table).map(Vec::as_slice).unwrap_or_default()
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
        let filed = self.version.tombstones_of(table).iter();
        let filed = filed.filter(|tombstone| tombstone.lsn <= visible).cloned();
        let heads = self.heads(visible);
        filed
            .chain(heads.flat_map(|(head, visible)| head.tombstones_in(table, visible)))
            .collect()
    }
}

/// A head that takes no more rows.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) head: Arc<Head>,
    /// The head after it starts above this LSN.
    pub(crate) lsn: Lsn,
    /// The last LSN that it may hold; what is published with it has those up to `lsn`.
    pub(crate) rows_lsn: Lsn,
    pub(crate) min_lsn: Lsn,
    pub(crate) definitions: Vec<u8>,
    pub(crate) series: Option<SetAside>,
    /// The LSN of the file with flash pages of the head, if it has some.
    pub(crate) pages_lsn: Option<Lsn>,
    /// Keeps what relations were at `lsn`.
    pub(crate) _pin: Arc<Pin>,
    /// What the edit that lists its files lists too.
    pub(crate) staged: Option<StagedFiles>,
}

/// Files of a transaction that become part of the store with a frozen head, behind its rows.
#[derive(Debug)]
pub(crate) struct StagedFiles {
    /// In the order in which their rows count.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// What the transaction has deleted, in LSN order.
    pub(crate) deletes: Vec<Arc<Tombstone>>,
    /// Of each segment: its table, rows that went into it, and those of them that became part of newer ones.
    pub(crate) rows: Vec<(TableId, u64, u64)>,
    /// They became part of nothing.
    pub(crate) is_given_up: AtomicBool,
}

impl StagedFiles {
    /// Whether rows of a table are in them, or were deleted.
    pub(crate) fn concerns(&self, table: TableId) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|it| it.groups(table).next().is_some())
            || self.deletes.iter().any(|it| it.table == table)
    }
}

impl Frozen {
    /// What is published with it, unless it was given up.
    pub(crate) fn staged(&self) -> Option<&StagedFiles> {
        let staged = self.staged.as_ref();
        staged.filter(|it| !it.is_given_up.load(Ordering::Acquire))
    }

    /// What was to be published with it stays out.
    pub(crate) fn give_up_staged(&self) {
        if let Some(staged) = &self.staged {
            staged.is_given_up.store(true, Ordering::Release);
        }
    }
}
