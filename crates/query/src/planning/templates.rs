//! Templates: the optimized plans of plain queries, kept without the literals of their WHERE.
//!
//! A dashboard asks the same few statements all day with other times and other tag values. Most of the work of a narrow one
//! is to find out what it means, and that does not change with them: the next statement of the same shape puts its literals
//! into the plan of the first, and is planned on from there, with a scan that is narrowed by its own literals.
//!
//! Does: keep plans by shape (`shape.rs`) and place, give them back with other literals (`bind.rs`), forget the ones that were
//! not asked for the longest. Does not: keep a snapshot, a physical plan, or anything of a statement whose plan could be another
//! one with other literals; that is decided when a template is made. A statement that cannot be bound is planned afresh.

mod bind;
mod shape;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlan;
use nilometer_engine::{Charge, MemoryBudget, MemoryUse};

use crate::statement::headings::Names;
use crate::statement::name::{NameScope, TableName};
use crate::tables::catalogue::ReadContext;
use crate::tables::table::Table;
use bind::Template;
pub(crate) use shape::Shape;

/// Templates that are kept. A dashboard has some dozens of statements.
const TEMPLATES_MAX: usize = 256;

/// Memory that they may take together.
const TEMPLATES_BYTES_MAX: usize = 8 << 20;

/// The templates of all statements.
#[derive(Debug)]
pub(crate) struct Templates {
    budget: MemoryBudget,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: HashMap<Key, Entry>,
    bytes: usize,
    /// Counts what is asked for.
    now: u64,
}

/// A shape means the same in one place only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    database: String,
    schema: String,
    shape: String,
}

#[derive(Debug)]
struct Entry {
    template: Arc<Template>,
    /// What the columns of the answer are called, if not as in the plan.
    headings: Option<Names>,
    used: u64,
    /// Part of the store's memory for what can be made again.
    charge: Charge,
}

impl Templates {
    pub(crate) fn new(budget: &MemoryBudget) -> Self {
        Self {
            budget: budget.clone(),
            kept: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The optimized plan of a statement, on the snapshot that is read, if a template is known for its shape; and what the
    /// columns of its answer are called.
    pub(crate) fn plan(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        shape: &Shape,
    ) -> Option<(LogicalPlan, Option<Names>)> {
        let key = Key::new(place, shape);
        let (template, headings) = {
            let mut kept = self.lock();
            kept.now += 1;
            let now = kept.now;
            let entry = kept.by_key.get_mut(&key)?;
            entry.used = now;
            (Arc::clone(&entry.template), entry.headings.clone())
        };
        let name = template.name();
        let snapshot = &reading.snapshot;
        let schema = snapshot.table(&name.database, &name.schema, &name.table);
        // Every change of a table gives it another schema, and the template holds its own, so that no other can be there.
        let Some(schema) = schema.filter(|schema| Arc::ptr_eq(schema, template.schema())) else {
            self.lock().remove(&key);
            return None;
        };
        let threads = reading.shared.options.threads;
        let table = Table::new(Arc::clone(snapshot), schema, name.shown(), threads);
        let plan = template.bind(shape.values(), &provider_as_source(Arc::new(table)))?;
        Some((plan, headings))
    }

    /// Makes a template of a plain query, if its plan is the same whatever the literals are.
    pub(crate) fn learn(
        &self,
        place: &NameScope,
        shape: &Shape,
        asked: &LogicalPlan,
        optimized: &LogicalPlan,
        headings: Option<&Names>,
    ) {
        let template = Template::of(place, shape.values(), asked, optimized);
        // Looking through a plan does not fail; if it did, the query would be planned as it is.
        let Ok(Some(template)) = template else { return };
        let key = Key::new(place, shape);
        let names = headings.into_iter().flat_map(|names| names.iter());
        let bytes = template.bytes()
            + key.bytes()
            + names
                .map(|it| size_of::<String>() + it.len())
                .sum::<usize>();
        if bytes > TEMPLATES_BYTES_MAX {
            return;
        }
        // Without memory there is none: whoever has it needs it more.
        if let Ok(charge) = self.budget.charge(MemoryUse::Cache, bytes as u64) {
            let headings = headings.cloned();
            self.lock()
                .insert(key, Arc::new(template), headings, charge);
        }
    }

    /// Number of templates, for tests.
    pub(crate) fn len(&self) -> usize {
        self.lock().by_key.len()
    }
}

impl Kept {
    fn insert(
        &mut self,
        key: Key,
        template: Arc<Template>,
        headings: Option<Names>,
        charge: Charge,
    ) {
        self.remove(&key);
        let bytes = charged(&charge);
        while self.by_key.len() >= TEMPLATES_MAX || self.bytes + bytes > TEMPLATES_BYTES_MAX {
            let oldest = self.by_key.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        self.bytes += bytes;
        self.now += 1;
        let entry = Entry {
            template,
            headings,
            used: self.now,
            charge,
        };
        self.by_key.insert(key, entry);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= charged(&entry.charge);
        }
    }
}

fn charged(charge: &Charge) -> usize {
    usize::try_from(charge.bytes()).unwrap_or(usize::MAX)
}

impl Key {
    fn new(place: &NameScope, shape: &Shape) -> Self {
        Self {
            database: place.database.clone(),
            schema: place.schema.clone(),
            shape: shape.text().to_owned(),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of::<Entry>()
            + self.database.len()
            + self.schema.len()
            + self.shape.len()
    }
}

/// The name of a table as the planner resolves it.
fn resolved(name: &datafusion::common::TableReference, place: &NameScope) -> TableName {
    let resolved = name.clone().resolve(&place.database, &place.schema);
    TableName {
        database: resolved.catalog.to_string(),
        schema: resolved.schema.to_string(),
        table: resolved.table.to_string(),
        position: None,
    }
}

#[cfg(test)]
mod tests;
