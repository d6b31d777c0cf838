//! Series by their tags: every predicate against a list of what was written, and what is asked of series without rows.

#![expect(
    clippy::unwrap_used,
    reason = "helpers outside test functions fail by panicking"
)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Engine, Options, SystemClock, TableSchema, TagMatch, TagPredicate, TextRange,
};
use nilometer_lineproto::Precision;
use proptest::prelude::*;
use regex::Regex;

/// The tags of one series: `a` and `b`, each perhaps absent.
type Tags = [Option<String>; 2];

struct Store {
    disk: MemoryDisk,
    engine: Arc<Engine>,
    session: Session,
}

/// What becomes of series between two questions.
#[derive(Debug, Clone, Copy)]
enum Between {
    Nothing,
    Flush,
    Settle,
    Reopen,
}

fn between() -> impl Strategy<Value = Between> {
    use Between::{Flush, Nothing, Reopen, Settle};
    proptest::sample::select(vec![Nothing, Flush, Settle, Reopen])
}

impl Store {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let disk = MemoryDisk::default();
        let (engine, session) = open(&disk, options);
        // So that both tags are there, `a` first, whatever comes.
        let mut store = Self {
            disk,
            engine,
            session,
        };
        store.write("m,a=first,b=first v=1 1\n");
        store
    }

    fn take(&mut self, between: Between) {
        match between {
            Between::Nothing => {}
            Between::Flush => self.engine.flush().unwrap(),
            Between::Settle => self.engine.settle().unwrap(),
            Between::Reopen => {
                // The lock is the old store's until it is gone.
                let elsewhere = MemoryDisk::default();
                (self.engine, self.session) = open(&elsewhere, Options::default());
                (self.engine, self.session) = open(&self.disk, Options::default());
            }
        }
    }

    fn write(&mut self, body: &str) {
        let report = self
            .session
            .write_lines(body.as_bytes(), Precision::Nanosecond);
        assert_eq!(report.unwrap().rejected, []);
    }

    fn table(&self) -> Arc<TableSchema> {
        self.engine.snapshot().table("d", "public", "m").unwrap()
    }

    fn found(&self, tags: &[TagPredicate]) -> BTreeSet<Tags> {
        let (table, snapshot) = (self.table(), self.engine.snapshot());
        let series = snapshot.series(&table, tags).unwrap();
        assert_eq!(
            snapshot.series_count(&table, tags).unwrap(),
            series.len() as u64
        );
        assert!(series.is_sorted());
        snapshot
            .series_tags(&table, &series)
            .unwrap()
            .into_iter()
            .map(|tags| tags.try_into().unwrap())
            .collect()
    }
}

fn open(disk: &MemoryDisk, options: Options) -> (Arc<Engine>, Session) {
    let disk = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("d"), options).unwrap();
    let engine = Arc::new(engine);
    engine.create_database("d").unwrap();
    let session = Session::new(Arc::clone(&engine), "d").unwrap();
    (engine, session)
}

fn line(tags: &Tags, time: i64) -> String {
    let [a, b] = tags;
    let a = a.as_ref().map_or_else(String::new, |a| format!(",a={a}"));
    let b = b.as_ref().map_or_else(String::new, |b| format!(",b={b}"));
    format!("m{a}{b} v=1 {time}\n")
}

fn keeps(predicate: &TagPredicate, tags: &Tags) -> bool {
    // Column 0 is the time, so tag `a` is column 1.
    let value = tags[predicate.column - 1].as_deref();
    let matches = match &predicate.matches {
        TagMatch::OneOf(values) => values.iter().any(|wanted| wanted.as_deref() == value),
        TagMatch::Pattern(pattern) => pattern.is_match(value.unwrap_or("")),
        TagMatch::Texts(ranges) => value.is_some_and(|value| {
            ranges.iter().any(|range| {
                let (first, last) = (range.first.as_deref(), range.last.as_deref());
                first.is_none_or(|first| first <= value.as_bytes())
                    && last.is_none_or(|last| value.as_bytes() <= last)
            })
        }),
        // Every value that is drawn starts with a letter.
        TagMatch::Integers(_) => false,
    };
    matches != predicate.negated
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[xyz]", "[a-z]{1,3}", "host_[0-9]{1,2}"]
}

fn predicate() -> impl Strategy<Value = TagPredicate> {
    let patterns = ["x", "^x$", "^host_1", "z$", "", "^$", "[xy]z?", "h.*_.*3"];
    let matches = prop_oneof![
        proptest::collection::vec(proptest::option::of(value()), 0..5).prop_map(TagMatch::OneOf),
        proptest::sample::select(patterns.to_vec())
            .prop_map(|pattern| TagMatch::Pattern(Regex::new(pattern).unwrap())),
        (proptest::option::of(value()), proptest::option::of(value())).prop_map(|(first, last)| {
            TagMatch::Texts(vec![TextRange {
                first: first.map(String::into_bytes),
                last: last.map(String::into_bytes),
            }])
        }),
    ];
    (1..=2usize, matches, any::<bool>()).prop_map(|(column, matches, negated)| TagPredicate {
        column,
        matches,
        negated,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn predicates_keep_what_a_look_at_every_series_keeps(
        bodies in proptest::collection::vec(
            (proptest::collection::vec(proptest::array::uniform2(proptest::option::of(value())), 1..80), between()),
            1..4,
        ),
        questions in proptest::collection::vec(proptest::collection::vec(predicate(), 0..4), 1..8),
    ) {
        let mut store = Store::new();
        let first = Some("first".to_owned());
        let mut known: BTreeSet<Tags> = [[first.clone(), first]].into();
        for (body, between) in bodies {
            store.write(&body.iter().map(|tags| line(tags, 1)).collect::<String>());
            known.extend(body);
            store.take(between);
            // Asked after each body, because what was built for one question serves the next.
            for tags in &questions {
                let kept = |series: &&Tags| tags.iter().all(|predicate| keeps(predicate, series));
                let expected: BTreeSet<Tags> = known.iter().filter(kept).cloned().collect();
                prop_assert_eq!(store.found(tags), expected, "{:?}", tags);
            }
        }
        let table = store.table();
        let snapshot = store.engine.snapshot();
        for tags in &questions {
            let kept = |series: &&Tags| tags.iter().all(|predicate| keeps(predicate, series));
            let values: BTreeSet<&String> =
                known.iter().filter(kept).filter_map(|series| series[0].as_ref()).collect();
            for (prefix, limit) in [("", usize::MAX), ("host_", usize::MAX), ("", 3), ("x", 0)] {
                let expected: Vec<&&String> =
                    values.iter().filter(|value| value.starts_with(prefix)).take(limit).collect();
                let found = snapshot
                    .tag_values(&table, table.tags[0].id, tags, prefix, limit)
                    .unwrap();
                prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.into_iter().copied().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn many_series_are_told_apart_by_sets() {
    let mut store = Store::new();
    let mut body = String::new();
    for n in 0..20_000 {
        writeln!(body, "m,a=h{n},b=r{} v=1 1", n % 7).unwrap();
    }
    store.write(&body);
    let table = store.table();
    let count = |tags: &[TagPredicate]| {
        let snapshot = store.engine.snapshot();
        snapshot.series_count(&table, tags).unwrap()
    };
    let pattern = |column, pattern: &str, negated| TagPredicate {
        column,
        matches: TagMatch::Pattern(Regex::new(pattern).unwrap()),
        negated,
    };
    // 20,000 = 7 * 2857 + 1, so r0 has 2858 series and the others 2857 each.
    assert_eq!(count(&[pattern(2, "^r[01]$", false)]), 2858 + 2857);
    assert_eq!(count(&[pattern(2, "^r[01]$", true)]), 20_001 - 5715);
    assert_eq!(
        count(&[pattern(1, "^h", false), pattern(2, "r0", true)]),
        20_000 - 2858
    );
    assert_eq!(count(&[pattern(1, "9$", false)]), 2000);
    // h9, h19, ...: 2000 numbers, one in ten of each stretch of 70; n % 7 == 0 and n % 10 == 9 is n % 70 == 49.
    assert_eq!(
        count(&[pattern(1, "9$", false), pattern(2, "r0", false)]),
        286
    );
    let one = TagPredicate::one_of(1, vec![Some("h12345".to_owned())]);
    assert_eq!(count(&[one, pattern(2, "r", false)]), 1);
}

#[test]
fn live_series_are_those_with_rows_in_the_range() {
    let mut store = Store::new();
    let tags = |n: usize| [Some(format!("h{n}")), None];
    let hosts = |hosts: std::ops::Range<usize>, time: i64| -> String {
        hosts.map(|n| line(&tags(n), time)).collect()
    };
    let day = 86_400_000_000_000;
    store.write(&hosts(0..300, day));
    store.engine.flush().unwrap();
    store.write(&hosts(200..500, 2 * day));
    store.engine.flush().unwrap();
    store.write(&hosts(450..600, 3 * day));
    let table = store.table();
    let snapshot = store.engine.snapshot();
    let live = |time: std::ops::RangeInclusive<i64>| -> BTreeSet<Tags> {
        let series = snapshot.live_series(&table, &time).unwrap();
        let tags = snapshot.series_tags(&table, &series).unwrap();
        tags.into_iter()
            .map(|tags| tags.try_into().unwrap())
            .collect()
    };
    let expected = |hosts: std::ops::Range<usize>| -> BTreeSet<Tags> { hosts.map(tags).collect() };
    assert_eq!(live(day..=day), expected(0..300));
    assert_eq!(live(2 * day..=2 * day), expected(200..500));
    assert_eq!(live(3 * day..=i64::MAX), expected(450..600));
    assert_eq!(live(2 * day..=3 * day), expected(200..600));
    assert_eq!(live(4 * day..=i64::MAX), expected(0..0));
    assert_eq!(live(i64::MIN..=i64::MAX).len(), 601);
}

#[test]
fn more_series_than_fit_their_memory_become_files_and_keep_their_ids() {
    let options = Options {
        memory_bytes_max: 8 << 20,
        ..Options::default()
    };
    let mut store = Store::with(options);
    // A series with one tag takes about sixty bytes, and half of the budget is theirs.
    let series = 120_000;
    for from in (0..series).step_by(5000) {
        let body: String = (from..from + 5000)
            .map(|n| line(&[Some(format!("host_{n}")), None], 1))
            .collect();
        store.write(&body);
    }
    assert!(store.engine.metrics().index_files > 0);
    let table = store.table();
    let all = store.engine.snapshot().series(&table, &[]).unwrap();
    assert_eq!(all.len(), series + 1);
    store.write(&line(&[Some("host_5".to_owned()), None], 2));
    store.take(Between::Settle);
    store.take(Between::Reopen);
    assert_eq!(store.engine.metrics().index_files, 1);
    let snapshot = store.engine.snapshot();
    assert_eq!(snapshot.series(&store.table(), &[]).unwrap(), all);
}
