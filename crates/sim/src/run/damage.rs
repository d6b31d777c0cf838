//! A segment that is damaged while the store is stopped, and what the store makes of it.
//!
//! Does: damage, open again until the store has put the file aside, and allow that rows of that file are gone; from then
//! on everything must be exact again. Scrubs, which must find nothing. Does not: damage what the rest of the store needs (`corrupt.rs` does).

use std::collections::BTreeMap;

use nilometer_engine::disk::CrashPlan;
use nilometer_engine::{OnDamage, Quarantined};

use super::Run;
use crate::model::{Found, Lost};
use crate::plan::places::place_of;
use crate::plan::{Restart, Step};

impl Run {
    pub(super) fn damage(&mut self, number: u64, step: &Step) -> Result<(), String> {
        if self.world.engine().is_none() || self.world.poisoned() || !self.model.can_judge_losses()
        {
            return Ok(());
        }
        self.compare(None)?;
        self.let_all_go()?;
        self.world.close();
        self.world.disk().set_plan(CrashPlan::default());
        let damaged = self.world.damage(number);
        self.damaged = damaged.map_err(|error| error.to_string())?;
        if self.damaged.is_some() {
            // A backup has a second name of the same file.
            self.backup_spoiled = true;
            self.world.on_damage(OnDamage::Quarantine);
        }
        self.restart(Restart::Clean, step)
    }

    /// Nothing that a plan damages is left in a store that is open: whatever the scrub finds is a false alarm.
    pub(super) fn scrub(&mut self, bytes: u64) -> Result<(), String> {
        let engine = self.engine()?;
        let outcome = engine.scrub_step(bytes);
        let found = engine.scrubbed().damage;
        self.allow("the scrub", outcome)?;
        self.counts.scrubs += 1;
        match found.first() {
            Some(damage) if !self.world.disk().crashed() => Err(format!(
                "the scrub found damage that is none: {} at byte {}: {}",
                damage.path.display(),
                damage.offset,
                damage.reason
            )),
            _ => Ok(()),
        }
    }

    /// Whether the store has put aside what was damaged; asked once after each opening.
    pub(super) fn is_damage_put_aside(&mut self) -> Result<bool, String> {
        let Some(damaged) = &self.damaged else {
            return Ok(false);
        };
        let aside = self.engine()?.quarantined();
        if aside.iter().any(|entry| entry.file == *damaged) {
            return Ok(true);
        }
        // It was no part of the store any more.
        self.damaged = None;
        self.world.on_damage(OnDamage::Refuse);
        Ok(false)
    }

    pub(super) fn judge_damage(&mut self, found: &Found) -> Result<(), String> {
        let entries = self.engine()?.quarantined().iter();
        let mut damaged = entries.filter(|entry| Some(&entry.file) == self.damaged.as_ref());
        let lost = damaged.next_back().map_or_else(Lost::default, lost_with);
        self.damaged = None;
        self.world.on_damage(OnDamage::Refuse);
        let rows = self
            .model
            .lose(found, &lost)
            .map_err(|what| format!("after a segment was put aside, {what}"))?;
        self.counts.put_aside += 1;
        self.counts.lost += rows;
        Ok(())
    }
}

fn lost_with(entry: &Quarantined) -> Lost {
    let mut tables = BTreeMap::new();
    for table in &entry.tables {
        let name = table.name.as_deref().unwrap_or_default();
        let mut parts = name.splitn(3, '.');
        // A table without a name was dropped.
        if let (Some(database), Some(schema), Some(table_name)) =
            (parts.next(), parts.next(), parts.next())
        {
            let name = (place_of(database, schema), table_name.to_owned());
            tables.insert(name, table.times);
        }
    }
    Lost {
        rows: entry.rows.unwrap_or(u64::MAX),
        tables,
    }
}
