//! Sketches of distinct values (`HyperLogLog++`), as InfluxDB 1.12 writes them: what `sum_hll` makes and `count_hll` counts.
//!
//! Does: gather values, write a sketch as a text, read one, estimate. A text that InfluxDB wrote is read here, and the
//! other way round. Does not: know series; all values of a group are in one sketch.

#![expect(
    clippy::big_endian_bytes,
    reason = "the bytes are InfluxDB's, and big-endian"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "bits are cut out of hashes, and lengths were bounded"
)]

use std::hash::Hasher;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustc_hash::FxHashSet;
use twox_hash::XxHash64;

use crate::select::values::value::Value;

const PREFIX: &str = "HLL_";
const VERSION: u8 = 2;
/// Registers are 2 to this power, in sketches made here.
const PRECISION: u8 = 16;
/// Bits of a hash that tell values apart while there are few.
const FINE: u8 = 25;
/// What a sketch that is not empty has at least: version, precision, kind, and two lengths.
const BYTES_MIN: usize = 12;

/// Distinct values, about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sketch {
    precision: u8,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Few values, each as a number of 32 bits, sorted, and what is not sorted in yet.
    Fine {
        sorted: Vec<u32>,
        fresh: FxHashSet<u32>,
    },
    /// The most zeros that hashes of each register begin with, and one.
    Registers(Vec<u8>),
}

impl Sketch {
    pub(crate) fn new() -> Self {
        Self::of_precision(PRECISION)
    }

    fn of_precision(precision: u8) -> Self {
        let state = State::Fine {
            sorted: Vec::new(),
            fresh: FxHashSet::default(),
        };
        Self { precision, state }
    }

    fn registers(&self) -> usize {
        1 << self.precision
    }

    /// Adds a value; null is none.
    pub(crate) fn add(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Float(value) => self.add_bytes(&value.to_bits().to_be_bytes()),
            Value::Integer(value) => self.add_bytes(&value.to_be_bytes()),
            Value::Unsigned(value) => self.add_bytes(&value.to_be_bytes()),
            Value::Boolean(value) => self.add_bytes(&[u8::from(*value)]),
            Value::Text(text) => self.add_bytes(text.as_bytes()),
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        let mut hasher = XxHash64::with_seed(0);
        hasher.write(bytes);
        let hash = hasher.finish();
        let (precision, all) = (self.precision, self.registers());
        match &mut self.state {
            State::Registers(registers) => {
                let place = (hash >> (64 - precision)) as usize;
                let rest = (hash << precision) | (1 << (precision - 1));
                raise(registers, place, rest.leading_zeros() as u8 + 1);
            }
            State::Fine { sorted, fresh } => {
                fresh.insert(fine(hash, precision));
                if fresh.len() * 100 <= all {
                    return;
                }
                merge(sorted, fresh);
                if packed_len(sorted) > all {
                    self.coarsen();
                }
            }
        }
    }

    /// From numbers to registers.
    fn coarsen(&mut self) {
        let State::Fine { sorted, fresh } = &self.state else {
            return;
        };
        let mut registers = vec![0; self.registers()];
        for &number in sorted.iter().chain(fresh) {
            let (place, zeros) = coarse(number, self.precision);
            raise(&mut registers, place, zeros);
        }
        self.state = State::Registers(registers);
    }

    /// About how many distinct values there were: exact to a thousand or so, then within half a percent.
    pub(crate) fn count(&self) -> u64 {
        match &self.state {
            State::Fine { sorted, fresh } => {
                let known = sorted.len()
                    + fresh
                        .iter()
                        .filter(|one| sorted.binary_search(one).is_err())
                        .count();
                let all = f64::from(1_u32 << FINE);
                (all * (all / (all - known as f64)).ln()) as u64
            }
            State::Registers(registers) => {
                let all = registers.len() as f64;
                let is_empty = |register: &u8| f64::from(u8::from(*register == 0));
                let empty: f64 = registers.iter().map(is_empty).sum();
                let sum: f64 = registers
                    .iter()
                    .map(|&zeros| 0.5_f64.powi(i32::from(zeros)))
                    .sum();
                let scale = match registers.len() {
                    16 => 0.673,
                    32 => 0.697,
                    64 => 0.709,
                    _ => 0.7213 / (1.0 + 1.079 / all),
                };
                (scale * all * (all - empty) / (bias(empty) + sum) + 0.5) as u64
            }
        }
    }

    /// The sketch as a value of a column.
    pub(crate) fn text(mut self) -> String {
        let mut bytes = vec![VERSION, self.precision];
        match &mut self.state {
            State::Fine { sorted, fresh } => {
                merge(sorted, fresh);
                let packed = packed(sorted);
                bytes.push(1);
                // No values that are not sorted in.
                put(&mut bytes, 0);
                put(&mut bytes, sorted.len());
                put(&mut bytes, sorted.last().copied().unwrap_or(0) as usize);
                put(&mut bytes, packed.len());
                bytes.extend(packed);
            }
            State::Registers(registers) => {
                bytes.push(0);
                put(&mut bytes, registers.len());
                bytes.extend_from_slice(registers);
            }
        }
        let mut text = String::from(PREFIX);
        STANDARD.encode_string(bytes, &mut text);
        text
    }

    /// Reads a value of a column; `None` = it is no sketch.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let text = text.strip_prefix(PREFIX)?;
        if text.is_empty() {
            return Some(Self::new());
        }
        let bytes = STANDARD.decode(text).ok()?;
        if bytes.len() < BYTES_MIN {
            return None;
        }
        let [_version, precision, kind, rest @ ..] = bytes.as_slice() else {
            return None;
        };
        if !(4..=18).contains(precision) {
            return None;
        }
        let mut sketch = Self::of_precision(*precision);
        let (count, rest) = take(rest)?;
        if *kind == 0 {
            let registers = rest.get(..count)?;
            if registers.len() != sketch.registers() {
                return None;
            }
            sketch.state = State::Registers(registers.to_vec());
            return Some(sketch);
        }
        let (fresh, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        let mut numbers: FxHashSet<u32> = fresh
            .as_chunks::<4>()
            .0
            .iter()
            .map(|number| u32::from_be_bytes(*number))
            .collect();
        let (_count, rest) = take(rest)?;
        let (_last, rest) = take(rest)?;
        let (length, rest) = take(rest)?;
        numbers.extend(unpacked(rest.get(..length)?)?);
        let mut sorted = Vec::new();
        merge(&mut sorted, &mut numbers);
        sketch.state = State::Fine {
            sorted,
            fresh: numbers,
        };
        Some(sketch)
    }
}

fn raise(registers: &mut [u8], place: usize, zeros: u8) {
    if let Some(register) = registers.get_mut(place) {
        *register = zeros.max(*register);
    }
}

/// A hash as a number that keeps its first bits; the number of zeros behind them only where registers need it.
fn fine(hash: u64, precision: u8) -> u32 {
    let first = (hash >> (64 - FINE)) as u32;
    if first & ((1 << (FINE - precision)) - 1) == 0 {
        let rest = (hash << FINE) | ((1 << FINE) - 1);
        let zeros = rest.leading_zeros() + 1;
        return first << 7 | zeros << 1 | 1;
    }
    first << 1
}

/// The register of such a number, and its zeros and one.
fn coarse(number: u32, precision: u8) -> (usize, u8) {
    let mask = (1 << precision) - 1;
    if number & 1 == 1 {
        let zeros = (number >> 1 & 0x3f) as u8 + FINE - precision;
        return ((number >> (32 - precision) & mask) as usize, zeros);
    }
    let zeros = (number << (32 - FINE + precision - 1)).leading_zeros() as u8 + 1;
    ((number >> (FINE - precision + 1) & mask) as usize, zeros)
}

/// The sum that registers without a value and the others are weighed with (`LogLog-Beta`).
fn bias(empty: f64) -> f64 {
    const FACTORS: [f64; 7] = [
        -1.417_040_774_481_225,
        0.407_291_847_966_125_33,
        1.561_520_339_065_841_6,
        -0.992_422_335_342_861_3,
        0.260_646_813_994_830_9,
        -0.030_538_113_696_828_07,
        0.001_557_702_101_791_05,
    ];
    let log = (empty + 1.0).ln();
    let mut power = 1.0;
    FACTORS
        .iter()
        .fold(-0.373_318_766_437_530_6 * empty, |sum, factor| {
            power *= log;
            sum + factor * power
        })
}

fn merge(sorted: &mut Vec<u32>, fresh: &mut FxHashSet<u32>) {
    if fresh.is_empty() {
        return;
    }
    sorted.extend(fresh.drain());
    sorted.sort_unstable();
    sorted.dedup();
}

/// Differences in groups of seven bits, the lowest first.
fn packed(sorted: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(sorted.len() * 2);
    let mut last = 0;
    for &number in sorted {
        let mut rest = number - last;
        while rest > 0x7f {
            out.push(rest as u8 & 0x7f | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
        last = number;
    }
    out
}

fn packed_len(sorted: &[u32]) -> usize {
    let mut last = 0;
    let lengths = sorted.iter().map(|&number| {
        let bits = 32 - (number - last).leading_zeros();
        last = number;
        bits.div_ceil(7).max(1) as usize
    });
    lengths.sum()
}

fn unpacked(bytes: &[u8]) -> Option<Vec<u32>> {
    let (mut out, mut last, mut number, mut shift) = (Vec::new(), 0_u32, 0_u32, 0_u32);
    for &byte in bytes {
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 != 0 {
            shift += 7;
            continue;
        }
        last = last.checked_add(number)?;
        out.push(last);
        (number, shift) = (0, 0);
    }
    (shift == 0).then_some(out)
}

fn put(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&(number as u32).to_be_bytes());
}

fn take(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number) as usize, rest))
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use twox_hash::XxHash64;

    use super::Sketch;
    use crate::select::values::value::Value;

    fn sketch(values: impl IntoIterator<Item = Value>) -> Sketch {
        let mut sketch = Sketch::new();
        values.into_iter().for_each(|value| sketch.add(&value));
        sketch
    }

    /// A sketch that a client stored on InfluxDB must mean the same here: the texts are what the sketch package of its version
    /// 1.12 writes for these values.
    #[test]
    fn texts_are_those_of_influxdb() {
        let cases = [
            (
                sketch((0..5).map(Value::Integer)),
                "HLL_AhABAAAAAAAAAAUD0LhgAAAAFMiW3ALitPADxrSlDZjZoQfYl68D",
                5,
            ),
            (
                sketch([Value::Float(1.5), Value::Float(-0.25)]),
                "HLL_AhABAAAAAAAAAAIBsnveAAAACJaf/wHI2MoL",
                2,
            ),
            (
                sketch(["one", "two", "two"].map(|text| Value::Text(text.into()))),
                "HLL_AhABAAAAAAAAAAIDD2asAAAACIrY4wai9dkR",
                2,
            ),
            (
                sketch([Value::Boolean(true), Value::Boolean(false), Value::Null]),
                "HLL_AhABAAAAAAAAAAIDpNKgAAAACJ6JpBGCnO8L",
                2,
            ),
        ];
        for (sketch, text, count) in cases {
            assert_eq!(sketch.count(), count, "{text}");
            assert_eq!(sketch.text(), text);
            assert_eq!(Sketch::of_text(text).map(|read| read.count()), Some(count));
        }
    }

    /// Between few and many values the form changes, and with it how they are counted. Number, count, length of the text and its
    /// hash are those of the package of 1.12.
    #[test]
    fn counts_of_many_values_are_those_of_influxdb() {
        for (values, count, length, hash) in [
            (100, 100, 432, 0x0c55_7d03_9113_18d3),
            (1_000, 1_000, 3_748, 0xcb23_c68f_cff1_2b72),
            (10_000, 10_000, 27_688, 0x9147_4b25_c85c_210c),
            (20_000, 19_998, 52_724, 0x07c3_c63d_cf14_d0c0),
            (25_000, 24_997, 65_368, 0x6e99_21b8_4fa2_de65),
            (30_000, 29_996, 77_996, 0xa971_a53d_a353_b321),
            (100_000, 99_900, 87_396, 0x6ce4_aeaa_6930_1425),
            (1_000_000, 1_002_467, 87_396, 0x6159_f24e_9d2b_799a),
        ] {
            let sketch = sketch((0..values).map(Value::Integer));
            assert_eq!(sketch.count(), count, "{values}");
            let text = sketch.text();
            let mut hasher = XxHash64::with_seed(0);
            hasher.write(text.as_bytes());
            assert_eq!((text.len(), hasher.finish()), (length, hash), "{values}");
            let read = Sketch::of_text(&text).expect("it was just written");
            assert_eq!((read.count(), read.text()), (count, text), "{values}");
        }
    }

    /// Whatever a column of texts holds: it is no sketch, or it is one.
    #[test]
    fn texts_that_are_no_sketch_are_none() {
        let whole = sketch((0..50).map(Value::Integer)).text();
        for end in 0..whole.len() {
            let _ = Sketch::of_text(&whole[..end]);
        }
        for text in [
            "",
            "HLL",
            "HLLERROR x",
            "HLL_%",
            "HLL_AAAA",
            "HLL_AhMBAAAAAAAAAAUD0LhgAAAAFMiW",
            "HLL_AhAB////////////////////",
        ] {
            assert_eq!(Sketch::of_text(text), None, "{text}");
        }
        assert_eq!(Sketch::of_text("HLL_").map(|none| none.count()), Some(0));
    }
}
