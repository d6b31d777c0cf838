//! Flash pages of a device: one in a file as it is, one in the log.
//!
//! The page is `golden/device-1/one_series.bin`; its rows are by the formulas of `make.py` beside it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use nilometer_engine::Engine;
use nilometer_engine::ingest::{FlashPages, Missing, OnConflict, PageBlock, Session, Target};

/// The format of files with flash pages.
pub(super) const FORMAT: u16 = 5;

const ROWS: i32 = 40;
/// Time of the first row by the device's clock; rows are ten seconds apart.
const START: i64 = 1_700_000_000_000_000_000;
/// The second page is the same with the clock an hour later.
pub(super) const SHIFTS: [i64; 2] = [0, 3_600_000_000_000];

fn times(shift: i64) -> Vec<i64> {
    let time = |row: i32| START + shift + i64::from(row) * 10_000_000_000;
    (0..ROWS).map(time).collect()
}

fn temperature(row: i32) -> f64 {
    f64::from(340 + row * row % 32) / 16.0
}

fn humidity(row: i32) -> f64 {
    f64::from(2000 + row * 37 % 64) / 100.0
}

/// Writes the page with the device's clock at `shift`.
pub(super) fn write(engine: &Arc<Engine>, shift: i64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/device-1/one_series.bin");
    let page = std::fs::read(path).unwrap();
    let texts = |text| Arc::new(StringArray::from(vec![text; 40]));
    let floats =
        |of: fn(i32) -> f64| -> ArrayRef { Arc::new((0..ROWS).map(of).collect::<Float64Array>()) };
    let arrays: [(&str, ArrayRef); 5] = [
        ("time", Arc::new(Int64Array::from(times(shift)))),
        ("room", texts("attic")),
        ("sensor", texts("7")),
        ("temperature", floats(temperature)),
        ("humidity", floats(humidity)),
    ];
    let rows = RecordBatch::try_from_iter(arrays).unwrap();
    let target = || Target::table("climate");
    let tags = ["room".to_owned(), "sensor".to_owned()];
    let missing = Missing {
        tags: Some(&tags),
        adds_columns: true,
        ..Missing::default()
    };
    let session = || Session::new(Arc::clone(engine), "d").unwrap();
    let made = session().make_missing_for(target(), &rows, missing, OnConflict::Replace);
    made.unwrap();
    let own = engine.begin().unwrap();
    let mut flash = FlashPages::default();
    flash.push(&page, shift, 1);
    let block = PageBlock {
        page: 0,
        block: 0,
        first_row: 0,
        fields: vec!["temperature".to_owned(), "humidity".to_owned()],
    };
    let mut within = session().within(&own);
    within
        .write_arrow_of_pages(target(), &rows, &[block], &mut flash)
        .unwrap();
    within.keep_pages(flash).unwrap();
    own.commit().unwrap();
}

/// The rows of both.
pub(super) fn rows() -> Vec<BTreeMap<String, String>> {
    let of_page = |shift: i64| {
        let rows = (0..ROWS).zip(times(shift));
        rows.map(|(row, time)| {
            let cells = [
                ("time", time.to_string()),
                ("room", "attic".to_owned()),
                ("sensor", "7".to_owned()),
                ("temperature", format!("{:?}", temperature(row))),
                ("humidity", format!("{:?}", humidity(row))),
            ];
            let cells = cells.map(|(name, value)| (name.to_owned(), value));
            BTreeMap::from(cells)
        })
    };
    SHIFTS.into_iter().flat_map(of_page).collect()
}
