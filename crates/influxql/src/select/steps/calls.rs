//! Calls worked out: the points of each, by group, with filled buckets.
//!
//! Does: find the innermost aggregates, ask the engine for those that it knows, make the others of rows, fill, transform.
//! Does not: join calls (`query`).

use nilometer_influxql_syntax::ast::{Call, Cast, Expr, Fill, Reference};
use rustc_hash::FxHashMap;

use crate::select::checked::condition::TIME_MIN;
use crate::select::error::Error;
use crate::select::functions::forecast::holt_winters;
use crate::select::functions::reduce::{reduce, top};
use crate::select::functions::transform::{Around, integral, transform};
use crate::select::functions::{is_technical, is_transform, technical};
use crate::select::planned::plan::{Input, Plan};
use crate::select::planned::types::kind_of;
use crate::select::run::Run;
use crate::select::steps::choices::is_choice;
use crate::select::steps::fill::Filling;
use crate::select::steps::frame::{Frame, wanted};
use crate::select::steps::stored::{Leaf, Source, field_of};
use crate::select::steps::symbols::Symbols;
use crate::select::steps::view::View;
use crate::select::values::points::{Point, Points};
use crate::select::values::rows::{Rows, Sets};
use crate::select::values::value::Value;

/// What the calls of a statement share.
struct Calls<'a> {
    run: &'a Run<'a>,
    plan: &'a Plan,
    frame: &'a Frame,
    aux: &'a [Reference],
    selector: bool,
    /// All fields that calls are of, and the references beside them.
    names: Vec<Reference>,
    /// Points of the engine, by the call's text and the range.
    known: FxHashMap<(String, i64, i64), Points>,
    /// Rows of a range.
    rows: FxHashMap<(i64, i64), Rows>,
}

impl Run<'_> {
    pub(crate) fn calls(
        &self,
        plan: &Plan,
        frame: &Frame,
        symbols: &Symbols,
        (aux, selector): (&[Reference], bool),
        sets: &mut Sets,
    ) -> Result<Vec<Points>, Error> {
        let mut names: Vec<Reference> = aux.to_vec();
        for (_, call) in &symbols.calls {
            if let Some(field) = innermost(call)
                && !names.contains(field)
            {
                names.push(field.clone());
            }
        }
        let mut calls = Calls {
            run: self,
            plan,
            frame,
            aux,
            selector,
            names,
            known: FxHashMap::default(),
            rows: FxHashMap::default(),
        };
        calls.ask(symbols, sets)?;
        symbols
            .calls
            .iter()
            .map(|(_, call)| calls.points(call, calls.range(), sets))
            .collect()
    }
}

/// The field that the innermost call is of.
fn innermost(call: &Call) -> Option<&Reference> {
    match call.arguments.first()? {
        Expr::Reference(reference) => Some(reference),
        Expr::Call(inner) => innermost(inner),
        _ => None,
    }
}

type Range = (i64, i64);

impl<'a> Calls<'a> {
    fn range(&self) -> Range {
        (self.frame.first_ns, self.frame.last_ns)
    }

    /// The range that the argument of a transformation needs: a bucket more, as far as the statement reads.
    fn widened(&self, (first, last): Range) -> Range {
        let (from, to) = self.frame.bounds;
        match self.frame.window {
            Some(window) if self.plan.ascending && first != TIME_MIN => {
                (first.saturating_sub(window.width).max(from), last)
            }
            Some(window) if !self.plan.ascending => {
                (first, last.saturating_add(window.width).min(to))
            }
            _ => (first, last),
        }
    }

    fn extended(&self, call: &Call, range: Range) -> Range {
        let same = matches!(
            call.name.as_str(),
            "cumulative_sum" | "count_hll" | "holt_winters" | "holt_winters_with_fit"
        );
        if same { range } else { self.widened(range) }
    }

    fn leaf<'c>(&'c self, call: &'c Call) -> Option<Leaf<'c>> {
        let own_time = self.selector && self.frame.window.is_none();
        Some(Leaf {
            call,
            field: field_of(call)?,
            own_time,
            aux: self.aux,
        })
    }

    /// The innermost aggregates of a call, with the range that they need.
    fn leaves<'c>(&self, call: &'c Call, range: Range, out: &mut Vec<(&'c Call, Range)>) {
        match call.arguments.first() {
            Some(Expr::Call(inner)) if is_transform(&call.name) => {
                self.leaves(inner, self.extended(call, range), out);
            }
            Some(Expr::Call(inner)) if call.name == "count" => self.leaves(inner, range, out),
            Some(Expr::Reference(_)) if !is_transform(&call.name) => out.push((call, range)),
            _ => {}
        }
    }

    /// Where calls get their values from, as far as the engine can be asked: measurements, or a query inside.
    fn sources<'v>(&self, view: Option<&'v View<'a>>) -> Option<Vec<Source<'v>>>
    where
        'a: 'v,
    {
        if let Some(view) = view {
            return Some(vec![Source::View(view)]);
        }
        let inputs = self.plan.inputs.iter();
        inputs
            .map(|input| match input {
                Input::Table(table) => Some(Source::Table(table)),
                Input::Nested(_) => None,
            })
            .collect()
    }

    /// Asks the engine for what it knows: one question for all calls of one range.
    fn ask(&mut self, symbols: &Symbols, sets: &mut Sets) -> Result<(), Error> {
        let view = View::within(self.run, self.plan, self.frame);
        let view = view.filter(|view| !view.is_divided(self.frame));
        let Some(sources) = self.sources(view.as_ref()) else {
            return Ok(());
        };
        let mut leaves = Vec::new();
        for (_, call) in &symbols.calls {
            self.leaves(call, self.range(), &mut leaves);
        }
        let asked = leaves.len();
        let window = self.frame.window;
        let known = |calls: &Self, call: &Call| {
            let Some(leaf) = calls.leaf(call) else {
                return false;
            };
            if calls.is_limited(call) {
                return false;
            }
            sources
                .iter()
                .all(|source| !source.has(leaf.field) || source.answers(leaf, window))
        };
        leaves.retain(|(call, _)| known(self, call));
        // Rows of a query inside that are made for one call are there for all; in another range they are others.
        let is_whole = |(_, range): &(&Call, Range)| *range == self.range();
        if view.is_some() && !(leaves.len() == asked && leaves.iter().all(is_whole)) {
            return Ok(());
        }
        // Of one call in one group no more buckets are shown than LIMIT says, and filled ones are in between.
        let is_first = self.plan.limit > 0
            && symbols.calls.len() == 1
            && symbols.calls.iter().all(|(_, call)| {
                !is_transform(&call.name)
                    && matches!(call.arguments.first(), Some(Expr::Reference(_)))
            })
            && window.is_some()
            && matches!(sources.as_slice(), [Source::Table(_)])
            && self.frame.group.is_empty()
            && self.frame.series == (0, 0);
        let first = is_first.then(|| self.plan.limit.saturating_add(self.plan.offset));
        let mut ranges: Vec<Range> = leaves.iter().map(|(_, range)| *range).collect();
        ranges.sort_unstable();
        ranges.dedup();
        for range in ranges {
            let own = leaves
                .iter()
                .filter(|(_, own)| *own == range)
                .map(|(call, _)| *call);
            let mut own: Vec<&Call> = own.collect();
            let mut seen = Vec::new();
            own.retain(|call| {
                let text = call.to_string();
                let is_new = !seen.contains(&text);
                seen.push(text);
                is_new
            });
            // Each choice is a question of its own, the aggregates together are one.
            let (choices, own): (Vec<&Call>, Vec<&Call>) =
                own.into_iter().partition(|call| is_choice(&call.name));
            let questions = choices.into_iter().map(|call| (vec![call], None));
            for (own, first) in questions.chain([(own, first)]) {
                let Some(found) = self.asked(&sources, &own, (range, first), sets)? else {
                    // The condition has to be looked at row by row.
                    return Ok(());
                };
                for (call, points) in own.iter().zip(found) {
                    self.known
                        .insert((call.to_string(), range.0, range.1), points);
                }
            }
        }
        Ok(())
    }

    /// The points of several calls of one range, of all measurements; `None` = the engine cannot be asked.
    fn asked(
        &self,
        sources: &[Source<'_>],
        calls: &[&Call],
        (range, first): (Range, Option<u64>),
        sets: &mut Sets,
    ) -> Result<Option<Vec<Points>>, Error> {
        let mut found = vec![Points::default(); calls.len()];
        for source in sources {
            let leaves = calls.iter().enumerate().filter_map(|(place, call)| {
                let leaf = self.leaf(call)?;
                source.has(leaf.field).then_some((place, leaf))
            });
            let (places, asked): (Vec<usize>, Vec<Leaf<'_>>) = leaves.unzip();
            if asked.is_empty() {
                continue;
            }
            let mut wanted = wanted(self.plan, self.frame);
            (wanted.first_ns, wanted.last_ns) = range;
            let mut ask = |first| {
                let buckets = (self.frame.window, first);
                self.run.stored(*source, &asked, wanted, buckets, sets)
            };
            let mut points = ask(first)?;
            let found_few = points.iter().flatten().any(|points| {
                let found = points.groups.iter().map(|(_, points)| points.len() as u64);
                first.is_some_and(|first| found.sum::<u64>() < first)
            });
            if found_few {
                // Buckets without a value of the field, or no more buckets.
                points = ask(None)?;
            }
            let Some(points) = points else {
                return Ok(None);
            };
            let chosen = self.run.chosen(self.plan, self.frame, source.table())?;
            for (place, mut points) in places.iter().zip(points) {
                if let Some(chosen) = &chosen {
                    points
                        .groups
                        .retain(|(set, _)| chosen.contains(&**sets.key(*set)));
                }
                if let Some(found) = found.get_mut(*place) {
                    found.groups.extend(points.groups);
                }
            }
        }
        Ok(Some(found))
    }

    /// The points of a field or tag, in their order.
    fn field(&mut self, field: &Reference, range: Range, sets: &mut Sets) -> Result<Points, Error> {
        if !self.rows.contains_key(&range) {
            let frame = Frame {
                first_ns: range.0,
                last_ns: range.1,
                ..self.frame.clone()
            };
            let rows = self.run.gathered(self.plan, &frame, &self.names, None)?;
            self.rows.insert(range, rows);
        }
        let place = self.names.iter().position(|name| name == field);
        let (Some(rows), Some(place)) = (self.rows.get(&range), place) else {
            return Ok(Points::default());
        };
        let aux = self
            .aux
            .iter()
            .map(|name| self.names.iter().position(|known| known == name));
        let aux: Vec<usize> = aux.map(|place| place.unwrap_or(usize::MAX)).collect();
        // A point for each row, about.
        let width = size_of::<Point>() + aux.len() * size_of::<Value>();
        self.run.charge(rows.len() * width)?;
        Ok(Points::of_column(
            rows,
            place,
            &aux,
            sets,
            &self.frame.group,
        ))
    }

    fn points(&mut self, call: &Call, range: Range, sets: &mut Sets) -> Result<Points, Error> {
        let around = Around {
            window: self.frame.window,
            ascending: self.plan.ascending,
        };
        if is_transform(&call.name) {
            let inner = self.extended(call, range);
            let points = match call.arguments.first() {
                Some(Expr::Call(argument)) => self.points(argument, inner, sets)?,
                Some(Expr::Reference(field)) => self.field(field, inner, sets)?,
                _ => Points::default(),
            };
            check_type(call, &points)?;
            let present = |points: Vec<Point>| -> Vec<Point> {
                points
                    .into_iter()
                    .filter(|point| !point.value.is_null())
                    .collect()
            };
            if call.name.starts_with("holt") {
                let width = self.frame.window.map_or(1, |window| window.width);
                let ended = || self.run.context.check().is_err();
                return Ok(points.map(|points| holt_winters(call, &present(points), width, &ended)));
            }
            if is_technical(&call.name) {
                return Ok(points.map(|points| technical::technical(call, &present(points))));
            }
            return Ok(points.map(|points| transform(call, present(points), around)));
        }
        match (call.name.as_str(), call.arguments.first()) {
            ("count", Some(Expr::Call(inner))) => {
                let points = self.points(inner, range, sets)?;
                Ok(self.finished(call, range, self.reduced(call, points, range))?)
            }
            ("integral", Some(Expr::Reference(field))) => {
                let points = self.field(field, range, sets)?;
                check_type(call, &points)?;
                let whole = match range {
                    (TIME_MIN, _) if self.plan.ascending => 0,
                    (first, _) if self.plan.ascending => first,
                    (_, last) => last.saturating_add(1),
                };
                Ok(points.map(|points| integral(call, &points, whole, around)))
            }
            ("top" | "bottom", Some(Expr::Reference(field))) => {
                let key = (call.to_string(), range.0, range.1);
                if let Some(points) = self.known.get(&key) {
                    return Ok(points.clone());
                }
                let mut points = self.field(field, range, sets)?;
                check_type(call, &points)?;
                if self.is_limited(call) {
                    points = points.map(|points| self.limited(points));
                }
                Ok(self.top(call, points))
            }
            ("sample", Some(Expr::Reference(field))) => {
                let points = self.field(field, range, sets)?;
                let size = size_of_sample(call);
                let mut chance = (self.run.now_ns as u64) | 1;
                Ok(self.windows(points, |points| sample(points, size, &mut chance)))
            }
            (_, Some(Expr::Reference(field))) => {
                let key = (call.to_string(), range.0, range.1);
                let points = if let Some(points) = self.known.get(&key) {
                    points.clone()
                } else {
                    let points = self.field(field, range, sets)?;
                    check_type(call, &points)?;
                    self.reduced(call, points, range)
                };
                self.finished(call, range, points)
            }
            _ => Ok(Points::default()),
        }
    }

    /// The points of each bucket after a step.
    fn windows(&self, points: Points, mut step: impl FnMut(Vec<Point>) -> Vec<Point>) -> Points {
        let window = self.frame.window;
        points.map(|points| {
            let Some(window) = window else {
                return step(points);
            };
            let mut out = Vec::new();
            let mut own: Vec<Point> = Vec::new();
            // As InfluxDB reads: the first point opens a bucket, which has all times up to its end. Where clocks are set back,
            // some of these would open a bucket of their own.
            let mut around: Option<(i64, i64)> = None;
            for point in points {
                let time = point.time;
                if around.is_none_or(|(start, end)| time < start || time >= end) {
                    out.extend(step(std::mem::take(&mut own)));
                    around = Some((window.start(time), window.end(time)));
                }
                own.push(point);
            }
            out.extend(step(own));
            out
        })
    }

    fn reduced(&self, call: &Call, points: Points, range: Range) -> Points {
        let parameter = match call.arguments.get(1) {
            Some(Expr::Float(value)) => *value,
            Some(Expr::Integer(value)) => *value as f64,
            _ => 0.0,
        };
        let start = if range.0 == TIME_MIN { 0 } else { range.0 };
        let window = self.frame.window;
        self.windows(points, |points| {
            let Some(first) = points.first() else {
                return points;
            };
            let Some(window) = window else {
                return reduce(&call.name, parameter, points, start);
            };
            let start = window.start(first.time);
            let mut found = reduce(&call.name, parameter, points, start);
            for point in &mut found {
                point.time = start;
            }
            found
        })
    }

    /// Whether InfluxDB hands LIMIT and OFFSET down to what is read of measurements, and counts them again in the answer.
    fn is_limited(&self, call: &Call) -> bool {
        matches!(call.name.as_str(), "top" | "bottom")
            && call.arguments.len() == 2
            && self.plan.reads_tables()
            && (self.plan.limit > 0 || self.plan.offset > 0)
    }

    /// The points of a group that InfluxDB reads for LIMIT and OFFSET: one more than both.
    fn limited(&self, mut points: Vec<Point>) -> Vec<Point> {
        let (limit, offset) = (self.plan.limit, self.plan.offset);
        let count = limit.saturating_add(offset).saturating_add(1);
        points.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        points
    }

    fn top(&self, call: &Call, points: Points) -> Points {
        let count = match call.arguments.last() {
            Some(Expr::Integer(count)) => usize::try_from(*count).unwrap_or(usize::MAX),
            _ => 1,
        };
        let tags = call
            .arguments
            .iter()
            .skip(1)
            .filter_map(|argument| match argument {
                Expr::Reference(reference) => self.aux.iter().position(|name| name == reference),
                _ => None,
            });
        let tags: Vec<usize> = tags.collect();
        let greatest = call.name == "top";
        self.windows(points, |points| {
            if tags.is_empty() {
                return top(points, count, greatest);
            }
            // The greatest of each combination of the tags first.
            let mut best: Vec<(Vec<String>, Vec<Point>)> = Vec::new();
            for point in points {
                let key: Vec<String> = tags
                    .iter()
                    .map(|tag| format!("{:?}", point.aux.get(*tag)))
                    .collect();
                match best.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, own)) => own.push(point),
                    None => best.push((key, vec![point])),
                }
            }
            let name = if greatest { "max" } else { "min" };
            let best = best
                .into_iter()
                .flat_map(|(_, own)| reduce(name, 0.0, own, 0))
                .collect();
            top(best, count, greatest)
        })
    }

    /// Times of buckets, and buckets without points.
    fn finished(&self, call: &Call, range: Range, points: Points) -> Result<Points, Error> {
        let Some(window) = self.frame.window else {
            if self.selector {
                return Ok(points);
            }
            let start = if range.0 == TIME_MIN { 0 } else { range.0 };
            return Ok(points.map(|mut points| {
                for point in &mut points {
                    point.time = start;
                }
                points
            }));
        };
        let points = points.map(|mut points| {
            for point in &mut points {
                let start = window.start(point.time);
                point.time = if start == TIME_MIN { 0 } else { start };
            }
            points
        });
        if self.frame.fill == Fill::None || call.name == "distinct" {
            return Ok(points);
        }
        let filling = Filling {
            fill: self.frame.fill,
            window,
            first_ns: range.0,
            last_ns: range.1,
            ascending: self.plan.ascending,
        };
        let first = points
            .groups
            .iter()
            .filter_map(|(_, points)| points.iter().map(|point| point.time).min());
        let earliest = first.min().unwrap_or(range.1);
        let buckets = Filling {
            first_ns: range.0.max(earliest.min(range.1)),
            ..filling
        }
        .buckets();
        let buckets = filling.buckets().or(buckets).unwrap_or_default();
        let all = buckets.saturating_mul(points.groups.len() as u64);
        if all > self.run.context.limits.buckets {
            let buckets_max = self.run.context.limits.buckets;
            return Err(Error::TooManyBuckets {
                buckets: all,
                buckets_max,
            });
        }
        let kind = kind_of(&Expr::Call(call.clone()));
        Ok(points.map(|points| filling.filled(points, &call.name, kind)))
    }
}

fn size_of_sample(call: &Call) -> usize {
    match call.arguments.get(1) {
        Some(Expr::Integer(size)) => usize::try_from(*size).unwrap_or(usize::MAX),
        _ => 0,
    }
}

/// Some of the points by chance, each with the same; in the order of their times.
fn sample(points: Vec<Point>, size: usize, chance: &mut u64) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    for (place, point) in points.into_iter().enumerate() {
        if kept.len() < size {
            kept.push(point);
            continue;
        }
        // Marsaglia's xorshift: nothing hangs on these numbers.
        *chance ^= *chance << 13;
        *chance ^= *chance >> 7;
        *chance ^= *chance << 17;
        let other = usize::try_from(*chance % (place as u64 + 1)).unwrap_or_default();
        if let Some(slot) = kept.get_mut(other) {
            *slot = point;
        }
    }
    kept.sort_by_key(|point| point.time);
    kept
}

/// Refuses calls of types that they do not know, as `InfluxDB` does: by the name that the step has there, and that of what it
/// reads from.
fn check_type(call: &Call, points: &Points) -> Result<(), Error> {
    let mut all = points.groups.iter().flat_map(|(_, points)| points);
    let first = all.find(|point| !point.value.is_null());
    let (kind, capital) = match first.map(|point| &point.value) {
        Some(Value::Text(_)) => ("string", "String"),
        Some(Value::Boolean(_)) => ("boolean", "Boolean"),
        _ => return Ok(()),
    };
    let takes = match call.name.as_str() {
        "count" | "first" | "last" | "mode" | "distinct" | "sample" | "sum_hll" | "count_hll"
        | "elapsed" => true,
        "min" | "max" => kind == "boolean",
        _ => false,
    };
    if takes || innermost(call).is_some_and(|field| field.cast == Some(Cast::Tag)) {
        return Ok(());
    }
    let name = match call.name.as_str() {
        "non_negative_derivative" => "derivative",
        "non_negative_difference" => "difference",
        "holt_winters" | "holt_winters_with_fit" => "elapsed",
        "top" if call.arguments.len() > 2 => "max",
        "bottom" if call.arguments.len() > 2 => "min",
        name => name,
    };
    let name = name.replace('_', " ");
    let inner = match call.arguments.first() {
        Some(Expr::Call(inner)) => inner.name.as_str(),
        _ => "",
    };
    let reads = match inner {
        "distinct" => "Interval".to_owned(),
        "sample" => format!("Reduce{capital}"),
        _ => "Interrupt".to_owned(),
    };
    Err(Error::refused(format!(
        "unsupported {name} iterator type: *query.{kind}{reads}Iterator"
    )))
}
