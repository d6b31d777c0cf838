//! Joining the pieces of one series: in time order, duplicates merged per field.

use super::output::Output;
use super::source::Piece;
use crate::schema::Duplicates;

/// Appends a series' rows. `position` is the series' place in the plan. Returns how many rows became part of newer ones.
pub(crate) fn append(
    mut pieces: Vec<Piece>,
    position: usize,
    duplicates: Duplicates,
    output: &mut Output,
) -> u64 {
    // Sorting by first time is enough to see whether pieces overlap; within a piece times ascend.
    pieces.sort_by_key(|piece| (time_at(piece, 0), piece.rank));
    let apart = pieces.windows(2).all(|pair| match pair {
        [a, b] => time_at(a, a.rows.len().saturating_sub(1)) < time_at(b, 0),
        _ => true,
    });
    if apart && (duplicates == Duplicates::Keep || pieces.iter().all(strictly_ascending)) {
        for piece in &pieces {
            output.part_text();
            output.extend(piece, position);
        }
        return 0;
    }
    merge_overlapping(&pieces, position, duplicates, output)
}

fn time_at(piece: &Piece, at: usize) -> i64 {
    let row = piece.rows.get(at);
    piece.data.times().get(row).copied().unwrap_or(i64::MAX)
}

/// Whether no two of its rows have one time.
pub(super) fn strictly_ascending(piece: &Piece) -> bool {
    let times = piece.data.times();
    let time = |row: usize| times.get(row).copied();
    match &piece.rows {
        super::source::Rows::Range(range) => times
            .get(range.clone())
            .unwrap_or_default()
            .is_sorted_by(|a, b| a < b),
        super::source::Rows::Picked(rows) => {
            rows.is_sorted_by(|&a, &b| time(a as usize) < time(b as usize))
        }
    }
}

/// Sorts all rows by (time, age) and makes of rows of one time what the table says of duplicates.
fn merge_overlapping(
    pieces: &[Piece],
    position: usize,
    duplicates: Duplicates,
    output: &mut Output,
) -> u64 {
    let mut merged = 0;
    let mut order: Vec<(i64, usize, usize)> = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        order.extend((0..piece.rows.len()).map(|row| (time_at(piece, row), at, row)));
    }
    // Stable, and rows of one piece and one time stand in LSN order already; pieces are ordered by rank here.
    let rank = |piece: usize| pieces.get(piece).map_or(0, |piece| piece.rank);
    order.sort_by_key(|&(time, piece, _)| (time, rank(piece)));
    let version = |&(_, piece, row): &(i64, usize, usize)| {
        let piece = pieces.get(piece)?;
        Some((&*piece.data, piece.rows.get(row)))
    };
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        let Some(newest @ &(time, _, _)) = same.last() else {
            continue;
        };
        output.part_text();
        if duplicates != Duplicates::Keep {
            merged += same.len() as u64 - 1;
        }
        match duplicates {
            Duplicates::Last => {
                let versions = same.iter().rev().filter_map(version);
                output.push_merged(time, position, &versions);
            }
            Duplicates::Unique => {
                output.push_merged(time, position, &version(newest).into_iter());
            }
            Duplicates::Keep => {
                for row in same {
                    output.push_merged(time, position, &version(row).into_iter());
                }
            }
        }
    }
    merged
}
