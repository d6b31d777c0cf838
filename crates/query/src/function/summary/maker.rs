//! Aggregates that make summaries: `stats_agg`, `counter_agg`, `time_weight`, `candlestick_agg`, `max_n`, sketches, timelines.
//!
//! A row in which a value or its time is NULL does not count; a group without rows has no summary.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use nilometer_summaries::{
    Candlestick, End, Extremes, Flavour, Frequencies, Heartbeats, HyperLogLog, Method, Moments,
    Sample, Summary, TDigest, UddSketch,
};

use super::super::aggregate::dense::{Grouped, Single};
use super::super::aggregate::series::literal;
use super::argument::{Argument, interval, kind_of, later, number, scalar, time};
use super::error::wrong;
use super::gather::{Gather, Group, Ordered, Take};

/// The key of a field under which stands which aggregate made the summary, and the type of the values in it.
pub(super) const MADE_BY: &str = "nilometer.summary";

/// Registers of a count of distinct values without a number, as in `TimescaleDB`.
const REGISTERS: i64 = 32_768;

/// Buckets and error of `percentile_agg`, as there.
const PERCENTILE: (i64, f64) = (200, 0.001);

/// How the frequencies of the most frequent values fall where nobody says it, as there.
const SKEW: f64 = 1.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Stats,
    Metric(Metric),
    TimeWeight,
    Candlestick,
    Ohlc,
    Extremes { is_max: bool, is_by: bool },
    UddSketch,
    PercentileAgg,
    TDigest,
    HyperLogLog,
    ApproxCountDistinct,
    FreqAgg,
    TopnAgg,
    States { is_compact: bool },
    Heartbeats,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Metric {
    Counter,
    Gauge,
}

/// Names, what they make, and how they are called.
const MADE: [(&str, Made, &str); 20] = [
    ("stats_agg", Made::Stats, "(value) or (y, x)"),
    (
        "counter_agg",
        Made::Metric(Metric::Counter),
        "(time, value [, tstzrange(start, finish)])",
    ),
    (
        "gauge_agg",
        Made::Metric(Metric::Gauge),
        "(time, value [, tstzrange(start, finish)])",
    ),
    ("time_weight", Made::TimeWeight, "(method, time, value)"),
    (
        "candlestick_agg",
        Made::Candlestick,
        "(time, price, volume)",
    ),
    ("ohlc", Made::Ohlc, "(time, price)"),
    (
        "max_n",
        Made::Extremes {
            is_max: true,
            is_by: false,
        },
        "(value, n)",
    ),
    (
        "min_n",
        Made::Extremes {
            is_max: false,
            is_by: false,
        },
        "(value, n)",
    ),
    (
        "max_n_by",
        Made::Extremes {
            is_max: true,
            is_by: true,
        },
        "(value, data, n)",
    ),
    (
        "min_n_by",
        Made::Extremes {
            is_max: false,
            is_by: true,
        },
        "(value, data, n)",
    ),
    ("uddsketch", Made::UddSketch, "(size, max_error, value)"),
    ("percentile_agg", Made::PercentileAgg, "(value)"),
    ("tdigest", Made::TDigest, "(buckets, value)"),
    ("hyperloglog", Made::HyperLogLog, "(buckets, value)"),
    (
        "approx_count_distinct",
        Made::ApproxCountDistinct,
        "(value)",
    ),
    ("freq_agg", Made::FreqAgg, "(min_freq, value)"),
    ("topn_agg", Made::TopnAgg, "(n [, skew], value)"),
    (
        "state_agg",
        Made::States { is_compact: false },
        "(time, state)",
    ),
    (
        "compact_state_agg",
        Made::States { is_compact: true },
        "(time, state)",
    ),
    (
        "heartbeat_agg",
        Made::Heartbeats,
        "(time, agg_start, agg_duration, heartbeat_liveness)",
    ),
];

/// All of them.
pub(super) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let all = MADE.into_iter().map(|(name, made, usage)| {
        let aliases = match made {
            Made::TopnAgg => vec!["mcv_agg".to_owned()],
            _ => Vec::new(),
        };
        Arc::new(AggregateUDF::new_from_impl(Maker {
            name,
            made,
            usage,
            aliases,
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    });
    all.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Maker {
    name: &'static str,
    made: Made,
    usage: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

impl Maker {
    /// What the arguments are, for so many.
    fn arguments(&self, count: usize) -> Option<&'static [Argument]> {
        use Argument::{Interval, Number, Text, Time, Value, Whole};
        Some(match (self.made, count) {
            (Made::Stats | Made::PercentileAgg, 1) => &[Number],
            (Made::Stats, 2) => &[Number, Number],
            (Made::Metric(_) | Made::Ohlc, 2) => &[Time, Number],
            (Made::Metric(_), 4) => &[Time, Number, Time, Time],
            (Made::TimeWeight, 3) => &[Text, Time, Number],
            (Made::Candlestick, 3) => &[Time, Number, Number],
            (Made::Extremes { is_by: false, .. }, 2) => &[Value, Whole],
            (Made::Extremes { is_by: true, .. }, 3) => &[Value, Value, Whole],
            (Made::UddSketch, 3) => &[Whole, Number, Number],
            (Made::TDigest, 2) => &[Whole, Number],
            (Made::HyperLogLog | Made::TopnAgg, 2) => &[Whole, Value],
            (Made::ApproxCountDistinct, 1) => &[Value],
            (Made::FreqAgg, 2) => &[Number, Value],
            (Made::TopnAgg, 3) => &[Whole, Number, Value],
            (Made::States { .. }, 2) => &[Time, Value],
            (Made::Heartbeats, 4) => &[Time, Time, Interval, Interval],
            _ => return None,
        })
    }

    fn refused<T>(&self) -> Result<T> {
        plan_err!("{}{}", self.name, self.usage)
    }

    /// The argument whose type the summary keeps.
    fn value_at(&self, count: usize) -> Option<usize> {
        match self.made {
            Made::Extremes { .. } | Made::ApproxCountDistinct => Some(0),
            Made::HyperLogLog | Made::FreqAgg | Made::States { .. } => Some(1),
            Made::TopnAgg => count.checked_sub(1),
            _ => None,
        }
    }

    /// How rows are taken in, as the constants among the arguments say.
    fn take(&self, args: &AccumulatorArgs) -> Result<Arc<dyn Take>> {
        not_distinct(self.name, args)?;
        let constant = |place: usize| args.exprs.get(place).and_then(literal);
        let missing = || {
            let text = format!("{}{}: a constant number is missing", self.name, self.usage);
            DataFusionError::Plan(text)
        };
        let whole = |place: usize| match constant(place) {
            Some(ScalarValue::Int64(Some(value))) => Ok(*value),
            _ => Err(missing()),
        };
        let number = |place: usize| match constant(place) {
            Some(ScalarValue::Float64(Some(value))) => Ok(*value),
            _ => Err(missing()),
        };
        let count = args.exprs.len();
        let last = count.saturating_sub(1);
        let of = |begin: Result<Summary, nilometer_summaries::Error>, value: usize| -> Result<_> {
            Ok(Arc::new(Values {
                begin: begin.map_err(wrong)?,
                value,
                beside: None,
            }) as Arc<dyn Take>)
        };
        let udd =
            |size, error| UddSketch::new(size, error).map(|it| Summary::UddSketch(Box::new(it)));
        let hll = |size| HyperLogLog::new(size).map(Summary::HyperLogLog);
        let frequencies =
            |made: Result<Frequencies, _>| made.map(|it| Summary::Frequencies(Box::new(it)));
        match self.made {
            Made::Stats if count == 2 => {
                let begin = Summary::Pairs(Box::default());
                Ok(Arc::new(Values {
                    begin,
                    value: 0,
                    beside: Some(1),
                }))
            }
            Made::Stats => of(Ok(Summary::Moments(Moments::default())), 0),
            Made::Metric(metric) => Ok(Arc::new(Series {
                ordered: Ordered::Counter(match metric {
                    Metric::Counter => Flavour::Counter,
                    Metric::Gauge => Flavour::Gauge,
                }),
                time: 0,
                value: 1,
                bounds: (count == 4).then_some((2, 3)),
            })),
            Made::TimeWeight => {
                let Some(ScalarValue::Utf8(Some(name))) = constant(0) else {
                    return plan_err!(
                        "{}{}: method is the constant 'Linear' or 'LOCF'",
                        self.name,
                        self.usage
                    );
                };
                let method = Method::named(name).map_err(wrong)?;
                Ok(Arc::new(Series {
                    ordered: Ordered::TimeWeight(method),
                    time: 1,
                    value: 2,
                    bounds: None,
                }))
            }
            Made::Candlestick => Ok(Arc::new(Ticks { has_volume: true })),
            Made::Ohlc => Ok(Arc::new(Ticks { has_volume: false })),
            Made::Extremes { is_max, is_by } => {
                let end = if is_max { End::Max } else { End::Min };
                let begin = Extremes::new(end, whole(last)?).map_err(wrong)?;
                Ok(Arc::new(Values {
                    begin: Summary::Extremes(begin),
                    value: 0,
                    beside: is_by.then_some(1),
                }))
            }
            Made::UddSketch => of(udd(whole(0)?, number(1)?), 2),
            Made::PercentileAgg => of(udd(PERCENTILE.0, PERCENTILE.1), 0),
            Made::TDigest => of(TDigest::new(whole(0)?).map(Summary::TDigest), 1),
            Made::HyperLogLog => of(hll(whole(0)?), 1),
            Made::ApproxCountDistinct => of(hll(REGISTERS), 0),
            Made::FreqAgg => of(frequencies(Frequencies::above(number(0)?)), 1),
            Made::TopnAgg => {
                let skew = if count == 3 { number(1)? } else { SKEW };
                of(frequencies(Frequencies::top(whole(0)?, skew)), last)
            }
            Made::States { is_compact } => Ok(Arc::new(Timeline { is_compact })),
            Made::Heartbeats => Ok(Arc::new(Beats)),
        }
    }
}

impl AggregateUDFImpl for Maker {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let Some(arguments) = self.arguments(arg_types.len()) else {
            return self.refused();
        };
        let types = arguments.iter().zip(arg_types);
        let read = types.map(|(argument, kind)| argument.read_as(kind));
        let Some(read) = read.collect::<Option<Vec<DataType>>>() else {
            return self.refused();
        };
        if let (Made::States { .. }, Some(state)) = (self.made, read.get(1))
            && !matches!(state, DataType::Utf8 | DataType::Int64)
        {
            return plan_err!("{}{}: state is a text or an integer", self.name, self.usage);
        }
        Ok(read)
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let kind = |place: usize| {
            let field = arg_fields.get(place)?;
            kind_of(field.data_type()).map(nilometer_summaries::ScalarKind::name)
        };
        let value = self.value_at(arg_fields.len()).and_then(kind);
        let beside = match self.made {
            Made::Extremes { is_by: true, .. } => kind(1),
            _ => None,
        };
        let parts = [Some(self.name), value, beside];
        let said: Vec<&str> = parts.into_iter().flatten().collect();
        let said = HashMap::from([(MADE_BY.to_owned(), said.join(","))]);
        Ok(Arc::new(
            Field::new(self.name, DataType::Binary, true).with_metadata(said),
        ))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(state_fields(args.name))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Single::new(Gather::new(self.take(&args)?))?))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Grouped(Gather::new(self.take(&args)?))))
    }
}

/// DISTINCT among several arguments means nothing that anybody asked for.
pub(super) fn not_distinct(name: &str, args: &AccumulatorArgs) -> Result<()> {
    if args.is_distinct {
        return plan_err!(
            "{name}(DISTINCT ...) is not supported: take the values once in a subquery, FROM (SELECT DISTINCT ...)"
        );
    }
    Ok(())
}

pub(super) fn state_fields(name: &str) -> Vec<FieldRef> {
    let name = format_state_name(name, "summary");
    vec![Arc::new(Field::new(name, DataType::Binary, true))]
}

/// Values that a summary takes in at once, in any order.
#[derive(Debug)]
struct Values {
    /// A summary without values.
    begin: Summary,
    value: usize,
    beside: Option<usize>,
}

impl Take for Values {
    fn ordered(&self) -> Option<Ordered> {
        None
    }

    fn take(&self, group: &mut Option<Box<Group>>, values: &[ArrayRef], row: usize) -> Result<()> {
        let Some(column) = values.get(self.value) else {
            return Ok(());
        };
        let Some(value) = scalar(column, row)? else {
            return Ok(());
        };
        let beside = self.beside.and_then(|place| values.get(place));
        let x = beside.and_then(|column| number(column, row));
        if x.is_none() && matches!(self.begin, Summary::Pairs(_)) {
            return Ok(());
        }
        let begin = || Box::new(Group::Whole(self.begin.clone()));
        let Group::Whole(summary) = group.get_or_insert_with(begin).as_mut() else {
            return Ok(());
        };
        match summary {
            Summary::Extremes(it) => {
                let beside = match beside {
                    Some(column) => scalar(column, row)?,
                    None => None,
                };
                it.add(value, beside);
            }
            Summary::HyperLogLog(it) => it.add(&value),
            Summary::Frequencies(it) => it.add(value),
            numbers => {
                let Some(value) = number(column, row) else {
                    return Ok(());
                };
                match numbers {
                    Summary::Moments(it) => it.add(value),
                    Summary::Pairs(it) => it.add(value, x.unwrap_or_default()),
                    Summary::UddSketch(it) => it.add(value),
                    Summary::TDigest(it) => it.add(value),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// A value and its time.
#[derive(Debug)]
struct Series {
    ordered: Ordered,
    time: usize,
    value: usize,
    bounds: Option<(usize, usize)>,
}

impl Take for Series {
    fn ordered(&self) -> Option<Ordered> {
        Some(self.ordered)
    }

    fn take(&self, group: &mut Option<Box<Group>>, values: &[ArrayRef], row: usize) -> Result<()> {
        let at = values.get(self.time).and_then(|column| time(column, row));
        let value = values.get(self.value).and_then(|it| number(it, row));
        let (Some(time_of_value), Some(value)) = (at, value) else {
            return Ok(());
        };
        let begin = || Box::new(Group::Samples(Vec::new(), None));
        if let Group::Samples(samples, bounds) = group.get_or_insert_with(begin).as_mut() {
            samples.push(Sample {
                time: time_of_value,
                value,
            });
            if let (None, Some((from, to))) = (&bounds, self.bounds) {
                let at = |place: usize| values.get(place).and_then(|column| time(column, row));
                *bounds = at(from).zip(at(to));
            }
        }
        Ok(())
    }
}

/// Trades.
#[derive(Debug)]
struct Ticks {
    has_volume: bool,
}

impl Take for Ticks {
    fn ordered(&self) -> Option<Ordered> {
        None
    }

    fn take(&self, group: &mut Option<Box<Group>>, values: &[ArrayRef], row: usize) -> Result<()> {
        let at = values.first().and_then(|column| time(column, row));
        let price = values.get(1).and_then(|column| number(column, row));
        let (Some(time), Some(value)) = (at, price) else {
            return Ok(());
        };
        let volume = values.get(2).filter(|_| self.has_volume);
        let volume = volume.and_then(|column| number(column, row));
        let tick = Candlestick::of_tick(Sample { time, value }, volume);
        if let Some(Group::Whole(Summary::Candlestick(whole))) = group.as_deref_mut() {
            whole.merge(&tick);
        } else {
            let whole = Summary::Candlestick(Box::new(tick));
            *group = Some(Box::new(Group::Whole(whole)));
        }
        Ok(())
    }
}

/// States and their times.
#[derive(Debug)]
struct Timeline {
    is_compact: bool,
}

impl Take for Timeline {
    fn ordered(&self) -> Option<Ordered> {
        Some(Ordered::States {
            is_compact: self.is_compact,
        })
    }

    fn take(&self, group: &mut Option<Box<Group>>, values: &[ArrayRef], row: usize) -> Result<()> {
        let [times, states] = values else {
            return Ok(());
        };
        let (Some(time), Some(state)) = (time(times, row), scalar(states, row)?) else {
            return Ok(());
        };
        let begin = || Box::new(Group::Timeline(Vec::new(), 0));
        if let Group::Timeline(rows, texts) = group.get_or_insert_with(begin).as_mut() {
            *texts += state.bytes();
            rows.push((time, state));
        }
        Ok(())
    }
}

/// Heartbeats, with the range of the group beside each of them.
#[derive(Debug)]
struct Beats;

impl Take for Beats {
    fn ordered(&self) -> Option<Ordered> {
        None
    }

    fn take(&self, group: &mut Option<Box<Group>>, values: &[ArrayRef], row: usize) -> Result<()> {
        let [times, starts, durations, livenesses] = values else {
            return Ok(());
        };
        let Some(at) = time(times, row) else {
            return Ok(());
        };
        if group.is_none() {
            let (Some(start), Some(duration), Some(liveness)) = (
                time(starts, row),
                interval(durations, row),
                interval(livenesses, row),
            ) else {
                return exec_err!(
                    "heartbeat_agg: agg_start, agg_duration and heartbeat_liveness are not NULL"
                );
            };
            let duration = later(start, duration)?.saturating_sub(start);
            let liveness = later(start, liveness)?.saturating_sub(start);
            let begin = Heartbeats::new(start, duration, liveness).map_err(wrong)?;
            *group = Some(Box::new(Group::Whole(Summary::Heartbeats(begin))));
        }
        if let Some(Group::Whole(Summary::Heartbeats(it))) = group.as_deref_mut() {
            it.add(at).map_err(wrong)?;
        }
        Ok(())
    }
}
