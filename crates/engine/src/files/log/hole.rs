//! A hole in the log: an unreadable record that was durable, and what follows it.
//!
//! Does: find the first hole, and, when told to, end the log before it. Does not: decide whether that may be done, keep
//! what is given up (the caller puts it aside first), or replay what follows a hole: it may have been written for names
//! that the lost record made, dropped or renamed, and after deletes that it held.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copy::write_file;
use super::file::{FileHeader, HEADER_BYTES, RECORD_ALIGN, file_name};
use super::mark::{Mark, MarkFile};
use super::replay::{
    Classified, DRAFT, FirstRecord, Found, Pass, classify, find_files, headers, next_number,
    read_all, scan,
};
use crate::disk::Disk;
use crate::error::{Error, Malformed};
use crate::schema::Lsn;

/// The first place of the log that does not read although it was durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) reason: String,
    /// The first LSN that is lost.
    pub(crate) lsn: Lsn,
    /// The damaged file and those after it.
    pub(crate) files: Vec<LostFile>,
    /// The number that no file has had.
    next_number: u64,
}

/// A log file with records that are given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostFile {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    /// `None` = the file is missing.
    pub(crate) bytes: Option<u64>,
    /// First and last LSN that is lost with it, as far as its records still say; `None` = none does.
    pub(crate) lsns: Option<(Lsn, Lsn)>,
}

/// Finds the first hole above `flushed`; `None` = the log has none, or it does not even begin where segments end: then
/// it may as well be the manifest that lost its end, and nobody can tell what is missing.
pub(crate) fn find_hole(
    disk: &dyn Disk,
    dir: &Path,
    uuid: [u8; 16],
    flushed: Lsn,
) -> Result<Option<Hole>, Error> {
    let found = find_files(disk, dir)?;
    let mark = MarkFile::read(disk, dir, uuid)?.newest();
    let next_number = next_number(&found, mark);
    let marked = mark.and_then(|mark| found.iter().find(|file| file.number == mark.number));
    let marked = marked.map(|file| Arc::clone(&file.file));
    let Classified {
        needed, unreadable, ..
    } = classify(found, uuid, flushed)?;
    let mark = mark.filter(|mark| mark.counts(headers(&needed)));
    let Some((lsn, place)) = first_gap(dir, &needed, &unreadable, mark, flushed)? else {
        return Ok(None);
    };
    let (path, offset, reason) = place;
    let mut hole = Hole {
        path,
        offset,
        reason,
        lsn,
        files: Vec::new(),
        next_number,
    };
    let needed = needed.iter().map(|(file, _)| file);
    for file in needed.chain(unreadable.iter().map(|(file, _)| file)) {
        let lsns = lost_lsns(file, lsn, mark)?;
        if file.path == hole.path || lsns.is_some() {
            hole.files.push(LostFile {
                number: file.number,
                path: file.path.clone(),
                bytes: Some(file.file.size().map_err(Error::io("read", &file.path))?),
                lsns,
            });
        }
    }
    // That a file without header and records has lost some, or that one is gone, is known from the mark only.
    let is_listed = hole.files.iter().any(|file| file.path == hole.path);
    if let (Some(mark), false) = (mark, is_listed) {
        let bytes = marked.map(|file| file.size()).transpose();
        hole.files.push(LostFile {
            number: mark.number,
            path: hole.path.clone(),
            bytes: bytes.map_err(Error::io("read", &hole.path))?,
            lsns: Some((lsn, mark.lsn)),
        });
    }
    hole.files.sort_by_key(|file| file.number);
    Ok(Some(hole))
}

type Place = (PathBuf, u64, String);

/// The first LSN that is lost, and what is damaged.
fn first_gap(
    dir: &Path,
    needed: &[(Found, FileHeader)],
    unreadable: &[(Found, FirstRecord)],
    mark: Option<Mark>,
    flushed: Lsn,
) -> Result<Option<(Lsn, Place)>, Error> {
    let mut nothing = |_: Lsn, _: &[u8]| -> Result<(), Malformed> { Ok(()) };
    let mut pass = Pass {
        flushed,
        expected: flushed + 1,
        last: Lsn::MAX,
        durable: Lsn::MAX,
        mark,
        in_doubt: Vec::new(),
        records: 0,
        room: Vec::new(),
        visit: &mut nothing,
    };
    let begins = needed
        .first()
        .map(|(_, header)| header.start_lsn)
        .filter(|start| *start <= flushed + 1);
    let mut damage = None;
    if let Some(start) = begins {
        pass.expected = start;
    }
    // Without any file, the mark says what there was.
    if begins.is_some() || needed.is_empty() {
        match pass.files(needed).and_then(|()| pass.check_mark(dir)) {
            Ok(()) => {}
            Err(Error::Corrupt {
                path,
                offset,
                reason,
            }) => damage = Some((path, offset, reason)),
            Err(other) => return Err(other),
        }
    }
    // A file whose header is lost shows as a gap between those around it, or as one at the log's end.
    let at_end = begins.is_some() && damage.is_none();
    let mut lost = unreadable.iter();
    if let Some((file, first)) = lost.find(|(_, it)| at_end || it.lsn <= pass.expected) {
        damage = Some((file.path.clone(), 0, first.reason()));
    }
    Ok(damage.map(|place| (pass.expected.max(flushed + 1), place)))
}

/// First and last LSN from `from` on in the intact records of a file, and in those that the mark says it had.
fn lost_lsns(file: &Found, from: Lsn, mark: Option<Mark>) -> Result<Option<(Lsn, Lsn)>, Error> {
    let bytes = read_all(file)?;
    let mut lsns: Option<(Lsn, Lsn)> = None;
    let mut at = HEADER_BYTES;
    while let Some((found, record)) = scan(file.number, &bytes, at) {
        if record.lsn >= from {
            let first = lsns.map_or(record.lsn, |(first, _)| first);
            lsns = Some((first, record.lsn));
        }
        at = found + RECORD_ALIGN;
    }
    if let Some(mark) = mark.filter(|mark| mark.number == file.number && mark.lsn >= from) {
        let (first, last) = lsns.unwrap_or((from, mark.lsn));
        lsns = Some((first, last.max(mark.lsn)));
    }
    Ok(lsns)
}

/// Ends the log before the hole: what stands before it is written to one new file, which then is the log. The files that
/// have something else are removed after that; whoever wants them has copied them before.
pub(crate) fn end_before(
    disk: &dyn Disk,
    dir: &Path,
    uuid: [u8; 16],
    flushed: Lsn,
    hole: &Hole,
) -> Result<(), Error> {
    let needed = classify(find_files(disk, dir)?, uuid, flushed)?.needed;
    let header = FileHeader {
        uuid,
        number: hole.next_number,
        start_lsn: flushed + 1,
    };
    let draft = dir.join(DRAFT);
    write_file(disk, &draft, &header, |mut visit| {
        if hole.lsn <= flushed + 1 {
            return Ok(());
        }
        let mut pass = Pass {
            flushed,
            expected: needed.first().map_or(flushed + 1, |(_, it)| it.start_lsn),
            last: hole.lsn - 1,
            durable: Lsn::MAX,
            mark: None,
            in_doubt: Vec::new(),
            records: 0,
            room: Vec::new(),
            visit: &mut visit,
        };
        pass.files(&needed)
    })?;
    let path = dir.join(file_name(hole.next_number));
    disk.rename(&draft, &path)
        .map_err(Error::io("rename", &draft))?;
    // From here on the new file speaks for all of the log, whatever becomes of the others.
    disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
    for file in hole.files.iter().filter(|file| file.bytes.is_some()) {
        disk.remove(&file.path)
            .map_err(Error::io("remove", &file.path))?;
    }
    disk.sync_dir(dir).map_err(Error::io("sync", dir))
}
