//! A measurement in a retention policy of its own, which only clients of InfluxDB write and change.
//!
//! Does: write by both addresses, copy by `SELECT ... INTO`, delete, drop series, the measurement and the policy in InfluxQL;
//! compare in InfluxQL and in SQL. Does not: take part in what the dice of the other tables do.

use anyhow::Result;

use super::draw::{self, Content};
use super::model::{Fields, Key, Kind, Row, Table, Where, bits};
use super::{DB, OneLife, compare, demand};

/// Before one step in so many something is done to it.
const ONE_IN: u64 = 3;
/// The policy, and the measurement as both languages name it.
const POLICY: &str = "keeps";
const NAME: &str = "side";
pub(super) const TABLE: &str = "keeps.side";
/// Rows above which it is only deleted from.
const ROWS_MAX: u64 = 20_000;

/// What the life has of it.
pub(super) fn table() -> Table {
    Table::new(TABLE, Kind::Last)
}

impl OneLife {
    /// Makes the policy, and a first row, so that every question has an answer.
    pub(super) fn make_policy(&mut self) -> Result<()> {
        let duration = *self.policies.pick(&["INF", "36500d"]);
        let statement =
            format!("CREATE RETENTION POLICY {POLICY} ON {DB} DURATION {duration} REPLICATION 1");
        self.tell(&statement)?;
        self.side = table();
        self.write_side(1)
    }

    /// Something, now and then.
    pub(super) fn change_side(&mut self) -> Result<()> {
        if !self.policies.one_in(ONE_IN) {
            return Ok(());
        }
        let is_full = self.side.len() > ROWS_MAX;
        match self.policies.below(12) {
            0..=4 if !is_full => {
                let count = *self.policies.pick(&[1, 20, 400]);
                self.write_side(count)
            }
            5..=6 if !is_full => self.copy_into_side(),
            7 => {
                self.tell(&format!("DROP MEASUREMENT {NAME}"))?;
                self.side = table();
                self.note(format!("{TABLE} dropped"));
                self.write_side(1)
            }
            8 => {
                self.tell(&format!("DROP RETENTION POLICY {POLICY} ON {DB}"))?;
                self.note(format!("{POLICY} dropped with all that it had"));
                self.make_policy()
            }
            9 => {
                let h = Some(format!("h{}", self.policies.below(3)));
                let statement = format!(
                    "DROP SERIES FROM {NAME} WHERE {}",
                    draw::influx_tag(h.as_deref())
                );
                self.delete_side(
                    &statement,
                    &Where {
                        h: Some(h),
                        ..EVERYTHING
                    },
                )
            }
            _ => {
                let which = self.content.some(&self.side, &mut self.policies);
                match draw::influx_condition(&which) {
                    Some(condition) => {
                        self.delete_side(&format!("DELETE FROM {NAME} WHERE {condition}"), &which)
                    }
                    None => Ok(()),
                }
            }
        }
    }

    fn write_side(&mut self, count: u64) -> Result<()> {
        let mut rows = self.content.spread(count, &mut self.policies);
        if self.side.len() == 0 {
            rows.push(whole());
        } else {
            let most = 1 + rows.len() / 4;
            rows.extend(Content::again(&self.side, most, &mut self.policies));
        }
        let mut body = String::new();
        for row in &rows {
            draw::line(NAME, row, &mut body);
        }
        let target = if self.policies.one_in(2) {
            format!("/write?db={DB}&rp={POLICY}&precision=n")
        } else {
            format!("/api/v2/write?bucket={DB}/{POLICY}&precision=ns")
        };
        demand(self.client()?.post(&target, "", body.as_bytes()))?;
        self.note(format!("{} rows written to {TABLE}", rows.len()));
        self.take_side(rows);
        Ok(())
    }

    /// Rows of a table, by an answer that becomes rows.
    fn copy_into_side(&mut self) -> Result<()> {
        let Some(source) = self.tables.first() else {
            return Ok(());
        };
        if source.len() == 0 {
            return Ok(());
        }
        let which = self.content.some(source, &mut self.policies);
        let Some(condition) = draw::influx_condition(&which) else {
            return Ok(());
        };
        let rows: Vec<Row> = source
            .rows()
            .into_iter()
            .filter(|(key, fields)| which.holds(key, fields))
            .filter_map(as_shown)
            .collect();
        let statement = format!(
            "SELECT c, n, v, s, b INTO {TABLE} FROM autogen.{} WHERE {condition} GROUP BY h, g",
            source.name
        );
        self.tell(&statement)?;
        self.note(format!("{} rows copied into {TABLE}", rows.len()));
        self.take_side(rows);
        Ok(())
    }

    fn take_side(&mut self, rows: Vec<Row>) {
        self.tally.acked += rows.len() as u64;
        for row in rows {
            self.side.write(row);
        }
    }

    /// A delete is one in all policies; no other has a measurement of this name.
    fn delete_side(&mut self, statement: &str, which: &Where) -> Result<()> {
        self.tell(statement)?;
        let rows = self.side.delete(which);
        self.note(format!("{rows} rows of {TABLE} deleted: {statement}"));
        Ok(())
    }

    pub(super) fn compare_side(&mut self) -> Result<()> {
        let (mut client, label) = (self.client()?, self.label());
        let verdict = compare::rows(&mut client, &self.side)?;
        self.tally.take(verdict, &label);
        let verdict = compare::rows_in_influxql(&mut client, &self.side)?;
        self.tally.take(verdict, &label);
        let verdict = compare::sums(&mut client, &self.side, None)?;
        self.tally.take(verdict, &label);
        Ok(())
    }
}

/// A row as InfluxQL has it, which is what INTO writes: NaN is no value there. `None` = nothing else is in it. A life was
/// called wrong before the model knew.
fn as_shown((key, fields): Row) -> Option<Row> {
    if !fields.v.is_some_and(|bits| f64::from_bits(bits).is_nan()) {
        return Some((key, fields));
    }
    let fields = Fields { v: None, ..fields };
    let has_one =
        fields.c.is_some() || fields.n.is_some() || fields.s.is_some() || fields.b.is_some();
    has_one.then_some((key, fields))
}

/// A row that has a value of every column, so that all of them can be asked for.
fn whole() -> Row {
    let key = Key {
        time: draw::NEWEST,
        h: Some("h0".to_owned()),
        g: Some("all".to_owned()),
    };
    let fields = Fields {
        c: Some(1),
        n: Some(2),
        v: Some(bits(0.5)),
        s: Some("a".to_owned()),
        b: Some(true),
    };
    (key, fields)
}

const EVERYTHING: Where = Where {
    from: i64::MIN,
    until: i64::MAX,
    h: None,
    h_from: None,
    field: None,
};
