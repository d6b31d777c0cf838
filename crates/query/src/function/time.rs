//! Functions of times: ages, buckets, zones, gap filling, texts.

pub(crate) mod age;
pub(crate) mod at_time_zone;
pub(crate) mod bucket;
pub(crate) mod epoch;
pub(crate) mod gapfill;
pub(crate) mod pattern;
pub(crate) mod read_pattern;
pub(crate) mod text_time;
pub(crate) mod time_bucket;
pub(crate) mod year;
