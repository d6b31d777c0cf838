//! Rows that grow too old for their table: a retention that is set, works, and is taken away again.
//!
//! Does: set it on a table, let the server look, and hold what is left against what may and what must be gone.
//! Does not: know which partitions there are. Retention takes whole partitions, the oldest first, so what is gone is all
//! up to some time; none of it may be younger than the table keeps. All must be gone when even the widest partition that
//! the table ever had would have ended by then.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};

use super::draw::{self, Content};
use super::model::{Kind, Table, Where};
use super::{DB, End, OneLife, Then, compare, demand};

/// The server looks every ten seconds, and when it has opened.
const LOOK_TIME: Duration = Duration::from_secs(2);
/// Before it looks it compacts what there is to compact.
const GONE_TIME_MAX: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(200);

impl OneLife {
    /// The same with a new table of which all must go.
    pub(super) fn all_grow_old(&mut self) -> Result<Then> {
        let kind = *self.random.pick(&[Kind::Last, Kind::Keep, Kind::Unique]);
        let mut table = Table::new("old", kind);
        let interval = *self.random.pick(&[0, 1, 2]);
        self.create(&mut table, interval)?;
        let at = self.tables.len();
        self.tables.push(table);
        let begin = draw::NEWEST - draw::HOUR * (24 * 40 + self.random.below(100) as i64);
        for hour in 0..=self.random.below(6) as i64 {
            let points = *self.random.pick(&[20, 700]);
            let begin = begin + hour * draw::HOUR;
            let rows = Content::block(begin, points, 3, &mut self.random);
            self.write(&[at], &rows)?;
        }
        self.note(format!("table {at} of old rows"));
        self.keep_for(at, 3600)
    }

    /// Sets a retention on a table, lets it work, and takes it away.
    pub(super) fn grow_old(&mut self) -> Result<Then> {
        let at = self.pick_table();
        let kept_s = {
            let Some(table) = self.tables.get(at) else {
                return Ok(Then::GoOn);
            };
            let keys = table.keys();
            let key = keys.get(self.random.index(keys.len()));
            let cut = key.map_or(draw::NEWEST, |key| key.time);
            let age_s = (now_ns()? - cut) / draw::SECOND;
            if self.random.one_in(3) { 3600 } else { age_s }
        };
        if kept_s <= 0 {
            return Ok(Then::GoOn);
        }
        self.keep_for(at, kept_s)
    }

    fn keep_for(&mut self, at: usize, kept_s: i64) -> Result<Then> {
        let Some(name) = self.tables.get(at).map(|table| table.name) else {
            return Ok(Then::GoOn);
        };
        let set = format!("ALTER TABLE {name} SET (retention = '{kept_s} seconds')");
        demand(self.client()?.sql(DB, &set))?;
        let sure = now_ns()? - kept_s * draw::SECOND;
        self.note(format!("table {at} keeps {kept_s} seconds"));
        // What is in memory only has no partition; a stop writes it into files.
        if self.restart(End::StopUnder)?.is_end() {
            return Ok(Then::End);
        }
        let must_go = self.tables.get(at).is_some_and(|it| it.is_older_than(sure));
        self.wait_for_retention(name, must_go)?;
        let way = *self.random.pick(&["forever", "default"]);
        let unset = format!("ALTER TABLE {name} SET (retention = '{way}')");
        demand(self.client()?.sql(DB, &unset))?;
        // A look that had begun may still delete; nothing outlives its process.
        let end = *self.random.pick(&[End::StopUnder, End::KillUnder]);
        if self.restart(end)?.is_end() {
            return Ok(Then::End);
        }
        let most = now_ns()? - kept_s * draw::SECOND;
        self.settle_old(at, must_go, most)?;
        self.compare_all()
    }

    fn wait_for_retention(&mut self, name: &str, must_go: bool) -> Result<()> {
        if !must_go {
            thread::sleep(LOOK_TIME);
            return Ok(());
        }
        let begun = Instant::now();
        let mut client = self.client()?;
        while begun.elapsed() < GONE_TIME_MAX {
            let left = compare::ask(&mut client, &format!("SELECT count(*) FROM {name}"))?;
            if left
                .first()
                .and_then(|cells| cells.first())
                .map(String::as_str)
                == Some("0")
            {
                break;
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Takes from the model what is gone, if it may be, and says what ought to be.
    fn settle_old(&mut self, at: usize, must_go: bool, most: i64) -> Result<()> {
        let mut client = self.client()?;
        let label = self.label();
        let Some(table) = self.tables.get_mut(at) else {
            return Ok(());
        };
        let asked = format!("SELECT CAST(min(time) AS BIGINT) FROM {}", table.name);
        let found = compare::ask(&mut client, &asked)?;
        let first = found.first().and_then(|cells| cells.first());
        let first = first.filter(|cell| !cell.is_empty());
        let first: Option<i64> = first.map(|cell| cell.parse()).transpose()?;
        if let Some(wrong) = judge(table, first, must_go, most) {
            self.tally
                .broke(format!("{label}: {}: {wrong}", table.name));
        }
        let gone = table.delete(&before(first.unwrap_or(i64::MAX)));
        self.note(format!("{gone} rows of table {at} grew too old"));
        Ok(())
    }
}

/// What is wrong with a table whose first row is at `first` after it kept rows from `most` on at the latest.
fn judge(table: &Table, first: Option<i64>, must_go: bool, most: i64) -> Option<String> {
    if let (true, Some(first)) = (must_go, first) {
        return Some(format!("a row at {first} is older than the table keeps"));
    }
    let gone = before(first.unwrap_or(i64::MAX));
    let last = table.sums(&gone).last?;
    (last >= most).then(|| format!("rows up to {last} are gone, and those from {most} on are kept"))
}

fn before(time: i64) -> Where {
    Where {
        from: i64::MIN,
        until: time,
        h: None,
        h_from: None,
        field: None,
    }
}

fn now_ns() -> Result<i64> {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .context("the clock is before 1970")?;
    i64::try_from(since.as_nanos()).context("the clock is beyond 2262")
}

#[cfg(test)]
mod tests {
    use super::super::model::{Fields, Key, Kind};
    use super::*;

    fn table(times: &[i64]) -> Table {
        let mut table = Table::new("t", Kind::Keep);
        for &time in times {
            let (h, g) = (None, None);
            table.write((Key { time, h, g }, Fields::default()));
        }
        table
    }

    #[test]
    fn what_is_gone_must_be_old_and_what_must_be_gone_must_not_be_there() {
        let rows = table(&[10, 20, 30]);
        // Nothing is gone, some that may be, all that may be.
        assert_eq!(judge(&rows, Some(10), false, 25), None);
        assert_eq!(judge(&rows, Some(20), false, 25), None);
        assert_eq!(judge(&rows, Some(30), false, 25), None);
        assert_eq!(judge(&rows, None, true, 31), None);
        assert_eq!(judge(&table(&[]), None, true, 31), None);
        // A row is gone that the table keeps, from this very time on.
        assert!(judge(&rows, Some(30), false, 20).is_some());
        assert!(judge(&rows, None, false, 30).is_some());
        // A row is left of a table of which all is too old.
        assert!(judge(&rows, Some(30), true, 40).is_some());
    }

    #[test]
    fn a_table_is_old_when_the_widest_partition_that_it_ever_had_is() {
        const DAY: i64 = 24 * draw::HOUR;
        let newest = draw::NEWEST;
        let mut table = table(&[newest]);
        table.partitions_are(draw::HOUR);
        // Whatever time it is, 512 hours that have it end within the next 512.
        assert!(table.is_older_than(newest + 512 * draw::HOUR));
        assert!(!table.is_older_than(newest));
        // By hand: the 8 hours are over at 1_795_017_600, the 512 hours at 1_795_276_800.
        assert!(!table.is_older_than(1_795_276_799 * draw::SECOND));
        assert!(table.is_older_than(1_795_276_800 * draw::SECOND));
        table.partitions_are(400 * DAY);
        assert!(!table.is_older_than(newest + 512 * draw::HOUR));
        // What was once is counted on.
        table.partitions_are(draw::SECOND);
        assert!(!table.is_older_than(newest + 512 * draw::HOUR));
    }
}
