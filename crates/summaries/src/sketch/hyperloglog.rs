//! Count of distinct values: `hyperloglog`, `approx_count_distinct`.
//!
//! Registers as Flajolet, Fusy, Gandouet and Meunier have them (2007), of 64-bit hashes; the estimate is that of
//! Ertl ("New cardinality estimation algorithms", 2017), which needs no table of corrections and no
//! second method for few values. A summary of few values keeps only the registers that it has.

use std::collections::BTreeMap;

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::scalar::Scalar;

const BITS_MIN: u32 = 4;
const BITS_MAX: u32 = 18;

/// One in so many registers are kept one by one; with more all are.
const SPARSE_PART: usize = 32;

#[derive(Debug, Clone, PartialEq)]
enum Registers {
    Few(BTreeMap<u32, u8>),
    All(Vec<u8>),
}

/// The registers.
#[derive(Debug, Clone, PartialEq)]
pub struct HyperLogLog {
    bits: u32,
    registers: Registers,
}

impl HyperLogLog {
    /// Without values, with so many registers or the next power of two.
    pub fn new(buckets: i64) -> Result<Self, Error> {
        let (min, max) = (1i64 << BITS_MIN, 1i64 << BITS_MAX);
        if !(min..=max).contains(&buckets) {
            return Err(Error::Argument(format!(
                "hyperloglog: buckets are from {min} to {max}, not {buckets}"
            )));
        }
        Ok(Self {
            bits: buckets.unsigned_abs().next_power_of_two().trailing_zeros(),
            registers: Registers::Few(BTreeMap::new()),
        })
    }

    fn size(&self) -> usize {
        1 << self.bits
    }

    /// The largest value that a register can have.
    fn largest(&self) -> u8 {
        u8::try_from(64 - self.bits + 1).unwrap_or(u8::MAX)
    }

    /// Takes a value in.
    pub fn add(&mut self, value: &Scalar) {
        let hash = value.stable_hash();
        let register = u32::try_from(hash >> (64 - self.bits)).unwrap_or(0);
        let rest = hash << self.bits;
        let zeros = u8::try_from(rest.leading_zeros() + 1).unwrap_or(u8::MAX);
        self.raise(register, zeros.min(self.largest()));
    }

    fn raise(&mut self, register: u32, to: u8) {
        let size = self.size();
        match &mut self.registers {
            Registers::All(all) => {
                if let Some(value) = all.get_mut(register as usize) {
                    *value = to.max(*value);
                }
            }
            Registers::Few(few) => {
                let value = few.entry(register).or_default();
                *value = to.max(*value);
                if few.len() > size / SPARSE_PART {
                    let mut all = vec![0; size];
                    for (register, value) in std::mem::take(few) {
                        if let Some(place) = all.get_mut(register as usize) {
                            *place = value;
                        }
                    }
                    self.registers = Registers::All(all);
                }
            }
        }
    }

    /// Takes in what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        if self.bits != other.bits {
            return Err(Error::Parameters {
                what: "numbers of buckets",
                one: self.size().to_string(),
                other: other.size().to_string(),
            });
        }
        for (register, value) in other.raised() {
            self.raise(register, value);
        }
        Ok(())
    }

    fn raised(&self) -> Box<dyn Iterator<Item = (u32, u8)> + '_> {
        match &self.registers {
            Registers::Few(few) => Box::new(few.iter().map(|(at, value)| (*at, *value))),
            Registers::All(all) => {
                let all = (0u32..).zip(all.iter().copied());
                Box::new(all.filter(|(_, value)| *value > 0))
            }
        }
    }

    /// How many distinct values there are, about.
    pub fn count(&self) -> f64 {
        let size = self.size() as f64;
        let largest = usize::from(self.largest());
        let mut times = vec![0u64; largest + 1];
        let mut raised = 0;
        for (_, value) in self.raised() {
            raised += 1;
            if let Some(count) = times.get_mut(usize::from(value)) {
                *count += 1;
            }
        }
        let zeros = self.size() as u64 - raised;
        let of = |value: usize| times.get(value).copied().unwrap_or(0) as f64;
        let mut z = size * tau(1.0 - of(largest) / size);
        for value in (1..largest).rev() {
            z = 0.5 * (z + of(value));
        }
        z += size * sigma(zeros as f64 / size);
        size * size / (2.0 * std::f64::consts::LN_2 * z)
    }

    /// The standard error, as a share of the count.
    pub fn error(&self) -> f64 {
        1.04 / (self.size() as f64).sqrt()
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        match &self.registers {
            Registers::Few(few) => few.len() * 16,
            Registers::All(all) => all.capacity(),
        }
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.u8(u8::try_from(self.bits).unwrap_or(0));
        match &self.registers {
            Registers::Few(few) => {
                to.u8(0);
                to.count(few.len());
                for (register, value) in few {
                    to.u64(u64::from(*register));
                    to.u8(*value);
                }
            }
            Registers::All(all) => {
                to.u8(1);
                to.bytes(all);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let bits = u32::from(from.u8()?);
        if !(BITS_MIN..=BITS_MAX).contains(&bits) {
            return Err(damaged("a number of registers"));
        }
        let mut read = Self {
            bits,
            registers: Registers::Few(BTreeMap::new()),
        };
        let (size, largest) = (read.size(), read.largest());
        if from.flag()? {
            let all = from.bytes()?;
            if all.len() != size || all.iter().any(|value| *value > largest) {
                return Err(damaged("a register"));
            }
            read.registers = Registers::All(all.to_vec());
        } else {
            let mut few = BTreeMap::new();
            for _ in 0..from.count(9)? {
                let register = u32::try_from(from.u64()?).map_err(|_| damaged("a register"))?;
                let value = from.u8()?;
                let is_wrong = register as usize >= size || value == 0 || value > largest;
                if is_wrong || few.insert(register, value).is_some() {
                    return Err(damaged("a register"));
                }
            }
            read.registers = Registers::Few(few);
        }
        Ok(read)
    }
}

/// What registers that were never raised say.
fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

/// What registers that cannot be raised any more say.
fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}
