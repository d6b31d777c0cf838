//! The judge is judged: each way in which a store can be wrong is counted as what it is.

use super::*;
use crate::journal::Name;

const CONTENT: Content = Content {
    seed: 11,
    rows_mean: 6,
};

struct Bench {
    ledger: Ledger,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::create(CONTENT, &folder.path().join("journal")).unwrap();
        Self { ledger, folder }
    }

    fn acknowledged(&mut self, writer: usize) -> Name {
        let name = self.ledger.begin(writer).unwrap();
        self.ledger.acknowledge(name).unwrap();
        name
    }

    fn judge(&mut self, found: &Found, when: When) -> (u64, u64, u64) {
        let verdict = self.ledger.compare(found, when).unwrap();
        let journal = self.folder.path().join("journal");
        assert!(self.ledger.agrees_with(&journal).unwrap());
        (verdict.missing, verdict.duplicated, verdict.altered)
    }
}

/// What a store shows that has exactly these batches, in this order.
fn found(names: &[Name]) -> Found {
    let mut found = Found::default();
    for &name in names {
        for table in Table::ALL {
            for slot in 0..table.rows_of(CONTENT.rows(name.0, name.1)) {
                found.rows.insert((table, name, slot), 1);
            }
        }
        found.latest.insert(name.0, name.1);
    }
    found.totals = found.totals_of_rows();
    found
}

fn points(name: Name) -> u64 {
    let rows = CONTENT.rows(name.0, name.1);
    2 * rows + rows.min(2)
}

#[test]
fn what_was_acknowledged_and_is_there_is_right() {
    let mut bench = Bench::new();
    let names = [
        bench.acknowledged(0),
        bench.acknowledged(1),
        bench.acknowledged(0),
    ];
    assert_eq!(bench.judge(&found(&names), When::Settled), (0, 0, 0));
    let all: u64 = names.iter().map(|name| points(*name)).sum();
    assert_eq!(bench.ledger.acknowledged(), (all, 3));
}

#[test]
fn an_acknowledged_batch_that_is_not_there_is_missing() {
    let mut bench = Bench::new();
    let (first, second) = (bench.acknowledged(0), bench.acknowledged(1));
    let (missing, duplicated, altered) = bench.judge(&found(&[first]), When::Settled);
    assert_eq!((missing, duplicated), (points(second), 0));
    // The newest batch of the second writer is not what was written last, either.
    assert_eq!(altered, 1);
}

#[test]
fn one_missing_row_is_missing_once() {
    let mut bench = Bench::new();
    let name = bench.acknowledged(0);
    let mut found = found(&[name]);
    found.rows.remove(&(Table::Kept, name, 0));
    found.totals = found.totals_of_rows();
    assert_eq!(bench.judge(&found, When::Settled), (1, 0, 0));
}

#[test]
fn a_row_that_is_there_twice_is_duplicated() {
    let mut bench = Bench::new();
    let name = bench.acknowledged(0);
    let mut found = found(&[name]);
    found.rows.insert((Table::Kept, name, 0), 3);
    found.totals = found.totals_of_rows();
    assert_eq!(bench.judge(&found, When::Settled), (0, 2, 0));
}

#[test]
fn an_unanswered_batch_is_there_or_not_and_stays_so() {
    for is_there in [true, false] {
        let mut bench = Bench::new();
        let first = bench.acknowledged(0);
        let second = bench.ledger.begin(0).unwrap();
        let with = found(&[first, second]);
        let without = found(&[first]);
        let (seen, other) = if is_there {
            (&with, &without)
        } else {
            (&without, &with)
        };
        assert_eq!(bench.judge(seen, When::Settled), (0, 0, 0));
        assert_eq!(bench.judge(seen, When::Settled), (0, 0, 0));
        let (missing, _, altered) = bench.judge(other, When::Settled);
        assert!(missing + altered >= points(second), "{missing} {altered}");
    }
}

#[test]
fn a_batch_that_a_running_server_does_not_show_yet_may_come_with_a_restart() {
    let mut bench = Bench::new();
    let first = bench.acknowledged(0);
    let second = bench.ledger.begin(0).unwrap();
    assert_eq!(bench.judge(&found(&[first]), When::Running), (0, 0, 0));
    assert_eq!(
        bench.judge(&found(&[first, second]), When::Settled),
        (0, 0, 0)
    );
}

#[test]
fn a_part_of_an_unanswered_batch_is_altered() {
    let mut bench = Bench::new();
    let first = bench.acknowledged(0);
    let second = bench.ledger.begin(0).unwrap();
    let mut part = found(&[first, second]);
    part.rows
        .retain(|(table, name, _), _| *name != second || *table != Table::Kept);
    part.latest = found(&[first]).latest;
    part.totals = part.totals_of_rows();
    let left = points(second) - CONTENT.rows(second.0, second.1);
    assert_eq!(bench.judge(&part, When::Settled), (0, 0, left));
}

#[test]
fn what_was_refused_must_not_appear() {
    let mut bench = Bench::new();
    let first = bench.acknowledged(0);
    let second = bench.ledger.begin(0).unwrap();
    bench.ledger.refuse(second).unwrap();
    assert_eq!(bench.judge(&found(&[first]), When::Running), (0, 0, 0));
    let (_, _, altered) = bench.judge(&found(&[first, second]), When::Running);
    // Its rows, and that it is the newest.
    assert_eq!(altered, points(second) + 1);
}

#[test]
fn a_row_that_nobody_wrote_is_altered() {
    let mut bench = Bench::new();
    let name = bench.acknowledged(0);
    let mut strange = found(&[name]);
    strange.strange.push("another value".to_owned());
    assert_eq!(bench.judge(&strange, When::Settled), (0, 0, 1));
    let mut wrong = found(&[name]);
    wrong.totals.insert(Table::Points, (99, 0));
    assert_eq!(bench.judge(&wrong, When::Settled), (0, 0, 1));
    let unsent = found(&[name, (2, 5)]);
    assert!(bench.judge(&unsent, When::Settled).2 > 0);
}

#[test]
fn deleted_rows_must_not_come_back() {
    let mut bench = Bench::new();
    let (first, second) = (bench.acknowledged(0), bench.acknowledged(0));
    // Whichever it is, it is one of these two.
    let erased = bench
        .ledger
        .begin_erase(0, &mut Random::of(&[]))
        .unwrap()
        .unwrap();
    let whole = found(&[first, second]);
    let mut without = whole.clone();
    without
        .rows
        .retain(|(table, name, _), _| *table != Table::Points || *name != erased);
    without.totals = without.totals_of_rows();
    // Unanswered, it may be either.
    assert_eq!(bench.judge(&whole, When::Running), (0, 0, 0));
    assert_eq!(bench.judge(&without, When::Running), (0, 0, 0));
    bench.ledger.end_erase(erased, true).unwrap();
    assert_eq!(bench.judge(&without, When::Settled), (0, 0, 0));
    let rows = CONTENT.rows(erased.0, erased.1);
    assert_eq!(bench.judge(&whole, When::Settled), (0, 0, rows));
    // In the other tables it is still promised.
    let mut gone = without.clone();
    gone.rows.retain(|(_, name, _), _| *name != erased);
    gone.totals = gone.totals_of_rows();
    assert_eq!(bench.judge(&gone, When::Settled).0, points(erased) - rows);
}

#[test]
fn tables_that_were_made_stay() {
    let mut bench = Bench::new();
    let name = bench.acknowledged(0);
    let n = bench.ledger.begin_table().unwrap();
    let mut with = found(&[name]);
    with.tables.insert(n);
    assert_eq!(bench.judge(&found(&[name]), When::Running), (0, 0, 0));
    bench.ledger.end_table(n).unwrap();
    assert_eq!(bench.judge(&with, When::Settled), (0, 0, 0));
    assert_eq!(bench.judge(&found(&[name]), When::Settled), (1, 0, 0));
}

/// The ledger took a table for made because a server showed it whose disk had failed: the point that should have made it had been refused with 503, its name
/// was given all the same, and a restart, which knew nothing of it, was blamed.
#[test]
fn a_table_that_is_shown_without_an_answer_is_no_promise_until_a_restart() {
    let mut bench = Bench::new();
    let name = bench.acknowledged(0);
    let n = bench.ledger.begin_table().unwrap();
    let mut with = found(&[name]);
    with.tables.insert(n);
    assert_eq!(bench.judge(&with, When::Running), (0, 0, 0));
    assert_eq!(bench.judge(&found(&[name]), When::Settled), (0, 0, 0));
    // What a restart did not have stays away.
    assert_eq!(bench.judge(&with, When::Settled), (0, 0, 1));
    let mut bench = Bench::new();
    let name = bench.acknowledged(0);
    let n = bench.ledger.begin_table().unwrap();
    let mut with = found(&[name]);
    with.tables.insert(n);
    assert_eq!(bench.judge(&with, When::Settled), (0, 0, 0));
    assert_eq!(bench.judge(&found(&[name]), When::Settled), (1, 0, 0));
}

/// A bench with a table that is to be dropped, and what shows it and what does not.
fn dropping() -> (Bench, u64, [Found; 2]) {
    let mut bench = Bench::new();
    let name = bench.acknowledged(0);
    let n = bench.ledger.begin_table().unwrap();
    bench.ledger.end_table(n).unwrap();
    let mut with = found(&[name]);
    with.tables.insert(n);
    let dropped = bench.ledger.begin_drop(&mut Random::of(&[1]));
    assert_eq!(dropped.unwrap(), Some(n));
    (bench, n, [with, found(&[name])])
}

#[test]
fn tables_that_were_dropped_stay_away() {
    let (mut bench, n, [with, without]) = dropping();
    bench.ledger.end_drop(n, true).unwrap();
    assert_eq!(bench.judge(&without, When::Settled), (0, 0, 0));
    assert_eq!(bench.judge(&with, When::Settled), (0, 0, 1));
}

#[test]
fn a_drop_without_an_answer_is_done_or_not_and_stays_so() {
    let (mut bench, _, [with, without]) = dropping();
    // It may be carried out later, so neither is a promise while the server runs.
    assert_eq!(bench.judge(&with, When::Running), (0, 0, 0));
    assert_eq!(bench.judge(&without, When::Running), (0, 0, 0));
    assert_eq!(bench.judge(&with, When::Settled), (0, 0, 0));
    assert_eq!(bench.judge(&without, When::Settled), (1, 0, 0));
    let (mut bench, _, [with, without]) = dropping();
    assert_eq!(bench.judge(&without, When::Settled), (0, 0, 0));
    assert_eq!(bench.judge(&with, When::Settled), (0, 0, 1));
}
