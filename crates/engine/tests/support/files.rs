//! Folders as values.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every file below a folder with its bytes.
pub(crate) fn files_in(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut files_in(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}
