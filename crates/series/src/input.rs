//! The rows that a query reads: of tables, or of another query's answer.
//!
//! Does: find tables, series, groups and columns in one snapshot, and give rows in chunks, each with its group. Does not: know
//! what becomes of them (`operators`).

mod chunk;
mod counted;
mod groups;
mod nested;
mod predicate;
mod table;
mod tags;

use std::collections::VecDeque;
use std::ops::Range;

use nilometer_engine::{Narrowing, RowWeights, SeriesId, Snapshot};

use crate::context::{Context, Step};
use crate::error::Error;
use crate::evaluate::{Name, Resolved, Slots, resolve};
use crate::query::{Expr, SeriesQuery, Source, TagExpr};
use crate::value::{Rules, Type};

pub(crate) use chunk::{Chunk, tag_column};
pub(crate) use groups::Groups;
pub(crate) use nested::Nested;
use predicate::field_predicates;
pub(crate) use table::Table;
use table::{TableReader, TableScan};

/// Runs another query for its answer.
pub(crate) type RunNested<'a> =
    &'a dyn Fn(&SeriesQuery, &Snapshot, &Context) -> Result<Nested, Error>;

/// What of its input a query needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// What tells rows of one time apart.
    pub(crate) ties: bool,
    /// The series of tables.
    pub(crate) series: bool,
    /// Groups numbered in their order.
    pub(crate) order: bool,
}

impl Needs {
    /// Series and groups, and maybe what tells rows of one time apart.
    pub(crate) fn all(ties: bool) -> Self {
        Self {
            ties,
            series: true,
            order: true,
        }
    }
}

/// Where rows come from.
#[derive(Debug)]
pub(crate) enum Input {
    Table(Table),
    Nested(Nested),
}

/// All that a query reads.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) all: Vec<Input>,
    pub(crate) groups: Groups,
    /// Columns of the chunks. The time is the first.
    pub(crate) slots: Slots,
    /// What holds for each row.
    condition: Option<Resolved>,
    condition_expr: Option<Expr>,
}

impl Inputs {
    /// Finds what a query reads. `exprs` are those that are made of its rows.
    pub(crate) fn plan(
        query: &SeriesQuery,
        exprs: &[&Expr],
        needs: Needs,
        (snapshot, context): (&Snapshot, &Context),
        run_nested: RunNested<'_>,
    ) -> Result<Self, Error> {
        let shape = query.shape();
        let mut all = match &shape.source {
            Source::Tables(tables) => {
                let mut all = Vec::with_capacity(tables.len());
                for name in tables {
                    all.push(Input::Table(Table::find(snapshot, name)?));
                }
                all
            }
            Source::Nested(nested) => {
                let nested = SeriesQuery::new((**nested).clone(), context.limits)?;
                vec![Input::Nested(run_nested(&nested, snapshot, context)?)]
            }
        };
        // A nested query takes its own time.
        let _timed = context.timed(Step::Prune);
        let names = names(shape.rows.iter().chain(exprs.iter().copied()));
        let slots = typed(names, &all, shape.rules)?;
        check_tags(&shape.group, &all, shape.rules)?;
        check_tags(&shape.tags.names(), &all, shape.rules)?;
        for input in &mut all {
            if let Input::Table(table) = input
                && needs.series
            {
                table.select(snapshot, &shape.tags, shape.rules)?;
            }
        }
        let mut groups = Groups::of(snapshot, &mut all, (shape, needs.order), context)?;
        if !query.bound.groups.is_all() && needs.series {
            groups = counted::within((snapshot, context), &mut all, groups, query)?;
        }
        if needs.ties {
            rank((snapshot, context), &mut all, groups.len(), shape.rules)?;
        }
        let condition = match &shape.rows {
            None => None,
            Some(rows) => {
                let resolved = resolve(rows, &slots, shape.rules)?;
                if let Some(kind) = resolved.kind.filter(|kind| *kind != Type::Bool) {
                    return Err(Error::WrongType {
                        operation: "the condition on rows".to_owned(),
                        types: vec![kind],
                    });
                }
                Some(resolved)
            }
        };
        Ok(Self {
            all,
            groups,
            slots,
            condition,
            condition_expr: shape.rows.clone(),
        })
    }

    /// Plans reading the rows of a range of time.
    pub(crate) fn read(
        &self,
        snapshot: &Snapshot,
        (first_ns, last_ns): (i64, i64),
        narrowing: &Narrowing,
        (limit, which): (Option<usize>, Which<'_>),
        context: &Context,
    ) -> Result<Reading, Error> {
        let _timed = context.timed(Step::Prune);
        let mut reading = Reading::default();
        if first_ns > last_ns {
            return Ok(reading);
        }
        for (number, input) in self.all.iter().enumerate() {
            let units = match input {
                Input::Table(table) => {
                    let narrowing = match (&self.condition_expr, narrowing) {
                        (Some(condition), Narrowing::None) => {
                            Narrowing::Fields(field_predicates(condition, &table.schema))
                        }
                        (_, narrowing) => narrowing.clone(),
                    };
                    let range = first_ns..=last_ns;
                    let of_groups;
                    let own = match which {
                        Which::All => None,
                        Which::Groups(groups) => {
                            of_groups = table.of_groups(groups);
                            Some(of_groups.as_slice())
                        }
                        Which::Series(all) => Some(all.get(number).map_or(&[][..], Vec::as_slice)),
                    };
                    let which = (limit, own);
                    let scan =
                        table.scan(snapshot, range, &narrowing, &self.slots, which, context)?;
                    let units = scan.morsels();
                    reading.rows_estimate += scan.rows_estimate();
                    reading.scans.push(Some(scan));
                    units
                }
                Input::Nested(nested) => {
                    reading.rows_estimate += nested.rows() as u64;
                    reading.scans.push(None);
                    nested.batches()
                }
            };
            reading.units.extend((0..units).map(|part| (number, part)));
        }
        reading.range = (first_ns, last_ns);
        Ok(reading)
    }

    /// Reads one unit, and calls `visit` with the rows that meet the condition, until it says that it has enough.
    pub(crate) fn visit(
        &self,
        reading: &Reading,
        unit: usize,
        context: &Context,
        visit: &mut dyn FnMut(Chunk) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut open = self.open(reading, unit, context)?;
        while let Some(read) = self.next(&mut open, context)? {
            if read.chunk.rows() > 0 && !visit(read.chunk)? {
                break;
            }
        }
        Ok(())
    }

    /// Begins to read one unit.
    pub(crate) fn open(
        &self,
        reading: &Reading,
        unit: usize,
        context: &Context,
    ) -> Result<Unit, Error> {
        let Some(&(number, part)) = reading.units.get(unit) else {
            return Ok(Unit::Done);
        };
        Ok(match (self.all.get(number), reading.scans.get(number)) {
            (Some(Input::Table(table)), Some(Some(scan))) => {
                let reader = table.open(scan, part, &self.slots, context)?;
                Unit::Table(number, Box::new(reader))
            }
            (Some(Input::Nested(nested)), _) => {
                match nested.rows_of(part, reading.range, &self.slots) {
                    Some(chunk) => Unit::Nested(Box::new(chunk)),
                    None => Unit::Done,
                }
            }
            _ => Unit::Done,
        })
    }

    /// The next rows of a unit; `None` = there are no more.
    pub(crate) fn next(&self, unit: &mut Unit, context: &Context) -> Result<Option<Read>, Error> {
        context.check()?;
        let mut timed = context.timed(Step::Operate);
        let chunk = match unit {
            Unit::Table(number, reader) => match self.all.get(*number) {
                Some(Input::Table(table)) => {
                    let next = || table.next(reader, &self.slots, context);
                    let read = timed.other(Step::Decode, || context.reading(next));
                    read.transpose()?.flatten()
                }
                _ => None,
            },
            Unit::Nested(_) => match std::mem::replace(unit, Unit::Done) {
                Unit::Nested(chunk) => Some(*chunk),
                _ => None,
            },
            Unit::Done => None,
        };
        let Some(chunk) = chunk else {
            *unit = Unit::Done;
            return Ok(None);
        };
        let rows = chunk.rows();
        let chunk = match &self.condition {
            Some(condition) if rows > 0 => {
                let holds = condition.holds(&chunk.columns, rows)?;
                chunk.filtered(&holds)
            }
            _ => chunk,
        };
        Ok(Some(Read { chunk, rows }))
    }

    /// The rows of all series in parts of a range of time, so that no part has more than so many rows of one series, about:
    /// `None` = no series has as many.
    pub(crate) fn portions(
        &self,
        snapshot: &Snapshot,
        (first_ns, last_ns): (i64, i64),
        rows: u64,
    ) -> Result<Option<VecDeque<Portion>>, Error> {
        let mut portions = VecDeque::new();
        let mut others: Vec<Vec<SeriesId>> = Vec::with_capacity(self.all.len());
        for (number, input) in self.all.iter().enumerate() {
            let Input::Table(table) = input else {
                others.push(Vec::new());
                continue;
            };
            let range = first_ns..=last_ns;
            let long = snapshot.long_series(&table.schema, &table.series, &range, rows)?;
            let mut rest = table.series.clone();
            for (position, weights) in long.into_iter().rev() {
                let mut series = vec![Vec::new(); self.all.len()];
                if let (Some(own), true) = (series.get_mut(number), position < rest.len()) {
                    own.push(rest.remove(position));
                }
                let mut first = first_ns;
                let cuts = weights.cuts(rows).into_iter();
                for end in cuts.filter(|end| *end < last_ns).chain([last_ns]) {
                    portions.push_back(Portion {
                        range: (first, end),
                        series: series.clone(),
                    });
                    first = end.saturating_add(1);
                }
            }
            others.push(rest);
        }
        if portions.is_empty() {
            return Ok(None);
        }
        portions.push_front(Portion {
            range: (first_ns, last_ns),
            series: others,
        });
        Ok(Some(portions))
    }

    /// How the rows of some groups are spread over a range of time; `None` = they are not those of tables.
    pub(crate) fn weights(
        &self,
        snapshot: &Snapshot,
        (first_ns, last_ns): (i64, i64),
        groups: Option<&Range<u32>>,
    ) -> Result<Option<RowWeights>, Error> {
        let Some(tables) = self.tables() else {
            return Ok(None);
        };
        let mut weights = RowWeights::default();
        for table in tables {
            let range = first_ns..=last_ns;
            weights.add(match groups {
                None => snapshot.weights(&table.schema, &table.series, &range)?,
                Some(groups) => {
                    let own = table.of_groups(groups);
                    snapshot.weights(&table.schema, &own, &range)?
                }
            });
        }
        Ok(Some(weights))
    }

    /// The one table of a query of all of its rows, if it is one.
    pub(crate) fn only_table(
        query: &SeriesQuery,
        snapshot: &Snapshot,
    ) -> Result<Option<Table>, Error> {
        let shape = query.shape();
        match &shape.source {
            Source::Tables(tables) if shape.tags == TagExpr::All && shape.rows.is_none() => {
                match tables.as_slice() {
                    [name] => Table::find(snapshot, name).map(Some),
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// A range in which all rows of another range are, whatever the condition says of them; `None` = there are none, or they
    /// are not those of tables.
    pub(crate) fn extent(
        &self,
        snapshot: &Snapshot,
        (first_ns, last_ns): (i64, i64),
    ) -> Result<Option<(i64, i64)>, Error> {
        let Some(tables) = self.tables().filter(|_| first_ns <= last_ns) else {
            return Ok(None);
        };
        let mut extent: Option<(i64, i64)> = None;
        for table in tables {
            let range = first_ns..=last_ns;
            let own = snapshot.extent(&table.schema, &table.series, &range)?;
            if let Some((first, last)) = own {
                let known = extent.unwrap_or((first, last));
                extent = Some((known.0.min(first), known.1.max(last)));
            }
        }
        Ok(extent)
    }

    /// The inputs, if all of them are tables.
    pub(crate) fn tables(&self) -> Option<Vec<&Table>> {
        self.all
            .iter()
            .map(|input| match input {
                Input::Table(table) => Some(table),
                Input::Nested(_) => None,
            })
            .collect()
    }
}

/// Which rows are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which<'a> {
    All,
    /// Those of some groups, of tables.
    Groups(&'a Range<u32>),
    /// By input: those of some series. Of an input that is no table, all.
    Series(&'a [Vec<SeriesId>]),
}

/// Some series, by input, and a range of time.
#[derive(Debug)]
pub(crate) struct Portion {
    pub(crate) range: (i64, i64),
    pub(crate) series: Vec<Vec<SeriesId>>,
}

/// A unit while it is read.
#[derive(Debug)]
pub(crate) enum Unit {
    /// Of an input, by its number.
    Table(usize, Box<TableReader>),
    Nested(Box<Chunk>),
    Done,
}

/// Rows that were read.
#[derive(Debug)]
pub(crate) struct Read {
    /// Those that meet the condition.
    pub(crate) chunk: Chunk,
    /// How many were looked at.
    pub(crate) rows: usize,
}

/// Rows that are about to be read, in units that are read each by itself.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Input, and part of it.
    units: Vec<(usize, usize)>,
    /// By input; `None` = it is there already.
    scans: Vec<Option<TableScan>>,
    range: (i64, i64),
    pub(crate) rows_estimate: u64,
}

impl Reading {
    pub(crate) fn units(&self) -> usize {
        self.units.len()
    }
}

/// Numbers the series of tables by their tags, as far as several of them are in one group: only their rows are told apart.
fn rank(
    on: (&Snapshot, &Context),
    all: &mut [Input],
    groups: usize,
    rules: Rules,
) -> Result<(), Error> {
    let mut members = vec![0_u32; groups];
    for input in &*all {
        if let Input::Table(table) = input {
            for group in &table.groups {
                if let Some(members) = members.get_mut(*group as usize) {
                    *members = members.saturating_add(1);
                }
            }
        }
    }
    for (number, input) in all.iter_mut().enumerate() {
        if let Input::Table(table) = input {
            let is_shared = |group: u32| {
                members
                    .get(group as usize)
                    .is_some_and(|members| *members > 1)
            };
            table.rank(on, number, rules, is_shared)?;
        }
    }
    Ok(())
}

/// The columns that expressions name, each once, the time first.
fn names<'a>(exprs: impl Iterator<Item = &'a Expr>) -> Vec<Name> {
    let mut names = vec![Name::Time];
    for expr in exprs {
        expr.walk(&mut |expr| {
            let name = match expr {
                Expr::Tag(tag) => Name::Tag(tag.clone()),
                Expr::Field(field) => Name::Field(field.clone()),
                _ => return,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        });
    }
    names
}

/// The columns with their types. One that no input has is an error by `Postgres`, and is null in every row by `Influx`.
fn typed(names: Vec<Name>, all: &[Input], rules: Rules) -> Result<Slots, Error> {
    let mut slots = Slots::default();
    for name in names {
        let mut kind: Option<Type> = None;
        for input in all {
            let own = input.kind(&name);
            if let (Some(one), Some(other)) = (kind, own)
                && one != other
            {
                return Err(Error::contradiction(format!(
                    "{name:?} is {one} in one of its tables and {other} in another; ask them one by one"
                )));
            }
            kind = kind.or(own);
        }
        if kind.is_none() && rules == Rules::Postgres {
            return Err(unknown(&name, all));
        }
        slots.all.push((name, kind));
    }
    Ok(slots)
}

fn check_tags(tags: &[String], all: &[Input], rules: Rules) -> Result<(), Error> {
    for tag in tags {
        let name = Name::Tag(tag.clone());
        let is_known = all.iter().any(|input| input.kind(&name).is_some());
        if !is_known && rules == Rules::Postgres {
            return Err(unknown(&name, all));
        }
    }
    Ok(())
}

fn unknown(wanted: &Name, all: &[Input]) -> Error {
    let (kind, name) = match wanted {
        Name::Time => ("time", nilometer_engine::TIME_COLUMN),
        Name::Tag(tag) => ("tag", tag.as_str()),
        Name::Field(field) => ("field", field.as_str()),
    };
    let known = all.iter().flat_map(|input| input.names(kind == "tag"));
    let sources: Vec<String> = all.iter().map(Input::name).collect();
    Error::UnknownColumn {
        kind,
        name: name.to_owned(),
        source_name: sources.join(", "),
        nearest: nilometer_engine::nearest(name, known),
    }
}

impl Input {
    /// The type of a column; `None` = it has none such.
    fn kind(&self, name: &Name) -> Option<Type> {
        match self {
            Self::Table(table) => table.kind(name),
            Self::Nested(nested) => nested.kind(name),
        }
    }

    fn names(&self, tags: bool) -> Vec<String> {
        match self {
            Self::Table(table) => table.names(tags),
            Self::Nested(nested) => nested.names(tags),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Table(table) => table.schema.name.clone(),
            Self::Nested(_) => "the nested query".to_owned(),
        }
    }
}
