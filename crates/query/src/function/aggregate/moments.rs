//! Variances, correlations and regressions of floats, as `PostgreSQL` computes them: `var_*`, `stddev_*`, `covar_*`, `corr` and
//! `regr_*`.
//!
//! `DataFusion` answers that the variance of one NaN or of one infinity is 0, that the correlation with a NaN is NULL, and NULL
//! where all `y` are one value and so a line describes them perfectly. Here the sums, and the order in which they are made, are
//! those of `float8_accum`, `float8_regr_accum` and their like (Youngs and Cramer, 1971). Does not: end with an error where a sum
//! is beyond what a float can be; it is infinite or NaN then. DISTINCT is left to `DataFusion`.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::regr::{
    regr_avgx_udaf, regr_avgy_udaf, regr_count_udaf, regr_intercept_udaf, regr_r2_udaf,
    regr_slope_udaf, regr_sxx_udaf, regr_sxy_udaf, regr_syy_udaf,
};
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    Signature,
};

use super::dense::{Dense, Grouped, Rows, Single};

/// All of them, under the names that they had.
pub(in crate::function) fn functions() -> impl Iterator<Item = AggregateUDF> {
    [
        // PostgreSQL's name for it.
        (
            var_samp_udaf().as_ref().clone().with_aliases(["variance"]),
            Of::VarSamp,
        ),
        (var_pop_udaf().as_ref().clone(), Of::VarPop),
        (stddev_udaf().as_ref().clone(), Of::StddevSamp),
        (stddev_pop_udaf().as_ref().clone(), Of::StddevPop),
        (covar_samp_udaf().as_ref().clone(), Of::CovarSamp),
        (covar_pop_udaf().as_ref().clone(), Of::CovarPop),
        (corr_udaf().as_ref().clone(), Of::Corr),
        (regr_avgx_udaf().as_ref().clone(), Of::AverageX),
        (regr_avgy_udaf().as_ref().clone(), Of::AverageY),
        (regr_count_udaf().as_ref().clone(), Of::Count),
        (regr_intercept_udaf().as_ref().clone(), Of::Intercept),
        (regr_r2_udaf().as_ref().clone(), Of::R2),
        (regr_slope_udaf().as_ref().clone(), Of::Slope),
        (regr_sxx_udaf().as_ref().clone(), Of::Sxx),
        (regr_sxy_udaf().as_ref().clone(), Of::Sxy),
        (regr_syy_udaf().as_ref().clone(), Of::Syy),
    ]
    .into_iter()
    .map(|(inner, of)| AggregateUDF::new_from_impl(Statistic { inner, of }))
}

/// What is made of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    CovarPop,
    CovarSamp,
    Corr,
    AverageX,
    AverageY,
    Count,
    Intercept,
    R2,
    Slope,
    Sxx,
    Sxy,
    Syy,
}

impl Of {
    fn is_of_pairs(self) -> bool {
        !matches!(
            self,
            Self::VarPop | Self::VarSamp | Self::StddevPop | Self::StddevSamp
        )
    }

    fn value(self, sums: &Sums) -> Option<f64> {
        let Sums { n, x, y, .. } = *sums;
        if n < 1.0 {
            return None;
        }
        let is_sample = matches!(self, Self::VarSamp | Self::StddevSamp | Self::CovarSamp);
        if is_sample && n < 2.0 {
            return None;
        }
        let is_upright = sums.xx == 0.0;
        Some(match self {
            Self::VarPop => sums.xx / n,
            Self::VarSamp => sums.xx / (n - 1.0),
            Self::StddevPop => (sums.xx / n).sqrt(),
            Self::StddevSamp => (sums.xx / (n - 1.0)).sqrt(),
            Self::CovarPop => sums.xy / n,
            Self::CovarSamp => sums.xy / (n - 1.0),
            Self::Corr if is_upright || sums.yy == 0.0 => return None,
            Self::Corr => sums.xy / (sums.xx * sums.yy).sqrt(),
            Self::AverageX => x / n,
            Self::AverageY => y / n,
            Self::Count => n,
            Self::Intercept | Self::R2 | Self::Slope if is_upright => return None,
            Self::Intercept => (y - x * sums.xy / sums.xx) / n,
            Self::R2 if sums.yy == 0.0 => 1.0,
            Self::R2 => (sums.xy * sums.xy) / (sums.xx * sums.yy),
            Self::Slope => sums.xy / sums.xx,
            Self::Sxx => sums.xx,
            Self::Sxy => sums.xy,
            Self::Syy => sums.yy,
        })
    }
}

/// How many there are, their sums, and the sums of squares and products of how far they are from their averages.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    fn take_one(&mut self, x: f64) {
        let before = *self;
        self.n += 1.0;
        self.x += x;
        if before.n > 0.0 {
            let off = x * self.n - self.x;
            self.xx += off * off / (self.n * before.n);
        }
        self.spread_of_infinity(before, x, 0.0);
    }

    fn take_pair(&mut self, x: f64, y: f64) {
        let before = *self;
        self.n += 1.0;
        self.x += x;
        self.y += y;
        if before.n > 0.0 {
            let off = [x * self.n - self.x, y * self.n - self.y];
            let scale = 1.0 / (self.n * before.n);
            self.xx += off[0] * off[0] * scale;
            self.yy += off[1] * off[1] * scale;
            self.xy += off[0] * off[1] * scale;
        }
        self.spread_of_infinity(before, x, y);
    }

    /// How far one infinity is from others is no number; and the first value, which is no distance from itself, may be one.
    fn spread_of_infinity(&mut self, before: Self, x: f64, y: f64) {
        let [x, y] = [(before.x, x), (before.y, y)]
            .map(|(sum, value)| !sum.is_finite() || !value.is_finite());
        if x {
            self.xx = f64::NAN;
        }
        if y {
            self.yy = f64::NAN;
        }
        if x || y {
            self.xy = f64::NAN;
        }
    }

    fn merge(&mut self, more: &Self) {
        if self.n == 0.0 {
            *self = *more;
        } else if more.n > 0.0 {
            let n = self.n + more.n;
            let x = self.x / self.n - more.x / more.n;
            let y = self.y / self.n - more.y / more.n;
            let pairs = self.n * more.n;
            *self = Self {
                n,
                x: self.x + more.x,
                xx: self.xx + more.xx + pairs * x * x / n,
                y: self.y + more.y,
                yy: self.yy + more.yy + pairs * y * y / n,
                xy: self.xy + more.xy + pairs * x * y / n,
            };
        }
    }

    fn parts(&self) -> [f64; 6] {
        [self.n, self.x, self.xx, self.y, self.yy, self.xy]
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Statistic {
    inner: AggregateUDF,
    of: Of,
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return self.inner.inner().accumulator(args);
        }
        Ok(Box::new(Single::new(Moments::new(self.of))?))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return self.inner.inner().state_fields(args);
        }
        let field = |name: &str| {
            let name = format_state_name(args.name, name);
            Arc::new(Field::new(name, DataType::Float64, true))
        };
        Ok(["n", "x", "xx", "y", "yy", "xy"].map(field).to_vec())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        _args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Grouped(Moments::new(self.of))))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.inner().order_sensitivity()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.inner().default_value(data_type)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }
}

struct Moments {
    of: Of,
    sums: Vec<Sums>,
}

impl Moments {
    fn new(of: Of) -> Self {
        let sums = Vec::new();
        Self { of, sums }
    }

    /// Calls with the row and the sums of its group.
    fn each(
        &mut self,
        rows: Rows<'_>,
        arrays: &[&Float64Array],
        mut take: impl FnMut(usize, &mut Sums),
    ) {
        let length = arrays.first().map_or(0, Array::len);
        for row in 0..length {
            if arrays.iter().all(|array| array.is_valid(row))
                && let Some(sums) = rows.group(row).and_then(|it| self.sums.get_mut(it))
            {
                take(row, sums);
            }
        }
    }
}

/// The sums of rows, one after another.
fn as_state<'a>(sums: impl Iterator<Item = &'a Sums>) -> Vec<ArrayRef> {
    let mut columns: [Vec<f64>; 6] = Default::default();
    for sums in sums {
        for (column, part) in columns.iter_mut().zip(sums.parts()) {
            column.push(part);
        }
    }
    let arrays = columns.map(|column| Arc::new(Float64Array::from(column)) as ArrayRef);
    arrays.to_vec()
}

impl Dense for Moments {
    fn grow(&mut self, groups: usize) -> Result<()> {
        self.sums
            .resize(groups.max(self.sums.len()), Sums::default());
        Ok(())
    }

    fn update(&mut self, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let values: Vec<&Float64Array> = values.iter().map(AsArray::as_primitive).collect();
        // A window takes in its rows again and again.
        let has_all = rows.is_one_group() && values.iter().all(|it| it.null_count() == 0);
        if let Some(sums) = self.sums.first_mut().filter(|_| has_all) {
            match values.as_slice() {
                [x] => x.values().iter().for_each(|x| sums.take_one(*x)),
                [y, x] => {
                    let pairs = x.values().iter().zip(y.values());
                    pairs.for_each(|(x, y)| sums.take_pair(*x, *y));
                }
                _ => return internal_err!("a statistic has one argument or two"),
            }
            return Ok(());
        }
        match (self.of.is_of_pairs(), values.as_slice()) {
            (false, &[x]) => self.each(rows, &[x], |row, sums| sums.take_one(x.value(row))),
            // The one that depends comes first: `regr_slope(y, x)`.
            (true, &[y, x]) => self.each(rows, &[y, x], |row, sums| {
                sums.take_pair(x.value(row), y.value(row));
            }),
            _ => return internal_err!("a statistic has one argument or two"),
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let state: Vec<&Float64Array> = state.iter().map(AsArray::as_primitive).collect();
        let &[n, x, xx, y, yy, xy] = state.as_slice() else {
            return internal_err!("the state of a statistic has six columns");
        };
        self.each(rows, &state, |row, sums| {
            let [n, x, xx, y, yy, xy] = [n, x, xx, y, yy, xy].map(|column| column.value(row));
            sums.merge(&Sums {
                n,
                x,
                xx,
                y,
                yy,
                xy,
            });
        });
        Ok(())
    }

    fn evaluate(&self, groups: usize) -> Result<ArrayRef> {
        let values = self.sums.iter().take(groups).map(|it| self.of.value(it));
        if self.of == Of::Count {
            let counts = values.map(|count| count.unwrap_or(0.0));
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a count of rows, which is a whole number and not negative"
            )]
            let counts: UInt64Array = counts.map(|count| Some(count as u64)).collect();
            return Ok(Arc::new(counts));
        }
        Ok(Arc::new(values.collect::<Float64Array>()))
    }

    fn state(&self, groups: usize) -> Result<Vec<ArrayRef>> {
        Ok(as_state(self.sums.iter().take(groups)))
    }

    fn convert(&self, values: &[ArrayRef], rows: Rows<'_>) -> Result<Vec<ArrayRef>> {
        let length = values.first().map_or(0, Array::len);
        let groups: Vec<usize> = (0..length).collect();
        let mut each = Self::new(self.of);
        each.grow(length)?;
        each.update(values, rows.by(&groups))?;
        each.state(length)
    }

    fn forget(&mut self, groups: usize) {
        self.sums.drain(..groups.min(self.sums.len()));
    }

    fn groups(&self) -> usize {
        self.sums.len()
    }

    fn bytes(&self) -> usize {
        self.sums.capacity() * size_of::<Sums>()
    }
}
