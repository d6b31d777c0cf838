//! A printed point reads back as the same point; a point that has no text is refused, and for a reason that is true.

use nilometer_lineproto::{
    FieldValue, Lines, OwnedPoint, Precision, Reader, SeriesKey, WriteError, parse_line, write_line,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

type PlainPoint = (
    String,
    Vec<(String, String)>,
    Vec<(String, FieldValue<'static>)>,
    Option<i64>,
);

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{1,8}",
        4 => "[a-c \\\\,=\"#'\u{E9}\t\r\0]{1,6}",
        1 => ".{0,6}",
        1 => any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = FieldValue<'static>> {
    prop_oneof![
        any::<f64>().prop_map(FieldValue::Float),
        any::<u64>().prop_map(|bits| FieldValue::Float(f64::from_bits(bits))),
        (-1000..1000_i32).prop_map(|value| FieldValue::Float(f64::from(value) / 100.0)),
        any::<i64>().prop_map(FieldValue::Integer),
        any::<u64>().prop_map(FieldValue::Unsigned),
        any::<bool>().prop_map(FieldValue::Boolean),
        name().prop_map(|text| FieldValue::Text(text.into())),
        any::<String>().prop_map(|text| FieldValue::Text(text.into())),
        "[a\\\\\"\n\r =,]{0,8}".prop_map(|text| FieldValue::Text(text.into())),
    ]
}

fn point() -> impl Strategy<Value = PlainPoint> {
    let tags = btree_map(name(), name(), 0..4).prop_map(|tags| tags.into_iter().collect());
    let fields = btree_map(name(), value(), 1..5).prop_map(|fields| fields.into_iter().collect());
    (name(), tags, fields, proptest::option::of(any::<i64>()))
}

fn sayable(name: &str) -> bool {
    !(name.is_empty() || name.ends_with('\\') || name.contains('\n'))
}

/// Whether line protocol has a text for the point, said independently of the printer.
fn has_text((measurement, tags, fields, time_ns): &PlainPoint) -> bool {
    sayable(measurement)
        && !measurement.starts_with(['#', '\t', '\0'])
        && tags
            .iter()
            .all(|(key, value)| sayable(key) && sayable(value))
        && fields.iter().all(|(name, _)| sayable(name))
        && !fields[0].0.starts_with(['\t', '\0'])
        && fields
            .iter()
            .all(|(_, value)| !matches!(value, FieldValue::Float(value) if !value.is_finite()))
        && time_ns.is_none_or(|time_ns| (i64::MIN + 2..i64::MAX).contains(&time_ns))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(4000)))]

    #[test]
    fn a_printed_point_reads_back_as_the_same_point(points in vec(point(), 1..4)) {
        let mut out = Vec::new();
        let mut expected = Vec::new();
        for point in points {
            let before = out.len();
            let (measurement, tags, fields, time_ns) = &point;
            let result = write_line(&mut out, measurement, tags, fields, *time_ns);
            prop_assert_eq!(result.is_ok(), has_text(&point), "{:?} for {:?}", result, point);
            if result.is_err() {
                prop_assert_eq!(out.len(), before);
            } else {
                let (measurement, tags, fields, timestamp) = point;
                expected.push(format!("{:?}", OwnedPoint { measurement, tags, fields, timestamp }));
            }
        }
        let read: Vec<String> = Lines::new(&out)
            .map(|(number, line)| format!("{:?}", parse_line(line, number, Precision::Nanosecond).expect("printed").expect("a point")))
            .collect();
        prop_assert_eq!(&read, &expected, "{:?}", String::from_utf8_lossy(&out));

        let mut reader = Reader::new(&out, Precision::Nanosecond);
        let mut count = 0;
        while let Some(result) = reader.next() {
            let point = result.expect("printed");
            SeriesKey::parse(point.series).expect("printed");
            count += 1;
        }
        prop_assert_eq!(count, expected.len());
    }
}

fn written(fields: &[(&str, FieldValue<'_>)], time_ns: Option<i64>) -> Result<String, WriteError> {
    let mut out = Vec::new();
    write_line::<&str, &str, &str>(&mut out, "m", &[], fields, time_ns)?;
    Ok(String::from_utf8(out).expect("names and texts are UTF-8"))
}

#[test]
fn each_type_is_printed_in_the_form_other_readers_know() {
    let fields = [
        ("f", FieldValue::Float(1.5)),
        ("g", FieldValue::Float(11.0)),
        ("h", FieldValue::Float(-0.0)),
        ("i", FieldValue::Integer(-3)),
        ("j", FieldValue::Float(1e300)),
        ("k", FieldValue::Float(5e-324)),
        ("s", FieldValue::Text("say \"hi\" \\ bye".into())),
        ("t", FieldValue::Boolean(true)),
        ("u", FieldValue::Unsigned(3)),
    ];
    let expected =
        "m f=1.5,g=11,h=-0,i=-3i,j=1e300,k=5e-324,s=\"say \\\"hi\\\" \\\\ bye\",t=true,u=3u -9\n";
    assert_eq!(written(&fields, Some(-9)).as_deref(), Ok(expected));
}

#[test]
fn a_point_without_a_text_is_refused_by_what_stands_in_the_way() {
    assert_eq!(written(&[], None), Err(WriteError::NoFields));
    let float = [("v", FieldValue::Float(f64::NAN))];
    assert_eq!(
        written(&float, None),
        Err(WriteError::NotFinite {
            name: "v".to_owned()
        })
    );
    let good = [("v", FieldValue::Integer(1))];
    assert_eq!(
        written(&good, Some(i64::MAX)),
        Err(WriteError::Time { time_ns: i64::MAX })
    );
    let slash = [("v\\", FieldValue::Integer(1))];
    assert_eq!(
        written(&slash, None),
        Err(WriteError::Name {
            name: "v\\".to_owned()
        })
    );
}
