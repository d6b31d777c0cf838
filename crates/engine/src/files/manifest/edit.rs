//! The state that the manifest describes, and edits to it. Bytes: `docs/format/manifest.md`.

use std::collections::BTreeSet;
use std::sync::Arc;

use nilometer_codec::varint;

use crate::definition::{take_byte, take_u32};
use crate::error::Malformed;
use crate::schema::{Lsn, TableId};
use crate::segment::{Home, SegmentMeta, Window};
use crate::tombstone::Tombstone;

const END: u8 = 0;
const NEXT_FILE_ID: u8 = 1;
const FLUSHED_LSN: u8 = 2;
const CLOCK: u8 = 3;
const ADDED_SEGMENTS: u8 = 4;
const REMOVED_SEGMENTS: u8 = 5;
const ADDED_FILES: u8 = 6;
const REMOVED_FILES: u8 = 7;
const ADDED_WINDOWS: u8 = 8;
const REMOVED_WINDOWS: u8 = 9;
const ADDED_TOMBSTONES: u8 = 10;
const REMOVED_TOMBSTONES: u8 = 11;
const WRITTEN_BYTES: u8 = 12;
const BACKUP_LOG: u8 = 13;
const NEXT_SERIES: u8 = 14;

const HOME_MIXED: u8 = 0;
const HOME_PARTITION: u8 = 1;

/// A file of the store that is no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMeta {
    pub(crate) kind: FileKind,
    pub(crate) file_id: u64,
    pub(crate) bytes: u64,
}

/// What a file that is no segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// What gave names their ids.
    Definitions = 1,
    /// Keys of batches that must not be written twice.
    Keys = 2,
    /// Rows of relations.
    Relations = 3,
    /// Series by tag.
    Index = 4,
}

impl TryFrom<u8> for FileKind {
    type Error = Malformed;

    fn try_from(number: u8) -> Result<Self, Malformed> {
        Ok(match number {
            1 => Self::Definitions,
            2 => Self::Keys,
            3 => Self::Relations,
            4 => Self::Index,
            other => return Err(Malformed::new(format!("unknown kind of file {other}"))),
        })
    }
}

/// The log of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackupLog {
    /// The number of the one file that it may have.
    pub(crate) number: u64,
    /// Where it ends; the flushed LSN = it has no file.
    pub(crate) last_lsn: Lsn,
}

/// What the manifest says in sum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// File ids below this have been given away.
    pub(crate) next_file_id: u64,
    /// Ids of series below this were given away when the last flush began, whatever became of the files that say so.
    pub(crate) next_series: u32,
    /// Everything up to this LSN is in files.
    pub(crate) flushed_lsn: Lsn,
    /// The latest time that retention believed, in nanoseconds; 0 = it never ran.
    pub(crate) clock_ns: i64,
    /// Bytes of segments ever written, removed ones included.
    pub(crate) written_bytes: u64,
    /// This is a backup, and of all log files only this one counts.
    pub(crate) backup_log: Option<BackupLog>,
    /// In the order in which their rows count: [`SegmentMeta::place`].
    pub(crate) segments: Vec<SegmentMeta>,
    /// In the order in which they must be read.
    pub(crate) files: Vec<FileMeta>,
    /// Partitions, none overlapping another of its table.
    pub(crate) windows: BTreeSet<Window>,
    /// Deletes that rows in files still wait for, in LSN order.
    pub(crate) tombstones: Vec<Arc<Tombstone>>,
}

/// One change, which holds as a whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) next_file_id: u64,
    pub(crate) next_series: u32,
    pub(crate) flushed_lsn: Lsn,
    pub(crate) clock_ns: i64,
    pub(crate) written_bytes: u64,
    pub(crate) backup_log: Option<BackupLog>,
    pub(crate) added_segments: Vec<SegmentMeta>,
    /// File ids.
    pub(crate) removed_segments: Vec<u64>,
    pub(crate) added_files: Vec<FileMeta>,
    /// File ids.
    pub(crate) removed_files: Vec<u64>,
    pub(crate) added_windows: Vec<Window>,
    pub(crate) removed_windows: Vec<Window>,
    pub(crate) added_tombstones: Vec<Arc<Tombstone>>,
    /// LSN and table.
    pub(crate) removed_tombstones: Vec<(Lsn, TableId)>,
}

impl Contents {
    /// Files of one kind, in the order in which they must be read.
    pub(crate) fn files_of(&self, kind: FileKind) -> impl Iterator<Item = &FileMeta> {
        self.files.iter().filter(move |file| file.kind == kind)
    }

    /// Makes an edit hold. Removing what is not there is an error: the edit belongs to another manifest.
    pub(crate) fn apply(&mut self, edit: Edit) -> Result<(), Malformed> {
        self.next_file_id = self.next_file_id.max(edit.next_file_id);
        self.next_series = self.next_series.max(edit.next_series);
        self.flushed_lsn = self.flushed_lsn.max(edit.flushed_lsn);
        self.clock_ns = self.clock_ns.max(edit.clock_ns);
        self.written_bytes = self.written_bytes.max(edit.written_bytes);
        self.backup_log = edit.backup_log.or(self.backup_log);
        for id in &edit.removed_segments {
            let before = self.segments.len();
            self.segments.retain(|segment| segment.file_id != *id);
            found(before, self.segments.len(), "segment")?;
        }
        for id in &edit.removed_files {
            let before = self.files.len();
            self.files.retain(|file| file.file_id != *id);
            found(before, self.files.len(), "file")?;
        }
        for window in &edit.removed_windows {
            if !self.windows.remove(window) {
                return Err(Malformed::new(
                    "an edit removes a partition that is not there",
                ));
            }
        }
        for (lsn, table) in &edit.removed_tombstones {
            self.tombstones
                .retain(|tombstone| (tombstone.lsn, tombstone.table) != (*lsn, *table));
        }
        self.segments.extend(edit.added_segments);
        self.segments.sort_by_key(SegmentMeta::place);
        self.files.extend(edit.added_files);
        self.windows.extend(edit.added_windows);
        self.tombstones.extend(edit.added_tombstones);
        self.tombstones.sort_by_key(|tombstone| tombstone.lsn);
        let apart = self.windows.iter().zip(self.windows.iter().skip(1));
        if apart
            .clone()
            .any(|(a, b)| a.table == b.table && a.last() >= b.start)
        {
            return Err(Malformed::new("two partitions of a table overlap"));
        }
        Ok(())
    }

    /// The edit that says all of this.
    pub(crate) fn whole(&self) -> Edit {
        Edit {
            next_file_id: self.next_file_id,
            next_series: self.next_series,
            flushed_lsn: self.flushed_lsn,
            clock_ns: self.clock_ns,
            written_bytes: self.written_bytes,
            backup_log: self.backup_log,
            added_segments: self.segments.clone(),
            added_files: self.files.clone(),
            added_windows: self.windows.iter().copied().collect(),
            added_tombstones: self.tombstones.clone(),
            ..Edit::default()
        }
    }
}

fn found(before: usize, after: usize, what: &str) -> Result<(), Malformed> {
    if before == after + 1 {
        Ok(())
    } else {
        Err(Malformed::new(format!(
            "an edit removes a {what} that is not there"
        )))
    }
}

impl Edit {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(NEXT_FILE_ID, self.next_file_id, out);
        put_number(NEXT_SERIES, self.next_series.into(), out);
        put_number(FLUSHED_LSN, self.flushed_lsn, out);
        put_number(WRITTEN_BYTES, self.written_bytes, out);
        if self.clock_ns != 0 {
            out.push(CLOCK);
            varint::put_i64(self.clock_ns, out);
        }
        if let Some(log) = self.backup_log {
            out.push(BACKUP_LOG);
            varint::put_u64(log.number, out);
            varint::put_u64(log.last_lsn, out);
        }
        put_list(ADDED_SEGMENTS, &self.added_segments, out, put_segment);
        put_list(REMOVED_SEGMENTS, &self.removed_segments, out, |id, out| {
            varint::put_u64(*id, out);
        });
        put_list(ADDED_FILES, &self.added_files, out, |file, out| {
            out.push(file.kind as u8);
            varint::put_u64(file.file_id, out);
            varint::put_u64(file.bytes, out);
        });
        put_list(REMOVED_FILES, &self.removed_files, out, |id, out| {
            varint::put_u64(*id, out);
        });
        put_list(ADDED_WINDOWS, &self.added_windows, out, put_window);
        put_list(REMOVED_WINDOWS, &self.removed_windows, out, put_window);
        put_list(ADDED_TOMBSTONES, &self.added_tombstones, out, |it, out| {
            it.encode(out);
        });
        put_list(
            REMOVED_TOMBSTONES,
            &self.removed_tombstones,
            out,
            |(lsn, table), out| {
                varint::put_u64(*lsn, out);
                varint::put_u64(u64::from(table.0), out);
            },
        );
        out.push(END);
    }

    pub(crate) fn decode(mut input: &[u8]) -> Result<Self, Malformed> {
        let input = &mut input;
        let mut edit = Self::default();
        loop {
            match take_byte(input)? {
                END if input.is_empty() => return Ok(edit),
                END => return Err(Malformed::new("bytes after an edit")),
                NEXT_FILE_ID => edit.next_file_id = varint::get_u64(input)?,
                NEXT_SERIES => edit.next_series = take_u32(input)?,
                FLUSHED_LSN => edit.flushed_lsn = varint::get_u64(input)?,
                WRITTEN_BYTES => edit.written_bytes = varint::get_u64(input)?,
                CLOCK => edit.clock_ns = varint::get_i64(input)?,
                BACKUP_LOG => {
                    edit.backup_log = Some(BackupLog {
                        number: varint::get_u64(input)?,
                        last_lsn: varint::get_u64(input)?,
                    });
                }
                ADDED_SEGMENTS => edit.added_segments = take_list(input, take_segment)?,
                REMOVED_SEGMENTS => {
                    edit.removed_segments = take_list(input, |input| Ok(varint::get_u64(input)?))?;
                }
                ADDED_FILES => edit.added_files = take_list(input, take_file)?,
                REMOVED_FILES => {
                    edit.removed_files = take_list(input, |input| Ok(varint::get_u64(input)?))?;
                }
                ADDED_WINDOWS => edit.added_windows = take_list(input, take_window)?,
                REMOVED_WINDOWS => edit.removed_windows = take_list(input, take_window)?,
                ADDED_TOMBSTONES => {
                    edit.added_tombstones =
                        take_list(input, |input| Tombstone::decode(input).map(Arc::new))?;
                }
                REMOVED_TOMBSTONES => {
                    edit.removed_tombstones = take_list(input, |input| {
                        Ok((varint::get_u64(input)?, TableId(take_u32(input)?)))
                    })?;
                }
                other => {
                    return Err(Malformed::new(format!("unknown part {other} of an edit")));
                }
            }
        }
    }
}

fn put_number(part: u8, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        out.push(part);
        varint::put_u64(number, out);
    }
}

fn put_list<T>(part: u8, list: &[T], out: &mut Vec<u8>, put: impl Fn(&T, &mut Vec<u8>)) {
    if list.is_empty() {
        return;
    }
    out.push(part);
    varint::put_u64(list.len() as u64, out);
    for item in list {
        put(item, out);
    }
}

fn take_list<T>(
    input: &mut &[u8],
    take: impl Fn(&mut &[u8]) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let n = take_u32(input)?;
    // Not reserved ahead: the count is a claim, the bytes are not.
    (0..n).map(|_| take(input)).collect()
}

fn put_segment(segment: &SegmentMeta, out: &mut Vec<u8>) {
    for number in [
        segment.file_id,
        segment.bytes,
        segment.rows,
        segment.min_lsn,
        segment.max_lsn,
        segment.applied_lsn,
    ] {
        varint::put_u64(number, out);
    }
    match &segment.home {
        Home::Mixed => out.push(HOME_MIXED),
        Home::Partition(window) => {
            out.push(HOME_PARTITION);
            put_window(window, out);
        }
    }
}

fn take_segment(input: &mut &[u8]) -> Result<SegmentMeta, Malformed> {
    Ok(SegmentMeta {
        file_id: varint::get_u64(input)?,
        bytes: varint::get_u64(input)?,
        rows: varint::get_u64(input)?,
        min_lsn: varint::get_u64(input)?,
        max_lsn: varint::get_u64(input)?,
        applied_lsn: varint::get_u64(input)?,
        home: match take_byte(input)? {
            HOME_MIXED => Home::Mixed,
            HOME_PARTITION => Home::Partition(take_window(input)?),
            other => return Err(Malformed::new(format!("unknown home {other}"))),
        },
    })
}

fn take_file(input: &mut &[u8]) -> Result<FileMeta, Malformed> {
    Ok(FileMeta {
        kind: FileKind::try_from(take_byte(input)?)?,
        file_id: varint::get_u64(input)?,
        bytes: varint::get_u64(input)?,
    })
}

fn put_window(window: &Window, out: &mut Vec<u8>) {
    varint::put_u64(u64::from(window.table.0), out);
    varint::put_i64(window.start, out);
    varint::put_i64(window.end, out);
}

fn take_window(input: &mut &[u8]) -> Result<Window, Malformed> {
    let window = Window {
        table: TableId(take_u32(input)?),
        start: varint::get_i64(input)?,
        end: varint::get_i64(input)?,
    };
    if window.start >= window.end {
        return Err(Malformed::new("a partition ends before it starts"));
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tombstone::Deleted;

    fn window(start: i64) -> Window {
        Window {
            table: TableId(4),
            start,
            end: start + 10,
        }
    }

    fn segment(file_id: u64, lsn: Lsn) -> SegmentMeta {
        SegmentMeta {
            file_id,
            bytes: 1000 + file_id,
            rows: 5,
            min_lsn: lsn,
            max_lsn: lsn + 1,
            applied_lsn: lsn + 1,
            home: if file_id.is_multiple_of(2) {
                Home::Mixed
            } else {
                Home::Partition(window(0))
            },
        }
    }

    fn everything() -> Edit {
        Edit {
            next_file_id: 9,
            next_series: 77,
            flushed_lsn: 40,
            clock_ns: -7,
            written_bytes: 123,
            backup_log: Some(BackupLog {
                number: 8,
                last_lsn: 44,
            }),
            added_segments: vec![segment(1, 3), segment(2, 1)],
            removed_segments: vec![5],
            added_files: vec![FileMeta {
                kind: FileKind::Keys,
                file_id: 3,
                bytes: 70,
            }],
            removed_files: vec![6],
            added_windows: vec![window(0)],
            removed_windows: vec![window(20)],
            added_tombstones: vec![Arc::new(Tombstone {
                lsn: 11,
                table: TableId(4),
                what: Deleted::Range {
                    series: None,
                    time: 1..=2,
                },
            })],
            removed_tombstones: vec![(7, TableId(4))],
        }
    }

    #[test]
    fn an_edit_reads_back_as_written_and_no_part_of_it_does() {
        let mut bytes = Vec::new();
        everything().encode(&mut bytes);
        assert_eq!(Edit::decode(&bytes), Ok(everything()));
        for n in 0..bytes.len() {
            assert!(Edit::decode(bytes.get(..n).unwrap_or_default()).is_err());
        }
    }

    #[test]
    fn additions_and_removals_add_up_and_the_sum_says_the_same() {
        let mut contents = Contents::default();
        let added = Edit {
            removed_segments: Vec::new(),
            removed_files: Vec::new(),
            removed_windows: Vec::new(),
            ..everything()
        };
        contents.apply(added).unwrap();
        let ids: Vec<u64> = contents.segments.iter().map(|it| it.file_id).collect();
        assert_eq!(ids, [2, 1], "in LSN order");
        let mut again = Contents::default();
        again.apply(contents.whole()).unwrap();
        assert_eq!(again, contents);
        contents
            .apply(Edit {
                removed_segments: vec![2],
                removed_files: vec![3],
                removed_windows: vec![window(0)],
                removed_tombstones: vec![(11, TableId(4))],
                ..Edit::default()
            })
            .unwrap();
        assert_eq!(contents.segments.len(), 1);
        assert!(contents.files.is_empty() && contents.windows.is_empty());
        assert!(contents.tombstones.is_empty());
    }

    #[test]
    fn an_edit_that_contradicts_the_manifest_is_refused() {
        let mut contents = Contents::default();
        let missing = Edit {
            removed_segments: vec![1],
            ..Edit::default()
        };
        assert!(contents.apply(missing).is_err());
        let overlapping = Edit {
            added_windows: vec![window(0), window(9)],
            ..Edit::default()
        };
        assert!(contents.apply(overlapping).is_err());
    }
}
