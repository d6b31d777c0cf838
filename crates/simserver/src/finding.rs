//! A plan that broke a promise, as a file that can be kept and run again.
//!
//! Does: say from which seed a plan comes and which of its steps are left, in two lines that read back. Does not: touch
//! files (the program does), or keep steps themselves: what the seed gives is the plan.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::generate::random_plan;
use crate::influx::draw::influx_plan;
use crate::plan::Plan;

/// A plan that broke a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// Of the whole plan, so that nobody takes another one for it.
    pub fingerprint: u64,
}

fn fingerprint(plan: &Plan) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{plan}").hash(&mut hasher);
    hasher.finish()
}

impl Finding {
    /// Of a plan as its seed gives it.
    pub fn of(plan: &Plan) -> Self {
        Self {
            seed: plan.seed,
            fingerprint: fingerprint(plan),
        }
    }

    /// A name for its file.
    pub fn file_name(&self) -> String {
        format!("{}-{:08x}-requests.txt", self.seed, self.fingerprint >> 32)
    }

    /// The lines that read back, and below them what a person wants to know.
    pub fn spell(&self, story: &str) -> String {
        format!(
            "seed {}\nplan {:016x}\n\n{story}\n",
            self.seed, self.fingerprint
        )
    }

    /// Reads the lines back, and draws the plan again.
    pub fn plan(text: &str) -> Result<Plan, String> {
        let mut lines = text.lines();
        let seed = lines.next().and_then(|line| line.strip_prefix("seed "));
        let seed = seed.and_then(|seed| seed.parse().ok());
        let seed = seed.ok_or("the first line is not `seed` and a number")?;
        let print = lines.next().and_then(|line| line.strip_prefix("plan "));
        let print = print.and_then(|print| u64::from_str_radix(print, 16).ok());
        let print = print.ok_or("the second line is not `plan` and a number")?;
        let plans = [random_plan(seed), influx_plan(seed)];
        let plan = plans.into_iter().find(|plan| fingerprint(plan) == print);
        plan.ok_or_else(|| "this seed gives other plans by now".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_back_as_its_plan_or_says_that_it_is_another() {
        let plan = random_plan(7);
        let text = Finding::of(&plan).spell("a story");
        assert_eq!(Finding::plan(&text).unwrap(), plan);
        let of_influx = influx_plan(7);
        let finding = Finding::of(&of_influx).spell("another story");
        assert_eq!(Finding::plan(&finding).unwrap(), of_influx);
        let other = text.replace("seed 7", "seed 8");
        assert!(Finding::plan(&other).unwrap_err().contains("other plans"));
        assert!(Finding::plan("seed x").is_err());
    }
}
