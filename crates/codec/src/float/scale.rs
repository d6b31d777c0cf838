//! One scale for a column of floats, whose integers are then encoded together.
//!
//! Does: choose between powers of ten and of two, convert both ways. Does not: write anything.

use super::exceptions::Exceptions;
use super::{decimal, dyadic};
use crate::Error;

/// What makes floats of integers: dividing by a power of ten, or multiplying by one of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Decimal(i8),
    Dyadic(i8),
}

impl Scale {
    /// The scale that suits most of the values, or `None`.
    pub(crate) fn choose(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let dyadic = dyadic::choose_scale(values.clone());
        match (decimal::choose_scale(values), dyadic) {
            // Fewer digits in binary: a step of a power of two.
            (Some(decimal), Some(dyadic)) if decimal > 0 && dyadic <= decimal => {
                Some(Self::Dyadic(dyadic))
            }
            (Some(decimal), _) => Some(Self::Decimal(decimal)),
            (None, dyadic) => dyadic.map(Self::Dyadic),
        }
    }

    /// Fills `out` with the integers, and answers with the values that have none; their integers are their neighbours'.
    pub(crate) fn to_integers(self, values: &[f64], out: &mut [i64]) -> Exceptions {
        let exceptions = match self {
            Self::Decimal(scale) => {
                decimal::to_latents(values, scale, out);
                decimal::exceptions(values, out, scale)
            }
            Self::Dyadic(scale) => {
                dyadic::to_latents(values, scale, out);
                dyadic::exceptions(values, out, scale)
            }
        };
        exceptions.fill(out);
        exceptions
    }

    /// Fills `out`.
    pub(crate) fn to_floats(self, integers: &[i64], out: &mut [f64]) -> Result<(), Error> {
        match self {
            Self::Decimal(scale) => {
                decimal::check_scale(scale)?;
                decimal::from_latents(integers, scale, out)
            }
            Self::Dyadic(scale) => dyadic::from_latents(integers, scale, out),
        }
    }
}
