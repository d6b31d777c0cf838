//! Promise: casts, comparisons and calculations with numbers, times and intervals answer what `PostgreSQL` answers.
//!
//! The story: an attacker asked both the same expressions, and half of the kinds of them had one that differed: decimals were cut off,
//! hours of a date were lost, times without a zone were an hour off in Berlin. `testdata/values/postgresql.tsv` has random
//! expressions with the answers of `PostgreSQL` 15.18 in `Europe/Berlin`: `ERROR` where it has none, `;` between rows.

use crate::support::Store;

const ANSWERS: &str = include_str!("../../../../testdata/values/postgresql.tsv");

/// The integer is the first that a float does not hold.
fn store() -> Store {
    let store = Store::new();
    store.write_seconds(
        "m n=9007199254740993i,v=4 1704081600\nm n=1i,v=5 1704085200\nm n=2i,v=6 1704088800",
    );
    store
}

/// Floats are printed with other digits here and there; all else is the same text.
fn is_same(ours: &str, theirs: &str) -> bool {
    let values = |text: &str| -> Vec<String> {
        let values = text.split([';', '|']);
        values.map(|value| value.trim().to_owned()).collect()
    };
    let (ours, theirs) = (values(ours), values(theirs));
    ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(our, their)| {
            let float = |text: &str| text.parse::<f64>().ok();
            match (float(our), float(their)) {
                (Some(one), Some(other)) if our.contains(['.', 'e']) => {
                    let near = (one - other).abs() <= other.abs() * 1e-11;
                    near || one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan())
                }
                (Some(_), Some(_)) => our.trim_end_matches(".0") == their.trim_end_matches(".0"),
                _ => our == their,
            }
        })
}

#[tokio::test]
async fn values_are_what_postgresql_makes_of_them() {
    let store = store();
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in ANSWERS.lines() {
        let (sql, theirs) = line.split_once('\t').unwrap();
        let ours = match berlin.query("d", sql).await {
            Ok(answer) => answer.collect().await,
            Err(error) => Err(error),
        };
        let ours = match ours {
            Ok(batches) => crate::support::rows(&batches).join(" ; "),
            Err(_) => "ERROR".to_owned(),
        };
        if !is_same(&ours, theirs) {
            wrong.push(format!(
                "{sql}\n  PostgreSQL: {theirs}\n  ours:       {ours}"
            ));
        }
        count += 1;
    }
    assert!(count > 300, "{count} statements");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
