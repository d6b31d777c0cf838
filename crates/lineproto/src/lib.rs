//! Line protocol: text to borrowed points, and points to text.
//!
//! Does: cut a request body into lines, read points from them at several million a second ([`Reader`]), check and take
//! apart the text that names a series ([`SeriesKey`]), say what is wrong with a line in the words of InfluxDB 1.x
//! ([`Reason`]), and print points ([`write_line`]).
//!
//! Does not: read files or sockets, look at a schema, give missing timestamps a value, or refuse long texts
//! ([`FIELD_TEXT_BYTES_MAX`] is the caller's to enforce, because only the caller knows the words for it).
//!
//! There are two parsers. [`parse_line`] reads one line, slowly and obviously, and defines the language. [`Reader`] knows
//! what most lines look like and reads those quickly; whatever it does not recognise it hands to the same code that
//! [`parse_line`] runs, so an error has one text. `tests/agreement.rs` holds the two together.
//!
//! # The language
//!
//! ```text
//! line    = series SP+ field *("," field) [SP+ timestamp SP*]
//! series  = measurement *("," key "=" value)
//! field   = key "=" (float | integer "i" | unsigned "u" | boolean | string)
//! ```
//!
//! A byte with a backslash before it does not separate: `\,`, `\ ` and `\=`, in a measurement also `\"`, in tag keys, tag values
//! and field keys. Those are the escapes; every other backslash stands for itself. In a string `\"` and `\\` are the
//! escapes. Quotes mean something in field values only. Spaces, tabs and NULs before a line are skipped, `#` starts a
//! comment, and carriage returns before a line feed belong to the line ending.
//!
//! A line ends at the first line feed that is not inside a string. InfluxDB 1.x also lets a backslash hide a line feed
//! and lets a quote in a comment open a string; here neither does, so that one bad line cannot swallow good ones. Text
//! after a closing quote is an error here, while 1.x takes it into the value.
//!
//! # Example
//!
//! ```
//! use nilometer_lineproto::{FieldValue, Precision, Reader, SeriesKey};
//!
//! let body = b"cpu,host=a,core=0 busy=0.5,ticks=12i 1700000000\ncpu,host=a busy=NaN\n";
//! let mut reader = Reader::new(body, Precision::Second);
//!
//! let point = reader.next().expect("the body has a first line")?;
//! assert_eq!(point.timestamp, Some(1_700_000_000_000_000_000));
//! assert_eq!(point.fields[1].name(), "ticks");
//! assert_eq!(point.fields[1].value, FieldValue::Integer(12));
//! let key = SeriesKey::parse(point.series)?;
//! assert_eq!(key.tags[0], ("core".into(), "0".into()));
//!
//! let error = reader.next().expect("the body has a second line").unwrap_err();
//! assert_eq!(error.to_string(), "unable to parse 'cpu,host=a busy=NaN': invalid number");
//! assert!(reader.next().is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod digits;
mod error;
mod escape;
mod lines;
mod point;
mod precision;
mod print;
mod reader;
mod reference;
mod series;

pub use error::{LineError, OwnedLineError, Reason, WriteError};
pub use lines::{Lines, line_end};
pub use point::{Field, FieldValue, OwnedPoint, Point};
pub use precision::Precision;
pub use print::write_line;
pub use reader::Reader;
pub use reference::parse_line;
pub use series::SeriesKey;

/// Longest series text, and longest series text plus field key plus [`KEY_SEPARATOR_BYTES`]. InfluxDB's clients know it.
pub const KEY_BYTES_MAX: usize = 65_535;

/// What InfluxDB 1.x puts between a series and a field key on disk, and therefore counts into [`KEY_BYTES_MAX`].
pub const KEY_SEPARATOR_BYTES: usize = 4;

/// Longest text a field may hold. The parsers do not look at it: the message for it names the table, so the caller checks.
pub const FIELD_TEXT_BYTES_MAX: usize = 1_048_576;

/// Earliest time a point may have, in nanoseconds. The two values below are sentinels.
pub const TIME_NS_MIN: i64 = i64::MIN + 2;

/// Latest time a point may have, in nanoseconds. The value above is an exclusive end.
pub const TIME_NS_MAX: i64 = i64::MAX - 1;
