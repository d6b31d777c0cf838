//! Columns in memory: what the encoder borrows and what the decoder fills.

use std::ops::Range;

use crate::Error;
use crate::shared::room::Room;

/// How the values of a page are represented. SQL types are logical types over these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PhysicalType {
    /// Signed 64-bit integers, and times.
    #[default]
    I64 = 0,
    /// Unsigned 64-bit integers.
    U64 = 1,
    /// Binary64 floats, kept bit for bit.
    F64 = 2,
    /// Booleans.
    Bool = 3,
    /// UTF-8 text.
    Text = 4,
    /// Any bytes.
    Bytes = 5,
}

impl TryFrom<u8> for PhysicalType {
    type Error = Error;

    fn try_from(id: u8) -> Result<Self, Error> {
        Ok(match id {
            0 => Self::I64,
            1 => Self::U64,
            2 => Self::F64,
            3 => Self::Bool,
            4 => Self::Text,
            5 => Self::Bytes,
            _ => return Err(Error::UnknownType(id)),
        })
    }
}

/// One column of one block, dense: every row has a slot, and the slot of a null row may hold anything.
#[derive(Clone, Copy, Debug)]
pub struct ColumnRef<'a> {
    /// One slot per row.
    pub values: ValuesRef<'a>,
    /// One bit per row, LSB first, 1 = present; `None` when every row has a value.
    pub validity: Option<&'a [u8]>,
}

/// The slots of a column, by physical type.
#[derive(Clone, Copy, Debug)]
pub enum ValuesRef<'a> {
    /// Signed integers.
    I64(&'a [i64]),
    /// Unsigned integers.
    U64(&'a [u64]),
    /// Floats.
    F64(&'a [f64]),
    /// Booleans.
    Bool(&'a [bool]),
    /// Text: row `i` is `bytes[offsets[i]..offsets[i + 1]]`.
    Text {
        /// One more than rows, never decreasing.
        offsets: &'a [u32],
        /// The bytes that the offsets point into.
        bytes: &'a [u8],
    },
    /// Bytes, laid out like text.
    Bytes {
        /// One more than rows, never decreasing.
        offsets: &'a [u32],
        /// The bytes that the offsets point into.
        bytes: &'a [u8],
    },
}

impl ColumnRef<'_> {
    /// The number of rows, null ones included.
    pub fn rows(&self) -> usize {
        self.values.rows()
    }

    /// How the values are represented.
    pub fn physical_type(&self) -> PhysicalType {
        self.values.physical_type()
    }

    /// Whether row `row` has a value.
    ///
    /// # Panics
    ///
    /// If the validity bitmap has no such row.
    pub fn is_present(&self, row: usize) -> bool {
        self.validity.is_none_or(|bitmap| is_set(bitmap, row))
    }
}

impl<'a> ColumnRef<'a> {
    /// Some of its rows, none if they are not all there. `bitmap` is room for a bitmap that starts inside a byte.
    #[must_use]
    pub fn slice(self, rows: Range<usize>, bitmap: &'a mut Vec<u8>) -> ColumnRef<'a> {
        let values = self.values.slice(rows.clone());
        let whole = ColumnRef {
            values,
            validity: None,
        };
        let Some(validity) = self.validity.filter(|_| values.rows() == rows.len()) else {
            return whole;
        };
        if rows.clone().all(|row| is_set(validity, row)) {
            return whole;
        }
        bitmap.clear();
        bitmap.resize(rows.len().div_ceil(8), 0);
        for (at, row) in rows.enumerate() {
            bitmap[at / 8] |= u8::from(is_set(validity, row)) << (at % 8);
        }
        ColumnRef {
            values,
            validity: Some(bitmap),
        }
    }
}

impl<'a> ValuesRef<'a> {
    /// Some of the rows, none if they are not all there.
    #[must_use]
    pub fn slice(self, rows: Range<usize>) -> ValuesRef<'a> {
        match self {
            Self::I64(values) => ValuesRef::I64(values.get(rows).unwrap_or_default()),
            Self::U64(values) => ValuesRef::U64(values.get(rows).unwrap_or_default()),
            Self::F64(values) => ValuesRef::F64(values.get(rows).unwrap_or_default()),
            Self::Bool(values) => ValuesRef::Bool(values.get(rows).unwrap_or_default()),
            Self::Text { offsets, bytes } => ValuesRef::Text {
                offsets: offsets.get(rows.start..=rows.end).unwrap_or_default(),
                bytes,
            },
            Self::Bytes { offsets, bytes } => ValuesRef::Bytes {
                offsets: offsets.get(rows.start..=rows.end).unwrap_or_default(),
                bytes,
            },
        }
    }
}

impl ValuesRef<'_> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::I64(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Text { offsets, .. } | Self::Bytes { offsets, .. } => {
                offsets.len().saturating_sub(1)
            }
        }
    }

    /// How the values are represented.
    pub fn physical_type(&self) -> PhysicalType {
        match self {
            Self::I64(_) => PhysicalType::I64,
            Self::U64(_) => PhysicalType::U64,
            Self::F64(_) => PhysicalType::F64,
            Self::Bool(_) => PhysicalType::Bool,
            Self::Text { .. } => PhysicalType::Text,
            Self::Bytes { .. } => PhysicalType::Bytes,
        }
    }
}

/// Whether bit `row` of an LSB-first bitmap is set.
pub(crate) fn is_set(bitmap: &[u8], row: usize) -> bool {
    bitmap[row / 8] >> (row % 8) & 1 == 1
}

/// A decoded page. Reuse it: the next page overwrites it in place.
///
/// Dense like [`ColumnRef`]; null slots are zero, false or empty.
#[derive(Clone, Debug, Default)]
pub struct ColumnBuf {
    pub(crate) physical_type: PhysicalType,
    pub(crate) rows: usize,
    pub(crate) has_nulls: bool,
    pub(crate) validity: Vec<u8>,
    pub(crate) i64s: Vec<i64>,
    pub(crate) u64s: Vec<u64>,
    pub(crate) f64s: Vec<f64>,
    pub(crate) bools: Vec<bool>,
    pub(crate) offsets: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
    /// Text pages inflate into this.
    pub(crate) inflated: Vec<u8>,
    /// Pages in pco are decoded in this.
    pub(crate) room: Room,
}

impl ColumnBuf {
    /// The number of rows, null ones included; 0 before the first page and after a page that failed to decode.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Replaces the content by a column of so many signed integers, each the one before and a step: what a page of even times holds.
    pub fn fill_even(&mut self, first: i64, step: i64, rows: usize) {
        self.physical_type = PhysicalType::I64;
        self.has_nulls = false;
        self.i64s.clear();
        let mut value = first;
        self.i64s.extend((0..rows).map(|_| {
            let this = value;
            value = value.wrapping_add(step);
            this
        }));
        self.rows = rows;
    }

    /// Puts another number in place of each signed integer; false = there is none for one of them, and then there are no rows. Nulls
    /// are not left out.
    pub fn map_i64s(&mut self, to: impl Fn(i64) -> Option<i64>) -> bool {
        let is_done = self.physical_type == PhysicalType::I64
            && self.i64s.iter_mut().take(self.rows).all(|value| {
                let found = to(*value);
                *value = found.unwrap_or(*value);
                found.is_some()
            });
        if !is_done {
            self.rows = 0;
        }
        is_done
    }

    /// A copy that has its values only, and no room to decode another page in.
    #[must_use]
    pub fn to_kept(&self) -> Self {
        Self {
            physical_type: self.physical_type,
            rows: self.rows,
            has_nulls: self.has_nulls,
            validity: self.validity().unwrap_or_default().to_vec(),
            i64s: self.i64s().to_vec(),
            u64s: self.u64s().to_vec(),
            f64s: self.f64s().to_vec(),
            bools: self.bools().to_vec(),
            offsets: self.text().0.to_vec(),
            bytes: self.text().1.to_vec(),
            inflated: Vec::new(),
            room: Room::default(),
        }
    }

    /// About how much memory its values take.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.validity.capacity()
            + 8 * (self.i64s.capacity() + self.u64s.capacity() + self.f64s.capacity())
            + self.bools.capacity()
            + 4 * self.offsets.capacity()
            + self.bytes.capacity()
    }

    /// How the values are represented.
    pub fn physical_type(&self) -> PhysicalType {
        self.physical_type
    }

    /// The signed integers; empty if the page holds another type.
    pub fn i64s(&self) -> &[i64] {
        self.slots(PhysicalType::I64, &self.i64s)
    }

    /// The unsigned integers; empty if the page holds another type.
    pub fn u64s(&self) -> &[u64] {
        self.slots(PhysicalType::U64, &self.u64s)
    }

    /// The floats; empty if the page holds another type.
    pub fn f64s(&self) -> &[f64] {
        self.slots(PhysicalType::F64, &self.f64s)
    }

    /// The booleans; empty if the page holds another type.
    pub fn bools(&self) -> &[bool] {
        self.slots(PhysicalType::Bool, &self.bools)
    }

    /// Offsets (one more than rows) and bytes of text or bytes; both empty if the page holds another type.
    pub fn text(&self) -> (&[u32], &[u8]) {
        match self.physical_type {
            PhysicalType::Text | PhysicalType::Bytes if self.rows > 0 => {
                (&self.offsets, &self.bytes)
            }
            _ => (&[], &[]),
        }
    }

    /// One bit per row, LSB first, 1 = present; `None` when every row has a value.
    pub fn validity(&self) -> Option<&[u8]> {
        self.has_nulls.then_some(self.validity.as_slice())
    }

    /// The same column, as the encoder and [`crate::stats::statistics`] take it.
    pub fn as_column(&self) -> ColumnRef<'_> {
        let values = match self.physical_type {
            PhysicalType::I64 => ValuesRef::I64(self.i64s()),
            PhysicalType::U64 => ValuesRef::U64(self.u64s()),
            PhysicalType::F64 => ValuesRef::F64(self.f64s()),
            PhysicalType::Bool => ValuesRef::Bool(self.bools()),
            PhysicalType::Text => ValuesRef::Text {
                offsets: self.text().0,
                bytes: self.text().1,
            },
            PhysicalType::Bytes => ValuesRef::Bytes {
                offsets: self.text().0,
                bytes: self.text().1,
            },
        };
        ColumnRef {
            values,
            validity: self.validity(),
        }
    }

    fn slots<'a, T>(&self, physical_type: PhysicalType, slots: &'a [T]) -> &'a [T] {
        if self.physical_type == physical_type {
            &slots[..self.rows]
        } else {
            &[]
        }
    }
}
