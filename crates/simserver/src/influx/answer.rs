//! Answers of `/query` as JSON: series of one result, and whether they are those that must be there.

use serde_json::Value;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Float(f64),
    Text(String),
    Truth(bool),
}

/// A series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A series that must be shown, and all rows that it has without a limit.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) set: Set,
    pub(crate) pool: Vec<Vec<Cell>>,
}

/// JSON has one kind of numbers.
fn is_same(wanted: &Cell, shown: &Cell) -> bool {
    match (wanted, shown) {
        (Cell::Float(_), Cell::Int(shown)) => *wanted == Cell::Float(*shown as f64),
        (wanted, shown) => wanted == shown,
    }
}

fn is_row(wanted: &[Cell], shown: &[Cell]) -> bool {
    wanted.len() == shown.len() && wanted.iter().zip(shown).all(|(a, b)| is_same(a, b))
}

impl Wanted {
    /// The same times in the same order, and no row that is not there, or more often. Points of one time have no order.
    fn is(&self, shown: &Set) -> bool {
        let Set {
            name,
            tags,
            columns,
            rows,
        } = &self.set;
        let heads = *name == shown.name && *tags == shown.tags && *columns == shown.columns;
        let times = rows.len() == shown.rows.len()
            && rows
                .iter()
                .zip(&shown.rows)
                .all(|(a, b)| a.first() == b.first());
        let mut pool: Vec<_> = self.pool.iter().collect();
        heads
            && times
            && shown.rows.iter().all(|row| {
                let at = pool.iter().position(|wanted| is_row(wanted, row));
                at.map(|at| pool.swap_remove(at)).is_some()
            })
    }
}

/// Why series are not those that must be there; `None` = they are.
pub(crate) fn differs(wanted: &[Wanted], shown: &[Set]) -> Option<String> {
    let is_same = wanted.len() == shown.len() && wanted.iter().zip(shown).all(|(a, b)| a.is(b));
    if is_same {
        return None;
    }
    let wanted: Vec<_> = wanted.iter().map(|it| &it.set).collect();
    Some(format!("must be {wanted:?} and is {shown:?}"))
}

/// The series of an answer of one statement, which has no error.
pub(crate) fn sets(bytes: &[u8]) -> Result<Vec<Set>, String> {
    let read = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut sets: Vec<Set> = Vec::new();
    let (mut count, mut goes_on, mut is_cut) = (0, false, false);
    for document in read {
        let document = document.map_err(|error| error.to_string())?;
        let wrong = || format!("not one result: {document}");
        let results = document.get("results").and_then(Value::as_array);
        let [result] = results.ok_or_else(wrong)?.as_slice() else {
            return Err(wrong());
        };
        count += 1;
        is_cut = result.get("partial") == Some(&Value::Bool(true));
        let series = result.get("series").and_then(Value::as_array);
        for one in series.into_iter().flatten() {
            let set = set(one).ok_or_else(|| format!("no series: {one}"))?;
            match sets.last_mut() {
                Some(last) if goes_on && last.name == set.name && last.tags == set.tags => {
                    last.rows.extend(set.rows);
                }
                _ if goes_on => {
                    return Err(format!("another series than that which goes on: {one}"));
                }
                _ => sets.push(set),
            }
            goes_on = one.get("partial") == Some(&Value::Bool(true));
        }
    }
    if count == 0 || goes_on || is_cut {
        return Err("an answer that is not at its end".to_owned());
    }
    Ok(sets)
}

fn set(series: &Value) -> Option<Set> {
    let texts = |value: &Value| -> Option<Vec<String>> {
        value
            .as_array()?
            .iter()
            .map(|it| it.as_str().map(str::to_owned))
            .collect()
    };
    let mut tags = Vec::new();
    if let Some(found) = series.get("tags") {
        for (key, value) in found.as_object()? {
            tags.push((key.clone(), value.as_str()?.to_owned()));
        }
    }
    tags.sort();
    let values = series.get("values").and_then(Value::as_array);
    let rows = values.into_iter().flatten();
    let rows = rows.map(|row| row.as_array()?.iter().map(cell).collect());
    Some(Set {
        name: series
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned(),
        tags,
        columns: texts(series.get("columns")?)?,
        rows: rows.collect::<Option<_>>()?,
    })
}

fn cell(value: &Value) -> Option<Cell> {
    Some(match value {
        Value::Null => Cell::Null,
        Value::Bool(truth) => Cell::Truth(*truth),
        Value::String(text) => Cell::Text(text.clone()),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cell::Int(number),
            None => Cell::Float(number.as_f64()?),
        },
        Value::Array(_) | Value::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(rows: &[(i64, i64)]) -> Wanted {
        let rows: Vec<_> = rows
            .iter()
            .map(|(time, i)| vec![Cell::Int(*time), Cell::Int(*i)])
            .collect();
        let set = Set {
            name: "cpu".to_owned(),
            tags: Vec::new(),
            columns: vec!["time".to_owned(), "i".to_owned()],
            rows: rows.clone(),
        };
        Wanted { set, pool: rows }
    }

    #[test]
    fn chunks_are_one_series_and_points_of_one_time_have_no_order() {
        let head = r#"{"name":"cpu","columns":["time","i"]"#;
        let first = format!(
            r#"{{"results":[{{"series":[{head},"values":[[1,2],[1,3]],"partial":true}}],"partial":true}}]}}"#
        );
        let rest = format!(r#"{{"results":[{{"series":[{head},"values":[[2,4]]}}]}}]}}"#);
        let shown = sets(format!("{first}\n{rest}\n").as_bytes()).unwrap();
        assert_eq!(differs(&[wanted(&[(1, 3), (1, 2), (2, 4)])], &shown), None);
        assert!(differs(&[wanted(&[(1, 3), (1, 3), (2, 4)])], &shown).is_some());
        assert!(differs(&[wanted(&[(1, 3), (2, 4)])], &shown).is_some());
        assert!(differs(&[], &shown).is_some());
        assert!(sets(first.as_bytes()).is_err());
        let limited = Wanted {
            pool: wanted(&[(1, 2), (1, 3), (2, 4)]).pool,
            ..wanted(&[(1, 2)])
        };
        let either =
            sets(format!(r#"{{"results":[{{"series":[{head},"values":[[1,3]]}}]}}]}}"#).as_bytes());
        assert_eq!(differs(&[limited], &either.unwrap()), None);
    }
}
