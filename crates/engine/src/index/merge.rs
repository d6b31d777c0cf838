//! Merging index files into one, table by table: memory is that of the largest table.

use super::{Index, IndexWriter, TableSeries, TagSeries};
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

fn join_tag(tag: ColumnId, parts: &[TableSeries]) -> TagSeries {
    let find = |part: &'_ TableSeries| part.tags.iter().position(|own| own.tag == tag);
    let own: Vec<Option<&TagSeries>> = parts
        .iter()
        .map(|part| part.tags.get(find(part)?))
        .collect();
    // Only what a series still has.
    let mut values: Vec<&String> = own
        .iter()
        .flatten()
        .flat_map(|tag| used_values(tag))
        .collect();
    values.sort_unstable();
    values.dedup();
    let mut codes = Vec::new();
    for (part, tag) in parts.iter().zip(own) {
        let Some(tag) = tag else {
            codes.resize(codes.len() + part.ids.len(), 0);
            continue;
        };
        // By code in the part: its code in the whole.
        let new_code = |value: &String| {
            let at = values.binary_search(&value).map_or(0, |at| at + 1);
            u32::try_from(at).unwrap_or(0)
        };
        let new_codes: Vec<u32> = std::iter::once(0)
            .chain(tag.values.iter().map(new_code))
            .collect();
        let renamed = tag
            .codes
            .iter()
            .map(|&code| new_codes.get(code as usize).copied());
        codes.extend(renamed.map(Option::unwrap_or_default));
    }
    TagSeries {
        tag,
        values: values.into_iter().cloned().collect(),
        codes,
    }
}

/// The values that a code names.
fn used_values(tag: &TagSeries) -> Vec<&String> {
    let mut used = vec![false; tag.values.len() + 1];
    for &code in &tag.codes {
        if let Some(slot) = used.get_mut(code as usize) {
            *slot = true;
        }
    }
    let values = tag.values.iter().zip(used.into_iter().skip(1));
    values
        .filter(|(_, used)| *used)
        .map(|(value, _)| value)
        .collect()
}
