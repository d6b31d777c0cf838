//! Damaged Parquet: an error that names the file.

use std::path::Path;

use tempfile::TempDir;

use crate::support::nilometer;

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
