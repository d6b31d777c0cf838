//! Values of columns inside summaries: states, frequent values, largest values.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};

/// A value.
#[derive(Debug, Clone)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A time, in nanoseconds since 1970.
    Time(i64),
    /// A text.
    Text(Box<str>),
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScalarKind {
    /// True or false.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// A time.
    Time,
    /// A text.
    Text,
}

impl ScalarKind {
    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int => "bigint",
            Self::Float => "double precision",
            Self::Time => "timestamptz",
            Self::Text => "text",
        }
    }
}

impl Scalar {
    /// Its type.
    pub fn kind(&self) -> ScalarKind {
        match self {
            Self::Bool(_) => ScalarKind::Bool,
            Self::Int(_) => ScalarKind::Int,
            Self::Float(_) => ScalarKind::Float,
            Self::Time(_) => ScalarKind::Time,
            Self::Text(_) => ScalarKind::Text,
        }
    }

    /// Bytes that it holds beside itself.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            _ => 0,
        }
    }

    /// A hash that is the same on every machine and in every version.
    pub(crate) fn stable_hash(&self) -> u64 {
        let of = |bytes: &[u8]| twox_hash::XxHash3_64::oneshot(bytes);
        match self {
            Self::Bool(value) => of(&[u8::from(*value)]),
            Self::Int(value) | Self::Time(value) => of(&value.to_le_bytes()),
            Self::Float(value) => of(&canonical(*value).to_le_bytes()),
            Self::Text(text) => of(text.as_bytes()),
        }
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        match self {
            Self::Bool(value) => {
                to.u8(0);
                to.u8(u8::from(*value));
            }
            Self::Int(value) => {
                to.u8(1);
                to.i64(*value);
            }
            Self::Float(value) => {
                to.u8(2);
                to.f64(*value);
            }
            Self::Time(value) => {
                to.u8(3);
                to.i64(*value);
            }
            Self::Text(text) => {
                to.u8(4);
                to.bytes(text.as_bytes());
            }
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        Ok(match from.u8()? {
            0 => Self::Bool(from.flag()?),
            1 => Self::Int(from.i64()?),
            2 => Self::Float(from.f64()?),
            3 => Self::Time(from.i64()?),
            4 => {
                let text = std::str::from_utf8(from.bytes()?);
                Self::Text(text.map_err(|_| damaged("a text"))?.into())
            }
            _ => return Err(damaged("the type of a value")),
        })
    }
}

/// The least bytes that a value takes.
pub(crate) const SCALAR_BYTES_MIN: usize = 2;

/// The bits of a number; all zeros alike and all that are none alike.
fn canonical(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    }
}

/// `PostgreSQL`'s order of numbers: what is none is the largest.
pub(crate) fn order(one: f64, other: f64) -> Ordering {
    match (one.is_nan(), other.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => one.partial_cmp(&other).unwrap_or(Ordering::Equal),
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::Int(one), Self::Int(other)) | (Self::Time(one), Self::Time(other)) => {
                one.cmp(other)
            }
            (Self::Float(one), Self::Float(other)) => order(*one, *other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            _ => self.kind().cmp(&other.kind()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind().hash(state);
        match self {
            Self::Bool(value) => value.hash(state),
            Self::Int(value) | Self::Time(value) => value.hash(state),
            Self::Float(value) => canonical(*value).hash(state),
            Self::Text(text) => text.hash(state),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) | Self::Time(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
