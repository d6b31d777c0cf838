//! Files of a store and its copies, from outside: by kind, copied, changed.
//!
//! Does not: know what is in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::mutate::Mutation;

/// How many files are put aside, by their notes.
pub(super) fn notes(data: &Path) -> usize {
    let Ok(entries) = fs::read_dir(data.join("quarantine")) else {
        return 0;
    };
    let names = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".reason"))
        .count()
}

pub(super) fn apply(path: &Path, mutation: &Mutation) -> Result<()> {
    match &mutation.bytes {
        Some(bytes) => fs::write(path, bytes)?,
        None => fs::remove_file(path)?,
    }
    Ok(())
}

/// Files of a folder by their kind: the extension, or the name without one. A lock has nothing to damage.
pub(super) fn files_by_kind(root: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let kind = path.extension().or(path.file_name());
            let kind = kind.map_or_else(String::new, |kind| kind.to_string_lossy().into_owned());
            if kind != "lock" {
                kinds.entry(kind).or_default().push(path);
            }
        }
    }
    for files in kinds.values_mut() {
        files.sort();
    }
    Ok(kinds)
}

pub(in crate::trial) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
