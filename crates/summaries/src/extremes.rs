//! Largest and smallest values: `max_n`, `min_n`, `max_n_by`, `min_n_by`.

use std::cmp::Ordering;

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::scalar::{SCALAR_BYTES_MIN, Scalar, ScalarKind};

/// Values that one summary keeps.
const KEPT_MAX: usize = 100_000;

/// Which values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// The largest or smallest values, each with something that stood beside it where that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Extremes {
    end: End,
    kept_max: usize,
    /// Not in order, and up to twice as many as are kept.
    kept: Vec<(Scalar, Option<Scalar>)>,
    bytes: usize,
}

impl Extremes {
    /// Without values.
    pub fn new(end: End, kept_max: i64) -> Result<Self, Error> {
        let count = usize::try_from(kept_max).ok();
        let Some(kept_max) = count.filter(|count| (1..=KEPT_MAX).contains(count)) else {
            return Err(Error::Argument(format!(
                "the number of values is from 1 to {KEPT_MAX}, not {kept_max}"
            )));
        };
        Ok(Self {
            end,
            kept_max,
            kept: Vec::new(),
            bytes: 0,
        })
    }

    fn compare(&self, one: &Scalar, other: &Scalar) -> Ordering {
        match self.end {
            End::Max => other.cmp(one),
            End::Min => one.cmp(other),
        }
    }

    /// Takes a value in, with what stands beside it.
    pub fn add(&mut self, value: Scalar, beside: Option<Scalar>) {
        self.bytes += value.bytes() + beside.as_ref().map_or(0, Scalar::bytes);
        self.kept.push((value, beside));
        if self.kept.len() >= 2 * self.kept_max {
            self.choose();
        }
    }

    /// Puts what is kept in order and the rest away.
    fn choose(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        // Stable: of equal values the first that came stay.
        kept.sort_by(|one, other| self.compare(&one.0, &other.0));
        kept.truncate(self.kept_max);
        let texts = kept
            .iter()
            .map(|(value, beside)| value.bytes() + beside.as_ref().map_or(0, Scalar::bytes));
        self.bytes = texts.sum();
        self.kept = kept;
    }

    /// Takes in what was kept elsewhere.
    pub fn merge(&mut self, other: Self) -> Result<(), Error> {
        if self.end != other.end {
            return Err(Error::Kinds {
                one: self.name(),
                other: other.name(),
            });
        }
        if self.kept_max != other.kept_max {
            return Err(Error::Parameters {
                what: "numbers of values",
                one: self.kept_max.to_string(),
                other: other.kept_max.to_string(),
            });
        }
        if let (Some(one), Some(other)) = (self.value_kind(), other.value_kind())
            && one != other
        {
            return Err(Error::Parameters {
                what: "values of type",
                one: one.name().to_owned(),
                other: other.name().to_owned(),
            });
        }
        for (value, beside) in other.kept {
            self.add(value, beside);
        }
        Ok(())
    }

    pub(crate) fn name(&self) -> &'static str {
        match (self.end, self.has_beside()) {
            (End::Max, false) => "max_n",
            (End::Max, true) => "max_n_by",
            (End::Min, false) => "min_n",
            (End::Min, true) => "min_n_by",
        }
    }

    fn has_beside(&self) -> bool {
        self.kept.iter().any(|(_, beside)| beside.is_some())
    }

    /// The type of the values.
    pub fn value_kind(&self) -> Option<ScalarKind> {
        self.kept.first().map(|(value, _)| value.kind())
    }

    /// The values in their order, the most extreme first.
    pub fn sorted(mut self) -> Vec<(Scalar, Option<Scalar>)> {
        self.choose();
        self.kept
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.kept.capacity() * size_of::<(Scalar, Option<Scalar>)>() + self.bytes
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        let mut whole = self.clone();
        whole.choose();
        to.u8(u8::from(self.end == End::Max));
        to.count(whole.kept_max);
        to.count(whole.kept.len());
        for (value, beside) in &whole.kept {
            value.write(to);
            to.u8(u8::from(beside.is_some()));
            if let Some(beside) = beside {
                beside.write(to);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let end = if from.flag()? { End::Max } else { End::Min };
        let kept_max = i64::try_from(from.u64()?).map_err(|_| damaged("a count"))?;
        let mut read = Self::new(end, kept_max).map_err(|_| damaged("a count"))?;
        let count = from.count(SCALAR_BYTES_MIN + 1)?;
        if count > read.kept_max {
            return Err(damaged("a count"));
        }
        for _ in 0..count {
            let value = Scalar::read(from)?;
            let beside = from.optional(Scalar::read)?;
            if read.value_kind().is_some_and(|kind| kind != value.kind()) {
                return Err(damaged("values of two types"));
            }
            read.add(value, beside);
        }
        Ok(read)
    }
}
