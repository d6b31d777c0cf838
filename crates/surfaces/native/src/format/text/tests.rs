use arrow::array::{
    BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, LargeStringArray,
    StringArray, StringViewArray, TimestampNanosecondArray, UInt64Array,
};

use super::*;

/// `SELECT (1 IN (SELECT i FROM tb)) AS c1 FROM ta WHERE 1=2` was answered with its header twice, because the answer
/// came as an empty batch.
#[test]
fn csv_has_its_header_once_whatever_empty_batches_come() {
    let rows =
        RecordBatch::try_from_iter([("c1", Arc::new(Int64Array::from(vec![7, 8])) as ArrayRef)])
            .unwrap();
    let written = |lengths: &[usize]| {
        let mut text = Text::new(Format::Csv, rows.schema(), 10, None);
        let mut out = Vec::new();
        for length in lengths {
            text.batch(&rows.slice(0, *length), &mut out).unwrap();
        }
        text.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(written(&[]), "c1\n");
    assert_eq!(written(&[0]), "c1\n");
    assert_eq!(written(&[0, 0]), "c1\n");
    assert_eq!(written(&[0, 2, 0, 1]), "c1\n7\n8\n7\n");
}

/// Numbers that are drawn: splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        let place = usize::try_from(self.roll()).unwrap() % of.len();
        of[place].clone()
    }

    fn column<T>(&mut self, rows: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<Option<T>> {
        let draw = (0..rows).map(|_| (!self.roll().is_multiple_of(4)).then(|| value(self)));
        draw.collect()
    }
}

const TEXTS: [&str; 12] = [
    "",
    "a",
    "host_1",
    "a,b",
    "say \"x\"",
    "two\nlines",
    "tab\tand\\",
    "\u{1}\u{1f}\u{7f}",
    "\u{df}\u{2192}\u{1f600}",
    "\r",
    "#",
    "null",
];

fn batch_of(dice: &mut Dice, tags: &ArrayRef) -> RecordBatch {
    let rows = usize::try_from(dice.roll() % 40).unwrap();
    let floats = [
        0.0,
        -0.0,
        1.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
        5e-324,
        0.1,
        1e16,
    ];
    let int = |dice: &mut Dice| match dice.roll() % 4 {
        0 => dice.one(&[
            i64::MIN,
            i64::MAX,
            0,
            -1,
            9,
            10,
            99,
            999,
            1000,
            9999,
            10_000,
        ]),
        1 => i64::try_from(dice.roll() % 20_000).unwrap(),
        _ => i64::try_from(dice.roll() % 100).unwrap(),
    };
    let time = |dice: &mut Dice| match dice.roll() % 4 {
        0 => dice.one(&[
            i64::MIN,
            i64::MAX,
            0,
            -1,
            951_782_400_000_000_000,
            4_107_542_399_999_999_999,
        ]),
        1 => dice.roll().cast_signed(),
        2 => dice.roll().cast_signed() / 1_000_000 * 1_000_000,
        _ => dice.roll().cast_signed() / 1_000_000_000 * 1_000_000_000,
    };
    // Some batches have rows of many series, some of few, each of whose tags stand there again and again.
    let change = dice.one(&[1, 2, 20]);
    let tag = |dice: &mut Dice| {
        let mut last = None;
        let keys = (0..rows).map(|_| {
            if dice.roll().is_multiple_of(change) {
                let key = i32::try_from(dice.roll() % TEXTS.len() as u64).unwrap();
                last = (!dice.roll().is_multiple_of(4)).then_some(key);
            }
            last
        });
        let keys: Int32Array = keys.collect();
        Arc::new(DictionaryArray::new(keys, Arc::clone(tags))) as ArrayRef
    };
    let (tag, other_tag) = (tag(dice), tag(dice));
    let times = dice.column(rows, time);
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "time",
            Arc::new(TimestampNanosecondArray::from(times.clone()).with_timezone("UTC")),
        ),
        ("na\"ive", Arc::new(TimestampNanosecondArray::from(times))),
        ("tag", tag),
        ("another tag, whose name has more than 32 bytes", other_tag),
        ("int", Arc::new(Int64Array::from(dice.column(rows, int)))),
        (
            "unsigned",
            Arc::new(UInt64Array::from(dice.column(rows, Dice::roll))),
        ),
        (
            "float",
            Arc::new(Float64Array::from(dice.column(rows, |dice| {
                if dice.roll().is_multiple_of(2) {
                    dice.one(&floats)
                } else {
                    f64::from_bits(dice.roll())
                }
            }))),
        ),
        (
            "bool",
            Arc::new(BooleanArray::from(
                dice.column(rows, |dice| dice.roll().is_multiple_of(2)),
            )),
        ),
        (
            "text",
            Arc::new(StringArray::from(
                dice.column(rows, |dice| dice.one(&TEXTS)),
            )),
        ),
        (
            "large",
            Arc::new(LargeStringArray::from(
                dice.column(rows, |dice| dice.one(&TEXTS)),
            )),
        ),
        (
            "view",
            Arc::new(StringViewArray::from(
                dice.column(rows, |dice| dice.one(&TEXTS)),
            )),
        ),
    ];
    // One column or more: a single empty one is a case of its own in CSV.
    let first = usize::try_from(dice.roll() % 11).unwrap();
    let count = 1 + usize::try_from(dice.roll() % 11).unwrap();
    let columns = columns.into_iter().cycle().skip(first).take(count);
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// What Arrow's own writers make of the same batches, which is what was answered before there were cells of our own.
#[test]
fn every_byte_is_that_of_arrows_own_writers() {
    let mut dice = Dice(7);
    let tags: ArrayRef = Arc::new(StringArray::from(TEXTS.to_vec()));
    for _ in 0..2000 {
        let batch = batch_of(&mut dice, &tags);
        let again = batch.slice(
            batch.num_rows() / 2,
            batch.num_rows() - batch.num_rows() / 2,
        );
        let batches = [&batch, &again];
        let ours = |format| {
            let mut text = Text::new(format, batch.schema(), 10, None);
            let mut out = Vec::new();
            for batch in batches {
                assert!(Table::of(batch, Dialect::Json, &mut Kept::default()).is_some());
                text.batch(batch, &mut out).unwrap();
            }
            text.finish(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut csv = Vec::new();
        let mut writer = WriterBuilder::new().with_header(true).build(&mut csv);
        let mut lines = Vec::new();
        let mut json = arrow::json::WriterBuilder::new()
            .with_explicit_nulls(true)
            .build::<_, arrow::json::writer::LineDelimited>(&mut lines);
        for batch in batches {
            if batch.num_rows() > 0 || batch.num_rows() == again.num_rows() {
                writer.write(batch).unwrap();
            }
            json.write(batch).unwrap();
        }
        json.finish().unwrap();
        drop((writer, json));
        assert_eq!(ours(Format::Csv), String::from_utf8(csv).unwrap());
        let lines = String::from_utf8(lines).unwrap();
        assert_eq!(ours(Format::JsonLines), lines);
        let rows: Vec<&str> = lines.lines().collect();
        assert_eq!(ours(Format::Json), format!("[{}]\n", rows.join(",\n")));
    }
}
