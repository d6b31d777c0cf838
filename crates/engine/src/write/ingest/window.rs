//! The write window: which times points of a body may have.
//!
//! Does: say which bound a time is beyond, and keep of the points that were left out their number, the oldest and the newest.
//! Does not: know retention policies; whoever writes says what the bounds are.

use nilometer_lineproto::{FieldValue, SeriesKey, write_line};

/// Times that points may have, both included. The default takes all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteWindow {
    /// The oldest time that retention keeps, in nanoseconds since 1970.
    pub kept_from_ns: i64,
    /// The oldest time that may be written.
    pub from_ns: i64,
    /// The latest time that may be written.
    pub to_ns: i64,
}

impl Default for WriteWindow {
    fn default() -> Self {
        Self {
            kept_from_ns: i64::MIN,
            from_ns: i64::MIN,
            to_ns: i64::MAX,
        }
    }
}

/// A bound that a point may be beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// What retention keeps.
    Retention,
    /// The oldest time that may be written.
    Past,
    /// The latest time that may be written.
    Future,
}

impl WriteWindow {
    /// The bound that a time is beyond.
    #[inline]
    pub fn passed(&self, time_ns: i64) -> Option<Bound> {
        if time_ns < self.kept_from_ns {
            Some(Bound::Retention)
        } else if time_ns < self.from_ns {
            Some(Bound::Past)
        } else {
            (time_ns > self.to_ns).then_some(Bound::Future)
        }
    }

    /// The time of a bound.
    pub fn at(&self, bound: Bound) -> i64 {
        match bound {
            Bound::Retention => self.kept_from_ns,
            Bound::Past => self.from_ns,
            Bound::Future => self.to_ns,
        }
    }
}

/// A point that was left out for its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeyondPoint {
    /// Its series as line protocol writes it, tags sorted by key.
    pub series: String,
    /// Its time, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The bound that it is beyond.
    pub bound: Bound,
}

/// Points of a body that were left out for their times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beyond {
    /// The window that they are beyond.
    pub window: WriteWindow,
    /// How many retention would remove at once.
    pub retention: u64,
    /// How many are too old or too new to be written.
    pub limits: u64,
    /// The oldest; the first of several.
    pub oldest: BeyondPoint,
    /// The newest; the first of several.
    pub newest: BeyondPoint,
}

impl Beyond {
    /// Counts a point.
    pub(super) fn add(
        beyond: &mut Option<Box<Self>>,
        window: WriteWindow,
        (key, time_ns, bound): (&SeriesKey<'_>, i64, Bound),
    ) {
        let point = || BeyondPoint {
            series: text_of(key),
            time_ns,
            bound,
        };
        let all = beyond.get_or_insert_with(|| {
            Box::new(Self {
                window,
                retention: 0,
                limits: 0,
                oldest: point(),
                newest: point(),
            })
        });
        match bound {
            Bound::Retention => all.retention += 1,
            Bound::Past | Bound::Future => all.limits += 1,
        }
        if time_ns < all.oldest.time_ns {
            all.oldest = point();
        }
        if time_ns > all.newest.time_ns {
            all.newest = point();
        }
    }
}

/// A series as line protocol writes it.
fn text_of(key: &SeriesKey<'_>) -> String {
    let mut line = Vec::new();
    // What was read can be written; the field is only there because a line needs one.
    let field = [("f", FieldValue::Boolean(true))];
    let written = write_line(&mut line, &key.measurement, &key.tags, &field, None);
    let text = String::from_utf8_lossy(&line);
    match (written, text.strip_suffix(" f=true\n")) {
        (Ok(()), Some(series)) => series.to_owned(),
        _ => key.measurement.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_the_window_and_retention_comes_before_a_limit() {
        let window = WriteWindow {
            kept_from_ns: 10,
            from_ns: 20,
            to_ns: 30,
        };
        for (time_ns, passed) in [
            (9, Some(Bound::Retention)),
            (10, Some(Bound::Past)),
            (19, Some(Bound::Past)),
            (20, None),
            (30, None),
            (31, Some(Bound::Future)),
        ] {
            assert_eq!(window.passed(time_ns), passed, "{time_ns}");
        }
        assert_eq!(WriteWindow::default().passed(i64::MIN), None);
    }

    #[test]
    fn a_series_is_named_as_line_protocol_escapes_it() {
        let key = SeriesKey::parse(br"m\ x\,y,b\ k\=1=v\,2\ 3,a=z").unwrap();
        assert_eq!(text_of(&key), r"m\ x\,y,a=z,b\ k\=1=v\,2\ 3");
    }
}
