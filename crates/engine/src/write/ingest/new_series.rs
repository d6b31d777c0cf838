//! Points of series that the memo does not know.
//!
//! Does: take their texts apart, find or define their tables and tags. A point that is refused defines nothing. Does not: define series (`pending.rs`
//! does, for the whole body) or fields (`rows.rs` does).

use nilometer_lineproto::{Point, SeriesKey};

use super::fits;
use super::memo::Fingerprint;
use super::planned::{PLANNED_SCHEMA, Planned, is_planned_table};
use super::slot::TableSlot;
use super::{NEW_TABLE_BYTES, Session, WriteReport, reject_parse, reject_row};
use crate::catalogue::Catalogue;
use crate::engine::{Engine, check_name};
use crate::schema::{ColumnId, TIME_COLUMN, TableId, table_bytes};

impl Session {
    /// Takes apart a series text that the memo does not know, and waits for its id; `None` = the line was rejected, or
    /// the schema or the table was dropped and the body will be read again.
    #[cold]
    pub(super) fn wait_for(
        &mut self,
        text: Fingerprint,
        (point, time): (&Point<'_>, i64),
        report: &mut WriteReport,
    ) -> Option<(usize, usize)> {
        if let Some(found) = self.pending.find(text) {
            return Some(found);
        }
        if self.columns.is_over() || self.refused.is_some() {
            return None;
        }
        let key = match SeriesKey::parse(point.series) {
            Ok(key) => key,
            Err(reason) => {
                reject_parse(&point.error(reason), report);
                return None;
            }
        };
        let names = std::iter::once(("measurement", &key.measurement))
            .chain(key.tags.iter().map(|(name, _)| ("tag", name)));
        for (what, name) in names {
            if let Err(error) = check_name(what, name) {
                report.reject(point.line_number, point.line, error.to_string(), true);
                return None;
            }
        }
        if key.tags.iter().any(|(name, _)| name == TIME_COLUMN) {
            let reason = format!(
                "invalid tag key: input tag \"{TIME_COLUMN}\" on measurement \"{}\" is invalid",
                key.measurement
            );
            report.reject(point.line_number, point.line, reason, false);
            return None;
        }
        let table = self.table_of(&key, point, report)?;
        let slot = self.slot_of(table);
        let known = self.tables.get_mut(slot)?;
        if is_planned_table(table) {
            known.name = key.measurement.to_string();
        }
        if let Err(reason) = check_series(&self.engine, known, &key, time) {
            report.reject(point.line_number, point.line, reason, false);
            return None;
        }
        let mut tags = Vec::with_capacity(key.tags.len());
        let mut fits = false;
        for (at, (name, value)) in key.tags.iter().enumerate() {
            let id = match known.known_tag(at, name) {
                Some(id) => id,
                None if self.columns.is_full() => {
                    self.columns.add();
                    return None;
                }
                None => {
                    if !fits {
                        fits = fits_in(&self.engine, Some(known), &key, point, report);
                        fits.then_some(())?;
                    }
                    let tag = known.define_tag(
                        &self.engine,
                        name,
                        &mut self.new_names,
                        &mut self.planned,
                    );
                    match tag {
                        Ok(tag) => tag?,
                        Err(error) => {
                            self.refused = Some(error);
                            return None;
                        }
                    }
                }
            };
            if self.pending.meets_tag(id) && !self.columns.add() {
                return None;
            }
            tags.push((id, value.as_ref()));
        }
        Some((slot, self.pending.add(text, table, slot, &tags)))
    }

    /// The id of the table of a new series; `None` = the line was rejected, or the schema was dropped.
    fn table_of(
        &mut self,
        key: &SeriesKey<'_>,
        point: &Point<'_>,
        report: &mut WriteReport,
    ) -> Option<TableId> {
        let schema = self.schema;
        let (mut is_relation, mut is_new, mut refused) = (false, false, None);
        let met = self.planned.find(&key.measurement);
        let brings_table = met.is_none() && {
            let sequencer = self.engine.sequencer();
            let known = sequencer.catalogue().table_id(schema, &key.measurement);
            known.is_none() && !sequencer.is_relation(schema, &key.measurement)
        };
        if brings_table && !fits_in(&self.engine, None, key, point, report) {
            return None;
        }
        let plan = |catalogue: &Catalogue| {
            if schema != PLANNED_SCHEMA && catalogue.schema_name(schema).is_none() {
                return Ok(None);
            }
            let known = met.or_else(|| catalogue.table_id(schema, &key.measurement));
            is_relation = known.is_none()
                && self
                    .engine
                    .sequencer()
                    .is_relation(schema, &key.measurement);
            if is_relation {
                return Ok(None);
            }
            if known.is_none() && !is_new {
                is_new = true;
                let bytes = (NEW_TABLE_BYTES + table_bytes(&key.measurement)) as u64;
                refused = self
                    .engine
                    .sequencer()
                    .check_names(self.new_names + bytes)
                    .err();
                self.new_names += bytes;
            }
            if refused.is_some() {
                return Ok(None);
            }
            known
                .map(Some)
                .ok_or_else(|| catalogue.plan_table(schema, &key.measurement))
        };
        let stand_in = |planned: &mut Planned| Some(planned.table(&key.measurement));
        let table = self.planned.define(&self.engine, plan, stand_in);
        self.refused = refused;
        if is_relation {
            let reason = format!(
                "measurement \"{}\" is a relation; write it as one, or use another name",
                key.measurement
            );
            report.reject(point.line_number, point.line, reason, false);
        }
        table
    }
}

/// Why a table takes no points of a series, or none of this time.
fn check_series(
    engine: &Engine,
    table: &TableSlot,
    key: &SeriesKey<'_>,
    time: i64,
) -> Result<(), String> {
    if let Some(reason) = table.refusal() {
        return Err(reason);
    }
    let Some(rules) = &table.rules else {
        return Ok(());
    };
    rules.check_time(time)?;
    let catalogue = engine.sequencer().catalogue();
    let schema = catalogue.table(table.id);
    let known = key.tags.iter().filter_map(|(name, value)| {
        let tag = schema?.tag(name)?;
        Some((tag.id, value.as_ref()))
    });
    let known: Vec<(ColumnId, &str)> = known.collect();
    rules.check_tags(&table.name, &known)
}

/// Whether the fields of a point fit its table; `None` = it has none yet. What does not is in the report.
fn fits_in(
    engine: &Engine,
    table: Option<&TableSlot>,
    key: &SeriesKey<'_>,
    point: &Point<'_>,
    report: &mut WriteReport,
) -> bool {
    let (stripped_time, checked) = fits::check(engine, table, point);
    let fits = checked.is_ok();
    if !fits {
        reject_row(point, &key.measurement, stripped_time, checked, report);
    }
    fits
}
