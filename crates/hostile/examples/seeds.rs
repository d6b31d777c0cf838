//! Writes what a corpus starts from: `cargo run -p nilometer-hostile --example seeds -- FOLDER [FILE OF A STORE...]`.
//!
//! Does: take real files apart, those of a small store and those that are named. Does not: minimize; the fuzzer does.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().unwrap_or_else(|| "corpus".to_owned()));
    for (path, bytes) in nilometer_hostile::sample() {
        take(&folder, path, bytes)?;
    }
    for path in words.map(PathBuf::from) {
        let bytes = std::fs::read(&path)?;
        if path.extension().is_some_and(|ending| ending == "bin") {
            put(&folder, "page_decode", &bytes)?;
        }
        take(&folder, &path, &bytes)?;
    }
    let lines = b"\0m,host=a\\ b,x=y v=1.5e3,n=-7i,u=8u,t=\"a \\\"b\\\"\",b=T 1700000000000000000\n# no\nm v=1\n";
    put(&folder, "line_protocol", lines)?;
    put(&folder, "typed_lines", lines)?;
    put(&folder, "store", &[0, 1, 2, 3, 4, 5, 6, 7, 8])?;
    put(&folder, "page_encode", &(0..200).collect::<Vec<u8>>())?;
    put(&folder, "statistics_decode", &[0, 1, 0, 0, 0, 0])?;
    put(&folder, "tombstone", &[5, 1, 0, 2, 4])?;
    put(&folder, "relation_changes", &[0])?;
    put(&folder, "index_blocks", &[1, 0, 0, 1, b'a', 1, 2])?;
    let note = "nilometer quarantine 0\nfile: segments/0000000000000002.seg\noffset: 512\nreason: r\ntime: -5\n\
        bytes: 1000\nrows: 7\nseries: 12\nlsns: 3 9\ntable: 4 6 -1 9 d.public.m\nlost: 5 12\n";
    put(&folder, "quarantine_note", note.as_bytes())
}

fn take(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    for (name, seed) in nilometer_engine::hostile::seeds(path, bytes) {
        put(folder, name, &seed)?;
    }
    Ok(())
}

fn put(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder)?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    std::fs::write(folder.join(format!("seed-{:016x}", hasher.finish())), bytes)
}
