//! Names and values of the databases of clients of InfluxDB.

/// The databases.
pub(crate) const DATABASES: [&str; 2] = ["f0", "f1"];
/// The measurement that `INTO` writes to, and those that are written to.
pub(crate) const MEASUREMENTS: [&str; 3] = ["copy", "cpu", "mem"];
/// The first of them.
pub(crate) const COPY: usize = 0;
/// Every series has a host.
pub(crate) const HOSTS: [&str; 3] = ["a", "b", "c"];
/// The first is that of series without one.
pub(crate) const REGIONS: [&str; 3] = ["", "x", "y"];
/// Values of the field `s`.
pub(crate) const WORDS: [&str; 3] = ["", "up", "so \"so\""];

/// A text of the field `s`.
pub(super) fn word(nth: usize) -> &'static str {
    WORDS.get(nth).copied().unwrap_or("")
}

/// A float that is a number of quarters.
pub(super) fn quarters(number: i64) -> f64 {
    number as f64 / 4.0
}
