//! Golden segments, which `make.py` in `golden/2/segment` and its neighbours of later formats packed from the format's page alone.

use serde_json::Value;

use super::*;
use crate::disk::write_all_at;

fn folder(format: u16) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../golden/{format}/segment"))
}

/// The rows and the hours of rollups that a file must have.
fn expected(file: &Path) -> (Rows, Vec<(u32, i64, u32)>) {
    let json = std::fs::read_to_string(file.with_extension("json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let row = |row: &Value| {
        let fields = row[2].as_object().unwrap().iter();
        let fields = fields.map(|(column, value)| {
            let value = value.as_str().unwrap().to_owned();
            (column.parse().unwrap(), value)
        });
        let (series, time) = (row[0].as_i64().unwrap(), row[1].as_i64().unwrap());
        (series, time, fields.collect())
    };
    let hour = |hour: &Value| {
        let number = |at: usize| hour[at].as_i64().unwrap();
        (number(0) as u32, number(1), number(2) as u32)
    };
    let list = |name: &str| json[name].as_array().unwrap();
    (
        list("rows").iter().map(row).collect(),
        list("hours").iter().map(hour).collect(),
    )
}

#[test]
fn golden_segments_have_the_rows_that_they_were_packed_from() {
    for format in [2, 3, 4] {
        golden_segments_of(format);
    }
}

fn golden_segments_of(format: u16) {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder(format)).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|it| it != "seg") {
            continue;
        }
        seen += 1;
        let bytes = std::fs::read(&file).unwrap();
        let (expected_rows, expected_hours) = expected(&file);
        let disk = MemoryDisk::new();
        let to = disk.create(&path()).unwrap();
        write_all_at(to.as_ref(), &bytes, 0).unwrap();
        let rows = expected_rows.len() as u64;
        let segment = opened(&disk, bytes.len() as u64, rows).unwrap();
        assert_eq!((segment.number(), segment.tier()), (format, Tier::Cold));
        segment.verify().unwrap();
        assert_eq!(rows_of(&segment), expected_rows);
        let mut hours = Vec::new();
        for (group, _) in segment.all_groups() {
            if let Some(rollups) = segment.rollups(group).unwrap() {
                let all: Vec<usize> = (0..rollups.entries.len()).collect();
                let known = rollups.column(1, PhysicalType::I64, &all, true).unwrap();
                let known = known.unwrap();
                for (hour, known) in rollups.entries.iter().zip(known) {
                    hours.push((hour.series, hour.hour, hour.rows));
                    let own = expected_rows.iter().filter(|(series, time, _)| {
                        *series == i64::from(hour.series) && time.div_euclid(HOUR_NS) == hour.hour
                    });
                    let own = own.filter_map(|(_, time, fields)| {
                        let value = fields.iter().find(|(column, _)| *column == 1);
                        value.map(|(_, value)| (*time, value.parse::<i64>().unwrap()))
                    });
                    let own: Vec<(i64, i64)> = own.collect();
                    let values = own.iter().map(|(_, value)| *value);
                    let known = known.unwrap();
                    assert_eq!(known.count, own.len() as u64);
                    assert_eq!(
                        known.totals,
                        Totals::Int {
                            min: values.clone().min().unwrap(),
                            max: values.clone().max().unwrap(),
                            sum: values.map(i128::from).sum(),
                        }
                    );
                    let ends = (own[0], own[own.len() - 1]);
                    let moment = |at: Moment| (at.time, at.bits.cast_signed());
                    assert_eq!((moment(known.first), moment(known.last)), ends);
                }
            }
        }
        assert_eq!(hours, expected_hours);
    }
    assert!(seen > 0);
}
