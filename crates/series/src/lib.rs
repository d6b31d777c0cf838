//! Series queries: what a question about time series is, whichever language asked it, and the operators that answer it.
//!
//! Does: keep a query as one value with a text form, check it, bind the values of a repeated shape, and answer it from a
//! snapshot as Arrow batches in a declared order. Does not: parse a language, join tables, spawn threads, or know
//! `DataFusion`; threads, memory and cancellation are the caller's.
//!
//! Start at [`Shape`] for the form, [`SeriesQuery::run`] for the answer; docs/guide/series-queries.md shows the text form.

mod bucket;
pub mod calendar;
mod context;
mod error;
mod evaluate;
mod input;
mod long;
mod operators;
mod query;
mod value;

pub use bucket::{Bucket, Shift, Width, Zone};
pub use context::{
    Charge, Context, INLINE_ROWS, Inline, Limits, MemoryAccount, MemoryFull, Reads, Step, Threads,
    Unlimited, Unwatched, Watch,
};
pub use error::Error;
pub use long::sort_asking;
pub use operators::{BUCKETS, Batches, MEAN_SCALE, numeric_mean};
pub use query::{
    Aggregate, Binary, Choice, Column, EXPR_DEPTH_MAX, Expr, Fill, Function, Limit, Operator,
    Order, OrderBy, Percentile, Selector, SeriesQuery, Shape, Source, TOP_ROWS_MAX, TableName,
    TagExpr, TimeRange, Top, Transform, Unary,
};
pub use value::{Literal, Rules, Type, Value};
