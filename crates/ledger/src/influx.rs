//! The same server, written, asked and told through InfluxDB's addresses.
//!
//! Does: write by `/write` with a retention policy, send InfluxQL to `/query`, find the error within an answer, compare what
//! SELECT shows with what SQL showed before. Does not: judge rows; they are judged as SQL shows them, and here they must be
//! the same.

use std::collections::BTreeMap;
use std::io;

use anyhow::{Result, bail};

use crate::batch::{Content, Row, Table, read_csv};
use crate::http::{Answer, Client, encode};
use crate::read_back::Found;

/// How every line of a series without tags in its head begins in CSV.
const HEAD: [&str; 3] = ["name", "tags", "time"];
const DAY_NS: i64 = 86_400_000_000_000;
/// The columns of [`Row::read`] behind the time.
const COLUMNS: &str = "writer, host, batch, slot, value, big, flag, note";

impl Client {
    /// Sends line protocol to a retention policy, by one address or the other.
    pub fn write_influx(&mut self, db: &str, key: Option<&str>, lines: &str) -> io::Result<Answer> {
        let target = if lines.len().is_multiple_of(2) {
            format!("/write?db={db}&rp=autogen&precision=n")
        } else {
            format!("/api/v2/write?bucket={db}/autogen&precision=ns")
        };
        let key = key.map_or_else(String::new, |key| format!("Idempotency-Key: {key}\r\n"));
        self.post(&target, &key, lines.as_bytes())
    }

    /// Asks, or tells, in InfluxQL; the answer is CSV.
    pub fn influxql(&mut self, db: &str, statement: &str) -> io::Result<Answer> {
        let head = "Content-Type: application/x-www-form-urlencoded\r\nAccept: application/csv\r\n";
        let body = format!("db={db}&epoch=ns&q={}", encode(statement));
        self.post("/query", head, body.as_bytes())
    }
}

/// The error of a statement, which stands in its result whatever the status is.
pub fn error_of(answer: &Answer) -> Option<String> {
    let text = answer.text();
    if answer.status != 200 {
        return Some(text);
    }
    let records = read_csv(&text);
    let at = records.iter().position(|record| *record == ["error"])?;
    let error = records.get(at + 1).and_then(|record| record.first());
    Some(error.cloned().unwrap_or_default())
}

/// The answer that the same error is on an address of ours, where only the disk can be its cause.
pub(crate) fn as_ours(answer: Answer) -> Answer {
    let Some(error) = error_of(&answer).filter(|_| answer.status == 200) else {
        return answer;
    };
    let status = if error.contains("disk_reserve_bytes") {
        507
    } else if error.contains("the store stopped accepting writes") {
        503
    } else {
        500
    };
    Answer {
        status,
        body: error.into_bytes(),
        ..answer
    }
}

/// Records of an answer from the time on, without the head; an answer without series has none.
pub fn records(answer: &Answer) -> Result<Vec<Vec<String>>> {
    if let Some(error) = error_of(answer) {
        bail!("{}: {error:.300}", answer.status);
    }
    let mut records = read_csv(&answer.text());
    let Some(head) = records.first() else {
        return Ok(records);
    };
    if !head.iter().take(3).eq(HEAD.iter()) {
        bail!("an answer of InfluxQL begins with {head:?}");
    }
    records.remove(0);
    for record in &mut records {
        record.drain(..2.min(record.len()));
    }
    Ok(records)
}

/// The statements for the rows of a table, for its aggregates, and for those of each writer and day.
fn statements(table: Table) -> [String; 3] {
    let name = table.name();
    [
        format!("SELECT {COLUMNS} FROM {name}"),
        format!("SELECT count(slot), sum(slot) FROM {name}"),
        format!(
            "SELECT count(slot), sum(slot), max(slot) FROM {name} GROUP BY time(1d), writer fill(none)"
        ),
    ]
}

/// Count, sum and maximum of slots, by the tag of a writer and the beginning of a day.
type Days = BTreeMap<(String, i64), [u64; 3]>;

/// What rows have.
fn days_of(content: Content, table: Table, found: &Found) -> Days {
    let mut days = Days::new();
    let rows = found.rows.iter().filter(|((of, ..), _)| *of == table);
    for (&(_, (writer, batch), slot), times) in rows {
        let Some(row) = content.row(writer, batch, slot) else {
            continue;
        };
        let day = row.time.div_euclid(DAY_NS) * DAY_NS;
        let [count, sum, most] = days.entry((format!("writer=w{writer}"), day)).or_default();
        *count += times;
        *sum += times * slot;
        *most = (*most).max(slot);
    }
    days
}

/// What an answer has.
fn days_in(answer: &Answer) -> Result<Days> {
    if let Some(error) = error_of(answer) {
        bail!("{}: {error:.300}", answer.status);
    }
    let mut days = Days::new();
    for record in read_csv(&answer.text()).iter().skip(1) {
        let [_, tags, day, count, sum, most] = record.as_slice() else {
            bail!("a day of a writer is {record:?}");
        };
        let numbers = [count.parse()?, sum.parse()?, most.parse()?];
        days.insert((tags.clone(), day.parse()?), numbers);
    }
    Ok(days)
}

/// Asks for the rows of a table and compares them with those that SQL has shown; what differs is strange.
pub fn compare(
    content: Content,
    table: Table,
    found: &mut Found,
    mut ask: impl FnMut(&str) -> Result<Answer>,
) -> Result<()> {
    let [rows, totals, days] = statements(table);
    let mut shown = Found::default();
    for cells in records(&ask(&rows)?)? {
        let row = Row::read(&cells);
        let same = row.filter(|row| {
            let sent = content.row(row.writer, row.batch, row.slot);
            sent.is_some_and(|sent| sent.is_same(row))
        });
        match same {
            Some(row) => {
                let key = (table, (row.writer, row.batch), row.slot);
                *shown.rows.entry(key).or_default() += 1;
            }
            None => shown.strange.push(format!(
                "InfluxQL shows a row of {} that nobody wrote: {cells:?}",
                table.name()
            )),
        }
    }
    let of_table = found.rows.iter().filter(|((of, ..), _)| *of == table);
    let (in_sql, in_influxql): (u64, u64) = (
        of_table.clone().map(|(_, n)| n).sum(),
        shown.rows.values().sum(),
    );
    if !of_table.eq(shown.rows.iter()) {
        shown.strange.push(format!(
            "InfluxQL shows other rows of {} than SQL: {in_influxql} and {in_sql}",
            table.name()
        ));
    }
    let wanted: Vec<String> = match found.totals_of_rows().get(&table) {
        // No row, no series.
        None | Some((0, _)) => Vec::new(),
        Some((count, sum)) => vec![count.to_string(), sum.to_string()],
    };
    let aggregates = records(&ask(&totals)?)?;
    let aggregates = aggregates
        .first()
        .map_or(&[][..], |record| record.get(1..).unwrap_or(&[]));
    if aggregates != wanted {
        shown.strange.push(format!(
            "InfluxQL counts and sums {} to {aggregates:?}; its rows have {wanted:?}",
            table.name()
        ));
    }
    let (in_days, wanted) = (days_in(&ask(&days)?)?, days_of(content, table, found));
    if in_days != wanted {
        let differs = |day: &&(String, i64)| in_days.get(*day) != wanted.get(*day);
        let first = in_days.keys().chain(wanted.keys()).find(differs);
        shown.strange.push(format!(
            "InfluxQL counts {} days of writers in {}, and its rows have {}; the first that differs is {first:?}",
            in_days.len(),
            table.name(),
            wanted.len()
        ));
    }
    found.strange.append(&mut shown.strange);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer {
            status: 200,
            head: String::new(),
            body: text.as_bytes().to_vec(),
        }
    }

    const CONTENT: Content = Content {
        seed: 3,
        rows_mean: 2,
    };

    /// What InfluxDB's CSV has of a row.
    fn csv_of(row: &Row) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        format!(
            "points,,{},w{},{},{},{},{},{},{},{}\n",
            row.time,
            row.writer,
            quoted(&row.host),
            row.batch,
            row.slot,
            row.value,
            row.big,
            row.flag,
            quoted(&row.note)
        )
    }

    fn compared(rows: &str, totals: &str, days: &str, found: &mut Found) {
        let mut answers = [answer(days), answer(totals), answer(rows)].to_vec();
        compare(CONTENT, Table::Points, found, |_| {
            Ok(answers.pop().unwrap())
        })
        .unwrap();
    }

    #[test]
    fn rows_that_only_one_language_shows_are_strange() {
        let row = CONTENT.row(0, 1, 0).unwrap();
        let head = "name,tags,time,writer,host,batch,slot,value,big,flag,note\n";
        let rows = format!("{head}{}", csv_of(&row));
        let totals = "name,tags,time,count,sum\npoints,,0,1,0\n";
        let mut found = Found::default();
        found.rows.insert((Table::Points, (0, 1), 0), 1);
        let day = row.time.div_euclid(DAY_NS) * DAY_NS;
        let days = format!("name,tags,time,count,sum,max\npoints,writer=w0,{day},1,0,0\n");
        compared(&rows, totals, &days, &mut found);
        assert_eq!(found.strange, Vec::<String>::new());
        compared("", totals, &days, &mut found);
        assert_eq!(found.strange.len(), 1, "{:?}", found.strange);
        compared(&rows, "", &days, &mut found);
        assert_eq!(found.strange.len(), 2, "{:?}", found.strange);
        let altered = rows.replace(&format!(",{},", row.big), ",7,");
        compared(&altered, totals, &days, &mut found);
        // A row that nobody wrote, and one that is missing.
        assert_eq!(found.strange.len(), 4, "{:?}", found.strange);
        for other in [
            days.replace("w0", "w1"),
            days.replace(",1,0,0", ",2,0,0"),
            String::new(),
        ] {
            compared(&rows, totals, &other, &mut found);
        }
        assert_eq!(found.strange.len(), 7, "{:?}", found.strange);
    }

    #[test]
    fn an_error_within_an_answer_is_found() {
        assert_eq!(error_of(&answer("")), None);
        assert_eq!(error_of(&answer("name,tags,time,a\nm,,1,2\n")), None);
        let text = "error\n\"database not found: \"\"x\"\"\"\n";
        let wanted = Some("database not found: \"x\"".to_owned());
        assert_eq!(error_of(&answer(text)), wanted);
        let behind = "name,tags,time,a\nm,,1,2\n\nerror\nbroken\n";
        assert_eq!(error_of(&answer(behind)), Some("broken".to_owned()));
        assert!(records(&answer(behind)).is_err());
        assert_eq!(as_ours(answer("error\ndisk_reserve_bytes\n")).status, 507);
    }
}
