//! Quarantine: damaged files that were put aside so that the rest of the store opens.
//!
//! Does: give a damaged file a second name in the folder `quarantine/`, write beside it what is known of it, take it
//! out of the manifest, and list at every later open what was put aside. Does not: remove what it put aside, guess what
//! was in it, or take a file back.
//!
//! The order: the second name and the note are durable first, then the manifest stops listing the file, and only then
//! does it lose its first name. A crash in between opens again as before: as long as the manifest lists the file, what
//! is in the folder does not count. Layout: `docs/format/quarantine.md`.

mod note;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::catalogue::Catalogue;
use crate::disk::Disk;
use crate::error::Error;
use crate::index::Index;
use crate::layout::{copy_file, listed, remove_if_there, segment_dir, segment_name, side_name};
use crate::log;
use crate::manifest::{FileMeta, Manifest};
use crate::segment::{Home, Segment, SegmentMeta};

use crate::engine::repair::Repair;
use crate::engine::repair::damaged::{Quarantined, QuarantinedTable};
use crate::options::OnDamage;

pub(crate) fn quarantine_note(bytes: &[u8]) {
    note::hostile(bytes);
}

/// Folder of what was put aside.
pub(in crate::engine) fn quarantine_dir(dir: &Path) -> PathBuf {
    dir.join("quarantine")
}

/// What an open has put aside, and what earlier ones have.
#[derive(Debug)]
pub(in crate::engine) struct Quarantine<'a> {
    pub(in crate::engine) disk: &'a dyn Disk,
    dir: &'a Path,
    on_damage: OnDamage,
    /// Files of the manifest that must leave it.
    found: Vec<Damaged>,
}

#[derive(Debug)]
struct Damaged {
    name: String,
    file_id: u64,
    entry: Quarantined,
}

impl<'a> Quarantine<'a> {
    pub(in crate::engine) fn new(disk: &'a dyn Disk, dir: &'a Path, on_damage: OnDamage) -> Self {
        Self {
            disk,
            dir,
            on_damage,
            found: Vec::new(),
        }
    }

    /// Notes that a segment does not open, or gives the error back if it says something else.
    pub(in crate::engine) fn segment(
        &mut self,
        manifest: &Manifest,
        meta: &SegmentMeta,
        error: Error,
    ) -> Result<(), Error> {
        let name = segment_name(meta.file_id);
        let mut entry = self.entry(manifest, &name, meta.bytes, error)?;
        entry.rows = Some(meta.rows);
        entry.lsns = Some((meta.min_lsn, meta.max_lsn));
        entry.tables = tables_of(self.disk, &entry.file, manifest.uuid(), meta);
        self.found.push(Damaged {
            name,
            file_id: meta.file_id,
            entry,
        });
        Ok(())
    }

    /// Notes that a file of keys, or one of series, does not read, or gives the error back if it says something else.
    pub(in crate::engine) fn side_file(
        &mut self,
        manifest: &Manifest,
        meta: &FileMeta,
        error: Error,
    ) -> Result<(), Error> {
        let name = side_name(meta.kind, meta.file_id);
        let entry = self.entry(manifest, &name, meta.bytes, error)?;
        self.found.push(Damaged {
            name,
            file_id: meta.file_id,
            entry,
        });
        Ok(())
    }

    /// Takes an index file that opened, though not every part of it may read, unless damage is to be refused.
    pub(in crate::engine) fn admit(&self, index: Index) -> Result<Index, Error> {
        match (index.damage(), self.on_damage) {
            (Some((offset, reason)), OnDamage::Refuse) => {
                Err(Error::corrupt(index.path(), offset, reason))
            }
            _ => Ok(index),
        }
    }

    fn entry(
        &self,
        manifest: &Manifest,
        name: &str,
        bytes: u64,
        error: Error,
    ) -> Result<Quarantined, Error> {
        let segments = segment_dir(self.dir);
        let file = segments.join(name);
        let is_missing = matches!(&error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
        let (offset, reason) = match error {
            _ if self.on_damage == OnDamage::Refuse => return Err(error),
            Error::Corrupt { offset, reason, .. } => (offset, reason),
            // A manifest that lost its last edits lists files that those had replaced. Then it is the manifest that is
            // damaged, and what replaced them must not be taken for what a crash left.
            _ if is_missing
                && !manifest.is_cut()
                && !has_unlisted(self.disk, &segments, manifest)? =>
            {
                (0, "the file is missing".to_owned())
            }
            // A disk that does not answer, or a newer format, says nothing about the bytes.
            other => return Err(other),
        };
        Ok(Quarantined {
            file,
            kept: (!is_missing).then(|| quarantine_dir(self.dir).join(name)),
            offset,
            reason,
            time_ns: 0,
            bytes,
            rows: None,
            series: None,
            lsns: None,
            tables: Vec::new(),
        })
    }

    /// Puts aside what was found, durably, and takes it out of the manifest's contents. The manifest is the caller's to
    /// write; until then nothing has happened.
    pub(in crate::engine) fn put_aside(
        &mut self,
        manifest: &mut Manifest,
        catalogue: &Catalogue,
        now_ns: i64,
    ) -> Result<(), Error> {
        if self.found.is_empty() {
            return Ok(());
        }
        let to = make_dir(self.disk, self.dir)?;
        for damaged in &mut self.found {
            damaged.entry.time_ns = now_ns;
            for table in &mut damaged.entry.tables {
                table.name = catalogue.full_name(table.id).map(|name| name.join("."));
            }
            if let Some(kept) = &damaged.entry.kept {
                // The manifest lists the file, so what has its name there is what a crash left of an earlier attempt.
                remove_if_there(self.disk, kept)?;
                let file = &damaged.entry.file;
                self.disk
                    .link(file, kept)
                    .map_err(Error::io("link", file))?;
            }
            note::write(self.disk, &to, &damaged.name, self.dir, &damaged.entry)?;
        }
        self.disk.sync_dir(&to).map_err(Error::io("sync", &to))?;
        let is_aside = |id: u64| self.found.iter().any(|damaged| damaged.file_id == id);
        let contents = &mut manifest.contents;
        contents.segments.retain(|it| !is_aside(it.file_id));
        contents.files.retain(|it| !is_aside(it.file_id));
        Ok(())
    }

    /// Takes their first names from the files that were put aside now, once the manifest does not list them any more.
    pub(in crate::engine) fn remove_first_names(&self) -> Result<(), Error> {
        for damaged in &self.found {
            remove_if_there(self.disk, &damaged.entry.file)?;
        }
        Ok(())
    }

    /// Everything that counts as put aside, once the manifest and the log are in force; `live` are the log's files.
    /// What does not count, because a crash came before it was, goes: it is a second name of a file of the store.
    pub(in crate::engine) fn list(
        self,
        manifest: &Manifest,
        live: &[u64],
    ) -> Result<Vec<Quarantined>, Error> {
        let dir = quarantine_dir(self.dir);
        let names = match self.disk.list(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(Error::io("list", &dir))?,
        };
        let listed: BTreeSet<String> = listed(&manifest.contents).into_keys().collect();
        let is_live = |name: &str| {
            let number = log::file_number(name);
            listed.contains(name) || number.is_some_and(|number| live.contains(&number))
        };
        let mut all = Vec::new();
        let subjects: BTreeSet<&str> = names
            .iter()
            .map(|name| note::subject(name).unwrap_or(name))
            .collect();
        for name in subjects {
            if is_live(name) {
                remove_if_there(self.disk, &dir.join(name))?;
                remove_if_there(self.disk, &dir.join(note::name_of(name)))?;
            } else {
                all.push(note::read(self.disk, self.dir, &dir, name)?);
            }
        }
        all.sort_by(|a, b| (a.time_ns, &a.file).cmp(&(b.time_ns, &b.file)));
        Ok(all)
    }
}

/// Gives a damaged file a second name and writes its note, durably. It counts as put aside once no manifest lists it.
pub(in crate::engine) fn keep_aside(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    mut entry: Quarantined,
) -> Result<Quarantined, Error> {
    let to = make_dir(disk, dir)?;
    disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
    let kept = to.join(name);
    // What has its name there is what an earlier attempt left.
    remove_if_there(disk, &kept)?;
    disk.link(&entry.file, &kept)
        .map_err(Error::io("link", &entry.file))?;
    entry.kept = Some(kept);
    note::write(disk, &to, name, dir, &entry)?;
    disk.sync_dir(&to).map_err(Error::io("sync", &to))?;
    Ok(entry)
}

/// Puts log files aside as copies, because a log file is written again once it is not needed, whoever else has it.
pub(in crate::engine) fn put_log_aside(
    disk: &dyn Disk,
    dir: &Path,
    hole: &log::Hole,
    now_ns: i64,
) -> Result<(), Error> {
    let to = make_dir(disk, dir)?;
    for file in &hole.files {
        let name = log::file_name(file.number);
        let kept = to.join(&name);
        remove_if_there(disk, &kept)?;
        if file.bytes.is_some() {
            copy_file(disk, &file.path, &kept)?;
        }
        let is_first = file.path == hole.path;
        let (offset, reason) = if is_first {
            (hole.offset, hole.reason.clone())
        } else {
            let of = hole.path.display();
            (
                0,
                format!("it follows LSN {}, which {of} has lost", hole.lsn),
            )
        };
        let entry = Quarantined {
            file: file.path.clone(),
            kept: file.bytes.is_some().then_some(kept),
            offset,
            reason,
            time_ns: now_ns,
            bytes: file.bytes.unwrap_or(0),
            rows: None,
            series: None,
            lsns: file.lsns,
            tables: Vec::new(),
        };
        note::write(disk, &to, &name, dir, &entry)?;
    }
    disk.sync_dir(&to).map_err(Error::io("sync", &to))
}

fn make_dir(disk: &dyn Disk, dir: &Path) -> Result<PathBuf, Error> {
    let to = quarantine_dir(dir);
    disk.create_dir_all(&to).map_err(Error::io("create", &to))?;
    Ok(to)
}

/// Whether there are segments or index files that the manifest does not list.
fn has_unlisted(disk: &dyn Disk, segments: &Path, manifest: &Manifest) -> Result<bool, Error> {
    let listed = listed(&manifest.contents);
    let names = disk.list(segments).map_err(Error::io("list", segments))?;
    let mut names = names.iter();
    let is_either = |name: &str| [".seg", ".idx"].iter().any(|it| name.ends_with(it));
    Ok(names.any(|name| is_either(name) && !listed.contains_key(name)))
}

/// What the footer says, if that much can be read, or what the manifest knows.
fn tables_of(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    meta: &SegmentMeta,
) -> Vec<QuarantinedTable> {
    let groups = Segment::groups_left(disk, path, uuid, meta).unwrap_or_default();
    let mut tables: Vec<QuarantinedTable> = Vec::new();
    for group in groups {
        match tables.iter_mut().find(|table| table.id == group.table) {
            Some(table) => {
                table.rows = table.rows.map(|rows| rows.saturating_add(group.rows));
                let (first, last) = &mut table.times;
                *first = (*first).min(group.min_time);
                *last = (*last).max(group.max_time);
            }
            None => tables.push(QuarantinedTable {
                id: group.table,
                name: None,
                rows: Some(group.rows),
                series: None,
                times: (group.min_time, group.max_time),
            }),
        }
    }
    if let (true, Home::Partition(window)) = (tables.is_empty(), meta.home) {
        tables.push(QuarantinedTable {
            id: window.table,
            name: None,
            rows: Some(meta.rows),
            series: None,
            times: (window.start, window.last()),
        });
    }
    tables
}

impl Repair {
    /// Files that were put aside because they are damaged, when the store was opened or before, oldest first. The rows
    /// that they held are in no answer, nor are rows of series whose tags they held and nothing else has. Index files
    /// that were put aside since are in [`Self::mended_index_files`].
    pub(in crate::engine) fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }
}
