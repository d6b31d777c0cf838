//! Planted bugs: what the simulation must catch, or it proves nothing.
//!
//! Each names a rule of the engine and breaks it. No setting, flag or variable reaches this: only a program that
//! links the engine and fills in [`crate::Options::sabotage`] can, and the simulation is the only one that does.

mod disk;

pub(crate) use disk::between;

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sabotage {
    /// The head takes a batch before the one with the lower LSN.
    HeadOutOfLogOrder,
    /// The manifest names a segment whose bytes are not synced.
    ManifestBeforeDataSync,
    /// Log files are recycled before the manifest that makes them unneeded is durable.
    LogTrimmedBeforeManifest,
    /// A sync that failed is tried again, and its second answer believed.
    RetryFailedSync,
    /// A compaction writes rows that a delete had hidden, and says that it did not.
    TombstoneDropped,
    /// After a table is dropped its id and those of its series are given out again, if nothing live has higher ones.
    SeriesIdReused,
    /// An aggregation lets a rollup stand for rows although another source has rows of the series in that hour.
    RollupOverOverlap,
    /// A write that wrote less than it was asked to is taken for a whole one.
    ShortWriteIgnored,
    /// New, renamed and removed names are not made durable.
    DirectorySyncSkipped,
    /// A write that looked its keys up does not ask again, under the sequencer, whether another writer came in between.
    KeysNotCheckedAgain,
    /// A flush notes that the file of a relation has what was written to the relation while the file was.
    RelationFiledEarly,
    /// Replay brings rows of relations back, and enters them under their primary keys only.
    UniqueKeysNotReplayed,
    /// Files that a compaction replaced are removed although somebody still reads them.
    FileRemovedUnderReader,
    /// The first table of a batch of several gets a record and an LSN of its own, so a crash may leave it alone.
    PartialBatchVisible,
    /// The mark beside the log names a group that is not synced yet.
    MarkBeforeSync,
    /// A compaction leaves out the rows of groups that span very many partitions, and shows no balance of rows.
    RowsLeftOut,
    /// A series of which only rows in memory are left leaves the index.
    SeriesOfHeadForgotten,
    /// A compaction takes some files of one last LSN and leaves others, and what it writes counts as newer than those.
    RunCutInTie,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::HeadOutOfLogOrder,
        Self::ManifestBeforeDataSync,
        Self::LogTrimmedBeforeManifest,
        Self::RetryFailedSync,
        Self::TombstoneDropped,
        Self::SeriesIdReused,
        Self::RollupOverOverlap,
        Self::ShortWriteIgnored,
        Self::DirectorySyncSkipped,
        Self::KeysNotCheckedAgain,
        Self::RelationFiledEarly,
        Self::UniqueKeysNotReplayed,
        Self::FileRemovedUnderReader,
        Self::PartialBatchVisible,
        Self::MarkBeforeSync,
        Self::RowsLeftOut,
        Self::SeriesOfHeadForgotten,
        Self::RunCutInTie,
    ];
}
