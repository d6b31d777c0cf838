//! An index file against a list of series, whole, merged and damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use regex::Regex;

use super::block::decode_dictionary;
use super::layout::HEADER_BYTES;
use super::series::TableSeries;
use super::*;
use crate::budget::MemoryBudget;
use crate::disk::{Disk, MemoryDisk};
use crate::error::Error;
use crate::predicate::TagMatch;
use crate::schema::{ColumnId, SeriesId, TableId};

const UUID: [u8; 16] = [7; 16];
const TABLE: TableId = TableId(3);
/// Above all ids.
const NEXT: u32 = 1_000_000;

/// Tags of a series by tag id.
type Tags = BTreeMap<u32, String>;
/// Series by id.
type Model = BTreeMap<u32, Tags>;

fn table_of(table: TableId, model: &Model) -> TableSeries {
    let ids: Vec<u32> = model.keys().copied().collect();
    let tags: BTreeSet<u32> = model
        .values()
        .flat_map(|tags| tags.keys().copied())
        .collect();
    let tags = tags.into_iter().map(|tag| {
        let values: BTreeSet<&String> = model.values().filter_map(|tags| tags.get(&tag)).collect();
        let values: Vec<String> = values.into_iter().cloned().collect();
        let code = |tags: &Tags| {
            let value = tags.get(&tag);
            value.map_or(0, |value| values.binary_search(value).unwrap() as u32 + 1)
        };
        let codes = model.values().map(code).collect();
        TagSeries {
            tag: ColumnId(tag),
            values: values.iter().map(String::as_str).collect(),
            codes,
        }
    });
    TableSeries {
        table,
        tags: tags.collect(),
        ids,
    }
}

/// Starts a file, in place of one that may be there.
fn create(disk: &MemoryDisk, file_id: u64) -> IndexWriter {
    let path = format!("/{file_id}.idx");
    drop(disk.remove(Path::new(&path)));
    IndexWriter::create(disk, Path::new(&path), UUID, file_id).unwrap()
}

fn write(disk: &MemoryDisk, file_id: u64, tables: &[TableSeries]) -> u64 {
    let mut writer = create(disk, file_id);
    for table in tables {
        writer.write_table(table).unwrap();
    }
    writer.finish(NEXT).unwrap()
}

fn open(disk: &MemoryDisk, file_id: u64, bytes: u64) -> Result<Index, Error> {
    let path = format!("/{file_id}.idx");
    let cache = Arc::new(BlockCache::new(1 << 20, &MemoryBudget::new(64 << 20)));
    Index::open(disk, Path::new(&path), UUID, file_id, bytes, cache)
}

fn merged(disk: &MemoryDisk, files: &[&Index], window_bytes: usize) -> Index {
    let mut output = create(disk, 100);
    let keeps = |table| table == TABLE;
    merge(files, &keeps, window_bytes, &mut output).unwrap();
    let bytes = output.finish(NEXT).unwrap();
    open(disk, 100, bytes).unwrap()
}

fn bytes_of(disk: &MemoryDisk, file_id: u64) -> Vec<u8> {
    let file = disk.open(Path::new(&format!("/{file_id}.idx"))).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn index_of(tables: &[TableSeries]) -> Index {
    let disk = MemoryDisk::new();
    let bytes = write(&disk, 1, tables);
    open(&disk, 1, bytes).unwrap()
}

fn ids(index: &Index, tag: u32, matches: &TagMatch, negated: bool) -> Vec<u32> {
    let ordinals = index
        .select(TABLE, &[(ColumnId(tag), matches, negated)])
        .unwrap();
    let mut ids = Vec::new();
    index.ids(TABLE, &ordinals, &mut ids).unwrap();
    ids
}

fn find(index: &Index, tags: &[(ColumnId, &str)]) -> Result<Option<SeriesId>, Error> {
    index.find(
        TABLE,
        hash_tags(tags.iter().copied(), &mut Vec::new()),
        tags,
    )
}

/// What a series has of tags 0 to 3.
fn tags_of(index: &Index, series: u32) -> Tags {
    let mut tags = Tags::new();
    for tag in 0..4 {
        let mut codes = Vec::new();
        let column = ColumnId(tag);
        index
            .codes_of(TABLE, column, &[series], 0, &mut codes)
            .unwrap();
        let known = codes.into_iter().map(|(_, code)| code);
        let keep = |_, value: &str| drop(tags.insert(tag, value.to_owned()));
        index.values_of(TABLE, column, known, keep).unwrap();
    }
    tags
}

fn check(index: &Index, model: &Model, questions: &[TagMatch]) {
    assert_eq!(index.series_count(TABLE) as usize, model.len());
    for (&id, tags) in model {
        let named: Vec<(ColumnId, &str)> = tags
            .iter()
            .map(|(&tag, value)| (ColumnId(tag), value.as_str()))
            .collect();
        let found = find(index, &named).unwrap().unwrap();
        // Series of one file have different tags, but a model may repeat them.
        assert_eq!(&model[&found.0], tags);
        assert_eq!(&tags_of(index, id), tags);
    }
    let unknown = [(ColumnId(1), "no such value")];
    assert_eq!(find(index, &unknown).unwrap(), None);
    assert_eq!(tags_of(index, u32::MAX), Tags::new());
    let all: Vec<u32> = model.keys().copied().collect();
    assert_eq!(index.all_ids(TABLE).unwrap(), all);
    let ends = all.first().copied().zip(all.last().copied());
    assert_eq!(index.span(TABLE), ends);
    index.verify().unwrap();
    for tag in 0..4 {
        for matches in questions {
            for negated in [false, true] {
                let kept =
                    |tags: &Tags| matches.is_match(tags.get(&tag).map(String::as_str)) != negated;
                let expected: Vec<u32> = model
                    .iter()
                    .filter(|(_, tags)| kept(tags))
                    .map(|(&id, _)| id)
                    .collect();
                assert_eq!(
                    ids(index, tag, matches, negated),
                    expected,
                    "{matches:?} {negated}"
                );
            }
        }
        for prefix in ["", "a", "ab", "v1", "zz"] {
            let values: BTreeSet<&String> =
                model.values().filter_map(|tags| tags.get(&tag)).collect();
            let expected: Vec<&String> = values
                .into_iter()
                .filter(|value| value.starts_with(prefix))
                .collect();
            let mut found = Vec::new();
            let keep = |value: &str| {
                found.push(value.to_owned());
                true
            };
            index.values(TABLE, ColumnId(tag), prefix, keep).unwrap();
            assert_eq!(
                found.iter().collect::<Vec<_>>(),
                expected,
                "prefix {prefix:?}"
            );
        }
    }
}

fn questions() -> Vec<TagMatch> {
    let some =
        |values: &[&str]| TagMatch::OneOf(values.iter().map(|&v| Some(v.to_owned())).collect());
    let pattern = |text: &str| TagMatch::Pattern(Regex::new(text).unwrap());
    vec![
        some(&["a"]),
        some(&["ab", "v17", "v1", "none"]),
        some(&[]),
        TagMatch::OneOf(vec![None]),
        TagMatch::OneOf(vec![None, Some("b".to_owned())]),
        pattern("^v1"),
        pattern("b$"),
        pattern(""),
        pattern("^$"),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{1,3}", "v[0-9]{1,3}", "\\PC{1,8}"]
}

fn tags() -> impl Strategy<Value = Tags> {
    proptest::collection::btree_map(0..4u32, value(), 0..4)
}

fn model() -> impl Strategy<Value = Model> {
    proptest::collection::btree_map(1..100_000u32, tags(), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn an_index_answers_as_a_look_at_every_series_does(model in model()) {
        let other = table_of(TableId(9), &[(5, Tags::new())].into());
        check(&index_of(&[table_of(TABLE, &model), other]), &model, &questions());
    }

    #[test]
    fn a_merge_of_files_is_the_file_of_all_series(model in model(), cuts in proptest::collection::vec(0..100_000u32, 0..4)) {
        let disk = MemoryDisk::new();
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut files = Vec::new();
        let mut start = 0;
        for (file_id, end) in (1..).zip(cuts.into_iter().chain([u32::MAX])) {
            let part: Model = model.range(start..end).map(|(&id, tags)| (id, tags.clone())).collect();
            let dropped = table_of(TableId(2), &part);
            let bytes = write(&disk, file_id, &[dropped, table_of(TABLE, &part)]);
            files.push(open(&disk, file_id, bytes).unwrap());
            start = end;
        }
        let files: Vec<&Index> = files.iter().collect();
        let mut written = Vec::new();
        // All codes at once, and block by block.
        for window_bytes in [1 << 20, 0] {
            let merged = merged(&disk, &files, window_bytes);
            prop_assert_eq!(merged.tables().collect::<Vec<_>>(), [TABLE]);
            prop_assert_eq!(merged.load(TABLE).unwrap().unwrap(), table_of(TABLE, &model));
            check(&merged, &model, &questions());
            written.push(bytes_of(&disk, 100));
        }
        prop_assert_eq!(&written[0], &written[1]);
        let at_once = write(&disk, 100, &[table_of(TABLE, &model)]);
        prop_assert_eq!(at_once, written[0].len() as u64);
        prop_assert!(bytes_of(&disk, 100) == written[0], "the file of all series");
    }

    #[test]
    fn any_bytes_decode_to_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400), n in 0..100usize) {
        if let Ok(block) = decode_dictionary(&bytes, n) {
            prop_assert_eq!(block.values.len(), n);
        }
        if let Ok(list) = super::block::decode_list(&bytes, n, 1000) {
            prop_assert_eq!(list.len(), n as u64);
        }
        if let Ok(footer) = super::footer::Footer::decode(&bytes, super::footer::Layout::Twice) {
            prop_assert!(footer.tables.len() <= bytes.len());
        }
    }
}

/// More series than a block takes, long values, a tag that few series have.
fn large() -> Model {
    (0..5000u32)
        .map(|n| {
            let mut tags = Tags::new();
            tags.insert(1, format!("v{n}"));
            tags.insert(2, format!("ab{}", n % 3));
            if n % 1000 == 7 {
                tags.insert(3, "long".repeat(n as usize));
            }
            (n * 2 + 1, tags)
        })
        .collect()
}

#[test]
fn many_blocks_are_as_good_as_one() {
    let model = large();
    let index = index_of(&[table_of(TABLE, &model)]);
    let ends = TagMatch::Pattern(Regex::new("99$").unwrap());
    // v99, v199, ..., v4999.
    assert_eq!(ids(&index, 1, &ends, false).len(), 50);
    assert_eq!(
        ids(&index, 3, &TagMatch::OneOf(vec![None]), false).len(),
        4995
    );
    for n in [0u32, 1023, 1024, 4007, 4999] {
        let tags = &model[&(n * 2 + 1)];
        let named: Vec<(ColumnId, &str)> = tags
            .iter()
            .map(|(&tag, value)| (ColumnId(tag), value.as_str()))
            .collect();
        assert_eq!(find(&index, &named).unwrap(), Some(SeriesId(n * 2 + 1)));
        assert_eq!(tags_of(&index, n * 2), Tags::new());
    }
    assert_eq!(index.load(TABLE).unwrap().unwrap(), table_of(TABLE, &model));
}

/// Everything that the file is asked, or the first error.
fn read_all(disk: &MemoryDisk, bytes: u64, model: &Model) -> Result<(), Error> {
    let index = open(disk, 1, bytes)?;
    index.verify()?;
    let all = TagMatch::Pattern(Regex::new("").unwrap());
    for tag in 1..4 {
        index.select(TABLE, &[(ColumnId(tag), &all, false)])?;
    }
    for tags in model.values() {
        let named: Vec<(ColumnId, &str)> = tags
            .iter()
            .map(|(&tag, value)| (ColumnId(tag), value.as_str()))
            .collect();
        find(&index, &named)?;
    }
    Ok(())
}

/// Calls with the file damaged at one byte after the other.
fn with_each_byte_changed(
    disk: &MemoryDisk,
    bytes: u64,
    step: usize,
    mut call: impl FnMut(&MemoryDisk, u64),
) {
    let file = disk.open(Path::new("/1.idx")).unwrap();
    // Zeros that fill the header up to 64 bytes mean nothing; the 44 bytes before them and their checksum do.
    let header_end = 44;
    for offset in (0..header_end).chain((HEADER_BYTES as u64..bytes).step_by(step)) {
        let mut byte = [0];
        assert_eq!(file.read_at(&mut byte, offset).unwrap(), 1);
        file.write_at(&[byte[0] ^ 0x10], offset).unwrap();
        call(disk, offset);
        file.write_at(&byte, offset).unwrap();
    }
}

#[test]
fn a_changed_byte_anywhere_is_found() {
    let model: Model = large().into_iter().take(300).collect();
    let disk = MemoryDisk::new();
    let bytes = write(&disk, 1, &[table_of(TABLE, &model)]);
    read_all(&disk, bytes, &model).unwrap();
    with_each_byte_changed(&disk, bytes, 1, |disk, offset| {
        let found = read_all(disk, bytes, &model);
        assert!(found.is_err(), "byte {offset} of {bytes}");
    });
    for cut in [0, 1, 63, 64, 103, 104, 144, bytes - 1] {
        assert!(open(&disk, 1, cut).is_err(), "{cut} bytes");
    }
    read_all(&disk, bytes, &model).unwrap();
}

/// What is salvaged of a file is of the model; returns how many series are not.
fn salvaged(disk: &MemoryDisk, bytes: u64, model: &Model, what: &str) -> usize {
    let index = open(disk, 1, bytes).unwrap();
    let left = index.salvage(TABLE).unwrap().unwrap();
    let kept: Model = model
        .iter()
        .filter(|(id, _)| left.series.ids.binary_search(id).is_ok())
        .map(|(&id, tags)| (id, tags.clone()))
        .collect();
    let mut expected = table_of(TABLE, &kept);
    // A tag that no series is left of is still one of the file's.
    expected.tags.retain(|tag| tag.values.len() > 0);
    let mut found = left.series;
    found.tags.retain(|tag| tag.values.len() > 0);
    assert_eq!(found, expected, "{what}");
    assert_eq!(left.lost as usize, model.len() - kept.len(), "{what}");
    left.lost as usize
}

#[test]
fn a_changed_byte_anywhere_loses_no_series_of_tags_with_few_values() {
    let model: Model = large().into_iter().take(300).collect();
    let disk = MemoryDisk::new();
    let bytes = write(&disk, 1, &[table_of(TABLE, &model)]);
    with_each_byte_changed(&disk, bytes, 1, |disk, offset| {
        let lost = salvaged(disk, bytes, &model, &format!("byte {offset} of {bytes}"));
        assert_eq!(lost, 0, "byte {offset} of {bytes}");
    });
}

#[test]
fn a_changed_byte_anywhere_loses_the_series_of_64_values_at_most() {
    let model = large();
    let disk = MemoryDisk::new();
    let bytes = write(&disk, 1, &[table_of(TABLE, &model)]);
    let mut most = 0;
    with_each_byte_changed(&disk, bytes, 101, |disk, offset| {
        let lost = salvaged(disk, bytes, &model, &format!("byte {offset} of {bytes}"));
        most = most.max(lost);
    });
    // The first value of the block stands in the footer too.
    assert_eq!(most, 63);
}

#[test]
fn two_changed_bytes_never_make_another_series() {
    let model: Model = large().into_iter().take(1500).collect();
    let disk = MemoryDisk::new();
    let bytes = write(&disk, 1, &[table_of(TABLE, &model)]);
    let other = disk.open(Path::new("/1.idx")).unwrap();
    let ends = HEADER_BYTES as u64 + 40..bytes - 4000;
    for second in ends.step_by(2777) {
        let mut byte = [0];
        assert_eq!(other.read_at(&mut byte, second).unwrap(), 1);
        other.write_at(&[byte[0] ^ 1], second).unwrap();
        with_each_byte_changed(&disk, bytes, 1997, |disk, offset| {
            let what = format!("bytes {offset} and {second} of {bytes}");
            // Both footers or both tails may be gone; then the file does not open.
            if open(disk, 1, bytes).is_ok() {
                salvaged(disk, bytes, &model, &what);
            }
        });
        other.write_at(&byte, second).unwrap();
    }
}

#[test]
fn a_merge_holds_its_window_and_a_piece_of_each_file() {
    let disk = MemoryDisk::new();
    let mut files = Vec::new();
    let mut input = 0;
    for file_id in 1..=8u32 {
        let model: Model = (0..20_000u32)
            .map(|n| {
                let tags = [
                    (1, format!("host-{:08}", n * 8 + file_id)),
                    (2, format!("rack-{}", n % 700)),
                    (3, "the only one".to_owned()),
                ];
                (file_id * 20_000 + n, Tags::from(tags))
            })
            .collect();
        let bytes = write(&disk, file_id.into(), &[table_of(TABLE, &model)]);
        input += bytes;
        files.push(open(&disk, file_id.into(), bytes).unwrap());
    }
    let files: Vec<&Index> = files.iter().collect();
    for window_bytes in [64 << 10, 4096] {
        let mut output = create(&disk, 100);
        let held = merge(&files, &|_| true, window_bytes, &mut output).unwrap();
        let bytes = output.finish(NEXT).unwrap();
        let merged = open(&disk, 100, bytes).unwrap();
        assert_eq!(merged.series_count(TABLE), 160_000);
        merged.verify().unwrap();
        let bound = window_bytes + 8 * PART_BYTES;
        assert!(held <= bound, "{held} of {bound} bytes");
        // Decoded, the codes and ids alone are as much as this.
        assert!(held < 4 * 4 * 160_000, "{held} bytes for {input} in files");
    }
}

#[test]
fn files_whose_ids_do_not_rise_are_not_merged() {
    let disk = MemoryDisk::new();
    let model: Model = [(5, Tags::new())].into();
    let mut files = Vec::new();
    for file_id in [1, 2] {
        let bytes = write(&disk, file_id, &[table_of(TABLE, &model)]);
        files.push(open(&disk, file_id, bytes).unwrap());
    }
    let files: Vec<&Index> = files.iter().collect();
    let mut output = create(&disk, 100);
    let error = merge(&files, &|_| true, 4096, &mut output).unwrap_err();
    assert!(error.to_string().contains("/2.idx"), "{error}");
    assert_eq!(files[1].damage(), None, "nothing of it is unreadable");
}
