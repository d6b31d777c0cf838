//! Differences from the oracles that are meant: each a rule with a name, a reason, and the least that it excuses.
//!
//! There are ten at most: a rule is cheap to write and hides what it does not mean to.

use serde_json::Value;

use super::{Cell, same_row};

/// What differs.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    /// Who was asked, and `-edges` where it was asked about edges.
    pub(super) oracle: &'a str,
    pub(super) query: &'a str,
    /// `None`: the oracle refuses it.
    pub(super) wanted: Option<&'a [Value]>,
    pub(super) found: Result<&'a [Vec<Cell>], &'a str>,
}

/// A rule.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    pub(super) reason: &'static str,
    pub(super) excuses: fn(&Difference<'_>) -> bool,
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "ties of round",
        reason: "ties go away from zero, as in SQLite and for PostgreSQL's numeric; its double goes to the even one",
        excuses: |it| it.oracle == "postgresql" && it.query.contains("round(") && it.found.is_ok(),
    },
    Rule {
        name: "two orders in one SELECT",
        reason: "two aggregates with ORDER BY of their own in one SELECT are refused",
        excuses: |it| it.error_has("Conflicting ordering requirements in aggregate functions"),
    },
    Rule {
        name: "a column twice",
        reason: "one column twice in ROLLUP is refused",
        excuses: |it| it.error_has("Schema contains duplicate qualified field name"),
    },
    Rule {
        name: "sums beyond 64 bits",
        reason: "sum(bigint) is numeric in PostgreSQL and of 128 bits in DuckDB; here it is a bigint, and one that does not fit is refused",
        excuses: |it| it.query.contains("sum(") && it.error_has("beyond 64 bits"),
    },
    Rule {
        name: "places of subqueries",
        reason: "IN and EXISTS with a subquery stand in WHERE, HAVING and ON; elsewhere, and about the kept side of an outer join, they are refused",
        excuses: |it| {
            it.error_has("Physical plan does not support logical expression InSubquery")
                || it.error_has("Physical plan does not support logical expression Exists")
                || it.error_has("a subquery in the ON of an outer join may speak of")
        },
    },
    Rule {
        name: "rows with NULL in DuckDB",
        reason: "(a, b) IN ((1, NULL)) compares rows as values there in part, where NULL equals NULL; the same query is asked of PostgreSQL, which answers NULL",
        excuses: |it| it.is_duckdb() && it.found.is_ok() && it.query.contains(" IN (("),
    },
    Rule {
        name: "two zeros in DuckDB",
        reason: "-0.0 and 0.0 are equal there in comparisons and two values in groups; the same query is asked of PostgreSQL, which has one",
        excuses: |it| it.is_duckdb() && it.found.is_ok() && it.groups_floats(),
    },
    Rule {
        name: "sums of sums in DuckDB",
        reason: "it computes sum(x + c) as sum(x) + c * count(x), so no x + c can be too large; PostgreSQL refuses the addition, and so do we",
        excuses: |it| {
            it.is_duckdb()
                && it.wanted.is_some()
                && it.query.contains("sum(")
                && it.error_has("Arithmetic overflow")
        },
    },
    Rule {
        name: "remainder by -1 in DuckDB",
        reason: "it refuses the smallest integer % -1, which is 0",
        excuses: |it| it.is_duckdb() && it.wanted.is_none() && it.query.contains("% -1"),
    },
];

impl Difference<'_> {
    fn error_has(&self, text: &str) -> bool {
        self.found.is_err_and(|error| error.contains(text))
    }

    fn is_duckdb(&self) -> bool {
        self.oracle == "duckdb-edges"
    }

    /// Whether rows are put together, or counted, by a float.
    fn groups_floats(&self) -> bool {
        let groups = [
            "GROUP BY",
            "DISTINCT",
            "UNION",
            "EXCEPT",
            "INTERSECT",
            "PARTITION BY",
        ];
        let groups = groups.iter().any(|word| self.query.contains(word));
        groups
            && [".v", ".w", "q.c2"]
                .iter()
                .any(|name| self.query.contains(name))
    }

    /// What differs, for a person.
    pub(super) fn told(&self) -> String {
        match (self.wanted, self.found) {
            (_, Err(error)) => format!("refused: {error}"),
            (None, Ok(found)) => format!(
                "not refused: {:?}",
                found.iter().take(3).collect::<Vec<_>>()
            ),
            (Some(wanted), Ok(found)) => {
                let missing = wanted
                    .iter()
                    .filter(|row| !found.iter().any(|found| same_row(row, found)));
                let extra = found
                    .iter()
                    .filter(|found| !wanted.iter().any(|row| same_row(row, found)));
                let missing: Vec<String> = missing.take(3).map(ToString::to_string).collect();
                let extra: Vec<_> = extra.take(3).collect();
                format!(
                    "{} rows instead of {}, without {missing:?}, with {extra:?}",
                    found.len(),
                    wanted.len()
                )
            }
        }
    }
}

/// A difference of each rule, and one beside it that is a failure: by oracle, query and, if it is one, our error.
#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn each_rule_excuses_what_it_names_and_nothing_beside_it() {
    type Case = (&'static str, &'static str, Option<&'static str>);
    let cases: [(&str, Case, Case); 9] = [
        (
            "ties of round",
            ("postgresql", "SELECT round(t.f) FROM m t", None),
            ("sqlite", "SELECT round(t.f) FROM m t", None),
        ),
        (
            "two orders in one SELECT",
            (
                "postgresql",
                "SELECT 1",
                Some("Conflicting ordering requirements in aggregate functions"),
            ),
            ("postgresql", "SELECT 1", None),
        ),
        (
            "a column twice",
            (
                "postgresql",
                "SELECT 1",
                Some("Schema contains duplicate qualified field name x"),
            ),
            (
                "postgresql",
                "SELECT 1",
                Some("Projections require unique expression names"),
            ),
        ),
        (
            "sums beyond 64 bits",
            (
                "postgresql-edges",
                "SELECT sum(x.n) AS c0 FROM a x",
                Some("the sum is beyond 64 bits"),
            ),
            ("postgresql-edges", "SELECT sum(x.n) AS c0 FROM a x", None),
        ),
        (
            "places of subqueries",
            (
                "postgresql-edges",
                "SELECT (x.n IN (SELECT q.n FROM a q)) AS c0 FROM a x",
                Some("Physical plan does not support logical expression InSubquery(...)"),
            ),
            (
                "postgresql-edges",
                "SELECT (x.n IN (SELECT q.n FROM a q)) AS c0 FROM a x",
                Some("Physical plan does not support logical expression Case(...)"),
            ),
        ),
        (
            "rows with NULL in DuckDB",
            (
                "duckdb-edges",
                "SELECT (x.i, x.n) NOT IN ((1, NULL)) FROM a x",
                None,
            ),
            (
                "postgresql-edges",
                "SELECT (x.i, x.n) NOT IN ((1, NULL)) FROM a x",
                None,
            ),
        ),
        (
            "two zeros in DuckDB",
            (
                "duckdb-edges",
                "SELECT x.v, count(*) FROM a x GROUP BY x.v",
                None,
            ),
            (
                "duckdb-edges",
                "SELECT x.i, count(*) FROM a x GROUP BY x.i",
                None,
            ),
        ),
        (
            "sums of sums in DuckDB",
            (
                "duckdb-edges",
                "SELECT sum(x.n + 2) FROM r x",
                Some("Arithmetic overflow: Overflow happened on: 9223372036854775807 + 2"),
            ),
            (
                "postgresql-edges",
                "SELECT sum(x.n + 2) FROM r x",
                Some("Arithmetic overflow: Overflow happened on: 9223372036854775807 + 2"),
            ),
        ),
        (
            "remainder by -1 in DuckDB",
            ("duckdb-edges", "SELECT (x.n % -1) FROM a x", None),
            ("postgresql-edges", "SELECT (x.n % -1) FROM a x", None),
        ),
    ];
    assert!(RULES.len() <= 10);
    for rule in RULES {
        let of_rule = cases.iter().filter(|(name, ..)| *name == rule.name);
        assert_eq!(of_rule.count(), 1, "{}: {}", rule.name, rule.reason);
    }
    for (name, meant, not_meant) in cases {
        let excused_by = |(oracle, query, error): Case| {
            let rows: [Value; 0] = [];
            // What the oracles of the rules about it refuse.
            let is_refused = query.contains('%');
            let wanted = (!is_refused).then_some(&rows[..]);
            let found = match error {
                Some(error) => Err(error),
                None => Ok(&[][..]),
            };
            let it = Difference {
                oracle,
                query,
                wanted,
                found,
            };
            RULES
                .iter()
                .find(|rule| (rule.excuses)(&it))
                .map(|rule| rule.name)
        };
        assert_eq!(excused_by(meant), Some(name));
        assert_eq!(excused_by(not_meant), None, "{name}");
    }
}
