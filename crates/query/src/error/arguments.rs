//! Calls with arguments that no function takes, as users read of them: in SQL's names of types.

use super::tidy;
use crate::function::of_column;

/// How the planner says that a function takes no arguments of these types, before it names those that it takes.
pub(super) const UNFIT_ARGUMENTS: &str = "No function matches the given name and argument types '";

/// How that is said here.
pub(crate) const NO_FUNCTION: &str = "there is no function ";

/// The call as it would be, and the ones that there are, in SQL's names of types.
pub(super) fn unfit_arguments(message: &str) -> String {
    let from = message.find(UNFIT_ARGUMENTS).unwrap_or(0);
    let rest = message.get(from..).unwrap_or(message);
    let rest = rest.strip_prefix(UNFIT_ARGUMENTS).unwrap_or(rest);
    let (call, rest) = rest.split_once("'.").unwrap_or((rest, ""));
    // Some functions say themselves what they take.
    let before = message.get(..from).unwrap_or_default();
    if let Some((_, usage)) = before.split_once(OWN_WORDS) {
        let usage = tidy(usage);
        let usage = usage.trim_end_matches(['.', ' ']);
        return format!("{NO_FUNCTION}{}: {usage}", in_sql(call));
    }
    let known = rest
        .lines()
        .filter_map(|line| line.strip_prefix('\t'))
        .filter(|line| line.contains('(') && !NOT_SAID.iter().any(|word| line.contains(word)))
        .map(in_sql);
    let known: Vec<String> = known.take(CALLS_SAID_MAX).collect();
    let call = in_sql(call);
    if let Some(name) = call.strip_suffix("(bytea)")
        && of_column(name).is_some()
    {
        return format!("{NO_FUNCTION}{call}; of a summary, write summary -> {name}()");
    }
    let there_is = match known.as_slice() {
        [] => String::new(),
        known => format!("; there is {}", known.join(", ")),
    };
    format!(
        "{NO_FUNCTION}{call}{there_is}; cast the argument, as in value::double precision, or take another function"
    )
}

/// What comes before a function's own words on its arguments.
const OWN_WORDS: &str = "user-defined coercion failed with: ";

/// Calls of which nobody learns what a function takes.
const NOT_SAID: [&str; 3] = ["UserDefined", "Any", "Variadic"];

const CALLS_SAID_MAX: usize = 8;

/// The planner's names of types, the longer ones first, and SQL's.
const TYPES: [(&str, &str); 22] = [
    ("Dictionary(Int32, Utf8)", "text"),
    ("Dictionary(UInt32, Utf8)", "text"),
    ("Timestamp(ns, \"UTC\")", "timestamptz"),
    ("Timestamp(ns, \"+TZ\")", "timestamptz"),
    ("Timestamp(ns)", "timestamp"),
    ("Interval(MonthDayNano)", "interval"),
    ("LargeUtf8", "text"),
    ("Utf8View", "text"),
    ("Utf8", "text"),
    ("String", "text"),
    ("UInt64", "bigint unsigned"),
    ("Int64", "bigint"),
    ("Int32", "integer"),
    ("Int16", "smallint"),
    ("Float64", "double precision"),
    ("Float32", "real"),
    ("Boolean", "boolean"),
    ("Date32", "date"),
    ("Decimal", "numeric"),
    ("Duration", "duration"),
    ("Binary", "bytea"),
    ("Null", "unknown"),
];

fn in_sql(text: &str) -> String {
    // What a function is called where an aggregate has its name.
    let mut text = text.replace("__summary_", "");
    for (theirs, ours) in TYPES {
        text = text.replace(theirs, ours);
    }
    text
}
