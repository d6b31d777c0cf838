//! Merging index files into one, table by table: memory is that of the largest table.

use super::{Index, IndexWriter, TableSeries, TagSeries, Texts};
use crate::error::Error;
use crate::schema::{ColumnId, TableId};

/// Writes the series of all files to one, but for those of tables that `keeps` refuses. The files come oldest first, so
/// that the ids of a table rise from file to file; a series that two files have is taken once.
pub(crate) fn merge(
    files: &[&Index],
    keeps: &dyn Fn(TableId) -> bool,
    output: &mut IndexWriter,
) -> Result<(), Error> {
    let mut tables: Vec<TableId> = files.iter().flat_map(|file| file.tables()).collect();
    tables.sort_unstable();
    tables.dedup();
    for table in tables.into_iter().filter(|&table| keeps(table)) {
        let mut parts = Vec::new();
        for file in files {
            parts.extend(file.load(table)?);
        }
        if let Some(whole) = join(parts) {
            output.write_table(&whole)?;
        }
    }
    Ok(())
}

/// One table of several parts, oldest first.
fn join(mut parts: Vec<TableSeries>) -> Option<TableSeries> {
    if parts.len() < 2 {
        return parts.pop();
    }
    let table = parts.first()?.table;
    // What an earlier part has, a later one need not bring again.
    let mut last = None;
    for part in &mut parts {
        let known = part
            .ids
            .partition_point(|&id| last.is_some_and(|last| id <= last));
        part.ids.drain(..known);
        for tag in &mut part.tags {
            tag.codes.drain(..known.min(tag.codes.len()));
        }
        last = part.ids.last().copied().or(last);
    }
    let mut tags: Vec<ColumnId> = parts
        .iter()
        .flat_map(|part| &part.tags)
        .map(|tag| tag.tag)
        .collect();
    tags.sort_unstable();
    tags.dedup();
    Some(TableSeries {
        table,
        tags: tags.into_iter().map(|tag| join_tag(tag, &parts)).collect(),
        ids: parts.into_iter().flat_map(|part| part.ids).collect(),
    })
}

#[expect(
    clippy::stable_sort_primitive,
    reason = "a stable sort finds the runs that the parts' values are and merges them"
)]
fn join_tag(tag: ColumnId, parts: &[TableSeries]) -> TagSeries {
    let own: Vec<Option<&TagSeries>> = parts
        .iter()
        .map(|part| part.tags.iter().find(|own| own.tag == tag))
        .collect();
    // By part and code: whether a series still has it.
    let used: Vec<Vec<bool>> = own
        .iter()
        .map(|tag| tag.map(used_codes).unwrap_or_default())
        .collect();
    let mut all: Vec<&str> = Vec::new();
    for (tag, used) in own.iter().zip(&used) {
        let values = tag.iter().flat_map(|tag| tag.values.iter());
        let kept = values.zip(used.iter().skip(1)).filter(|(_, used)| **used);
        all.extend(kept.map(|(value, _)| value));
    }
    all.sort();
    all.dedup();
    let values: Texts = all.iter().copied().collect();
    let mut codes = Vec::new();
    for ((part, tag), used) in parts.iter().zip(own).zip(&used) {
        let Some(tag) = tag else {
            codes.resize(codes.len() + part.ids.len(), 0);
            continue;
        };
        let new_codes = renamed(tag, used, &all);
        let renamed = tag.codes.iter();
        let renamed = renamed.map(|&code| new_codes.get(code as usize).copied());
        codes.extend(renamed.map(Option::unwrap_or_default));
    }
    TagSeries { tag, values, codes }
}

fn used_codes(tag: &TagSeries) -> Vec<bool> {
    let mut used = vec![false; tag.values.len() + 1];
    for &code in &tag.codes {
        if let Some(slot) = used.get_mut(code as usize) {
            *slot = true;
        }
    }
    used
}

/// By code of a part: its code in the whole, whose values are `all`. Both ascend, so one pass finds them.
fn renamed(tag: &TagSeries, used: &[bool], all: &[&str]) -> Vec<u32> {
    let mut new_codes = vec![0];
    let mut at = 0;
    for (value, used) in tag.values.iter().zip(used.iter().skip(1)) {
        if *used {
            while all.get(at).is_some_and(|whole| *whole < value) {
                at += 1;
            }
        }
        // A code that no series has is never looked up.
        new_codes.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
    }
    new_codes
}
