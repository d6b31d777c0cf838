//! One flipped byte: the store says which file is damaged, or answers as if nothing had happened.

use nilometer_sim::corrupt::Outcomes;
use nilometer_sim::{calm_plan, flip_bytes, seeds};

#[test]
fn a_flipped_byte_is_refused_by_name_or_changes_nothing() {
    let mut sum = Outcomes::default();
    for seed in seeds(1, 100) {
        let outcomes =
            flip_bytes(&calm_plan(seed), 50).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        sum.refused += outcomes.refused;
        sum.put_aside += outcomes.put_aside;
        sum.refused_at_read += outcomes.refused_at_read;
        sum.same += outcomes.same;
        sum.tail_cut += outcomes.tail_cut;
    }
    println!("one byte flipped: {sum:?}");
    assert!(sum.refused + sum.refused_at_read > 0, "{sum:?}");
    assert!(sum.put_aside > 0, "{sum:?}");
}
