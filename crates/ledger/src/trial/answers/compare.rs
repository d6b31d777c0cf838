//! The comparison of what a server answers with what the model holds.
//!
//! Does: count rows that are missing, there too often or with other values, and aggregates that do not fit.
//! Does not: stop at the first.

use anyhow::{Result, bail};

use super::draw::condition;
use super::model::{Fields, Key, Row, Sums, Table, Where, bits};
use crate::batch::read_csv;
use crate::http::Client;
use crate::influx;
use crate::ledger::Verdict;
use crate::server::DB;

/// Rows of each sort that a story shows.
const SHOWN: usize = 3;
pub(super) const COLUMNS: &str =
    "CAST(time AS BIGINT) AS t, h, g, c, n, v, s, s IS NULL AS is_null, b";

/// The records of an answer, without its head.
pub(super) fn ask(client: &mut Client, statement: &str) -> Result<Vec<Vec<String>>> {
    let answer = client.sql(DB, statement)?;
    if answer.status != 200 {
        bail!(
            "{statement:.200}: {}: {:.300}",
            answer.status,
            answer.text()
        );
    }
    let mut records = read_csv(&answer.text());
    if !records.is_empty() {
        records.remove(0);
    }
    Ok(records)
}

fn maybe(cell: &str) -> Option<String> {
    (!cell.is_empty()).then(|| cell.to_owned())
}

/// NULL is empty. What is no number becomes one that was never written.
fn number(cell: &str) -> Option<i64> {
    maybe(cell).map(|cell| cell.parse().unwrap_or(i64::MIN + 3))
}

fn row(cells: &[String]) -> Option<Row> {
    let [
        time,
        host,
        group,
        count,
        number_cell,
        value,
        s,
        is_null,
        flag,
    ] = cells
    else {
        return None;
    };
    let key = Key {
        time: time.parse().ok()?,
        h: maybe(host),
        g: maybe(group),
    };
    let v = match maybe(value) {
        Some(value) => Some(bits(value.parse().ok()?)),
        None => None,
    };
    let fields = Fields {
        c: number(count),
        n: number(number_cell),
        v,
        s: (is_null == "false").then(|| s.clone()),
        b: maybe(flag).map(|flag| flag == "true"),
    };
    Some((key, fields))
}

/// What is in `a` and not in `b`; both are in order.
fn without<'a>(a: &'a [Row], b: &[Row]) -> Vec<&'a Row> {
    let mut rest = b.iter().peekable();
    let mut only = Vec::new();
    for row in a {
        while rest.next_if(|other| *other < row).is_some() {}
        if rest.next_if(|other| *other == row).is_none() {
            only.push(row);
        }
    }
    only
}

/// Compares all rows of a table.
pub(super) fn rows(client: &mut Client, table: &Table) -> Result<Verdict> {
    let statement = format!("SELECT {COLUMNS} FROM {}", table.name);
    let mut found = Vec::new();
    for cells in ask(client, &statement)? {
        match row(&cells) {
            Some(row) => found.push(row),
            None => bail!("{}: a row that is none of ours: {cells:?}", table.name),
        }
    }
    found.sort();
    Ok(judge(table.name, &table.rows(), &found))
}

/// The same by InfluxQL. Its CSV does not tell an empty text from none, and what is no number may be left out.
pub(super) fn rows_in_influxql(client: &mut Client, table: &Table) -> Result<Verdict> {
    let statement = format!("SELECT h, g, c, n, v, s, b FROM {}", table.name);
    let answer = client.influxql(DB, &statement)?;
    let mut found = Vec::new();
    for mut cells in influx::records(&answer)? {
        cells.insert(7.min(cells.len()), "false".to_owned());
        match row(&cells) {
            Some(row) => found.push(plainer(row)),
            None => bail!("{}: a row that is none of ours: {cells:?}", table.name),
        }
    }
    let mut wanted: Vec<Row> = table.rows().into_iter().map(plainer).collect();
    found.sort();
    wanted.sort();
    Ok(judge(
        &format!("{} in InfluxQL", table.name),
        &wanted,
        &found,
    ))
}

fn plainer((key, fields): Row) -> Row {
    let is_number = |v: &u64| f64::from_bits(*v).is_finite();
    let fields = Fields {
        v: fields.v.filter(is_number),
        s: fields.s.filter(|s| !s.is_empty()),
        ..fields
    };
    (key, fields)
}

fn judge(name: &str, wanted: &[Row], found: &[Row]) -> Verdict {
    let missing = without(wanted, found);
    let extra = without(found, wanted);
    let mut verdict = Verdict::default();
    if missing.is_empty() && extra.is_empty() {
        return verdict;
    }
    // A row of a key that lost one is the same row with other values.
    let lost: std::collections::BTreeSet<&Key> = missing.iter().map(|row| &row.0).collect();
    let altered = extra.iter().filter(|row| lost.contains(&row.0)).count() as u64;
    verdict.altered = altered;
    verdict.duplicated = extra.len() as u64 - altered;
    verdict.missing = (missing.len() as u64).saturating_sub(altered);
    verdict.stories.push(format!(
        "{name} has {} rows instead of {}: without {:?}, with {:?}",
        found.len(),
        wanted.len(),
        missing.iter().take(SHOWN).collect::<Vec<_>>(),
        extra.iter().take(SHOWN).collect::<Vec<_>>(),
    ));
    verdict
}

/// Compares aggregates over some rows of a table.
pub(super) fn sums(client: &mut Client, table: &Table, which: Option<&Where>) -> Result<Verdict> {
    let everything = Where {
        from: i64::MIN,
        until: i64::MAX,
        h: None,
        h_from: None,
        field: None,
    };
    let mut statement = format!(
        "SELECT count(*), sum(c), count(n), min(n), max(n), count(s), CAST(min(time) AS BIGINT), CAST(max(time) AS BIGINT) FROM {}",
        table.name
    );
    if let Some(which) = which {
        statement.push_str(" WHERE ");
        statement.push_str(&condition(which));
    }
    let wanted = table.sums(which.unwrap_or(&everything));
    let found = ask(client, &statement)?;
    let found = match found.as_slice() {
        [cells] => numbers(cells),
        _ => None,
    };
    let mut verdict = Verdict::default();
    if found.as_ref() != Some(&wanted) {
        verdict.altered = 1;
        verdict
            .stories
            .push(format!("{statement}: {found:?} instead of {wanted:?}"));
    }
    Ok(verdict)
}

fn numbers(cells: &[String]) -> Option<Sums> {
    let [rows, c, n_count, n_min, n_max, s_count, first, last] = cells else {
        return None;
    };
    Some(Sums {
        rows: rows.parse().ok()?,
        c: number(c).unwrap_or(0),
        n_count: n_count.parse().ok()?,
        n_min: number(n_min),
        n_max: number(n_max),
        s_count: s_count.parse().ok()?,
        first: number(first),
        last: number(last),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(list: &[(i64, i64)]) -> Vec<Row> {
        let mut rows: Vec<Row> = list
            .iter()
            .map(|&(time, c)| {
                let cells = [
                    &time.to_string(),
                    "a",
                    "",
                    &c.to_string(),
                    "",
                    "-0.0",
                    "",
                    "false",
                    "",
                ];
                row(&cells.map(str::to_owned)).unwrap()
            })
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn each_way_to_be_wrong_is_counted_as_what_it_is() {
        let wanted = rows_of(&[(1, 5), (2, 6), (2, 6), (3, 7)]);
        let counts = |found: &[(i64, i64)]| {
            let verdict = judge("t", &wanted, &rows_of(found));
            (verdict.missing, verdict.duplicated, verdict.altered)
        };
        assert_eq!(counts(&[(3, 7), (2, 6), (1, 5), (2, 6)]), (0, 0, 0));
        assert_eq!(counts(&[(1, 5), (2, 6), (3, 7)]), (1, 0, 0));
        assert_eq!(counts(&[(1, 5), (2, 6), (2, 6), (2, 6), (3, 7)]), (0, 1, 0));
        assert_eq!(counts(&[(1, 5), (2, 6), (2, 6), (3, 8)]), (0, 0, 1));
        assert_eq!(counts(&[(1, 5), (2, 6), (2, 6), (4, 7)]), (1, 1, 0));
    }

    #[test]
    fn a_zero_is_not_the_negative_one_and_an_empty_text_is_not_null() {
        let [row] = rows_of(&[(1, 5)]).try_into().unwrap();
        assert_eq!(row.1.v, Some((-0.0_f64).to_bits()));
        assert_eq!(row.1.s, Some(String::new()));
        assert_eq!(row.0.g, None);
    }
}
