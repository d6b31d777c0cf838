//! A query inside as columns of a series query: what stands in each of its rows as an expression, and no row of it made.
//!
//! Does: translate calculations, aggregates in buckets, differences and conditions, level by level, so that the query around
//! them is one question to the series' engine. Does not: ask it (`stored`, `stream`, `query`), or translate conditions of a
//! measurement (`planned::pushed`).

use nilometer_influxql_syntax::ast::{Call, Expr, Fill, Reference};
use nilometer_series::{self as series, Aggregate, Binary, Column, Function, Rules, Shape, Unary};

use crate::select::checked::condition::{TIME_MAX, TIME_MIN};
use crate::select::functions::{is_selector, is_transform};
use crate::select::planned::plan::{Input, Plan, Table};
use crate::select::planned::pushed::{is_flat, is_tag};
use crate::select::planned::types::kind_of_cast;
use crate::select::run::Run;
use crate::select::steps::calculation::{Named, field, holds, number};
use crate::select::steps::frame::{Frame, wanted};
use crate::select::steps::read::{column_name, stored};
use crate::select::steps::stored::{Leaf, bucket, field_of, is_stored};
use crate::select::steps::symbols::Symbols;
use crate::select::values::value::Kind;

/// The rows of a query inside, as a question around them asks for them.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    /// The measurement that all rows are of.
    pub(crate) table: &'a Table,
    /// Where they are, of which time and which series, and the condition on them. It has no columns and no groups.
    base: Shape,
    /// Tags that its rows have: `None` = all of the measurement.
    group: Vec<String>,
    columns: Vec<ViewColumn>,
    /// What has to hold for a row to be there, where it matters whether there is one without any value.
    exists: Option<series::Expr>,
    /// Rows of several groups that are one around it come in the order of their times.
    is_merged: bool,
    /// Each row is one of the measurement.
    is_raw: bool,
}

#[derive(Debug, Clone)]
struct ViewColumn {
    name: String,
    expr: series::Expr,
    kind: Kind,
    /// No value of it is -0, of which InfluxDB keeps whichever zero comes first.
    is_plus: bool,
}

/// What a translation needs to know of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    pub(crate) now_ns: i64,
    pub(crate) buckets_max: u64,
}

impl<'a> View<'a> {
    /// The rows of the query inside of a plan as columns of a run; `None` = they have to be made.
    pub(crate) fn within(run: &Run<'_>, plan: &'a Plan, frame: &Frame) -> Option<Self> {
        let given = Given {
            now_ns: run.now_ns,
            buckets_max: run.context.limits.buckets,
        };
        let is_asked = run.has_columns();
        is_asked.then(|| Self::inside(plan, frame, given)).flatten()
    }

    /// The rows of the query inside of a plan that meet its condition; `None` = they have to be made.
    pub(crate) fn inside(plan: &'a Plan, frame: &Frame, given: Given) -> Option<Self> {
        let [Input::Nested(inner)] = plan.inputs.as_slice() else {
            return None;
        };
        let own = frame.inner(inner, given.now_ns);
        let is_whole = own.series == (0, 0) && frame.series == (0, 0);
        if !is_whole || plan.ascending != inner.ascending {
            return None;
        }
        let mut view = Self::of(inner, &own, given)?;
        if let Some(condition) = &plan.condition {
            let column = |named: Named<'_>| view.named(named);
            // What is selected inside is a column, also if it is a tag, of which nothing holds where it is absent.
            let is_column = |name: &Reference| {
                let mut outputs = inner.outputs.iter();
                outputs.any(|output| *output.name == *name.name)
            };
            let tag = |name: &Reference| view.tag(name).filter(|_| !is_column(name));
            let condition = holds(condition, &column, &tag)?;
            let rows = both(view.base.rows.take(), Some(condition));
            view.base.rows = Some(rows.filter(is_flat)?);
        }
        Some(view)
    }

    /// The rows of a plan's answer.
    fn of(plan: &'a Plan, frame: &Frame, given: Given) -> Option<Self> {
        if plan.limit > 0 || plan.offset > 0 || plan.zone.is_some() {
            return None;
        }
        let symbols = Symbols::of(plan);
        let Some((_, first)) = symbols.calls.first() else {
            return Self::of_rows(plan, frame, &symbols, given);
        };
        // Columns beside calls are those of chosen rows.
        if !symbols.references.is_empty() {
            return None;
        }
        if is_transform(&first.name) {
            Self::of_steps(plan, frame, &symbols, given)
        } else {
            Self::of_buckets(plan, frame, &symbols, given)
        }
    }

    /// Where the rows are that a plan makes its own of.
    fn source(plan: &'a Plan, frame: &Frame, given: Given) -> Option<Self> {
        let [Input::Table(table)] = plan.inputs.as_slice() else {
            return Self::inside(plan, frame, given);
        };
        if frame.series != (0, 0) {
            return None;
        }
        let (mut base, rest) = wanted(plan, frame).shape(table);
        base.group = Vec::new();
        base.order = Shape::of(Rules::Influx, base.source.clone()).order;
        rest.is_empty().then_some(Self {
            table,
            base,
            group: frame.group.clone(),
            columns: Vec::new(),
            exists: None,
            is_merged: false,
            is_raw: true,
        })
    }

    fn is_table(&self) -> bool {
        matches!(self.base.source, series::Source::Tables(_))
    }

    /// Rows that are calculated each by itself.
    fn of_rows(plan: &'a Plan, frame: &Frame, symbols: &Symbols, given: Given) -> Option<Self> {
        let is_plain = matches!(plan.fill, Fill::Null | Fill::None) && plan.window.is_none();
        if !is_plain || !plan.is_raw {
            return None;
        }
        let mut view = Self::source(plan, frame, given)?;
        if view.is_table() {
            let fields = symbols.references.iter();
            let fields = fields.filter(|name| !is_tag(name, view.table));
            let present = fields.filter_map(|name| stored(name, view.table).map(is_some));
            view.exists = Some(series::Expr::joined(Binary::Or, present)?);
        }
        let columns = plan.outputs.iter().filter_map(|output| {
            // Of constants alone there is a value only in rows that have another one.
            let mut has_field = false;
            let mut look = |expr: &Expr| has_field |= matches!(expr, Expr::Reference(_));
            output.expr.walk(&mut look);
            let named = |named: Named<'_>| match named {
                Named::Reference(name) if view.is_table() => field(name, view.table),
                named => view.named(named),
            };
            let (expr, kind) = number(&output.expr, &named).filter(|_| has_field)?;
            let of = match &output.expr {
                Expr::Reference(name) => view.column_of(name),
                _ => None,
            };
            let is_plus = of.is_some_and(|of| of.is_plus);
            Some(ViewColumn::shown(&output.name, (expr, kind), is_plus))
        });
        view.columns = columns.collect();
        view.group.clone_from(&frame.group);
        Some(view)
    }

    /// What stands between each row and the one before it: `difference` and `elapsed` of one column.
    fn of_steps(plan: &'a Plan, frame: &Frame, symbols: &Symbols, given: Given) -> Option<Self> {
        let is_plain = matches!(plan.fill, Fill::Null | Fill::None) && plan.ascending;
        if frame.window.is_some() || !is_plain {
            return None;
        }
        let mut view = Self::source(plan, frame, given)?;
        // Rows of several groups inside come one after the other, and of a measurement several may be of one time.
        if view.is_raw || view.group != frame.group {
            return None;
        }
        let of = one_field(symbols)?;
        let (value, kind) = view.named(Named::Reference(of))?;
        let steps = symbols.calls.iter().map(|(text, call)| {
            let step = step(call, &value, kind)?;
            Some((text.as_str(), step))
        });
        let steps: Vec<_> = steps.collect::<Option<_>>()?;
        let named = |named: Named<'_>| named.among(&steps);
        let outputs = plan.outputs.iter();
        let columns = outputs.map(|output| {
            let shown = number(&output.expr, &named)?;
            Some(ViewColumn::shown(&output.name, shown, false))
        });
        let columns: Vec<ViewColumn> = columns.collect::<Option<_>>()?;
        // The value of the row before: there is none in the first row, which has no step.
        let before = series::Expr::Neighbour(series::Transform::Previous, Box::new(value.clone()));
        view.base.rows = both(view.base.rows.take(), Some(is_some(value)));
        Some(view.around(columns, vec![before], None, frame))
    }

    /// Aggregates of one value in each group and bucket, and what is calculated of them.
    fn of_buckets(plan: &'a Plan, frame: &Frame, symbols: &Symbols, given: Given) -> Option<Self> {
        let zoned = frame.window.is_some_and(|window| window.zone.is_some());
        let is_chosen = frame.window.is_none()
            && matches!(symbols.calls.as_slice(), [(_, call)] if is_selector(&call.name));
        if zoned || is_chosen || !plan.ascending || is_too_long(frame, given) {
            return None;
        }
        let mut view = Self::source(plan, frame, given)?;
        let is_table = view.is_table();
        // Without buckets the time is the start of the range, which the rows that are read may not have.
        if view.is_divided(frame) || (frame.window.is_none() && !view.starts_with(frame)) {
            return None;
        }
        let calls = symbols.calls.iter().map(|(text, call)| {
            let aggregate = view.aggregate(call, frame)?;
            Some((text.as_str(), aggregate))
        });
        let calls: Vec<_> = calls.collect::<Option<_>>()?;
        let has_count = symbols.calls.iter().any(|(_, call)| call.name == "count");
        let of = one_field(symbols);
        // A count of nothing is none, and not 0, where other fields have values.
        if has_count && of.is_none() {
            return None;
        }
        let named = |named: Named<'_>| named.among(&calls);
        let columns = plan.outputs.iter().map(|output| {
            let shown = number(&output.expr, &named)?;
            // A zero that fills may be one of -0.
            let is_plus = matches!(&output.expr, Expr::Call(call) if begins_at_zero(call))
                && !matches!(frame.fill, Fill::Float(_));
            Some(ViewColumn::shown(&output.name, shown, is_plus))
        });
        let columns: Vec<ViewColumn> = columns.collect::<Option<_>>()?;
        let constant = match frame.fill {
            Fill::None => None,
            Fill::Integer(number) => Some(series::Value::Int(number)),
            Fill::Float(number) => Some(series::Value::Float(number)),
            _ => return None,
        };
        let mut signs: Vec<series::Expr> = Vec::new();
        if let Some(constant) = constant {
            // Every bucket has a value, of groups that have one anywhere.
            let has_ends = frame.first_ns > TIME_MIN && frame.last_ns < TIME_MAX;
            let (of, true, true) = (of?, is_table, has_ends && frame.window.is_some()) else {
                return None;
            };
            let (of, _) = field(of, view.table)?;
            view.base.rows = both(view.base.rows.take(), Some(is_some(of)));
            view.base.fill = series::Fill::Value(constant.into());
        } else {
            let calls = symbols.calls.iter().zip(&calls);
            let calls = calls.take(if of.is_some() { 1 } else { usize::MAX });
            signs.extend(calls.map(|((_, call), (_, (aggregate, _)))| {
                let zero = series::Expr::literal(series::Value::Int(0));
                match call.name.as_str() {
                    "count" => series::Expr::binary(Binary::Greater, aggregate.clone(), zero),
                    _ => aggregate.clone(),
                }
            }));
        }
        view.base.bucket = frame.window.map(bucket);
        let must_exist = has_count && !signs.is_empty();
        let mut view = view.around(columns, signs, must_exist.then_some(Binary::And), frame);
        // Those of several calls come in an order of InfluxDB's own.
        view.is_merged = calls.len() == 1;
        Some(view)
    }

    /// Whether InfluxDB opens several buckets of one time and group here, because the rows come one group inside after the
    /// other.
    pub(crate) fn is_divided(&self, frame: &Frame) -> bool {
        let is_merged = self.is_merged && frame.dimensions == frame.group;
        frame.window.is_some() && self.group != frame.group && !is_merged && !self.is_table_itself()
    }

    fn is_table_itself(&self) -> bool {
        self.is_raw && self.columns.is_empty() && self.exists.is_none()
    }

    /// Whether the question for its rows has the start of a frame, or both have none, which stands for 1970.
    fn starts_with(&self, frame: &Frame) -> bool {
        match &self.base.time.from {
            None => frame.first_ns == TIME_MIN || frame.first_ns == 0,
            Some(from) => *from == series::Value::Time(frame.first_ns).into(),
        }
    }

    /// An aggregate as the series' engine has it, and its type.
    fn aggregate(&self, call: &Call, frame: &Frame) -> Option<(series::Expr, Kind)> {
        let of = field_of(call).filter(|_| call.arguments.len() == 1)?;
        let (value, kind) = if self.is_table_itself() {
            let leaf = Leaf {
                call,
                field: of,
                own_time: false,
                aux: &[],
            };
            if !is_stored(leaf, self.table, frame.window) {
                return None;
            }
            field(of, self.table)?
        } else {
            self.named(Named::Reference(of))
                .filter(|_| self.answers(call, of))?
        };
        let aggregate = match call.name.as_str() {
            "count" => Aggregate::Count(value),
            "sum" => Aggregate::Sum(value),
            "mean" => Aggregate::Mean(value),
            "spread" => Aggregate::Spread(value),
            "min" => Aggregate::Min(value),
            "max" => Aggregate::Max(value),
            "first" if self.is_table_itself() => Aggregate::First(value),
            "last" if self.is_table_itself() => Aggregate::Last(value),
            _ => return None,
        };
        let kind = match call.name.as_str() {
            "count" => Kind::Integer,
            "mean" => Kind::Float,
            _ => kind,
        };
        let aggregate = series::Expr::aggregate(aggregate);
        Some(if begins_at_zero(call) && kind == Kind::Float {
            let zero = series::Expr::literal(series::Value::Float(0.0));
            let sum = series::Expr::binary(Binary::Add, aggregate, zero);
            (sum, kind)
        } else {
            (aggregate, kind)
        })
    }

    /// Whether the engine makes of these values what InfluxDB makes of them.
    pub(crate) fn answers(&self, call: &Call, of: &Reference) -> bool {
        let Some(column) = self.column_of(of) else {
            return false;
        };
        match call.name.as_str() {
            "count" | "sum" | "mean" | "spread" | "stddev" => true,
            // Of the two zeros InfluxDB takes the one that comes first.
            "min" | "max" => column.kind == Kind::Integer || column.is_plus,
            _ => false,
        }
    }

    /// These columns, as fields of a question around them. `signs` are values of which one is there in each of its rows, or
    /// which hold; with `all` the rows without them are left out, else only where it matters.
    fn around(
        self,
        columns: Vec<ViewColumn>,
        signs: Vec<series::Expr>,
        all: Option<Binary>,
        frame: &Frame,
    ) -> Self {
        let mut inner = self.grouped(&frame.group);
        inner.columns = Vec::with_capacity(columns.len() + signs.len());
        let mut shown = Vec::with_capacity(columns.len());
        for (place, column) in columns.into_iter().enumerate() {
            let name = column_name(place);
            shown.push(ViewColumn {
                expr: series::Expr::field(&name),
                ..column.clone()
            });
            inner.columns.push(Column {
                name,
                expr: column.expr,
            });
        }
        let mut exists = Vec::with_capacity(signs.len());
        for sign in signs {
            let name = column_name(inner.columns.len());
            let of = series::Expr::field(&name);
            let is_truth = matches!(&sign, series::Expr::Binary(Binary::Greater, ..));
            exists.push(if is_truth { of } else { is_some(of) });
            inner.columns.push(Column { name, expr: sign });
        }
        let mut exists = series::Expr::joined(Binary::Or, exists);
        let mut base = Shape::of(Rules::Influx, series::Source::Nested(Box::new(inner)));
        if all.is_some() {
            base.rows = exists.take();
        }
        Self {
            table: self.table,
            base,
            group: frame.group.clone(),
            columns: shown,
            exists,
            is_merged: false,
            is_raw: false,
        }
    }

    /// The question for rows or aggregates, by these tags and then by time, without columns.
    pub(crate) fn grouped(&self, group: &[String]) -> Shape {
        let mut shape = self.base.clone();
        shape.group = group.to_vec();
        shape.order.by = series::OrderBy::Group;
        shape
    }

    /// The question for these columns and tags of its rows, of which each is there, whatever it has. `None` = it has none
    /// like them, or InfluxDB has its rows in another order.
    pub(crate) fn rows(&self, names: &[Reference], plan: &Plan, frame: &Frame) -> Option<Shape> {
        let is_ordered = self.group == frame.group && frame.dimensions == frame.group;
        if !is_ordered || !plan.ascending {
            return None;
        }
        let mut shape = self.grouped(&frame.group);
        shape.rows = both(shape.rows.take(), self.exists.clone());
        for (place, name) in names.iter().enumerate() {
            // An absent tag is an empty text, as it is in the rows of a query.
            let text = |tag| series::Expr::Call(Function::Coalesce, vec![tag]);
            let tag = || self.tag(name).map(text);
            let column = self.column(name).map(|(expr, _)| expr);
            shape.columns.push(Column {
                name: column_name(place),
                expr: column.or_else(tag)?,
            });
        }
        (!names.is_empty()).then_some(shape)
    }

    /// The place of a name's column.
    fn column_of(&self, name: &Reference) -> Option<&ViewColumn> {
        let mut columns = self.columns.iter();
        columns.find(|column| column.name == name.name)
    }

    fn named(&self, named: Named<'_>) -> Option<(series::Expr, Kind)> {
        match named {
            Named::Reference(name) => self.column(name),
            Named::Call(_) => None,
        }
    }

    /// A column of it, and its type; `None` = it has none like it, or it is read as another type.
    pub(crate) fn column(&self, name: &Reference) -> Option<(series::Expr, Kind)> {
        let column = self.column_of(name)?;
        (kind_of_cast(name.cast) == Some(column.kind)).then(|| (column.expr.clone(), column.kind))
    }

    /// A tag of its rows that no column hides.
    pub(crate) fn tag(&self, name: &Reference) -> Option<series::Expr> {
        let is_tag = kind_of_cast(name.cast) == Some(Kind::Tag)
            && self.group.contains(&name.name)
            && self.column_of(name).is_none();
        is_tag.then(|| series::Expr::tag(&name.name))
    }
}

impl ViewColumn {
    /// As it is shown: what is no number is no value.
    fn shown(name: &str, (expr, kind): (series::Expr, Kind), is_plus: bool) -> Self {
        let expr = match kind {
            Kind::Float => series::Expr::Call(Function::NullIfNan, vec![expr]),
            _ => expr,
        };
        Self {
            name: name.to_owned(),
            expr,
            kind,
            is_plus,
        }
    }
}

fn is_some(of: series::Expr) -> series::Expr {
    series::Expr::Unary(Unary::IsNotNull, Box::new(of))
}

fn both(one: Option<series::Expr>, other: Option<series::Expr>) -> Option<series::Expr> {
    match (one, other) {
        (Some(one), Some(other)) => Some(series::Expr::binary(Binary::And, one, other)),
        (one, other) => one.or(other),
    }
}

/// Of numbers of -0 it is 0.
fn begins_at_zero(call: &Call) -> bool {
    matches!(call.name.as_str(), "sum" | "mean")
}

/// The field that all calls are of.
fn one_field(symbols: &Symbols) -> Option<&Reference> {
    let mut fields = symbols.calls.iter().map(|(_, call)| field_of(call));
    let first = fields.next()??;
    fields.all(|other| other == Some(first)).then_some(first)
}

/// More buckets than a statement may have, which is an error that others find words for.
fn is_too_long(frame: &Frame, given: Given) -> bool {
    let Some(window) = frame.window.filter(|_| frame.first_ns > TIME_MIN) else {
        return false;
    };
    let length = i128::from(frame.last_ns) - i128::from(window.start(frame.first_ns));
    length / i128::from(window.width) + 1 > i128::from(given.buckets_max)
}

/// A step from the row before, whose value is there, as is that of the row.
fn step(call: &Call, value: &series::Expr, kind: Kind) -> Option<(series::Expr, Kind)> {
    let before = |of: &series::Expr| {
        series::Expr::Neighbour(series::Transform::Previous, Box::new(of.clone()))
    };
    let whole = |number: i64| series::Expr::literal(series::Value::Int(number));
    let minus = |one: series::Expr, other| series::Expr::binary(Binary::Subtract, one, other);
    match (call.name.as_str(), call.arguments.get(1)) {
        ("difference", None) => Some((minus(value.clone(), before(value)), kind)),
        // Of units as long as these all quotients are exact floats.
        ("elapsed", Some(Expr::Duration(unit))) if *unit >= 1_000_000 => {
            let time = minus(series::Expr::Time, before(&series::Expr::Time));
            let part = series::Expr::binary(Binary::Remainder, time.clone(), whole(*unit));
            let steps = series::Expr::binary(Binary::Divide, minus(time, part), whole(*unit));
            let nearest = series::Expr::binary(
                Binary::Add,
                steps,
                series::Expr::literal(series::Value::Float(0.5)),
            );
            let steps = series::Expr::Call(Function::Integer, vec![nearest]);
            Some((steps, Kind::Integer))
        }
        _ => None,
    }
}
