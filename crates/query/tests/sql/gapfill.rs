//! Gap filling of random rows against a plain model of what it promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::support::Store;

/// Numbers that look random, from a seed that a failure prints.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % limit).unwrap()
    }
}

/// A row: group, time, value.
type Row = (i64, i64, Option<i64>);

fn shown(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// On the line between two rows, rounded with halves away from zero.
fn between(
    before: Option<(i64, Option<i64>)>,
    at: i64,
    after: Option<(i64, Option<i64>)>,
) -> Option<i64> {
    let ((x0, y0), (x1, y1)) = before.zip(after)?;
    let (y0, y1) = y0.zip(y1)?;
    let sum = y0 * (x1 - at) + y1 * (at - x0);
    let whole = 2 * sum.abs() + (x1 - x0);
    Some(whole / (2 * (x1 - x0)) * sum.signum())
}

fn model(rows: &[Row], width: i64, start: i64, finish: i64) -> Vec<String> {
    let mut groups: BTreeMap<i64, BTreeMap<i64, Option<i64>>> = BTreeMap::new();
    for (group, time, value) in rows {
        let bucket = time.div_euclid(width) * width;
        let least = groups.entry(*group).or_default().entry(bucket).or_default();
        *least = [*least, *value].into_iter().flatten().min();
    }
    let mut expected = Vec::new();
    for (group, buckets) in groups {
        let first = start.div_euclid(width) * width;
        let grid = (0..)
            .map(|step| first + step * width)
            .take_while(|bucket| *bucket < finish);
        let all: BTreeSet<i64> = grid.chain(buckets.keys().copied()).collect();
        for bucket in all {
            let row = buckets.get(&bucket).copied();
            let before = buckets
                .range(..bucket)
                .next_back()
                .map(|(time, value)| (*time, *value));
            let after = buckets
                .range(bucket + 1..)
                .next()
                .map(|(time, value)| (*time, *value));
            let carried = row.unwrap_or_else(|| before.and_then(|(_, value)| value));
            let known = buckets.range(..=bucket).rev().find_map(|(_, value)| *value);
            let line = row.unwrap_or_else(|| between(before, bucket, after));
            let cells = [row.flatten(), carried, known, line].map(shown).join("|");
            expected.push(format!("{group}|{bucket}|{cells}"));
        }
    }
    expected
}

#[tokio::test]
async fn random_rows_are_filled_as_the_model_says() {
    let store = Store::new();
    for seed in 0..60 {
        let mut random = Random(seed);
        let rows: Vec<Row> = (0..=random.below(40))
            .map(|_| {
                let value = random.below(41) - 20;
                let value = (random.below(4) > 0).then_some(value);
                (random.below(3), random.below(60) - 20, value)
            })
            .collect();
        let (width, start) = (random.below(7) + 1, random.below(50) - 25);
        let finish = start + 1 + random.below(40);
        let mut values = String::new();
        for (number, (group, time, value)) in rows.iter().enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            let value = value.map_or_else(|| "NULL".to_owned(), |value| value.to_string());
            write!(values, "{separator}({group}, {time}, {value}::bigint)").unwrap();
        }
        let sql = format!(
            "SELECT g, time_bucket_gapfill({width}, t, {start}, {finish}) AS b, min(v), locf(min(v)),
                locf(min(v), treat_null_as_missing => true), interpolate(min(v))
             FROM (VALUES {values}) x(g, t, v) GROUP BY g, b ORDER BY g, b"
        );
        let expected = model(&rows, width, start, finish);
        assert_eq!(store.rows(&sql).await, expected, "seed {seed}: {sql}");
    }
}
