//! What is left of a log file that was damaged, as docs/format/log.md has it; nothing here is the engine's.

const LOG_HEADER_BYTES: usize = 512;
const RECORD_HEADER_BYTES: usize = 40;
/// The kind that a batch's payload begins with.
const BATCH_KIND: u8 = 2;

/// Whether a record still stands, anywhere in the changed file, that is behind the first of the last `lost` batches of the
/// log file `before`: it says that the one before it was durable. The batches came one by one, so each was a group.
pub(super) fn later_record_stands(before: &[u8], after: Option<&[u8]>, lost: usize) -> bool {
    let Some(after) = after else {
        return false;
    };
    let records = record_headers(before);
    let batches: Vec<usize> = (0..records.len())
        .filter(|&n| records.get(n).is_some_and(|record| record.is_batch))
        .collect();
    let first_lost = batches.iter().rev().nth(lost.saturating_sub(1));
    let later = first_lost.and_then(|&n| records.get(n + 1..));
    later.unwrap_or_default().iter().any(|record| {
        after
            .windows(record.header.len())
            .any(|bytes| bytes == record.header)
    })
}

/// A record of a log file: docs/format/log.md.
struct LogRecord<'a> {
    header: &'a [u8],
    is_batch: bool,
}

fn record_headers(log: &[u8]) -> Vec<LogRecord<'_>> {
    let mut records = Vec::new();
    let mut at = LOG_HEADER_BYTES;
    while let Some(header) = log.get(at..at + RECORD_HEADER_BYTES)
        && header.starts_with(b"NREC")
        && let Some(length) = header.get(4..8).and_then(|it| it.try_into().ok())
    {
        let end = at + RECORD_HEADER_BYTES;
        records.push(LogRecord {
            header,
            is_batch: log.get(end) == Some(&BATCH_KIND),
        });
        at = (end + u32::from_le_bytes(length) as usize).next_multiple_of(8);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with a kind and as many bytes behind it as say how long it is.
    fn record(number: u8, kind: u8, bytes: usize) -> Vec<u8> {
        let mut record = b"NREC".to_vec();
        record.extend(u32::try_from(bytes + 1).unwrap().to_le_bytes());
        record.resize(RECORD_HEADER_BYTES, number);
        record.push(kind);
        record.resize(RECORD_HEADER_BYTES + 1 + bytes, 0xEE);
        record.resize(record.len().next_multiple_of(8), 0);
        record
    }

    /// A definition and three batches.
    fn log() -> (Vec<u8>, [usize; 4]) {
        let mut log = vec![0; LOG_HEADER_BYTES];
        let mut starts = [0; 4];
        for (start, (n, kind)) in starts.iter_mut().zip([(0, 1), (1, 2), (2, 2), (3, 2)]) {
            *start = log.len();
            log.extend(record(n, kind, 100 + usize::from(n)));
        }
        log.resize(log.len() + 300, 0);
        (log, starts)
    }

    #[test]
    fn only_a_later_header_speaks() {
        let (log, [_, _, second, third]) = log();
        assert_eq!(record_headers(&log).len(), 4);
        let damaged = |from: usize, to: usize| {
            let mut log = log.clone();
            log[from..to].fill(7);
            log
        };
        let payload = damaged(second + 60, second + 70);
        assert!(later_record_stands(&log, Some(&payload), 2));
        let both = damaged(second + 60, third + 3);
        assert!(!later_record_stands(&log, Some(&both), 2));
        let last = damaged(third + 60, third + 61);
        assert!(!later_record_stands(&log, Some(&last), 1));
        let mut moved = log.clone();
        moved.drain(second + 60..second + 67);
        assert!(later_record_stands(&log, Some(&moved), 2));
        assert!(!later_record_stands(&log, None, 3));
    }
}
