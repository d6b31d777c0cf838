//! Visits of others while a step is at work.

use rand::RngExt;

use super::{Draw, TABLES, Weather};
use crate::plan::{Act, Delete, Line, Visit};

impl Draw {
    /// Somebody who comes while a segment is written, or between a writer's look and its place in the order.
    pub(super) fn visit(&mut self, act: &Act) -> Option<Box<Visit>> {
        // A row that comes in while retention takes others could be one of either.
        if self.retention {
            return None;
        }
        let act = match act {
            Act::Flush | Act::Maintain | Act::MaintainAll | Act::Settle | Act::SettleFor(_) => {
                if !self.random.random_bool(0.4) {
                    return None;
                }
                self.visit_of_a_flush()
            }
            act if act.writes_itself() => {
                if !self.random.random_bool(0.5) {
                    return None;
                }
                self.race(act)
            }
            _ => return None,
        };
        let call = self.random.random_range(1..=10);
        Some(Box::new(Visit { call, act }))
    }

    fn visit_of_a_flush(&mut self) -> Act {
        if self.relations && self.random.random_bool(0.4) {
            return Act::Relate(self.relate());
        }
        match self.random.random_range(0..10) {
            0..3 => self.write(),
            3 if self.random.random_bool(0.5) => self.write_typed(),
            3 => self.update(),
            4 | 5 => self.delete(),
            6 => self.change(),
            7 => Act::Maintain,
            _ => Act::Compare(self.probe()),
        }
    }

    /// What is likely to be about the same rows.
    fn race(&mut self, first: &Act) -> Act {
        if self.weather == Weather::Stormy && self.random.random_bool(0.15) {
            return Act::Cancel;
        }
        let (database, table, lines) = match first {
            Act::WriteTyped {
                database,
                table,
                lines,
                ..
            }
            | Act::Update {
                database,
                table,
                lines,
                ..
            } => (database.clone(), table.clone(), lines),
            Act::Relate(relate) => {
                if relate.lines.is_empty() && self.random.random_bool(0.1) {
                    return Act::DropRelation {
                        database: relate.database.clone(),
                        relation: relate.relation.clone(),
                    };
                }
                return if relate.lines.is_empty() {
                    Act::Relate(self.relate_too(relate))
                } else {
                    Act::Cancel
                };
            }
            _ => return Act::Cancel,
        };
        match self.random.random_range(0..10) {
            0..6 => Act::WriteTyped {
                database,
                table,
                lines: self.values_anew(lines),
                on_conflict: self.on_conflict(),
                key: None,
            },
            6 | 7 => Act::Write {
                database,
                lines: self.values_anew(lines),
                key: None,
            },
            8 => {
                let which = self.random.random();
                let lines = Vec::new();
                Act::Update {
                    database,
                    table,
                    which,
                    lines,
                }
            }
            _ => Act::Delete {
                database,
                delete: Delete {
                    table,
                    time: (i64::MIN, i64::MAX),
                    tag: self.random.random_bool(0.5).then(|| self.tag_filter()),
                },
            },
        }
    }

    /// The first of some points with other fields.
    fn values_anew(&mut self, lines: &[Line]) -> Vec<Line> {
        let count = self.random.random_range(0..=lines.len()).max(1);
        let mut anew = Vec::new();
        for line in lines.iter().take(count) {
            let other = self.line(TABLES[0]);
            if let (
                Line::Point {
                    table, tags, time, ..
                },
                Line::Point { fields, .. },
            ) = (line, other)
            {
                anew.push(Line::Point {
                    table: table.clone(),
                    tags: tags.clone(),
                    fields,
                    time: *time,
                });
            }
        }
        anew
    }
}
