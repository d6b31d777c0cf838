//! A log file read from its start to its end, a piece at a time.
//!
//! Does: hold the bytes around the place that is read, and find records in them. Does not: know which records count
//! (`replay.rs` does), or read what is asked for nowhere.

use nilometer_codec::crc32c;

use super::file::{RECORD_HEADER_BYTES, RecordHeader};
use super::replay::{Found, scan};
use crate::disk::read_exact_at;
use crate::error::Error;

/// Read at once. Whole files took as much memory as an eighth of the log's cap, all of it new pages to the process.
const PIECE_BYTES: usize = 1 << 20;

pub(super) struct Window<'a> {
    file: &'a Found,
    /// Of the file.
    size: usize,
    /// Where in the file the bytes begin that are held.
    start: usize,
    held: usize,
    /// Begins with the bytes that are held. It never gets shorter: making it longer again would fill it with zeros.
    room: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Nothing is read yet. `room` is what an earlier window had, or none.
    pub(super) fn new(file: &'a Found, room: Vec<u8>) -> Result<Self, Error> {
        let size = file.file.size().map_err(Error::io("read", &file.path))?;
        Ok(Self {
            file,
            size: usize::try_from(size).unwrap_or(usize::MAX),
            start: 0,
            held: 0,
            room,
        })
    }

    /// Its room, for the next one.
    pub(super) fn into_room(self) -> Vec<u8> {
        self.room
    }

    /// The bytes from `at` on, so many at least unless the file ends before.
    fn from(&mut self, at: usize, length: usize) -> Result<&[u8], Error> {
        let at = at.min(self.size);
        let end = at.saturating_add(length).min(self.size);
        if at < self.start || end > self.start + self.held {
            self.read(at, end)?;
        }
        Ok(self
            .room
            .get(at - self.start..self.held)
            .unwrap_or_default())
    }

    /// Keeps what it has from `at` on, and reads up to `end` or a piece, whichever is more.
    fn read(&mut self, at: usize, end: usize) -> Result<(), Error> {
        match at.checked_sub(self.start) {
            Some(before) if before < self.held => {
                self.room.copy_within(before..self.held, 0);
                self.held -= before;
            }
            _ => self.held = 0,
        }
        self.start = at;
        let from = at + self.held;
        let end = end.max(from.saturating_add(PIECE_BYTES)).min(self.size);
        if self.room.len() < end - at {
            self.room.resize(end - at, 0);
        }
        let missing = self.room.get_mut(self.held..end - at).unwrap_or_default();
        // What is there when a read fails is not told apart from what is not.
        self.held = 0;
        let read = read_exact_at(self.file.file.as_ref(), missing, from as u64);
        read.map_err(Error::io("read", &self.file.path))?;
        self.held = end - at;
        Ok(())
    }

    /// The record at `at`, if its header and its payload pass their checksums.
    pub(super) fn intact_record(
        &mut self,
        at: usize,
    ) -> Result<Option<(RecordHeader, &[u8])>, Error> {
        let number = self.file.number;
        let Some((header, payload_crc)) =
            RecordHeader::decode(number, self.from(at, RECORD_HEADER_BYTES)?)
        else {
            return Ok(None);
        };
        let Some(length) = RECORD_HEADER_BYTES.checked_add(header.length as usize) else {
            return Ok(None);
        };
        let record = self.from(at, length)?.get(RECORD_HEADER_BYTES..length);
        let intact = record.filter(|payload| crc32c(0, payload) == payload_crc);
        Ok(intact.map(|payload| (header, payload)))
    }

    /// The first intact record header at or after `from`. It is looked for at every byte: where bytes went missing, what
    /// follows has moved up, and stands where no writer puts it.
    pub(super) fn scan(&mut self, mut from: usize) -> Result<Option<(usize, RecordHeader)>, Error> {
        let number = self.file.number;
        loop {
            let bytes = self.from(from, RECORD_HEADER_BYTES)?;
            if bytes.len() < RECORD_HEADER_BYTES {
                return Ok(None);
            }
            if let Some((at, record)) = scan(number, bytes, 0) {
                return Ok(Some((from + at, record)));
            }
            // A header may begin in this piece and end in the next.
            from += bytes.len() - RECORD_HEADER_BYTES + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::super::encode_batch_records;
    use super::*;
    use crate::disk::DiskFile;

    const NUMBER: u64 = 7;

    #[derive(Debug)]
    struct Bytes(Vec<u8>);

    impl DiskFile for Bytes {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            assert!(buf.len() <= 2 * PIECE_BYTES, "{} bytes at once", buf.len());
            let rest = self.0.get(offset as usize..).unwrap_or_default();
            // A read may be short.
            let n = buf.len().min(rest.len()).min(300_000);
            buf[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::Unsupported))
        }
        fn sync(&self) -> io::Result<()> {
            Err(io::Error::from(io::ErrorKind::Unsupported))
        }
        fn size(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
    }

    fn found(bytes: Vec<u8>) -> Found {
        Found {
            number: NUMBER,
            path: PathBuf::from("/log"),
            file: Arc::new(Bytes(bytes)),
            header: None,
            format: None,
        }
    }

    fn record(bytes: usize) -> Vec<u8> {
        let mut record = Vec::new();
        let payload: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        encode_batch_records(NUMBER, 1, 0, &payload, &mut record);
        record
    }

    #[test]
    fn records_of_any_length_are_read_whole_and_only_a_piece_of_the_file_is_held() {
        let lengths = [
            0,
            1,
            PIECE_BYTES - 40,
            PIECE_BYTES - 39,
            PIECE_BYTES,
            3,
            900_000,
            900_000,
            PIECE_BYTES + 1,
            77,
        ];
        let records: Vec<Vec<u8>> = lengths.iter().map(|&length| record(length)).collect();
        let file = found(records.concat());
        let mut window = Window::new(&file, Vec::new()).unwrap();
        let mut at = 0;
        for (record, length) in records.iter().zip(lengths) {
            let (header, payload) = window.intact_record(at).unwrap().unwrap();
            assert_eq!(header.length as usize, length);
            assert_eq!(payload, &record[RECORD_HEADER_BYTES..][..length]);
            at += record.len();
        }
        assert!(window.intact_record(at).unwrap().is_none());
        assert!(window.intact_record(at + 1000).unwrap().is_none());
        let (_, payload) = window.intact_record(0).unwrap().unwrap();
        assert_eq!(payload, b"", "it goes back too");
        let room = window.into_room().len();
        assert!(room <= 2 * PIECE_BYTES + 64, "{room} bytes held");
    }

    #[test]
    fn a_record_header_is_found_wherever_it_stands() {
        let border = PIECE_BYTES - RECORD_HEADER_BYTES;
        for place in [0, 1, border - 1, border, border + 1, PIECE_BYTES - 1]
            .into_iter()
            .chain([PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES - 7])
        {
            let mut bytes = vec![b'N'; place];
            bytes.extend(record(0));
            let file = found(bytes);
            let mut window = Window::new(&file, Vec::new()).unwrap();
            let at = window.scan(0).unwrap().map(|(at, _)| at);
            assert_eq!(at, Some(place));
            assert!(window.scan(place + 1).unwrap().is_none(), "{place}");
        }
    }

    #[test]
    fn a_record_that_claims_more_than_the_file_has_is_none() {
        let mut bytes = record(5000);
        bytes.truncate(4000);
        let file = found(bytes);
        let mut window = Window::new(&file, Vec::new()).unwrap();
        assert!(window.intact_record(0).unwrap().is_none());
        assert!(window.into_room().len() <= 4000);
    }
}
