//! Acts of a life between two comparisons: writes on every route, overwrites, deletes, updates, other partitions.
//!
//! Does: do the same to the model as to the server, once the server has said that it did.
//! Does not: end the process; but thinning out takes ends between its generations.

use anyhow::{Result, bail};

use super::draw::{self, Content};
use super::model::{Kind, Row, Table, Where};
use super::{DB, End, OneLife, Then, counted, demand};
use crate::influx;

const INSERT_ROWS: u64 = 120;

impl OneLife {
    pub(super) fn pick_table(&mut self) -> usize {
        self.random.index(self.tables.len())
    }

    /// Writes rows to some tables in one body of line protocol.
    pub(super) fn write(&mut self, to: &[usize], rows: &[Row]) -> Result<()> {
        let answer = {
            let body = self.body(to, rows);
            let target = self.target();
            self.client()?.post(&target, "", body.as_bytes())
        };
        demand(answer)?;
        self.apply(to, rows);
        Ok(())
    }

    pub(super) fn target(&mut self) -> String {
        match self.random.below(3) {
            0 if self.tongue.one_in(2) => format!("/write?db={DB}&rp=autogen"),
            0 => format!("/write?db={DB}&precision=n"),
            1 => format!("/api/v2/write?bucket={DB}&precision=ns"),
            _ => format!("/api/v3/write_lp?db={DB}&precision=nanosecond"),
        }
    }

    pub(super) fn body(&self, to: &[usize], rows: &[Row]) -> String {
        let mut lines = String::new();
        for table in to.iter().filter_map(|at| self.tables.get(*at)) {
            for row in rows {
                draw::line(table.name, row, &mut lines);
            }
        }
        lines
    }

    pub(super) fn apply(&mut self, to: &[usize], rows: &[Row]) {
        for at in to {
            if let Some(table) = self.tables.get_mut(*at) {
                for row in rows {
                    table.write(row.clone());
                }
                self.tally.acked += rows.len() as u64;
            }
        }
    }

    /// Some tables: one, two, or all.
    pub(super) fn targets(&mut self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.tables.len()).collect();
        self.random.shuffle(&mut all);
        all.truncate(*self.random.pick(&[1, 2, 2, 4]));
        all
    }

    /// Bodies all over the months, with other partitions between them.
    pub(super) fn bodies(&mut self) -> Result<()> {
        let to = self.targets();
        for _ in 0..=self.random.below(4) {
            let count = *self.random.pick(&[1, 10, 300, 800, 2000]);
            let rows = self.content.spread(count, &mut self.random);
            self.write(&to, &rows)?;
            self.note(format!("{count} rows spread over tables {to:?}"));
            if self.random.one_in(2) {
                self.change_interval()?;
            }
        }
        Ok(())
    }

    /// Dense hours, a body for each.
    pub(super) fn block(&mut self) -> Result<()> {
        let to = self.targets();
        let hours = 1 + self.random.below(8) as i64;
        let points = *self.random.pick(&[20, 200, 700]);
        let series = 1 + self.random.below(4);
        let begin = draw::NEWEST - draw::HOUR * (20 + self.random.below(3) as i64);
        for hour in 0..hours {
            let rows = Content::block(begin + hour * draw::HOUR, points, series, &mut self.random);
            self.write(&to, &rows)?;
        }
        self.note(format!(
            "{hours} hours of {points} points of {series} series to {to:?}"
        ));
        Ok(())
    }

    /// Partitions that were dense become thin enough to be joined, while each has files of the same flushes: generations
    /// of values over them, a delete of most series between, and the store compacted after each.
    pub(super) fn thin_out(&mut self) -> Result<Then> {
        const SERIES: u64 = 10;
        let at = *self.random.pick(&[0, 1, 3]);
        let points = *self.random.pick(&[280, 420]);
        let (hours, every) = (*self.random.pick(&[6, 7]), 28);
        // Two dense hours are too many rows to be joined, and all of them thin are not.
        let widen = points * SERIES as i64 * *self.random.pick(&[175, 185, 195]) / 100;
        let flags = format!(
            "--compaction-fan-in 8 --partition-rows-min {} --widen-rows-max {widen}",
            self.random.pick(&[100, 500]),
        );
        self.launch.flags = flags.split_whitespace().map(str::to_owned).collect();
        let begin = (draw::NEWEST / (8 * draw::HOUR) - 5) * (8 * draw::HOUR);
        let Some(table) = self.tables.get_mut(at) else {
            return Ok(Then::GoOn);
        };
        table.partitions_are(draw::HOUR);
        let name = table.name;
        let statement = format!("ALTER TABLE {name} SET (partition_interval = '1 hour')");
        demand(self.client()?.sql(DB, &statement))?;
        self.note(format!("table {at} thinned out under {flags}"));
        for generation in 0..3 {
            for hour in 0..hours {
                let begin = begin + hour * draw::HOUR;
                let mut rows = Content::block(begin, points, SERIES, &mut self.random);
                if generation > 0 {
                    let mut number = 0;
                    rows.retain(|_| {
                        number += 1;
                        ((number - 1) / SERIES).is_multiple_of(every)
                    });
                }
                self.write(&[at], &rows)?;
                if generation == 0 && self.restart(End::SettleUnder)?.is_end() {
                    return Ok(Then::End);
                }
            }
            if generation == 2 {
                break;
            }
            if self.restart(End::SettleUnder)?.is_end() {
                return Ok(Then::End);
            }
            if generation == 1 {
                let which = Where {
                    from: begin,
                    until: begin + 8 * draw::HOUR,
                    h: None,
                    h_from: Some("h2".to_owned()),
                    field: None,
                };
                self.delete_rows(at, &which)?;
            }
        }
        if self.compare_all()?.is_end() || self.restart(End::SettleUnder)?.is_end() {
            return Ok(Then::End);
        }
        self.compare_all()
    }

    pub(super) fn overwrite(&mut self) -> Result<()> {
        let to = self.targets();
        let Some(first) = to.first().and_then(|at| self.tables.get(*at)) else {
            return Ok(());
        };
        if first.len() == 0 {
            return self.bodies();
        }
        let most = *self.random.pick(&[5, 500, 5000]);
        let rows = Content::again(first, most, &mut self.random);
        let bodies = *self.random.pick(&[1, 1, 3, 7]);
        let size = rows.len().div_ceil(bodies).max(1);
        for part in rows.chunks(size) {
            self.write(&to, part)?;
        }
        self.note(format!(
            "{} rows overwritten in {to:?} by {bodies} bodies",
            rows.len()
        ));
        Ok(())
    }

    pub(super) fn insert(&mut self) -> Result<()> {
        let at = self.pick_table();
        let count = 1 + self.random.below(INSERT_ROWS);
        let mut rows = self.content.spread(count, &mut self.random);
        if let Some(table) = self.tables.get(at)
            && table.len() > 0
        {
            rows.extend(Content::again(table, 20, &mut self.random));
        }
        for row in &mut rows {
            row.1 = draw::fields(&mut self.random, true);
        }
        let Some(table) = self.tables.get(at) else {
            return Ok(());
        };
        let mut statement = format!(
            "INSERT INTO {} (time, h, g, c, n, v, s, b) VALUES {}",
            table.name,
            draw::values(&rows)
        );
        if table.kind == Kind::Unique {
            statement.push_str(
                " ON CONFLICT DO UPDATE SET c = excluded.c, n = excluded.n, v = excluded.v, s = excluded.s, b = excluded.b",
            );
        }
        demand(self.client()?.sql(DB, &statement))?;
        self.apply(&[at], &rows);
        self.note(format!("{} rows inserted into table {at}", rows.len()));
        Ok(())
    }

    /// Rows of one table as an Arrow stream into another.
    pub(super) fn copy(&mut self) -> Result<()> {
        let (from, to) = (self.pick_table(), self.pick_table());
        let Some(source) = self.tables.get(from) else {
            return Ok(());
        };
        let which = self.content.some(source, &mut self.random);
        let rows: Vec<Row> = source
            .rows()
            .into_iter()
            .filter(|(key, fields)| which.holds(key, fields))
            .collect();
        let Some(target) = self.tables.get(to) else {
            return Ok(());
        };
        let mut keys: Vec<_> = rows.iter().map(|row| &row.0).collect();
        keys.dedup();
        // Rows of one identity come in an order that nobody knows.
        if rows.is_empty()
            || rows.len() > 20_000
            || (keys.len() < rows.len() && target.kind != Kind::Keep)
        {
            return Ok(());
        }
        let statement = format!(
            "SELECT time, h, g, c, n, v, s, b FROM {} WHERE {}",
            source.name,
            draw::condition(&which)
        );
        let unique = if target.kind == Kind::Unique {
            "&on_conflict=replace"
        } else {
            ""
        };
        let path = format!("/api/v3/write_arrow?db={DB}&table={}{unique}", target.name);
        let mut client = self.client()?;
        let stream = client.ask(DB, &statement, "arrow")?;
        if stream.status != 200 {
            bail!("{statement}: {}: {:.300}", stream.status, stream.text());
        }
        let head = "Content-Type: application/vnd.apache.arrow.stream\r\n";
        demand(client.post(&path, head, &stream.body))?;
        self.apply(&[to], &rows);
        self.note(format!(
            "{} rows from table {from} to {to} as Arrow",
            rows.len()
        ));
        Ok(())
    }

    pub(super) fn change_interval(&mut self) -> Result<()> {
        let at = self.pick_table();
        let (interval, interval_ns) = *self.random.pick(&draw::INTERVALS);
        let Some(table) = self.tables.get_mut(at) else {
            return Ok(());
        };
        table.partitions_are(interval_ns);
        let statement = format!(
            "ALTER TABLE {} SET (partition_interval = '{interval}')",
            table.name
        );
        demand(self.client()?.sql(DB, &statement))?;
        self.note(format!("table {at} in partitions of {interval}"));
        Ok(())
    }

    /// A table says from which age on its partitions are cold; the server writes them so while it is used.
    pub(super) fn cool(&mut self) -> Result<()> {
        let at = self.tiers.index(self.tables.len());
        let Some(table) = self.tables.get(at) else {
            return Ok(());
        };
        let age = *self
            .tiers
            .pick(&["1 second", "1 second", "20 days", "never", "default"]);
        let statement = format!("ALTER TABLE {} SET (cold_after = '{age}')", table.name);
        demand(self.client()?.sql(DB, &statement))?;
        self.note(statement);
        Ok(())
    }

    pub(super) fn delete(&mut self) -> Result<()> {
        let at = self.pick_table();
        let Some(table) = self.tables.get(at) else {
            return Ok(());
        };
        let which = if self.random.one_in(2) {
            self.content.some(table, &mut self.random)
        } else {
            self.content.some_by_field(table, &mut self.random)
        };
        self.delete_rows(at, &which)
    }

    pub(super) fn delete_rows(&mut self, at: usize, which: &Where) -> Result<()> {
        let Some(table) = self.tables.get(at) else {
            return Ok(());
        };
        if let Some(condition) = draw::influx_condition(which)
            && self.tongue.one_in(2)
        {
            let statement = format!("DELETE FROM {} WHERE {condition}", table.name);
            self.tell(&statement)?;
            let rows = self
                .tables
                .get_mut(at)
                .map_or(0, |table| table.delete(which));
            self.note(format!("{rows} rows deleted from table {at} in InfluxQL"));
            return Ok(());
        }
        let statement = format!(
            "DELETE FROM {} WHERE {}",
            table.name,
            draw::condition(which)
        );
        let found = counted(self.client()?.sql(DB, &statement))?;
        let wanted = self
            .tables
            .get_mut(at)
            .map_or(0, |table| table.delete(which));
        self.note(format!("{wanted} rows deleted from table {at}"));
        self.same_count(&statement, found, wanted);
        Ok(())
    }

    /// A whole series, or a whole table, which is made anew.
    pub(super) fn drop_in_influxql(&mut self) -> Result<()> {
        let at = self.pick_table();
        let is_table = self.tongue.one_in(4);
        let interval = self.tongue.index(draw::INTERVALS.len());
        let Some(table) = self.tables.get_mut(at) else {
            return Ok(());
        };
        let name = table.name;
        if is_table {
            let mut fresh = Table::new(name, table.kind);
            self.tell(&format!("DROP MEASUREMENT {name}"))?;
            self.create(&mut fresh, interval)?;
            if let Some(table) = self.tables.get_mut(at) {
                *table = fresh;
            }
            self.note(format!("table {at} dropped in InfluxQL and made anew"));
            return Ok(());
        }
        let which = Where {
            from: i64::MIN,
            until: i64::MAX,
            h: Some(Some(format!("h{}", self.tongue.below(3)))),
            h_from: None,
            field: None,
        };
        let rows = table.delete(&which);
        let condition = draw::influx_tag(which.h.as_ref().unwrap_or(&None).as_deref());
        self.tell(&format!("DROP SERIES FROM {name} WHERE {condition}"))?;
        self.note(format!(
            "{rows} rows of a series of table {at} dropped in InfluxQL"
        ));
        Ok(())
    }

    /// A statement of InfluxQL that changes something.
    pub(super) fn tell(&mut self, statement: &str) -> Result<()> {
        let answer = self.client()?.influxql(DB, statement)?;
        match influx::error_of(&answer) {
            Some(error) => bail!("{statement}: {}: {error:.300}", answer.status),
            None => Ok(()),
        }
    }

    pub(super) fn update(&mut self) -> Result<()> {
        let at = self.pick_table();
        let Some(table) = self.tables.get(at) else {
            return Ok(());
        };
        let which = self.content.some_by_field(table, &mut self.random);
        let set = draw::set(&mut self.random);
        let statement = format!(
            "UPDATE {} SET {} WHERE {}",
            table.name,
            draw::assignment(&set),
            draw::condition(&which)
        );
        let found = counted(self.client()?.sql(DB, &statement))?;
        let wanted = self
            .tables
            .get_mut(at)
            .map_or(0, |table| table.update(&which, &set));
        self.note(format!("{wanted} rows updated in table {at}"));
        self.same_count(&statement, found, wanted);
        Ok(())
    }

    pub(super) fn same_count(&mut self, statement: &str, found: u64, wanted: u64) {
        if found != wanted {
            let story = format!(
                "{}: {statement}: {found} rows instead of {wanted}",
                self.label()
            );
            self.tally.broke(story);
        }
    }
}
