//! Any bytes as a request body of line protocol: the fast reader and the reference parser find the same points and the
//! same errors, neither panics, and what can be printed reads back as it was.

use nilometer_lineproto::{
    Lines, OwnedPoint, Point, Precision, Reader, SeriesKey, parse_line, write_line,
};

pub(crate) const PRECISIONS: [Precision; 7] = [
    Precision::Nanosecond,
    Precision::Microsecond,
    Precision::Millisecond,
    Precision::Second,
    Precision::Minute,
    Precision::Hour,
    Precision::Auto,
];

/// The first byte chooses the unit, so that one corpus covers all of them.
pub(crate) fn line_protocol(data: &[u8]) {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    let precision = precision_of(*first);
    let mut reader = Reader::new(body, precision);
    for (line_number, line) in Lines::new(body) {
        let expected = parse_line(line, line_number, precision)
            .map(|point| point.expect("the line is not blank"));
        let expected = expected.map_err(|error| error.to_owned_error());
        let found = match reader.next().expect("the reader finds as many lines") {
            Err(error) => Err(error.to_owned_error()),
            Ok(point) => {
                assert_eq!((point.line_number, point.line), (line_number, line));
                owned(&point)
            }
        };
        // The debug text tells -0.0 from 0.0, which `==` does not.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        if let Ok(point) = found {
            reads_back(&point);
        }
    }
    assert!(reader.next().is_none());
}

pub(crate) fn precision_of(byte: u8) -> Precision {
    let at = usize::from(byte) % PRECISIONS.len();
    PRECISIONS.get(at).copied().unwrap_or(Precision::Nanosecond)
}

fn owned(point: &Point<'_>) -> Result<OwnedPoint, nilometer_lineproto::OwnedLineError> {
    let key =
        SeriesKey::parse(point.series).map_err(|reason| point.error(reason).to_owned_error())?;
    Ok(OwnedPoint {
        measurement: key.measurement.into_owned(),
        tags: key
            .tags
            .into_iter()
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect(),
        fields: point
            .fields
            .iter()
            .map(|field| (field.name().into_owned(), field.value.clone().into_owned()))
            .collect(),
        timestamp: point.timestamp,
    })
}

fn reads_back(point: &OwnedPoint) {
    let mut text = Vec::new();
    let written = write_line(
        &mut text,
        &point.measurement,
        &point.tags,
        &point.fields,
        point.timestamp,
    );
    // Whatever was read has a text: names that have none cannot be read either. Escapes may make the text longer than the
    // line was, which only a line near the longest key shows.
    written.expect("a point that was read can be printed");
    match parse_line(&text, 1, Precision::Nanosecond) {
        Ok(again) => assert_eq!(format!("{again:?}"), format!("{:?}", Some(point))),
        Err(error) => assert!(
            matches!(error.reason, nilometer_lineproto::Reason::KeyTooLong { .. }),
            "{error}"
        ),
    }
}
