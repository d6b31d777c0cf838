//! Groups of a two-step aggregate while their rows come.
//!
//! Does: hold a summary, or the rows where their order matters; sort those at the end. Does not: know which aggregate it
//! works for; that says how a row is taken in ([`Take`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryBuilder};
use datafusion::common::{DataFusionError, Result, exec_err, internal_err};
use nilometer_series::sort_asking;
use nilometer_summaries::{
    Counter, Flavour, Method, Sample, Scalar, States, Summary, TimeWeight, rows,
};

use super::super::aggregate::dense::{Dense, Rows};
use super::argument;
use super::error::wrong;
use crate::limits::scope::{self, Looks};

/// What rows in the order of time become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordered {
    Counter(Flavour),
    TimeWeight(Method),
    States {
        is_compact: bool,
    },
    /// Summaries themselves.
    Parts,
}

/// One group.
#[derive(Debug)]
pub(super) enum Group {
    Whole(Summary),
    Samples(Vec<Sample>, Option<(i64, i64)>),
    Timeline(Vec<(i64, Scalar)>, usize),
    Parts(Vec<Summary>, usize),
}

impl Group {
    fn bytes(&self) -> usize {
        let inner = match self {
            Self::Whole(summary) => summary.bytes(),
            Self::Samples(samples, _) => samples.capacity() * size_of::<Sample>(),
            Self::Timeline(rows, texts) => rows.capacity() * size_of::<(i64, Scalar)>() + texts,
            Self::Parts(parts, bytes) => parts.capacity() * size_of::<Summary>() + bytes,
        };
        size_of::<Self>() + inner
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Whole(summary) => summary.encode(),
            Self::Samples(samples, bounds) => rows::encode_samples(samples, *bounds),
            Self::Timeline(timeline, _) => rows::encode_timeline(timeline),
            Self::Parts(parts, _) => rows::encode_parts(parts),
        }
    }

    /// Takes a summary in, of which those that need an order wait.
    pub(super) fn push(parts: &mut Vec<Summary>, bytes: &mut usize, part: Summary) -> Result<()> {
        if part.begins().is_none()
            && let Some(first) = parts.first_mut()
        {
            let before = first.bytes();
            first.merge(part).map_err(wrong)?;
            *bytes = bytes.saturating_add(first.bytes()).saturating_sub(before);
            return Ok(());
        }
        *bytes += part.bytes();
        parts.push(part);
        Ok(())
    }
}

/// How an aggregate takes its rows in.
pub(super) trait Take: Send + Sync + std::fmt::Debug + 'static {
    /// What the rows become once they are in order, where that matters.
    fn ordered(&self) -> Option<Ordered>;
    /// Takes a row in, unless it does not count.
    fn take(&self, group: &mut Option<Box<Group>>, values: &[ArrayRef], row: usize) -> Result<()>;
}

/// The groups.
#[derive(Debug)]
pub(super) struct Gather {
    how: Arc<dyn Take>,
    groups: Vec<Option<Box<Group>>>,
    bytes: usize,
}

fn held(group: Option<&Group>) -> usize {
    group.map_or(0, Group::bytes)
}

impl Gather {
    pub(super) fn new(how: Arc<dyn Take>) -> Self {
        Self {
            how,
            groups: Vec::new(),
            bytes: 0,
        }
    }

    fn with(
        &mut self,
        group: usize,
        work: impl FnOnce(&dyn Take, &mut Option<Box<Group>>) -> Result<()>,
    ) -> Result<()> {
        let Some(group) = self.groups.get_mut(group) else {
            return internal_err!("a group that nobody made room for");
        };
        let before = held(group.as_deref());
        let done = work(self.how.as_ref(), group);
        self.bytes = (self.bytes + held(group.as_deref())).saturating_sub(before);
        done
    }

    fn finished(&self, group: &Group) -> Result<Option<Summary>> {
        match (self.how.ordered(), group) {
            (_, Group::Whole(summary)) => Ok(Some(summary.clone())),
            (Some(Ordered::Counter(flavour)), Group::Samples(samples, bounds)) => {
                let counter = fold(
                    in_order(samples, |sample| sample.time)?,
                    |sample| Ok(Counter::new(flavour, sample)),
                    |counter, sample| {
                        counter.add(sample);
                        Ok(())
                    },
                )?;
                let counter = match (counter, bounds) {
                    (Some(counter), Some((from, to))) => {
                        Some(counter.with_bounds(*from, *to).map_err(wrong)?)
                    }
                    (counter, _) => counter,
                };
                Ok(counter.map(|counter| Summary::Counter(Box::new(counter))))
            }
            (Some(Ordered::TimeWeight(method)), Group::Samples(samples, _)) => {
                let weighted = fold(
                    in_order(samples, |sample| sample.time)?,
                    |sample| Ok(TimeWeight::new(method, sample)),
                    |weighted, sample| {
                        weighted.add(sample);
                        Ok(())
                    },
                )?;
                Ok(weighted.map(Summary::TimeWeight))
            }
            (Some(Ordered::States { is_compact }), Group::Timeline(rows, _)) => {
                let states = fold(
                    in_order(rows, |(time, _)| *time)?,
                    |(time, state)| Ok(States::new(is_compact, time, state)),
                    |states, (time, state)| states.add(time, &state).map_err(wrong),
                )?;
                Ok(states.map(|states| Summary::States(Box::new(states))))
            }
            (Some(Ordered::Parts), Group::Parts(parts, _)) => fold(
                in_order(parts, |part| part.begins().unwrap_or(i64::MIN))?,
                Ok,
                |whole: &mut Summary, part| whole.merge(part).map_err(wrong),
            ),
            _ => internal_err!("a group of another aggregate"),
        }
    }

    fn column(
        &self,
        groups: usize,
        of: impl Fn(&Group) -> Result<Option<Vec<u8>>>,
    ) -> Result<ArrayRef> {
        let mut column = BinaryBuilder::new();
        let mut bytes = 0usize;
        for group in self.groups.iter().take(groups) {
            scope::check()?;
            let made = match group {
                Some(group) => of(group)?,
                None => None,
            };
            bytes += made.as_ref().map_or(0, Vec::len);
            if i32::try_from(bytes).is_err() {
                return exec_err!(
                    "the summaries of {groups} groups are more than 2 GiB; group by less, or make smaller summaries"
                );
            }
            column.append_option(made);
        }
        Ok(Arc::new(column.finish()))
    }
}

/// Rows in the order of their times; of rows at one time the first that came is the first.
fn in_order<T: Clone>(rows: &[T], time: impl Fn(&T) -> i64) -> Result<Vec<T>> {
    let mut looks = Looks::default();
    let mut is_sorted = true;
    for (one, other) in rows.iter().zip(rows.iter().skip(1)) {
        looks.rows(1)?;
        is_sorted &= time(one) <= time(other);
    }
    if is_sorted {
        return Ok(rows.to_vec());
    }
    sort_asking(rows.to_vec(), &scope::check, |one: &T, other| {
        time(one).cmp(&time(other))
    })
}

fn fold<R, T>(
    rows: Vec<R>,
    begin: impl FnOnce(R) -> Result<T>,
    add: impl Fn(&mut T, R) -> Result<()>,
) -> Result<Option<T>> {
    let mut rows = rows.into_iter();
    let Some(first) = rows.next() else {
        return Ok(None);
    };
    let mut whole = begin(first)?;
    let mut looks = Looks::default();
    for row in rows {
        looks.rows(1)?;
        add(&mut whole, row)?;
    }
    Ok(Some(whole))
}

/// Takes in what another worker gathered.
fn absorb(how: &dyn Take, group: &mut Option<Box<Group>>, bytes: &[u8]) -> Result<()> {
    let theirs = match how.ordered() {
        None => Group::Whole(Summary::decode(bytes).map_err(wrong)?),
        Some(Ordered::Counter(_) | Ordered::TimeWeight(_)) => {
            let (samples, bounds) = rows::decode_samples(bytes).map_err(wrong)?;
            Group::Samples(samples, bounds)
        }
        Some(Ordered::States { .. }) => {
            let timeline = rows::decode_timeline(bytes).map_err(wrong)?;
            let texts = timeline.iter().map(|(_, state)| state.bytes()).sum();
            Group::Timeline(timeline, texts)
        }
        Some(Ordered::Parts) => {
            let parts = rows::decode_parts(bytes).map_err(wrong)?;
            let bytes = parts.iter().map(Summary::bytes).sum();
            Group::Parts(parts, bytes)
        }
    };
    match (group.as_deref_mut(), theirs) {
        (None, theirs) => *group = Some(Box::new(theirs)),
        (Some(Group::Whole(ours)), Group::Whole(theirs)) => ours.merge(theirs).map_err(wrong)?,
        (Some(Group::Samples(ours, bounds)), Group::Samples(theirs, more)) => {
            ours.extend(theirs);
            *bounds = bounds.or(more);
        }
        (Some(Group::Timeline(ours, texts)), Group::Timeline(theirs, more)) => {
            ours.extend(theirs);
            *texts += more;
        }
        (Some(Group::Parts(ours, held)), Group::Parts(theirs, _)) => {
            for part in theirs {
                Group::push(ours, held, part)?;
            }
        }
        _ => return internal_err!("a group of another aggregate"),
    }
    Ok(())
}

impl Dense for Gather {
    fn grow(&mut self, groups: usize) -> Result<()> {
        let groups = groups.max(self.groups.len());
        if groups > self.groups.capacity() {
            let bytes = groups.saturating_mul(size_of::<Option<Box<Group>>>());
            let taken = scope::reserve(bytes);
            taken.map_err(|over| DataFusionError::External(Box::new(over)))?;
        }
        self.groups.resize_with(groups, || None);
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let count = values.first().map_or(0, Array::len);
        for row in 0..count {
            if let Some(group) = rows.group(row) {
                self.with(group, |how, group| how.take(group, values, row))?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let Some(state) = state.first() else {
            return internal_err!("the state of a summary has one column");
        };
        for row in 0..state.len() {
            scope::check()?;
            if let (Some(bytes), Some(group)) = (argument::bytes(state, row), rows.group(row)) {
                self.with(group, |how, group| absorb(how, group, bytes))?;
            }
        }
        Ok(())
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        self.column(groups, |group| {
            let summary = self.finished(group)?;
            Ok(summary.map(|summary| summary.encode()))
        })
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.column(groups, |group| Ok(Some(group.encode())))?])
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let groups = values.first().map_or(0, Array::len);
        let mut each = Self::new(Arc::clone(&self.how));
        each.grow(groups)?;
        let own: Vec<usize> = (0..groups).collect();
        each.update(values, rows.by(&own))?;
        each.state(groups)
    }

    fn forget(&mut self, groups: usize) {
        for group in self.groups.drain(..groups.min(self.groups.len())) {
            self.bytes = self.bytes.saturating_sub(held(group.as_deref()));
        }
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn bytes(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Option<Box<Group>>>()
    }
}
