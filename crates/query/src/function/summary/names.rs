//! Names of two-step aggregates and of their functions, as the rewrites of statements need them.
//!
//! Does: tell a function that asks a summary from an aggregate of the same name. Does not: know types.

/// Aggregates that make summaries.
pub(crate) const MAKERS: [&str; 24] = [
    "approx_count_distinct",
    "candlestick",
    "candlestick_agg",
    "compact_state_agg",
    "counter_agg",
    "freq_agg",
    "gauge_agg",
    "heartbeat_agg",
    "hyperloglog",
    "max_n",
    "max_n_by",
    "mcv_agg",
    "min_n",
    "min_n_by",
    "ohlc",
    "percentile_agg",
    "rollup",
    "state_agg",
    "stats_agg",
    "tdigest",
    "time_weight",
    "topn_agg",
    "uddsketch",
    "with_bounds",
];

pub(crate) const ROLLUP: &str = "rollup";
pub(crate) const INTO_VALUES: &str = "into_values";

/// What the name of a function of summaries begins with where an aggregate has the same.
const APART: &str = "__summary_";

/// Names that aggregates of columns have too.
const SHARED: [&str; 8] = [
    "corr",
    "covariance",
    "delta",
    "mean",
    "rate",
    "stddev",
    "sum",
    "variance",
];

/// The name of a function of summaries here, by the name that users give it.
pub(super) fn apart(name: &str) -> String {
    let name = name.to_lowercase();
    if SHARED.contains(&name.as_str()) {
        format!("{APART}{name}")
    } else {
        name
    }
}

/// Whether an aggregate of columns has that name too, and how many arguments make it one in any case.
pub(crate) fn of_column(name: &str) -> Option<usize> {
    match name {
        "corr" | "covariance" | "delta" | "rate" => Some(2),
        "mean" | "stddev" | "sum" | "variance" => Some(1),
        _ => None,
    }
}

/// The name that users give a function.
pub(super) fn shown(name: &str) -> &str {
    name.strip_prefix(APART).unwrap_or(name)
}

/// Whether a function makes rows.
pub(crate) fn is_rows(name: &str) -> bool {
    name == INTO_VALUES || name == "topn" || (rows_of(name).is_some() && !MAKERS.contains(&name))
}

/// The columns of the rows that a function makes.
pub(crate) fn rows_of(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "live_ranges" | "dead_ranges" => &["start", "end"],
        "state_timeline" => &["state", "start_time", "end_time"],
        "state_periods" => &["start_time", "end_time"],
        // What `into_values` makes, by the aggregate.
        "state_agg" | "compact_state_agg" => &["state", "duration"],
        "freq_agg" | "topn_agg" | "mcv_agg" => &["value", "min_freq", "max_freq"],
        "max_n_by" | "min_n_by" => &["value", "data"],
        _ => return None,
    })
}
