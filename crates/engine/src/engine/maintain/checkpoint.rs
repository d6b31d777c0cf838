//! Checkpoint of a flush: all but rows and definitions, so that the log up to the frozen LSN can go.
//!
//! Does: write and sync the files, put them into the flush's edit, and after it holds remove those it replaced. Does
//! not: sync the folder or append the edit; the flush does, in its order.

use crate::definitions_file;
use crate::engine::maintain::Jobs;
use crate::error::Error;
use crate::idempotency::{self, KeyCheckpoint};
use crate::layout::{definitions_name, segment_dir, side_name};
use crate::manifest::{Edit, FileKind, FileMeta};
use crate::relation::{self, RelationCheckpoint};
use crate::schema::Lsn;

/// A file of twice as many bytes is written again without a thought: that costs what the header and the sync cost anyway.
const SMALL_BYTES: u64 = 4096;

/// Definitions of more bytes are not written again with new ones: they are read once, at open, and few files can be as
/// large.
const MERGED_BYTES_MAX: u64 = 16 << 20;

/// Neighbours that become one file, which is not larger than that may be.
fn pieces_of(files: &[FileMeta]) -> Vec<&[FileMeta]> {
    let mut pieces = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, file) in files.iter().enumerate() {
        if at > start && bytes + file.bytes > MERGED_BYTES_MAX {
            pieces.extend(files.get(start..at));
            (start, bytes) = (at, 0);
        }
        bytes += file.bytes;
    }
    pieces.extend(files.get(start..).filter(|rest| !rest.is_empty()));
    pieces
}

/// Files that were written and those that they replace.
#[derive(Debug)]
pub(in crate::engine) struct SideCheckpoint {
    keys: KeyCheckpoint,
    keys_file: Option<u64>,
    relations: RelationCheckpoint,
    relation_files: Vec<u64>,
    /// Kind and id.
    replaced: Vec<(FileKind, u64)>,
}

impl Jobs {
    /// Writes and syncs new definitions, if there are any, and adds the file to `edit`: one with those of the last files in
    /// front, as long as these are not much larger than what goes with them, so that a file is there for each magnitude and
    /// not for each flush. Returns the files that it replaces.
    pub(in crate::engine) fn write_definitions(
        &self,
        new: &[u8],
        edit: &mut Edit,
    ) -> Result<Vec<(FileKind, u64)>, Error> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let files = self.definition_files();
        let mut replaced = Vec::new();
        let mut entries = new.to_vec();
        let mut bytes = new.len() as u64;
        for file in files.iter().rev() {
            let like = bytes.max(SMALL_BYTES).saturating_mul(2);
            if file.bytes > like || bytes + file.bytes > MERGED_BYTES_MAX {
                break;
            }
            // One that does not read stays where it is: that is for the scrub to tell and for opening to judge.
            let Ok(mut joined) = self.definitions_of(file) else {
                break;
            };
            joined.append(&mut entries);
            entries = joined;
            bytes += file.bytes;
            replaced.push((FileKind::Definitions, file.file_id));
        }
        self.write_definitions_file(&entries, edit)?;
        Ok(replaced)
    }

    /// Those of the manifest, in their order.
    fn definition_files(&self) -> Vec<FileMeta> {
        let manifest = self.manifest.lock();
        let files = manifest.contents.files_of(FileKind::Definitions);
        files.copied().collect()
    }

    fn write_definitions_file(&self, entries: &[u8], edit: &mut Edit) -> Result<(), Error> {
        let file_id = self.new_file_id();
        let path = segment_dir(self.site.dir()).join(definitions_name(file_id));
        self.site.remove_leftover(&path)?;
        let bytes =
            definitions_file::write(self.site.disk(), &path, self.site.uuid(), file_id, entries)?;
        edit.added_files.push(FileMeta {
            kind: FileKind::Definitions,
            file_id,
            bytes,
        });
        Ok(())
    }

    /// Writes the definitions of all files into as few as their size allows. Flushes keep them few already, but not those
    /// that an earlier version left, and a store that is settled shall be quick to open.
    ///
    /// Their order is their meaning, and what is new comes last: so those before one that is large, or does not read, stay.
    pub(in crate::engine) fn merge_definitions(&self) -> Result<(), Error> {
        if self.sequencer.check_poisoned().is_err() {
            return Ok(());
        }
        // No flush adds a file meanwhile.
        let _flushing = self.flushing.lock();
        let files = self.definition_files();
        let stays =
            |file: &FileMeta| file.bytes > MERGED_BYTES_MAX || self.definitions_of(file).is_err();
        let start = files.iter().rposition(stays).map_or(0, |at| at + 1);
        let merged = files.get(start..).unwrap_or_default();
        let pieces = pieces_of(merged);
        let bytes = merged.iter().map(|file| file.bytes).sum();
        let disk = self.site.disk();
        if pieces.len() == merged.len() || !self.site.has_room_for(bytes) {
            return Ok(());
        }
        let mut edit = Edit {
            removed_files: merged.iter().map(|file| file.file_id).collect(),
            ..Edit::default()
        };
        for piece in pieces {
            let mut entries = Vec::new();
            for file in piece {
                entries.append(&mut self.definitions_of(file)?);
            }
            self.write_definitions_file(&entries, &mut edit)?;
        }
        let dir = segment_dir(self.site.dir());
        disk.sync_dir(&dir).map_err(Error::io("sync", &dir))?;
        self.publish_definitions(edit)?;
        let mut gone = std::mem::take(&mut *self.replaced.lock());
        let merged = merged.iter().map(|file| file.file_id);
        gone.extend(merged.map(|id| (FileKind::Definitions, id)));
        self.remove_replaced(gone);
        Ok(())
    }

    /// Makes the edit hold, in a manifest that is written afresh: should its last edit not read one day, the store went
    /// back to what it was before, and the files of then are gone.
    fn publish_definitions(&self, mut edit: Edit) -> Result<(), Error> {
        let mut manifest = self.manifest.lock();
        edit.next_file_id = self.list().next_file_id;
        // From here on an error leaves it open what the manifest says: the store must be opened again to know.
        let disk = self.site.disk();
        manifest
            .append(disk, edit)
            .and_then(|()| manifest.rewrite(disk))
            .inspect_err(|error| self.sequencer.log().poison(&error.to_string()))?;
        self.sequencer
            .versions()
            .publish(|before| before.with_files(&manifest.contents));
        Ok(())
    }

    /// The definitions of a file, encoded as they are now.
    fn definitions_of(&self, file: &FileMeta) -> Result<Vec<u8>, Error> {
        let path = segment_dir(self.site.dir()).join(definitions_name(file.file_id));
        let mut entries = Vec::new();
        let (disk, id) = (self.site.disk(), file.file_id);
        definitions_file::read(disk, &path, self.site.uuid(), id, &mut |definition| {
            definition.encode(&mut entries);
            Ok(())
        })?;
        Ok(entries)
    }

    /// Writes and syncs what the log holds up to `lsn`, which is held, and no segment or definition file can, and adds
    /// it to `edit`. `replaced` are files that the edit replaces besides. An error changes nothing: the next flush does it
    /// again.
    pub(in crate::engine) fn checkpoint_sides(
        &self,
        lsn: Lsn,
        mut replaced: Vec<(FileKind, u64)>,
        edit: &mut Edit,
    ) -> Result<SideCheckpoint, Error> {
        let dir = segment_dir(self.site.dir());
        let keys = {
            let clock_ms = self.site.clock().monotonic_ms();
            let mut keys = self.sequencer.keys();
            let now_ns = keys.now_ns(clock_ms);
            keys.checkpoint(lsn, now_ns)
        };
        replaced.extend(keys.removed.iter().map(|&id| (FileKind::Keys, id)));
        let mut keys_file = None;
        if !keys.taken.is_empty() {
            let file_id = self.new_file_id();
            let path = dir.join(side_name(FileKind::Keys, file_id));
            self.site.remove_leftover(&path)?;
            let bytes = idempotency::write(
                self.site.disk(),
                &path,
                self.site.uuid(),
                file_id,
                &keys.taken,
            )?;
            edit.added_files.push(FileMeta {
                kind: FileKind::Keys,
                file_id,
                bytes,
            });
            keys_file = Some(file_id);
        }
        let relations = self.sequencer.relations().checkpoint(lsn);
        replaced.extend(
            relations
                .removed
                .iter()
                .map(|&id| (FileKind::Relations, id)),
        );
        let mut relation_files = Vec::new();
        for changed in &relations.changed {
            let file_id = self.new_file_id();
            let path = dir.join(side_name(FileKind::Relations, file_id));
            self.site.remove_leftover(&path)?;
            let bytes =
                relation::write(self.site.disk(), &path, self.site.uuid(), file_id, changed)?;
            edit.added_files.push(FileMeta {
                kind: FileKind::Relations,
                file_id,
                bytes,
            });
            relation_files.push(file_id);
        }
        edit.removed_files
            .extend(replaced.iter().map(|&(_, id)| id));
        Ok(SideCheckpoint {
            keys,
            keys_file,
            relations,
            relation_files,
            replaced,
        })
    }

    /// Notes that the edit of a checkpoint holds, and removes the files that the one before it replaced. Those of this one
    /// stay until the next: should the last edit of the manifest not read one day, the store goes back to what it
    /// was before, if the log reaches. A file that cannot be removed is not part of the store any more; opening it
    /// tries again.
    pub(in crate::engine) fn sides_checkpointed(&self, done: SideCheckpoint) {
        self.sequencer
            .keys()
            .checkpointed(&done.keys, done.keys_file);
        let lowest = self
            .sequencer
            .pins()
            .lowest(|| self.sequencer.log().durable());
        {
            let mut relations = self.sequencer.relations_mut();
            relations.checkpointed(&done.relations, &done.relation_files);
            relations.prune(lowest);
        }
        let before = std::mem::replace(&mut *self.replaced.lock(), done.replaced);
        self.remove_replaced(before);
    }

    /// Removes files that the manifest does not list any more; those that a backup still links go with the next ones.
    fn remove_replaced(&self, replaced: Vec<(FileKind, u64)>) {
        let gone: Vec<(FileKind, u64)> = {
            let jobs = self.list();
            let is_linked = |(_, id): &(FileKind, u64)| jobs.backed_up.contains(id);
            let (kept, gone) = replaced.into_iter().partition(is_linked);
            self.replaced.lock().extend::<Vec<_>>(kept);
            gone
        };
        let dir = segment_dir(self.site.dir());
        for (kind, id) in gone {
            drop(self.site.disk().remove(&dir.join(side_name(kind, id))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_neighbours_and_none_is_too_large() {
        let sizes_of = |sizes: &[u64]| {
            let files = sizes.iter().zip(1..).map(|(&bytes, file_id)| FileMeta {
                kind: FileKind::Definitions,
                file_id,
                bytes,
            });
            let files: Vec<FileMeta> = files.collect();
            let pieces = pieces_of(&files);
            let joined = pieces.concat();
            assert_eq!(joined, files);
            let sizes = pieces.iter().map(|piece| piece.len());
            sizes.collect::<Vec<_>>()
        };
        let most = MERGED_BYTES_MAX;
        assert!(sizes_of(&[]).is_empty());
        assert_eq!(sizes_of(&[most]), [1]);
        assert_eq!(sizes_of(&[1, 2, 3]), [3]);
        assert_eq!(sizes_of(&[most - 1, 1, 1]), [2, 1]);
        assert_eq!(sizes_of(&[1, most, most, 1]), [1, 1, 1, 1]);
    }
}
