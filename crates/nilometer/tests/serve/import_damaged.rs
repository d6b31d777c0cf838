//! Damaged files: an error that names the file, and says what of it is in.

use std::io::Read;
use std::path::Path;

use tempfile::TempDir;

use crate::support::{gzip, nilometer};

/// The library that reads the format panics on these, and so did the import: an overflow, a length below zero, a read beyond
/// the end.
#[test]
fn a_damaged_parquet_file_is_an_error_and_never_a_panic() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/parquet/delta.parquet");
    let whole = std::fs::read(path).expect("the file of another program");
    let dir = TempDir::new().expect("a scratch folder");
    let import = |bytes: &[u8]| {
        std::fs::write(dir.path().join("t.parquet"), bytes).expect("a file");
        let arguments = ["import", "--data", "data", "-d", "d", "t.parquet"];
        nilometer(dir.path(), &arguments)
    };
    let said = import(&whole).succeeded();
    assert!(said.contains("imported 60 rows"), "{said}");
    for (at, bits) in [(162, 0x7f), (956, 0x7f), (289, 0x80)] {
        let mut bytes = whole.clone();
        bytes[at] ^= bits;
        let stderr = import(&bytes).failed();
        assert!(
            stderr.starts_with("error: t.parquet: the file "),
            "{at}: {stderr}"
        );
    }
}

/// Of a `.csv.gz` that had not been copied to its end nothing was imported, though thousands of rows could be read, and the
/// last line said that the rest was.
#[test]
fn of_a_compressed_file_that_is_cut_off_the_rows_before_that_are_imported_and_counted() {
    // Less than what is looked at before an import begins, and more.
    for rows in [5_000, 30_000] {
        let lines = |head: &str, line: fn(usize) -> String| {
            let lines: String = (0..rows).map(line).collect();
            format!("{head}{lines}")
        };
        let csv = lines("time,host,v\n", |n| {
            format!("{},h{},{}.5\n", 1_700_000_000 + n, n % 9, n * 7919 % 1000)
        });
        let lp = lines("", |n| {
            format!(
                "t,host=h{} v={}.5 {}\n",
                n % 9,
                n * 7919 % 1000,
                1_700_000_000 + n
            )
        });
        for (name, text, heads) in [("t.csv.gz", csv, 1), ("t.lp.gz", lp, 0)] {
            let whole = gzip(text.as_bytes());
            let cut = &whole[..whole.len() / 2];
            let mut readable = Vec::new();
            let error = flate2::read::GzDecoder::new(cut).read_to_end(&mut readable);
            error.expect_err("it is cut off");
            let want = readable.split(|byte| *byte == b'\n').count() - 1 - heads;
            assert!(want > 1000, "{want} rows");
            let dir = TempDir::new().expect("a scratch folder");
            std::fs::write(dir.path().join(name), cut).expect("a file");
            let arguments = ["import", "--data", "data", "-d", "d", name];
            let stderr = nilometer(dir.path(), &arguments).failed();
            let shown = format!("{},{:03} rows of it are imported", want / 1000, want % 1000);
            assert!(stderr.contains(&shown), "{want}: {stderr}");
            assert!(
                stderr.contains(&format!("not read to the end: {name}")),
                "{stderr}"
            );
            assert!(!stderr.contains("the rest is imported"), "{stderr}");
            let count = ["sql", "--data", "data", "-d", "d", "--format", "csv"];
            let count = [&count[..], &["SELECT count(*) AS n FROM t"]].concat();
            let counted = nilometer(dir.path(), &count).succeeded();
            assert_eq!(counted, format!("n\n{want}\n"), "{name}");
        }
    }
}
