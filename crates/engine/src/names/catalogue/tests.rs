//! Series in files and in memory against a catalogue that keeps all of them in memory.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::Array;
use proptest::prelude::*;
use regex::Regex;

use super::*;
use crate::budget::MemoryBudget;
use crate::disk::MemoryDisk;
use crate::index::{BlockCache, Index, IndexWriter, merge};
use crate::predicate::TagMatch;
use crate::schema::SeriesId;

const UUID: [u8; 16] = [3; 16];
const TABLES: [TableId; 2] = [TableId(1), TableId(2)];

/// Tags 1 to 3 are table 1's, 4 to 6 table 2's.
fn tag_of(table: TableId, at: usize) -> ColumnId {
    ColumnId((table.0 - 1) * 3 + at as u32 + 1)
}

fn catalogue() -> Catalogue {
    use Definition as D;
    let mut catalogue = Catalogue::new(None);
    let (database, schema) = (DatabaseId(1), SchemaId(1));
    let mut made = catalogue.plan_database("d", "public");
    assert_eq!(made.len(), 2);
    for table in TABLES {
        made.push(D::Table {
            id: table,
            schema,
            name: format!("t{}", table.0),
        });
        made.extend((0..3).map(|at| D::Column {
            id: tag_of(table, at),
            table,
            kind: ColumnKind::Tag,
            name: format!("tag{at}"),
        }));
    }
    for definition in &made {
        catalogue.apply(definition).unwrap();
    }
    assert_eq!(catalogue.database("d"), Some(database));
    catalogue
}

/// A catalogue with files of its own and one without any, which get the same series.
struct Pair {
    disk: MemoryDisk,
    cache: Arc<BlockCache>,
    filed: Catalogue,
    twin: Catalogue,
    entries: Entries,
    /// What the log would hold of the series that no file has.
    log: Vec<Vec<u8>>,
    next_file_id: u64,
}

#[derive(Debug, Clone)]
enum Step {
    /// Table, and by tag its value.
    Define(usize, [Option<String>; 3]),
    /// A log record ends.
    Record,
    Flush,
    /// A flush that did not get to its end: what it took stays aside.
    SetAside,
    /// Number of files from the newest on.
    Merge(usize),
    Open,
}

impl Pair {
    fn new(cache_bytes: u64) -> Self {
        let budget = MemoryBudget::new(64 << 20);
        Self {
            disk: MemoryDisk::new(),
            cache: Arc::new(BlockCache::new(cache_bytes, &budget)),
            filed: catalogue(),
            twin: catalogue(),
            entries: Entries::default(),
            log: Vec::new(),
            next_file_id: 1,
        }
    }

    fn path(file_id: u64) -> PathBuf {
        PathBuf::from(format!("/{file_id}.idx"))
    }

    fn write(&mut self, fill: impl FnOnce(&mut IndexWriter), next: u32) -> Arc<Index> {
        let (id, path) = (self.next_file_id, Self::path(self.next_file_id));
        self.next_file_id += 1;
        let mut writer = IndexWriter::create(&self.disk, &path, UUID, id).unwrap();
        fill(&mut writer);
        let bytes = writer.finish(next).unwrap();
        let cache = Arc::clone(&self.cache);
        Arc::new(Index::open(&self.disk, &path, UUID, id, bytes, cache).unwrap())
    }

    fn end_record(&mut self) {
        if !self.entries.bytes.is_empty() {
            self.log.push(self.entries.bytes.clone());
            self.entries.clear();
        }
    }

    /// Writes what is aside.
    fn finish_flush(&mut self, aside: &SetAside) {
        let series = Arc::clone(&aside.series);
        let fill = |writer: &mut IndexWriter| {
            let series = series.read();
            for table in series.tables() {
                series.write(table, writer).unwrap();
            }
        };
        let written = self.write(fill, aside.next_series);
        self.filed.filed(written);
    }

    fn define(&mut self, table: TableId, values: &[Option<String>; 3]) {
        let tags: Vec<(ColumnId, &str)> = (0..)
            .zip(values)
            .filter_map(|(at, value)| Some((tag_of(table, at), value.as_deref()?)))
            .collect();
        let mut unread = Entries::default();
        let expected = self.twin.define_series(table, &tags, &mut unread).unwrap();
        let known = self.find(table, &tags);
        if known.is_none() {
            let entries = &mut self.entries;
            let made = self.filed.define_series(table, &tags, entries).unwrap();
            assert_eq!(made, expected);
            assert_eq!(self.find(table, &tags), Some(made));
        } else {
            assert_eq!(known, Some(expected));
        }
    }

    fn find(&self, table: TableId, tags: &[(ColumnId, &str)]) -> Option<SeriesId> {
        let layers = self.filed.layers();
        let found = layers.memory().find(table, tags);
        found.or_else(|| {
            let scratch = &mut Vec::new();
            layers.find_in_files(table, tags, scratch).unwrap()
        })
    }

    /// As a store does when it is opened: footers, then the log.
    fn open(&mut self) {
        self.end_record();
        let files = self.filed.layers().files().to_vec();
        self.filed = catalogue();
        // A manifest lists a merged file last.
        self.filed.open_files(files.into_iter().rev().collect(), 0);
        for record in &self.log {
            self.filed.begin_record();
            for definition in Definition::decode_all(record).unwrap() {
                self.filed.apply(&definition).unwrap();
            }
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Define(table, values) => self.define(TABLES[table % 2], values),
            Step::Record => self.end_record(),
            Step::Flush | Step::SetAside => {
                self.end_record();
                assert!(self.filed.layers().aside.is_none());
                let Some(aside) = self.filed.set_aside() else {
                    return;
                };
                if matches!(step, Step::SetAside) {
                    self.check(&[]);
                }
                self.finish_flush(&aside);
                self.log.clear();
            }
            Step::Merge(files) => {
                let all = self.filed.layers().files().to_vec();
                let newest = &all[all.len().saturating_sub(*files)..];
                let Some(last) = newest.last() else {
                    return;
                };
                let next = last.next_series();
                let from: Vec<&Index> = newest.iter().map(AsRef::as_ref).collect();
                let ids: Vec<u64> = newest.iter().map(|file| file.file_id()).collect();
                let merged = self.write(
                    |to| assert!(merge(&from, &|_| true, 4096, to).is_ok()),
                    next,
                );
                self.filed.merged(&ids, merged);
            }
            Step::Open => self.open(),
        }
    }

    fn check(&self, questions: &[Vec<(usize, TagMatch, bool)>]) {
        let (filed, twin) = (self.filed.layers(), self.twin.layers());
        assert_eq!(self.filed.counts(), self.twin.counts());
        assert_eq!(self.filed.next.series, self.twin.next.series);
        for table in TABLES {
            let all = twin.select(table, &[]).unwrap();
            assert_eq!(filed.select(table, &[]).unwrap(), all);
            assert_eq!(filed.last_id(table), all.last().copied());
            let some: Vec<u32> = all.iter().copied().filter(|id| id % 3 != 1).collect();
            for at in 0..3 {
                let tag = tag_of(table, at);
                for ids in [&all, &some] {
                    let column = filed.tag_column(table, tag, ids).unwrap();
                    let expected = twin.tag_column(table, tag, ids).unwrap();
                    for at in 0..ids.len() {
                        assert_eq!(column.value(at), expected.value(at));
                    }
                    let values: std::collections::BTreeSet<&str> =
                        column.values.iter().flatten().collect();
                    assert_eq!(values.len(), column.values.len(), "each once");
                }
                for (prefix, limit) in [("", 3), ("a", 100), ("v1", 2), ("zz", 1), ("", 0)] {
                    let ask = |of: &Layers| of.values(table, tag, &[], prefix, limit).unwrap();
                    assert_eq!(ask(filed), ask(twin), "{prefix:?} {limit}");
                }
            }
            for question in questions {
                let conditions: Vec<Condition<'_>> = question
                    .iter()
                    .map(|(at, matches, negated)| (tag_of(table, *at), matches, *negated))
                    .collect();
                let expected = twin.select(table, &conditions).unwrap();
                let found = filed.select(table, &conditions).unwrap();
                assert_eq!(found, expected, "{question:?}");
                let count = filed.count(table, &conditions).unwrap();
                assert_eq!(count, expected.len() as u64);
                let tag = tag_of(table, 1);
                let ask = |of: &Layers| of.values(table, tag, &conditions, "v", 5).unwrap();
                assert_eq!(ask(filed), ask(twin), "{question:?}");
            }
        }
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{1,2}", "v[0-9]{1,2}", "\\PC{1,4}"]
}

fn step() -> impl Strategy<Value = Step> {
    let values = proptest::array::uniform3(proptest::option::of(value()));
    prop_oneof![
        20 => (0..2usize, values).prop_map(|(table, values)| Step::Define(table, values)),
        2 => Just(Step::Record),
        2 => Just(Step::Flush),
        1 => Just(Step::SetAside),
        1 => (0..4usize).prop_map(Step::Merge),
        1 => Just(Step::Open),
    ]
}

fn question() -> impl Strategy<Value = Vec<(usize, TagMatch, bool)>> {
    let patterns = ["^v1", "b$", "", "^$", "a"];
    let matches = prop_oneof![
        proptest::collection::vec(proptest::option::of(value()), 0..4).prop_map(TagMatch::OneOf),
        proptest::sample::select(patterns.to_vec())
            .prop_map(|pattern| TagMatch::Pattern(Regex::new(pattern).unwrap())),
    ];
    proptest::collection::vec((0..3usize, matches, any::<bool>()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn series_in_files_are_found_as_if_they_were_all_in_memory(
        steps in proptest::collection::vec(step(), 1..250),
        questions in proptest::collection::vec(question(), 1..5),
        cache_bytes in prop_oneof![Just(0), Just(2_000), Just(1 << 20)],
    ) {
        let mut pair = Pair::new(cache_bytes);
        for step in &steps {
            pair.take(step);
        }
        pair.check(&questions);
        pair.take(&Step::Flush);
        pair.check(&questions);
        pair.take(&Step::Open);
        pair.check(&questions);
    }
}

#[test]
fn more_series_than_a_block_takes_are_selected_by_sets_and_one_by_one() {
    let mut pair = Pair::new(1 << 20);
    for n in 0..6000 {
        let values = [
            Some(format!("v{n}")),
            Some(format!("a{}", n % 7)),
            (n % 10 == 0).then(|| "rare".to_owned()),
        ];
        pair.define(TABLES[n % 2], &values);
        if n % 2500 == 2499 {
            pair.take(&Step::Flush);
        }
    }
    let pattern = |text: &str| TagMatch::Pattern(Regex::new(text).unwrap());
    let one = |value: &str| TagMatch::OneOf(vec![Some(value.to_owned())]);
    let questions = [
        vec![(1, one("a3"), false)],
        vec![(1, one("a3"), true), (2, one("rare"), true)],
        vec![
            (2, TagMatch::OneOf(vec![None]), false),
            (0, pattern("99"), true),
        ],
        vec![(0, pattern("7$"), false), (1, pattern("a[0-3]"), false)],
        vec![(0, one("v4321"), false)],
        vec![(
            2,
            TagMatch::OneOf(vec![None, Some("rare".to_owned())]),
            false,
        )],
    ];
    pair.check(&questions);
    pair.take(&Step::Merge(2));
    pair.check(&questions);
    pair.take(&Step::Open);
    pair.check(&questions);
    let none = TagMatch::OneOf(vec![None]);
    let layers = pair.filed.layers();
    let found = layers.count(TABLES[0], &[(tag_of(TABLES[0], 2), &none, true)]);
    assert_eq!(found.unwrap(), 600);
}
