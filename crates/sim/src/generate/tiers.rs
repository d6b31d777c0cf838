//! Tiers and formats of segments: what a plan drawn before becomes besides.
//!
//! Does: turn some steps into others by numbers of their own, so that everything else of a seed's plan is as it was. Does
//! not: draw steps.

use nilometer_engine::Tier;
use rand::{RngExt, SeedableRng};

use super::{DAY_NS, HOUR_NS, Random, pick};
use crate::plan::{Act, Change, Step};

/// Ages after which partitions are cold.
const AGES: [Option<i64>; 5] = [None, Some(1), Some(HOUR_NS), Some(DAY_NS), Some(i64::MAX)];

/// How many lives write segments of the earlier format; mostly none.
pub(super) fn earlier_lives(seed: u64) -> u32 {
    let mut random = Random::seed_from_u64(seed ^ 0xF0_1234);
    *pick(&mut random, &[0, 0, 0, 1, 2, 4])
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
                _ => {}
            }
        }
    }
}
