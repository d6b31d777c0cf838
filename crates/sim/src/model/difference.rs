//! Difference of two states, in a few lines.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::names::{Name, Table};

/// Rows of a difference that are shown.
const SHOWN_MAX: usize = 4;

/// Says in a few lines where two readings of a table differ.
pub fn difference(name: &Name, expected: &Table, found: &Table) -> String {
    let mut out = String::from("the rows differ:");
    describe_table(name, expected, found, &mut out);
    out
}

pub(super) fn describe_table(name: &Name, want: &Table, got: &Table, out: &mut String) {
    let keys: BTreeSet<_> = want.keys().chain(got.keys()).collect();
    let differing: Vec<_> = keys
        .into_iter()
        .filter(|key| want.get(*key) != got.get(*key))
        .collect();
    write!(
        out,
        "\n  {}.{}: {} keys expected, {} found, {} differ",
        name.0,
        name.1,
        want.len(),
        got.len(),
        differing.len()
    )
    .expect("a string takes any text");
    for key in differing.iter().take(SHOWN_MAX) {
        write!(
            out,
            "\n    {key:?}\n      expected {:?}\n      found    {:?}",
            want.get(*key),
            got.get(*key)
        )
        .expect("a string takes any text");
    }
}
