//! What a flush writes beside rows and definitions, so that the log up to the frozen LSN can go.
//!
//! Does: write and sync the files, put them into the flush's edit, and after it holds remove those it replaced. Does
//! not: sync the folder or append the edit; the flush does, in its order.

use crate::definitions_file;
use crate::engine::{Engine, lock};
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

impl Engine {
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
        let files: Vec<FileMeta> = {
            let manifest = lock(&self.manifest);
            let files = manifest.contents.files_of(FileKind::Definitions);
            files.copied().collect()
        };
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
        let file_id = self.new_file_id();
        let path = segment_dir(&self.dir).join(definitions_name(file_id));
        self.remove_leftover(&path)?;
        let bytes =
            definitions_file::write(self.disk.as_ref(), &path, self.uuid, file_id, &entries)?;
        edit.added_files.push(FileMeta {
            kind: FileKind::Definitions,
            file_id,
            bytes,
        });
        Ok(replaced)
    }

    /// The definitions of a file, encoded as they are now.
    fn definitions_of(&self, file: &FileMeta) -> Result<Vec<u8>, Error> {
        let path = segment_dir(&self.dir).join(definitions_name(file.file_id));
        let mut entries = Vec::new();
        let (disk, id) = (self.disk.as_ref(), file.file_id);
        definitions_file::read(disk, &path, self.uuid, id, &mut |definition| {
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
        let dir = segment_dir(&self.dir);
        let keys = {
            let now_ms = self.clock.monotonic_ms();
            let mut keys = lock(&self.keys);
            let now_ns = keys.now_ns(now_ms);
            keys.checkpoint(lsn, now_ns)
        };
        replaced.extend(keys.removed.iter().map(|&id| (FileKind::Keys, id)));
        let mut keys_file = None;
        if !keys.taken.is_empty() {
            let file_id = self.new_file_id();
            let path = dir.join(side_name(FileKind::Keys, file_id));
            self.remove_leftover(&path)?;
            let bytes =
                idempotency::write(self.disk.as_ref(), &path, self.uuid, file_id, &keys.taken)?;
            edit.added_files.push(FileMeta {
                kind: FileKind::Keys,
                file_id,
                bytes,
            });
            keys_file = Some(file_id);
        }
        let relations = self.relations().checkpoint(lsn);
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
            self.remove_leftover(&path)?;
            let bytes = relation::write(self.disk.as_ref(), &path, self.uuid, file_id, changed)?;
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
        lock(&self.keys).checkpointed(&done.keys, done.keys_file);
        let lowest = self.pins.lowest(|| self.log.durable());
        {
            let mut relations = self.relations_mut();
            relations.checkpointed(&done.relations, &done.relation_files);
            relations.prune(lowest);
        }
        let dir = segment_dir(&self.dir);
        let gone: Vec<(FileKind, u64)> = {
            let jobs = lock(&self.jobs);
            let mut replaced = lock(&self.replaced);
            let before = std::mem::replace(&mut *replaced, done.replaced).into_iter();
            let (kept, gone) = before.partition(|(_, id)| jobs.backed_up.contains(id));
            replaced.extend::<Vec<_>>(kept);
            gone
        };
        for (kind, id) in gone {
            drop(self.disk.remove(&dir.join(side_name(kind, id))));
        }
    }
}
