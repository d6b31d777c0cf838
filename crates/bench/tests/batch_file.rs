//! Batch files: what is written is read, and whatever is not whole is refused. See docs/format/batch-file.md.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a helper is the test's report"
)]

use std::io::Cursor;
use std::path::Path;

use nilometer_bench::Error;
use nilometer_bench::batch_file::{BatchReader, BatchWriter, Header};
use nilometer_bench::workload::{Spec, Workload};
use proptest::prelude::*;

fn spec() -> Spec {
    let start_ns = 1_451_606_400_000_000_000;
    let interval_ns = 10_000_000_000;
    Spec {
        workload: Workload::CpuOnly,
        hosts: 2,
        start_ns,
        end_ns: start_ns + 3 * interval_ns,
        interval_ns,
        seed: 5,
    }
}

const NAME: &str = "test.batches";

fn write(frames: &[(u32, &[u8])]) -> Vec<u8> {
    let header = Header::of(&spec(), 2).unwrap();
    let mut writer = BatchWriter::begin(Cursor::new(Vec::new()), Path::new(NAME), header).unwrap();
    for (rows, text) in frames {
        writer.write_frame(*rows, text).unwrap();
    }
    writer.finish().unwrap().0.into_inner()
}

/// Rows and text.
type Frame = (u32, Vec<u8>);

fn read(bytes: &[u8]) -> Result<(Header, Vec<Frame>), Error> {
    let mut reader = BatchReader::open(bytes, Path::new(NAME))?;
    let mut frames = Vec::new();
    let mut text = Vec::new();
    while let Some(rows) = reader.next_frame(&mut text)? {
        frames.push((rows, text.clone()));
    }
    assert!(
        reader.next_frame(&mut text)?.is_none(),
        "the end stays the end"
    );
    Ok((reader.header().clone(), frames))
}

/// Reads as the loader does: without the text.
fn skim(bytes: &[u8]) -> Result<Vec<Frame>, Error> {
    let mut reader = BatchReader::open(Cursor::new(bytes), Path::new(NAME))?;
    let mut frames = Vec::new();
    while let Some(extent) = reader.next_extent(bytes.len() as u64)? {
        let begin = usize::try_from(extent.offset).unwrap();
        frames.push((
            extent.rows,
            bytes[begin..begin + extent.bytes as usize].to_vec(),
        ));
    }
    Ok(frames)
}

const FRAMES: [(u32, &[u8]); 2] = [(2, b"cpu a=1i 1\ncpu a=2i 2\n"), (1, b"cpu a=3i 3\n")];

#[test]
fn the_bytes_are_those_of_the_format_page() {
    let bytes = write(&FRAMES);
    assert_eq!(&bytes[..8], b"NILOBAT0");
    assert_eq!(bytes[8..12], [0, 4, 0, 0], "the header has 1024 bytes");
    let json: serde_json::Value = serde_json::from_slice(&bytes[12..12 + 1024]).unwrap();
    for (name, value) in [
        ("hosts", 2),
        ("rows", 3),
        ("values", 60),
        ("batch_rows", 2),
        ("text_bytes", 33),
        ("seed", 5),
    ] {
        assert_eq!(json[name], value, "{name}");
    }
    assert_eq!(json["workload"], "cpu-only");
    assert_eq!(json["interval_ns"], 10_000_000_000_u64);
    let mut expected = vec![2, 0, 0, 0, 22, 0, 0, 0];
    expected.extend_from_slice(b"cpu a=1i 1\ncpu a=2i 2\n");
    expected.extend_from_slice(&[1, 0, 0, 0, 11, 0, 0, 0]);
    expected.extend_from_slice(b"cpu a=3i 3\n");
    expected.extend_from_slice(&[0; 8]);
    assert_eq!(&bytes[12 + 1024..], expected);
}

#[test]
fn a_header_from_before_replaced_lines_were_counted_has_none() {
    let header = Header::of(&spec(), 2).unwrap();
    let mut writer = BatchWriter::begin(Cursor::new(Vec::new()), Path::new(NAME), header).unwrap();
    for (rows, text) in FRAMES {
        writer.write_frame(rows, text).unwrap();
    }
    writer.counted(7, 2);
    let mut bytes = writer.finish().unwrap().0.into_inner();
    let (header, _) = read(&bytes).unwrap();
    assert_eq!((header.values, header.replaced), (7, 2));
    // The member under another name, as long as its own, is one that a reader does not know.
    let at = memchr::memmem::find(&bytes, b"\"replaced\"").unwrap();
    bytes[at + 1..at + 9].copy_from_slice(b"another_");
    let (header, frames) = read(&bytes).unwrap();
    assert_eq!((header.values, header.replaced, frames.len()), (7, 0, 2));
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = write(&FRAMES);
    assert!(read(&bytes).is_ok() && skim(&bytes).is_ok());
    for n in 0..bytes.len() {
        for error in [read(&bytes[..n]).err(), skim(&bytes[..n]).err()] {
            let Some(Error::Truncated { offset, .. }) = error else {
                panic!("{n} of {} bytes: {error:?}", bytes.len())
            };
            assert!(
                offset <= n as u64,
                "{offset} is beyond the {n} bytes there are"
            );
        }
    }
}

#[test]
fn other_files_and_newer_versions_are_told_apart() {
    let mut bytes = write(&FRAMES);
    assert!(matches!(
        read(b"cpu a=1i 1\n"),
        Err(Error::NotLoadable { .. })
    ));
    bytes[7] = b'1';
    let error = read(&bytes).unwrap_err();
    assert!(
        matches!(error, Error::NewerBatchFile { version: '1', .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains(NAME) && error.to_string().contains("upgrade"),
        "{error}"
    );
}

#[test]
fn contradictions_are_damage_with_a_position() {
    let damaged = |change: fn(&mut Vec<u8>), at: u64| {
        let mut bytes = write(&FRAMES);
        change(&mut bytes);
        for error in [read(&bytes).unwrap_err(), skim(&bytes).unwrap_err()] {
            assert!(
                matches!(error, Error::Damaged { offset, .. } if offset == at),
                "{error:?}"
            );
        }
    };
    let frame = 12 + 1024;
    // A header that is longer than any, one that is not JSON, a frame without rows, one without text, one that is too
    // long, fewer rows than the header says, and bytes after the end.
    damaged(|bytes| bytes[11] = 1, 12);
    damaged(|bytes| bytes[12] = b'[', 12);
    damaged(|bytes| bytes[1036] = 0, frame + 8);
    damaged(|bytes| bytes[1040] = 0, frame + 8);
    damaged(|bytes| bytes[1043] = 0xff, frame + 8);
    damaged(|bytes| bytes[1036] = 1, frame + 57);
    damaged(|bytes| bytes.push(0), frame + 57);
    let mut bytes = write(&FRAMES);
    bytes[1044 + 21] = b' ';
    assert!(matches!(read(&bytes), Err(Error::Damaged { offset, .. }) if offset == frame + 30));
}

#[test]
fn frames_that_do_not_fit_the_format_are_not_written() {
    let header = Header::of(&spec(), 2).unwrap();
    let mut writer = BatchWriter::begin(Cursor::new(Vec::new()), Path::new(NAME), header).unwrap();
    for (rows, text) in [(0, &b"a b=1 1\n"[..]), (1, b""), (200_001, b"a b=1 1\n")] {
        assert!(matches!(
            writer.write_frame(rows, text),
            Err(Error::Spec { .. })
        ));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(texts in prop::collection::vec("[a-z =0-9]{0,40}", 0..12)) {
        let frames: Vec<Frame> = texts.iter().map(|t| (1, format!("{t}\n").into_bytes())).collect();
        let borrowed: Vec<(u32, &[u8])> = frames.iter().map(|(rows, text)| (*rows, text.as_slice())).collect();
        let bytes = write(&borrowed);
        let (header, got) = read(&bytes).unwrap();
        prop_assert_eq!(&got, &frames);
        prop_assert_eq!(skim(&bytes).unwrap(), frames);
        prop_assert_eq!(header.rows, got.len() as u64);
        prop_assert_eq!(header.text_bytes, got.iter().map(|(_, text)| text.len() as u64).sum::<u64>());
        prop_assert_eq!(header.spec(), spec());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(mut tail: Vec<u8>, at in 0_usize..1200, value: u8) {
        let _ = read(&tail);
        let mut bytes = write(&FRAMES);
        let length = bytes.len();
        bytes[at % length] = value;
        bytes.append(&mut tail);
        // A changed byte may still make a file, but never one with other frames than the header counts.
        if let Ok((header, frames)) = read(&bytes) {
            prop_assert_eq!(header.rows, frames.iter().map(|(rows, _)| u64::from(*rows)).sum::<u64>());
        }
    }
}
