//! Tiers and formats of segments: what a plan drawn before becomes besides.
//!
//! Does: turn some steps into others, and some texts into large ones, by numbers of their own, so that everything else of a
//! seed's plan is as it was. Does
//! not: draw steps.

use nilometer_engine::{Options, Tier};
use rand::{RngExt, SeedableRng};

use super::{DAY_NS, HOUR_NS, Random, pick};
use crate::plan::{Act, Change, Line, Step, Value};

/// Ages after which partitions are cold.
const AGES: [Option<i64>; 5] = [None, Some(1), Some(HOUR_NS), Some(DAY_NS), Some(i64::MAX)];

/// Of texts one in so many is large.
const LARGE_ONE_IN: u64 = 150;
/// More than a page has of a value.
const LARGE_BYTES: usize = 17_000;

/// The formats that the first lives write, any that is still written; mostly there is no such life. Versions of a program come one after
/// the other, and so do these.
pub(super) fn earlier_formats(seed: u64) -> Vec<u16> {
    let mut random = Random::seed_from_u64(seed ^ 0xF0_1234);
    let lives = *pick(&mut random, &[0, 0, 0, 1, 2, 4]);
    let now = Options::default().segment_format;
    let mut formats: Vec<u16> = (0..lives).map(|_| random.random_range(1..now)).collect();
    formats.sort_unstable();
    formats
}

/// Settles some stores for one tier, and has tables say when they are cold.
pub(super) fn add(seed: u64, steps: &mut [Step]) {
    let mut random = Random::seed_from_u64(seed ^ 0xC0_1D);
    for step in steps {
        let visit = step.visit.as_deref_mut().map(|visit| &mut visit.act);
        for act in [Some(&mut step.act), visit].into_iter().flatten() {
            match act {
                Act::Settle if random.random_bool(0.5) => {
                    *act = Act::SettleFor(*pick(&mut random, &[Tier::Cold, Tier::Cold, Tier::Hot]));
                }
                Act::Change {
                    change: change @ (Change::SetInterval { .. } | Change::SetRetention { .. }),
                    ..
                } if random.random_bool(0.3) => {
                    *change = Change::SetColdAfter {
                        table: change.table().to_owned(),
                        cold_after_ns: *pick(&mut random, &AGES),
                    };
                }
                Act::Write { lines, .. }
                | Act::WriteTyped { lines, .. }
                | Act::Update { lines, .. } => {
                    for line in lines {
                        enlarge(seed, line);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Makes a text of some lines so large that segments have it outside of their pages. A line that comes twice is the same both
/// times, as a batch that is sent again must be.
fn enlarge(seed: u64, line: &mut Line) {
    let Line::Point { fields, time, .. } = line else {
        return;
    };
    for (number, (_, value)) in (0_u64..).zip(fields) {
        let Value::Text(text) = value else { continue };
        let mut draw = seed ^ time.unwrap_or(7).cast_unsigned() ^ (number << 56);
        for byte in text.bytes() {
            draw = (draw ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let is_large = Random::seed_from_u64(draw).random_range(0..LARGE_ONE_IN) == 0;
        if is_large && !text.is_empty() {
            *text = text.repeat(LARGE_BYTES / text.len() + 1);
        }
    }
}
