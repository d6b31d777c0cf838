//! What a flush writes beside rows and definitions, so that the log up to the frozen LSN can go.
//!
//! Does: write and sync the files, put them into the flush's edit, and after it holds remove those it replaced. Does
//! not: sync the folder or append the edit; the flush does, in its order.

use super::open::{segment_dir, side_name};
use super::{Engine, lock};
use crate::error::Error;
use crate::idempotency::{self, KeyCheckpoint};
use crate::manifest::{Edit, FileKind, FileMeta};
use crate::relation::{self, RelationCheckpoint};
use crate::schema::Lsn;

/// Files that were written and those that they replace.
#[derive(Debug)]
pub(super) struct SideCheckpoint {
    keys: KeyCheckpoint,
    keys_file: Option<u64>,
    relations: RelationCheckpoint,
    relation_files: Vec<u64>,
    /// Kind and id.
    replaced: Vec<(FileKind, u64)>,
}

impl Engine {
    /// Writes and syncs what the log holds up to `lsn`, which is held, and no segment or definition file can, and adds
    /// it to `edit`. An error changes nothing: the next flush does it again.
    pub(super) fn checkpoint_sides(
        &self,
        lsn: Lsn,
        edit: &mut Edit,
    ) -> Result<SideCheckpoint, Error> {
        let dir = segment_dir(&self.dir);
        let keys = {
            let mut keys = lock(&self.keys);
            let now_ns = keys.now_ns(self.clock.as_ref());
            keys.checkpoint(lsn, now_ns)
        };
        let mut replaced: Vec<(FileKind, u64)> = Vec::new();
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
    pub(super) fn sides_checkpointed(&self, done: SideCheckpoint) {
        lock(&self.keys).checkpointed(&done.keys, done.keys_file);
        let lowest = self.holds.lowest(|| self.log.durable());
        {
            let mut relations = self.relations_mut();
            relations.checkpointed(&done.relations, &done.relation_files);
            relations.prune(lowest);
        }
        let dir = segment_dir(&self.dir);
        let before = std::mem::replace(&mut *lock(&self.replaced), done.replaced);
        for (kind, id) in before {
            drop(self.disk.remove(&dir.join(side_name(kind, id))));
        }
    }
}
