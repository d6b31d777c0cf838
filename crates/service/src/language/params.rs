//! Parameters of statements: values of `$name` and `$1`, whatever the language.

use std::collections::BTreeMap;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A float, also one that is no number.
    F64(f64),
    /// Text; where a time is wanted, it is read as one.
    Text(String),
    /// A time in Unix nanoseconds.
    Time(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array of values.
    List(Vec<Param>),
    /// A value that says what it is to be, in a word of its language, such as a regular expression given as text.
    Of {
        /// The word.
        kind: String,
        /// The value.
        value: Box<Param>,
    },
}

impl Param {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(all) => {
                size_of_val(all.as_slice()) + all.iter().map(Self::bytes).sum::<usize>()
            }
            Self::Of { value, .. } => value.bytes(),
            Self::Null
            | Self::Bool(_)
            | Self::I64(_)
            | Self::U64(_)
            | Self::F64(_)
            | Self::Time(_) => 0,
        }
    }
}

impl From<bool> for Param {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Param {
    fn from(value: i64) -> Self {
        Self::I64(value)
    }
}

impl From<u64> for Param {
    fn from(value: u64) -> Self {
        Self::U64(value)
    }
}

impl From<f64> for Param {
    fn from(value: f64) -> Self {
        Self::F64(value)
    }
}

impl From<&str> for Param {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Param {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a statement's parameters, by name and by number. More than the statement asks for do no harm.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Params {
    named: BTreeMap<String, Param>,
    numbered: Vec<Param>,
}

impl Params {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `$name`; the name may be given with its `$`.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Param>) -> &mut Self {
        let name: String = name.into();
        let name = name.strip_prefix('$').map(str::to_owned).unwrap_or(name);
        self.named.insert(name, value.into());
        self
    }

    /// The value of the next number: `$1` first.
    pub fn push(&mut self, value: impl Into<Param>) -> &mut Self {
        self.numbered.push(value.into());
        self
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.numbered.is_empty()
    }

    /// The value of `$1`, `$2`, ...
    pub fn numbered(&self, number: usize) -> Option<&Param> {
        number.checked_sub(1).and_then(|at| self.numbered.get(at))
    }

    /// How many there are by number.
    pub fn numbers(&self) -> usize {
        self.numbered.len()
    }

    /// Bytes of the texts and bytes among them.
    pub fn bytes(&self) -> usize {
        let all = self.numbered.iter().chain(self.named.values());
        all.map(Param::bytes).sum()
    }

    /// The value of this name, which is given without `$`.
    pub fn named(&self, name: &str) -> Option<&Param> {
        self.named.get(name)
    }

    /// The names that there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }
}
