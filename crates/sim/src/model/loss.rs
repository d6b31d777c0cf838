//! Permitted loss once a damaged file was put aside: rows of that file, and nothing else.

use std::collections::BTreeMap;

use super::Model;
use super::found::Found;
use super::held::are_some_of;
use super::names::Name;
use crate::plan::Fields;

/// What is known of a file that was put aside.
#[derive(Debug, Clone, Default)]
pub struct Lost {
    /// Rows that it had.
    pub rows: u64,
    /// Tables of which it had rows, and first and last time of those; empty = nobody knows.
    pub tables: BTreeMap<Name, (i64, i64)>,
}

impl Lost {
    fn may_have(&self, name: &Name, time: i64) -> bool {
        let range = self.tables.get(name);
        self.tables.is_empty()
            || range.is_some_and(|(first, last)| (*first..=*last).contains(&time))
    }
}

impl Model {
    /// Whether every row that is in no answer any more could be told from others, so that a loss can be judged.
    pub fn can_judge_losses(&self) -> bool {
        let mut tables = self.state.tables.values();
        self.in_doubt.is_empty() && tables.all(|kept| kept.dropped_tags == 0)
    }

    /// Takes what a file had that was put aside for lost, as the first read without it shows. Everything else is as it was.
    /// Says how many rows are gone.
    pub fn lose(&mut self, found: &Found, lost: &Lost) -> Result<u64, String> {
        let mut gone = 0;
        let names: Vec<Name> = self.state.names().cloned().collect();
        for name in names {
            let want = self.state.shown(&name);
            let (Some(table), Some(kept)) = (found.tables.get(&name), self.state.kept_mut(&name))
            else {
                continue;
            };
            for ((tags, time), rows) in &want {
                let key = (tags.clone(), *time);
                let left: &[Fields] = table.rows.get(&key).map_or(&[], Vec::as_slice);
                if left == rows.as_slice() || !lost.may_have(&name, *time) {
                    continue;
                }
                let is_older = kept.renamed || kept.again.contains(&key);
                if !is_older && !are_some_of(left, rows) {
                    return Err(format!(
                        "{}.{}: {key:?} was {rows:?}, is {left:?}, and never was that",
                        name.0, name.1
                    ));
                }
                gone += rows.len().saturating_sub(left.len()) as u64;
                let place = (key.0, key.1, BTreeMap::new());
                if left.is_empty() {
                    kept.rows.remove(&place);
                } else {
                    kept.rows.insert(place, left.to_vec());
                }
            }
        }
        if gone > lost.rows {
            return Err(format!("{gone} rows are gone with a file of {}", lost.rows));
        }
        self.check(found)?;
        Ok(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FoundTable, Op, Types, predict};
    use crate::plan::{Line, Tags, Value};

    fn line(value: i64, time: i64) -> Line {
        Line::Point {
            table: "t".to_owned(),
            tags: Tags::new(),
            fields: vec![("a".to_owned(), Value::Integer(value))],
            time: Some(time),
        }
    }

    /// A model of rows at 1, 2 and 3, of which the last was written over, and what a store shows of these.
    fn model_and_found(shown: &[(i64, i64)]) -> (Model, Found) {
        let taken = |lines: &[Line]| Op::Write(predict("d", lines, Types::new(), 0).batch);
        let mut model = Model::default();
        model.acknowledge(&taken(&[line(1, 1), line(2, 2), line(3, 3)]));
        model.acknowledge(&taken(&[line(4, 3)]));
        let mut of_found = Model::default();
        let lines: Vec<Line> = shown
            .iter()
            .map(|(value, time)| line(*value, *time))
            .collect();
        of_found.acknowledge(&taken(&lines));
        let name = ("d".to_owned(), "t".to_owned());
        let table = FoundTable {
            disorder: None,
            ..of_found.state.found(&name).unwrap()
        };
        let mut found = Found::default();
        found.tables.insert(name, table);
        (model, found)
    }

    fn lost(times: (i64, i64), shown: &[(i64, i64)]) -> Result<u64, String> {
        let (mut model, found) = model_and_found(shown);
        let tables = [(("d".to_owned(), "t".to_owned()), times)];
        let lost = Lost {
            rows: 2,
            tables: tables.into_iter().collect(),
        };
        let gone = model.lose(&found, &lost)?;
        // From here on, that is what there is.
        model.check(&found).map(|()| gone)
    }

    #[test]
    fn rows_of_the_file_may_be_missing_and_no_others() {
        let all = [(1, 1), (2, 2), (4, 3)];
        assert_eq!(lost((1, 3), &all), Ok(0));
        assert_eq!(lost((1, 3), &[(2, 2), (4, 3)]), Ok(1));
        assert!(lost((2, 3), &[(2, 2), (4, 3)]).is_err());
        // More than the file had.
        assert!(lost((1, 3), &[(9, 9)]).is_err());
    }

    #[test]
    fn what_is_left_is_what_once_was() {
        assert_eq!(lost((1, 3), &[(1, 1), (2, 2), (3, 3)]), Ok(0));
        assert!(lost((1, 3), &[(1, 1), (9, 2), (4, 3)]).is_err());
        assert!(lost((1, 3), &[(1, 1), (2, 2), (4, 3), (5, 5)]).is_err());
    }
}
