//! Templates: what statements of one shape have in common, kept without the literals of their WHERE.
//!
//! A dashboard asks the same few statements all day with other times and other tag values. Most of the work of a narrow one
//! is to find out what it means, and that does not change with them. The next statement of the same shape puts its literals
//! into the series query of the first (`series.rs`), and runs it without a planner. Of all others the physical plan is kept, with
//! holes in the place of what reads: series queries, relations, and the rows of one table (`whole.rs`).
//!
//! Does: keep queries and plans by shape (`shape.rs`) and place, give them back with other literals, forget the ones that were
//! not asked for the longest. Does not: keep a snapshot, or anything of a statement whose plan could be another
//! one with other literals; that is decided when a template is made (`slots.rs`, `compared.rs`). A statement that cannot be bound is planned
//! afresh.

mod compared;
mod series;
mod shape;
mod slots;
mod whole;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use nilometer_engine::{Charge, MemoryBudget, MemoryUse, Snapshot};

use crate::planning::recognise;
use crate::planning::recognised::BoundSeries;
use crate::statement::headings::Names;
use crate::statement::name::NameScope;
use crate::tables::catalogue::ReadContext;
use compared::compared;
use series::SeriesTemplate;
pub(crate) use shape::{Shape, now_of, this_moment};
use slots::Slots;
pub(crate) use slots::{Asked, resolved};
use whole::PlanTemplate;

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
    zone: Arc<str>,
    /// Sums of integers are `numeric`.
    sums_numeric: bool,
    shape: String,
}

/// What is kept of a shape.
#[derive(Debug, Clone)]
enum Kind {
    Series(Arc<SeriesTemplate>),
    Whole(Arc<PlanTemplate>),
}

impl Kind {
    /// Whether what it reads is what it was. Every change of a table gives it another schema, and a template holds its own, so
    /// that no other can be there.
    fn is_of(&self, snapshot: &Snapshot) -> bool {
        let slots = match self {
            Self::Series(series) => series.slots(),
            Self::Whole(whole) => return whole.is_of(snapshot),
        };
        let name = &slots.name;
        let schema = snapshot.table(&name.database, &name.schema, &name.table);
        schema.is_some_and(|schema| Arc::ptr_eq(&schema, &slots.schema))
    }
}

/// The plans of one statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plans<'a> {
    /// Before the rules.
    pub(crate) asked: &'a LogicalPlan,
    /// After them.
    pub(crate) optimized: &'a LogicalPlan,
    /// What runs.
    pub(crate) physical: &'a Arc<dyn ExecutionPlan>,
}

/// A statement with its own values.
#[derive(Debug)]
pub(crate) enum Bound {
    /// The query that it is.
    Series(BoundSeries),
    /// Its physical plan.
    Whole(Arc<dyn ExecutionPlan>),
}

impl Bound {
    /// The columns of its answer.
    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            Self::Series(series) => Arc::clone(&series.columns.schema),
            Self::Whole(plan) => plan.schema(),
        }
    }
}

#[derive(Debug)]
struct Entry {
    kind: Kind,
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

    /// Forgets all of them: a new continuous aggregate may answer what they answer.
    pub(crate) fn clear(&self) {
        *self.lock() = Kept::default();
    }

    /// A statement on the snapshot that is read, if a template is known for its shape; and what the columns of its answer are
    /// called.
    pub(crate) fn bound(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        shape: &Shape,
    ) -> Option<(Bound, Option<Names>)> {
        let bound = self.bound_as(reading, place, shape);
        bound.or_else(|| self.bound_as(reading, place, shape.as_written()?))
    }

    fn bound_as(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        shape: &Shape,
    ) -> Option<(Bound, Option<Names>)> {
        let asked = Asked {
            zone: &reading.zone,
            now_ns: shape.now_ns(),
            sums_numeric: reading.sums_numeric(),
        };
        let key = Key::new((place, &asked), shape);
        let (kind, headings) = {
            let mut kept = self.lock();
            kept.now += 1;
            let now = kept.now;
            let entry = kept.by_key.get_mut(&key)?;
            entry.used = now;
            (entry.kind.clone(), entry.headings.clone())
        };
        let snapshot = &reading.snapshot;
        if !kind.is_of(snapshot) {
            self.lock().remove(&key);
            return None;
        }
        let bound = match &kind {
            Kind::Series(series) => Bound::Series(BoundSeries {
                query: Arc::new(series.bind(shape.values(), &asked)?),
                columns: series.columns.clone(),
                threads: series.threads,
            }),
            Kind::Whole(whole) => {
                let on = (snapshot, reading.shared.options.threads);
                Bound::Whole(whole.bind(shape.values(), &asked, on)?)
            }
        };
        Some((bound, headings))
    }

    /// Makes a template of a query, if it is the same whatever the values are: of a series query, else of its plan.
    pub(crate) fn learn(
        &self,
        (place, asked): (&NameScope, &Asked<'_>),
        shape: &Shape,
        plans: Plans<'_>,
        headings: Option<&Names>,
        may_be: MayBe,
    ) {
        // Looking through a plan does not fail; if it did, the query would be planned as it is.
        let learnt = [Some(shape), shape.as_written()]
            .into_iter()
            .flatten()
            .find_map(|shape| {
                let kind = kind_of((place, asked), shape, plans, may_be);
                Some((shape, kind.ok().flatten()?))
            });
        let Some((shape, (kind, bytes))) = learnt else {
            return;
        };
        let key = Key::new((place, asked), shape);
        let names = headings.into_iter().flat_map(|names| names.iter());
        let bytes = bytes
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
            self.lock().insert(key, kind, headings, charge);
        }
    }

    /// Number of templates, for tests.
    pub(crate) fn len(&self) -> usize {
        self.lock().by_key.len()
    }
}

/// What a template may be of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MayBe {
    /// A series query.
    pub(crate) series: bool,
    /// A plan over the rows of a table, because it reads one table once.
    pub(crate) rows: bool,
}

/// What is kept of a statement, and how large that is.
fn kind_of(
    (place, asked): (&NameScope, &Asked<'_>),
    shape: &Shape,
    plans: Plans<'_>,
    may_be: MayBe,
) -> datafusion::common::Result<Option<(Kind, usize)>> {
    let optimized = plans.optimized;
    let slots = Slots::find(place, shape.values(), (plans.asked, optimized), asked)?;
    if may_be.series
        && let Some(slots) = &slots
        && let Some(found) = recognise::whole(optimized, &slots.filters)?
        && Arc::ptr_eq(&found.table.schema, &slots.schema)
        && found.chosen.is_none()
    {
        let series = SeriesTemplate::of(slots.clone(), found);
        let bytes = series.bytes();
        return Ok(Some((Kind::Series(Arc::new(series)), bytes)));
    }
    if (may_be.series || may_be.rows)
        && let Some(compared) = compared(shape, (plans.asked, optimized), asked)?
        && let Some(whole) = PlanTemplate::of(plans.physical, compared, asked, may_be.rows)?
    {
        let bytes = whole.bytes();
        return Ok(Some((Kind::Whole(Arc::new(whole)), bytes)));
    }
    Ok(None)
}

impl Kept {
    fn insert(&mut self, key: Key, kind: Kind, headings: Option<Names>, charge: Charge) {
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
            kind,
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
    fn new((place, asked): (&NameScope, &Asked<'_>), shape: &Shape) -> Self {
        Self {
            zone: Arc::clone(asked.zone.name()),
            sums_numeric: asked.sums_numeric,
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

#[cfg(test)]
mod tests;
