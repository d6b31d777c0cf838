//! A plan that broke a promise, as a file that can be kept and run again.
//!
//! Does: say from which seed a plan comes and what was done to it, in a few lines that read back; notice when the same
//! seed gives another plan by now. Does not: touch files (the program does), or keep plans themselves: what the seed
//! gives is the plan.

use std::fmt::Write as _;

use crate::exhaustive::{Broken, crashed_at};
use crate::generate::{calm_plan, random_plan};
use crate::plan::{Act, Plan, Restart};

/// Which plan of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The random one.
    Random,
    /// The one without faults.
    Calm,
    /// The one without faults, crashed at a call of a step.
    Crashed {
        /// The step.
        step: usize,
        /// Its call.
        call: u64,
        /// How the life ends.
        how: Restart,
    },
}

/// A plan that broke a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// The seed.
    pub seed: u64,
    /// Which of its plans.
    pub origin: Origin,
    /// Of the plan, so that nobody takes another one for it.
    pub fingerprint: u64,
}

impl Finding {
    /// A random plan.
    pub fn random(plan: &Plan) -> Self {
        Self {
            seed: plan.seed,
            origin: Origin::Random,
            fingerprint: fingerprint(plan),
        }
    }

    /// A plan without faults that was crashed at a call, or not.
    pub fn crashed(broken: &Broken) -> Self {
        let plan = &broken.0;
        let (last, before) = match plan.steps.as_slice() {
            [.., before, last] => (Some(last), Some(before)),
            _ => (None, None),
        };
        let how = last.and_then(|last| match last.act {
            Act::Restart(how) => Some(how),
            _ => None,
        });
        let call = before.and_then(|before| before.faults.crash_at);
        let origin = match (how, call) {
            (Some(how), Some(call)) => Origin::Crashed {
                step: plan.steps.len() - 2,
                call,
                how,
            },
            _ => Origin::Calm,
        };
        Self {
            seed: plan.seed,
            origin,
            fingerprint: fingerprint(plan),
        }
    }

    /// A name for its file.
    pub fn file_name(&self) -> String {
        match self.origin {
            Origin::Random => format!("{}-random.txt", self.seed),
            Origin::Calm => format!("{}-calm.txt", self.seed),
            Origin::Crashed { step, call, .. } => format!("{}-crash-{step}-{call}.txt", self.seed),
        }
    }

    /// The lines that read back, and below them what a person wants to know.
    pub fn spell(&self, story: &str) -> String {
        let mut out = format!("seed {}\nplan {:016x}\n", self.seed, self.fingerprint);
        let line = match self.origin {
            Origin::Random => "random".to_owned(),
            Origin::Calm => "calm".to_owned(),
            Origin::Crashed { step, call, how } => match how {
                Restart::PowerCut(seed) => format!("crash {step} {call} power {seed}"),
                _ => format!("crash {step} {call} kill"),
            },
        };
        write!(out, "{line}\n\n{story}\n").expect("a string takes any text");
        out
    }

    /// Reads the lines back.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mut next = || words.next().unwrap_or_default();
        let number = |word: &str| {
            let number: Result<u64, _> = word.parse();
            number.map_err(|error| format!("{word:?} is not a number: {error}"))
        };
        let seed = match next().as_slice() {
            ["seed", seed] => number(seed)?,
            other => return Err(format!("the first line is {other:?}, not a seed")),
        };
        let fingerprint = match next().as_slice() {
            ["plan", plan] => u64::from_str_radix(plan, 16).map_err(|error| error.to_string())?,
            other => return Err(format!("the second line is {other:?}, not a plan")),
        };
        let crash = |step: &str, call: &str, how: Restart| -> Result<Origin, String> {
            let step = usize::try_from(number(step)?).map_err(|error| error.to_string())?;
            let call = number(call)?;
            Ok(Origin::Crashed { step, call, how })
        };
        let origin = match next().as_slice() {
            ["random"] => Origin::Random,
            ["calm"] => Origin::Calm,
            ["crash", step, call, "kill"] => crash(step, call, Restart::Kill)?,
            ["crash", step, call, "power", seed] => {
                crash(step, call, Restart::PowerCut(number(seed)?))?
            }
            other => return Err(format!("the third line {other:?} names no kind of plan")),
        };
        Ok(Self {
            seed,
            origin,
            fingerprint,
        })
    }

    /// The plan, unless the seed gives another one by now.
    pub fn plan(&self) -> Result<Plan, String> {
        let plan = match self.origin {
            Origin::Random => random_plan(self.seed),
            Origin::Calm => calm_plan(self.seed),
            Origin::Crashed { step, call, how } => {
                crashed_at(&calm_plan(self.seed), step, call, how)
            }
        };
        if fingerprint(&plan) == self.fingerprint {
            return Ok(plan);
        }
        Err(format!(
            "seed {} gives another plan than when this was found: run the commit that found it",
            self.seed
        ))
    }
}

/// FNV-1a of the plan as text: the same on every machine.
fn fingerprint(plan: &Plan) -> u64 {
    let text = format!("{plan:?}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Failure;

    fn finding(origin: Origin) -> Finding {
        let mut finding = Finding::random(&random_plan(7));
        finding.origin = origin;
        finding
    }

    #[test]
    fn what_was_written_down_reads_back() {
        let crashed = |how| Origin::Crashed {
            step: 3,
            call: 11,
            how,
        };
        for origin in [
            Origin::Random,
            Origin::Calm,
            crashed(Restart::Kill),
            crashed(Restart::PowerCut(99)),
        ] {
            let finding = finding(origin);
            let text = finding.spell("step 3: something is missing");
            assert_eq!(Finding::parse(&text), Ok(finding), "{text}");
        }
    }

    #[test]
    fn the_same_plan_comes_back_or_it_is_said_that_it_does_not() {
        let plan = random_plan(7);
        assert_eq!(Finding::random(&plan).plan(), Ok(plan));
        let mut other = Finding::random(&random_plan(7));
        other.fingerprint += 1;
        assert!(other.plan().is_err());
        let failure = Failure {
            step: 0,
            what: String::new(),
        };
        let crashed = crashed_at(&calm_plan(5), 2, 1, Restart::PowerCut(8));
        let found = Finding::crashed(&Box::new((crashed.clone(), failure.clone())));
        assert_eq!(found.plan(), Ok(crashed));
        let calm = calm_plan(5);
        let found = Finding::crashed(&Box::new((calm.clone(), failure)));
        assert_eq!(found.plan(), Ok(calm));
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in [
            "",
            "seed",
            "seed x",
            "seed 1\nplan zz",
            "seed 1\nplan 1\ncrash 1 2",
        ] {
            assert!(Finding::parse(text).is_err(), "{text:?}");
        }
    }
}
