//! Log recovery: records to replay, the torn tail, damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{FileHeader, HEADER_BYTES, RECORD_ALIGN, RecordHeader, file_name, file_number};
use super::mark::{Mark, MarkFile};
use super::visit::{RecordPlace, Visit};
use super::waiting::Waiting;
use super::window::Window;
use super::{Files, Group, LiveFile, Log, LogCounters, LogOptions, Queue};
use crate::disk::{Disk, DiskFile, read_exact_at, write_all_at};
use crate::error::Error;
use crate::file_header::Format;
use crate::ranked::{Mutex, Rank};
use crate::schema::Lsn;

/// What replay found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// The last LSN of the store; the next batch gets the one after.
    pub(crate) last_lsn: Lsn,
    /// Records handed to the visitor.
    pub(crate) records: u64,
}

/// A log file found at open.
pub(super) struct Found {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) header: Option<FileHeader>,
    /// What its header says; `None` = it has none that reads.
    pub(super) format: Option<Format>,
}

/// State of one pass over the files.
pub(super) struct Pass<'a, V> {
    pub(super) flushed: Lsn,
    /// LSN that the next record must have.
    pub(super) expected: Lsn,
    /// No record above this is looked at.
    pub(super) last: Lsn,
    /// Highest LSN known to have been durable.
    pub(super) durable: Lsn,
    /// What the log must reach; `None` = nothing says.
    pub(super) mark: Option<Mark>,
    /// Payloads above `durable`: in the page cache perhaps, on the device perhaps not.
    pub(super) in_doubt: Vec<(Lsn, Vec<u8>)>,
    pub(super) records: u64,
    /// Room for pieces of files.
    pub(super) room: Vec<u8>,
    pub(super) visit: &'a mut V,
}

impl Log {
    /// Opens the log in `dir`, hands every record above `flushed` to `visit` in LSN order, and makes what it handed
    /// over durable.
    pub(crate) fn open<V>(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        uuid: [u8; 16],
        flushed: Lsn,
        options: LogOptions,
        visit: &mut V,
    ) -> Result<(Self, Replayed), Error>
    where
        V: Visit,
    {
        let found = find_files(disk.as_ref(), &dir)?;
        let mut mark = MarkFile::read(disk.as_ref(), &dir, uuid)?;
        let next_number = next_number(&found, mark.newest());
        let Classified {
            mut needed,
            mut free,
            second_names,
            unreadable,
        } = classify(found, uuid, flushed)?;
        if let Some((file, at)) = unreadable.first() {
            return Err(Error::corrupt(&file.path, 0, at.reason()));
        }
        let counts = mark.newest().filter(|mark| mark.counts(headers(&needed)));
        let mut pass = Pass {
            flushed,
            expected: flushed + 1,
            last: Lsn::MAX,
            durable: counts.map_or(flushed, |mark| mark.lsn.max(flushed)),
            mark: counts,
            in_doubt: Vec::new(),
            records: 0,
            room: Vec::new(),
            visit,
        };
        if let Some((first, header)) = needed.first() {
            if header.start_lsn > flushed + 1 {
                return Err(Error::corrupt(
                    &first.path,
                    0,
                    format!(
                        "the log starts at LSN {}, but segments end at {flushed}: a log file or the manifest's end is missing",
                        header.start_lsn
                    ),
                ));
            }
            pass.expected = header.start_lsn;
        }
        pass.files(&needed)?;
        pass.check_mark(&dir)?;
        let replayed = Replayed {
            last_lsn: (pass.expected - 1).max(flushed),
            records: pass.records,
        };
        let in_doubt = std::mem::take(&mut pass.in_doubt);
        let durable = pass.durable.max(flushed);
        // Files that start above the durable LSN hold only records that are appended again below.
        while needed.len() > 1 && needed.last().is_some_and(|(_, h)| h.start_lsn > durable) {
            free.extend(needed.pop().map(|(file, _)| file.number));
        }
        mark.make(disk.as_ref(), &dir);
        let log = Self {
            disk,
            dir,
            uuid,
            queue: Mutex::new(
                Rank::LogQueue,
                Queue {
                    records: Vec::new(),
                    file_number: next_number,
                    offset: HEADER_BYTES as u64,
                    last_lsn: replayed.last_lsn,
                },
            ),
            group: Mutex::new(
                Rank::LogGroup,
                Group {
                    durable,
                    leading: false,
                    poisoned: None,
                    waiting: Waiting::default(),
                    counters: LogCounters::default(),
                },
            ),
            files: Mutex::new(
                Rank::LogFiles,
                Files {
                    live: needed
                        .into_iter()
                        .map(|(file, header)| LiveFile {
                            number: file.number,
                            start_lsn: header.start_lsn,
                            file: file.file,
                            path: file.path,
                        })
                        .collect(),
                    free: Vec::new(),
                    mark,
                    buffer: Vec::new(),
                },
            ),
            options,
        };
        log.settle(&in_doubt, replayed.last_lsn, free)?;
        // One that stays is no harm: it is not written to, and the next opening tries again.
        for number in second_names {
            drop(log.disk.remove(&log.dir.join(file_name(number))));
        }
        Ok((log, replayed))
    }

    /// Writes records in doubt again, into a new file, and syncs them: only then may they be shown.
    ///
    /// Some of them may have been acknowledged, and the new file's header ends the old file's say over them. So the
    /// file gets its name, in one step, only after its records are durable.
    fn settle(
        &self,
        in_doubt: &[(Lsn, Vec<u8>)],
        last_lsn: Lsn,
        free: Vec<u64>,
    ) -> Result<(), Error> {
        let mut files = super::lock(&self.files);
        if let Some((start_lsn, _)) = in_doubt.first() {
            let live = self.write_settled(*start_lsn, in_doubt)?;
            let end = live.file.size().map_err(Error::io("read", &live.path))?;
            files.live.push(live);
            super::lock(&self.queue).offset = end.next_multiple_of(RECORD_ALIGN as u64);
        }
        // Old files may be overwritten only now that their records in doubt stand elsewhere.
        files.free = free;
        if let Some(newest) = files.live.last().map(|live| live.number) {
            files.mark.note(Mark {
                number: newest,
                lsn: last_lsn,
            });
        }
        drop(files);
        super::lock(&self.group).durable = last_lsn;
        Ok(())
    }

    fn write_settled(&self, start_lsn: Lsn, records: &[(Lsn, Vec<u8>)]) -> Result<LiveFile, Error> {
        let number = super::lock(&self.queue).file_number;
        let header = FileHeader {
            uuid: self.uuid,
            number,
            start_lsn,
        };
        let mut bytes = header.encode();
        for (lsn, payload) in records {
            super::encode_batch_records(number, *lsn, start_lsn - 1, payload, &mut bytes);
        }
        let draft = self.dir.join(DRAFT);
        let file = self
            .disk
            .create(&draft)
            .map_err(Error::io("create", &draft))?;
        write_all_at(file.as_ref(), &bytes, 0).map_err(Error::io("write", &draft))?;
        file.sync().map_err(Error::io("sync", &draft))?;
        let path = self.dir.join(file_name(number));
        self.disk
            .rename(&draft, &path)
            .map_err(Error::io("rename", &draft))?;
        self.disk
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))?;
        Ok(LiveFile {
            number,
            start_lsn,
            file,
            path,
        })
    }
}

/// A settled file before it has its name.
pub(crate) const DRAFT: &str = "settle.tmp";

pub(super) fn find_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for name in disk.list(dir).map_err(Error::io("list", dir))? {
        if name == DRAFT {
            // A crash came before it got its name; the records are still where it took them from.
            let draft = dir.join(DRAFT);
            disk.remove(&draft).map_err(Error::io("remove", &draft))?;
        }
        let Some(number) = file_number(&name) else {
            continue;
        };
        let path = dir.join(file_name(number));
        let file = disk.open(&path).map_err(Error::io("open", &path))?;
        let mut bytes = vec![0; HEADER_BYTES];
        let size = file.size().map_err(Error::io("read", &path))?;
        let header = if size >= HEADER_BYTES as u64 {
            read_exact_at(file.as_ref(), &mut bytes, 0).map_err(Error::io("read", &path))?;
            match FileHeader::decode(&bytes, &path) {
                // Whether that is damage or a file that a crash left unfinished, its records will tell.
                Err(Error::Corrupt { .. }) => None,
                other => Some(other?),
            }
        } else {
            None
        };
        let (header, format) = header.unzip();
        found.push(Found {
            number,
            path,
            file,
            header,
            format,
        });
    }
    found.sort_by_key(|file| file.number);
    Ok(found)
}

/// Log files by what they are for.
pub(super) struct Classified {
    /// Those that hold records above the flushed LSN, in order.
    pub(super) needed: Vec<(Found, FileHeader)>,
    /// Numbers of those that do not.
    pub(super) free: Vec<u64>,
    /// Numbers of those whose header says a higher one. They may be the very file that has that name: its bytes are not to be
    /// written to.
    second_names: Vec<u64>,
    /// Those whose header does not read although such a record stands in them.
    pub(super) unreadable: Vec<(Found, FirstRecord)>,
}

/// The first record above the flushed LSN in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRecord {
    offset: usize,
    pub(super) lsn: Lsn,
}

impl FirstRecord {
    /// What is wrong with a file that has it and no header.
    pub(super) fn reason(self) -> String {
        format!(
            "the header is unreadable, but a record stands at byte {}",
            self.offset
        )
    }
}

/// The headers of the files that are needed.
pub(super) fn headers(needed: &[(Found, FileHeader)]) -> impl Iterator<Item = &FileHeader> {
    needed.iter().map(|(_, header)| header)
}

/// A number that no file has had, those that are gone included.
pub(super) fn next_number(found: &[Found], mark: Option<Mark>) -> u64 {
    let found = found.iter().map(|file| file.number);
    let marked = mark.map(|mark| mark.number);
    found.chain(marked).max().unwrap_or(0) + 1
}

/// Splits files into those that hold records above `flushed`, those that do not, and those that nobody can tell.
pub(super) fn classify(
    found: Vec<Found>,
    uuid: [u8; 16],
    flushed: Lsn,
) -> Result<Classified, Error> {
    let mut valid: Vec<(Found, FileHeader)> = Vec::new();
    let mut free = Vec::new();
    let mut second_names = Vec::new();
    let mut unreadable = Vec::new();
    for file in found {
        match file.header {
            Some(header) if header.number == file.number && header.uuid == uuid => {
                valid.push((file, header));
            }
            // It was free and had got a new header, but a crash took its new name back, or left it both.
            Some(header) if header.number > file.number && header.uuid == uuid => {
                second_names.push(file.number);
            }
            _ => {
                // A crash while the file was made leaves a bad or an old header and no record of its own.
                match first_needed(&file, flushed)? {
                    Some(first) => unreadable.push((file, first)),
                    None => free.push(file.number),
                }
            }
        }
    }
    let keep = valid
        .iter()
        .rposition(|(_, header)| header.start_lsn <= flushed + 1)
        .unwrap_or(0);
    for (file, _) in valid.drain(..keep) {
        free.push(file.number);
    }
    Ok(Classified {
        needed: valid,
        free,
        second_names,
        unreadable,
    })
}

pub(super) fn read_all(file: &Found) -> Result<Vec<u8>, Error> {
    let size = file.file.size().map_err(Error::io("read", &file.path))?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut bytes = vec![0; size];
    read_exact_at(file.file.as_ref(), &mut bytes, 0).map_err(Error::io("read", &file.path))?;
    Ok(bytes)
}

/// Where the first record above `flushed` stands.
fn first_needed(file: &Found, flushed: Lsn) -> Result<Option<FirstRecord>, Error> {
    let bytes = read_all(file)?;
    let mut from = HEADER_BYTES;
    while let Some((at, record)) = scan(file.number, &bytes, from) {
        if record.lsn > flushed {
            return Ok(Some(FirstRecord {
                offset: at,
                lsn: record.lsn,
            }));
        }
        from = at + RECORD_ALIGN;
    }
    Ok(None)
}

/// The first intact record header of this file at or after `from`. It is looked for at every byte: where bytes went
/// missing, what follows has moved up, and stands where no writer puts it.
pub(super) fn scan(number: u64, bytes: &[u8], from: usize) -> Option<(usize, RecordHeader)> {
    (from..bytes.len()).find_map(|at| Some((at, RecordHeader::decode(number, bytes.get(at..)?)?.0)))
}

impl<V: Visit> Pass<'_, V> {
    /// Reads files one after another. Of two things that are wrong, the one that stands first is told.
    pub(super) fn files(&mut self, files: &[(Found, FileHeader)]) -> Result<(), Error> {
        let mut read = Ok(());
        for (at, (file, header)) in files.iter().enumerate() {
            let next_start = files.get(at + 1).map(|(_, next)| next.start_lsn);
            if read.is_ok() && self.expected <= self.last {
                read = self.file(file, header, next_start);
            }
        }
        self.visit.end().and(read)
    }

    /// Reads one file up to `next_start`, where the next file takes over, or up to its torn tail.
    fn file(
        &mut self,
        file: &Found,
        header: &FileHeader,
        next_start: Option<Lsn>,
    ) -> Result<(), Error> {
        // The header was written after everything before it was durable.
        self.know_durable(header.start_lsn.saturating_sub(1));
        let mut window = Window::new(file, std::mem::take(&mut self.room))?;
        let read = self.records(file, &mut window, next_start);
        self.room = window.into_room();
        read
    }

    fn records(
        &mut self,
        file: &Found,
        window: &mut Window<'_>,
        next_start: Option<Lsn>,
    ) -> Result<(), Error> {
        let mut place = RecordPlace::new(file);
        let mut at = HEADER_BYTES;
        // What the parts of a batch so far say, where it has several.
        let mut parts: Vec<u8> = Vec::new();
        let mut part_expected = 0;
        while next_start.is_none_or(|next| self.expected < next) && self.expected <= self.last {
            let found = window
                .intact_record(at)?
                .filter(|(it, _)| it.lsn == self.expected && it.part == part_expected);
            let Some((record, payload)) = found else {
                let Some(later) = self.skip_flushed(window, at)? else {
                    return self.tail(file, window, at, next_start);
                };
                at = later;
                parts.clear();
                part_expected = 0;
                continue;
            };
            self.know_durable(record.durable_lsn);
            at += usize::try_from(RecordHeader::padded(payload.len())).unwrap_or(usize::MAX);
            place.end = at as u64;
            if record.last && part_expected == 0 {
                self.whole(&place, payload)?;
                continue;
            }
            parts.extend_from_slice(payload);
            part_expected += 1;
            if record.last {
                self.whole(&place, &parts)?;
                parts.clear();
                part_expected = 0;
            }
        }
        Ok(())
    }

    /// A whole batch has been read.
    fn whole(&mut self, place: &RecordPlace, payload: &[u8]) -> Result<(), Error> {
        let lsn = self.expected;
        if lsn > self.flushed {
            self.visit.record(lsn, payload, place)?;
            self.records += 1;
        }
        if lsn > self.durable {
            self.in_doubt.push((lsn, payload.to_vec()));
        }
        self.expected += 1;
        Ok(())
    }

    fn know_durable(&mut self, lsn: Lsn) {
        if lsn > self.durable {
            self.durable = lsn;
            self.in_doubt.retain(|(in_doubt, _)| *in_doubt > lsn);
        }
    }

    /// The record at `at` does not read. If it is in segments anyway, the place of the first record that is not.
    fn skip_flushed(&mut self, window: &mut Window<'_>, at: usize) -> Result<Option<usize>, Error> {
        let first = self.flushed + 1;
        if self.expected >= first {
            return Ok(None);
        }
        let mut from = at + RECORD_ALIGN;
        while let Some((later, record)) = window.scan(from)? {
            if record.lsn == first && record.part == 0 {
                self.expected = first;
                return Ok(Some(later));
            }
            from = later + RECORD_ALIGN;
        }
        Ok(None)
    }

    /// The record at `at` does not read. Fine at the end of the log, damage if anything durable came after.
    fn tail(
        &mut self,
        file: &Found,
        window: &mut Window<'_>,
        at: usize,
        next_start: Option<Lsn>,
    ) -> Result<(), Error> {
        // What is in segments is not missed.
        self.expected = self.expected.max(self.flushed + 1);
        if let Some(next) = next_start.filter(|next| *next > self.expected) {
            return Err(Error::corrupt(
                &file.path,
                at as u64,
                format!(
                    "LSN {} does not read, and the next file starts at {next}",
                    self.expected
                ),
            ));
        }
        let mut from = at + RECORD_ALIGN;
        while let Some((later, record)) = window.scan(from)? {
            if record.durable_lsn >= self.expected {
                return Err(Error::corrupt(
                    &file.path,
                    at as u64,
                    format!(
                        "LSN {} does not read, but the record at byte {later} says that it was durable",
                        self.expected
                    ),
                ));
            }
            from = later + RECORD_ALIGN;
        }
        // Nothing of the log itself says that it was. In the file that the mark names, the place can be told.
        match self.mark {
            Some(mark) if mark.number == file.number && mark.lsn >= self.expected => Err(
                Error::corrupt(&file.path, at as u64, mark.reason(self.expected)),
            ),
            _ => Ok(()),
        }
    }

    /// All files have been read, and the log ends here. Fine unless the mark says that there was more.
    pub(super) fn check_mark(&self, dir: &Path) -> Result<(), Error> {
        match self.mark {
            Some(mark) if mark.lsn >= self.expected => {
                let path = dir.join(file_name(mark.number));
                Err(Error::corrupt(&path, 0, mark.reason(self.expected)))
            }
            _ => Ok(()),
        }
    }
}
