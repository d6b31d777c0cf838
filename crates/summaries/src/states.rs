//! Timelines of states: `state_agg`, `compact_state_agg`.
//!
//! A state lasts from the row that says it to the next row; of the last row nothing is known but that it was. Does: keep how long
//! each state lasted, and, unless it is compact, when. Does not: sort; rows come in the order of their times.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::scalar::{SCALAR_BYTES_MIN, Scalar, ScalarKind};

/// A time with one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Which of the states, in the order in which they first came.
    pub state: usize,
    /// Its start.
    pub start: i64,
    /// Its end.
    pub end: i64,
}

/// States over a range of time.
#[derive(Debug, Clone, PartialEq)]
pub struct States {
    is_compact: bool,
    known: Vec<Scalar>,
    /// Nanoseconds, of each state.
    durations: Vec<i64>,
    /// Empty in a compact summary.
    periods: Vec<Period>,
    first: i64,
    last: i64,
    last_state: usize,
}

/// States that are looked for one by one; a timeline of states has few.
const STATES_MAX: usize = 10_000;

impl States {
    /// One row.
    pub fn new(is_compact: bool, time: i64, state: Scalar) -> Self {
        let period = Period {
            state: 0,
            start: time,
            end: time,
        };
        Self {
            is_compact,
            known: vec![state],
            durations: vec![0],
            periods: if is_compact { Vec::new() } else { vec![period] },
            first: time,
            last: time,
            last_state: 0,
        }
    }

    /// The place of a state, which is new or not.
    fn place(&mut self, state: &Scalar) -> Result<usize, Error> {
        if let Some(place) = self.find(state) {
            return Ok(place);
        }
        if self.known.len() >= STATES_MAX {
            return Err(Error::Argument(format!(
                "state_agg: there are more than {STATES_MAX} different states; a state is one of a few"
            )));
        }
        self.known.push(state.clone());
        self.durations.push(0);
        Ok(self.known.len() - 1)
    }

    fn find(&self, state: &Scalar) -> Option<usize> {
        self.known.iter().position(|known| known == state)
    }

    /// The last state lasts until here.
    fn last_until(&mut self, time: i64) {
        let lasted = time.saturating_sub(self.last);
        if let Some(duration) = self.durations.get_mut(self.last_state) {
            *duration = duration.saturating_add(lasted);
        }
        if let Some(period) = self.periods.last_mut() {
            period.end = time;
        }
        self.last = time;
    }

    /// Takes in the next row in the order of time.
    pub fn add(&mut self, time: i64, state: &Scalar) -> Result<(), Error> {
        let is_same = self.known.get(self.last_state) == Some(state);
        if time == self.last && !is_same {
            let known = self.known.get(self.last_state);
            return Err(Error::TwoStates {
                one: known.map(ToString::to_string).unwrap_or_default(),
                other: state.to_string(),
            });
        }
        self.last_until(time);
        if !is_same {
            self.last_state = self.place(state)?;
            self.begin(time, time);
        }
        Ok(())
    }

    fn begin(&mut self, start: i64, end: i64) {
        if !self.is_compact {
            self.periods.push(Period {
                state: self.last_state,
                start,
                end,
            });
        }
    }

    /// Takes in what comes after it.
    pub fn append(&mut self, later: &Self) -> Result<(), Error> {
        if self.is_compact != later.is_compact {
            return Err(Error::Kinds {
                one: self.name(),
                other: later.name(),
            });
        }
        if later.first < self.last {
            return Err(Error::Overlap { kind: self.name() });
        }
        if self.value_kind() != later.value_kind() {
            let name = |it: &Self| it.value_kind().map_or("nothing", ScalarKind::name);
            return Err(Error::Parameters {
                what: "states of type",
                one: name(self).to_owned(),
                other: name(later).to_owned(),
            });
        }
        self.last_until(later.first);
        let mut places = Vec::with_capacity(later.known.len());
        for (state, lasted) in later.known.iter().zip(&later.durations) {
            let place = self.place(state)?;
            places.push(place);
            if let Some(duration) = self.durations.get_mut(place) {
                *duration = duration.saturating_add(*lasted);
            }
        }
        let place = |state: usize| places.get(state).copied().unwrap_or_default();
        for period in &later.periods {
            let state = place(period.state);
            match self.periods.last_mut() {
                Some(last) if last.state == state => last.end = period.end,
                _ => {
                    self.last_state = state;
                    self.begin(period.start, period.end);
                }
            }
        }
        self.last_state = place(later.last_state);
        self.last = later.last;
        Ok(())
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.is_compact {
            "compact_state_agg"
        } else {
            "state_agg"
        }
    }

    /// The time of the first row.
    pub fn first(&self) -> i64 {
        self.first
    }

    /// The type of the states.
    pub fn value_kind(&self) -> Option<ScalarKind> {
        self.known.first().map(Scalar::kind)
    }

    /// A state by its place.
    pub fn state(&self, place: usize) -> Option<&Scalar> {
        self.known.get(place)
    }

    /// Each state and how long it lasted.
    pub fn durations(&self) -> impl Iterator<Item = (&Scalar, i64)> {
        self.known.iter().zip(self.durations.iter().copied())
    }

    /// The times with one state, in order; none of a compact summary.
    pub fn periods(&self) -> Result<&[Period], Error> {
        if self.is_compact {
            return Err(Error::Argument(
                "compact_state_agg keeps how long states lasted, not when; use state_agg"
                    .to_owned(),
            ));
        }
        Ok(&self.periods)
    }

    /// How long a state lasted.
    pub fn duration_in(&self, state: &Scalar) -> i64 {
        let lasted = self.find(state).and_then(|place| self.durations.get(place));
        lasted.copied().unwrap_or(0)
    }

    /// How long a state lasted from one time to another.
    pub fn duration_between(&self, state: &Scalar, from: i64, to: i64) -> Result<i64, Error> {
        let place = self.find(state);
        let periods = self.periods()?.iter();
        let lasted = periods
            .filter(|period| Some(period.state) == place)
            .map(|period| {
                let (start, end) = (period.start.max(from), period.end.min(to));
                end.saturating_sub(start).max(0)
            });
        Ok(lasted.fold(0, i64::saturating_add))
    }

    /// The state at a time; none before the first row and after the last.
    pub fn state_at(&self, time: i64) -> Result<Option<&Scalar>, Error> {
        let periods = self.periods()?;
        let begun = periods.partition_point(|period| period.start <= time);
        let period = begun.checked_sub(1).and_then(|place| periods.get(place));
        // At its very end, the last period's state is known.
        let is_known = time <= self.last;
        let state = period.filter(|_| is_known).map(|period| period.state);
        Ok(state.and_then(|state| self.known.get(state)))
    }

    /// How long a state lasted from one time to another, with the last state of what came before up to the first row, and
    /// the last one up to the end.
    pub fn interpolated_duration(
        &self,
        state: &Scalar,
        from: i64,
        to: i64,
        before: Option<&Self>,
    ) -> Result<i64, Error> {
        let mut lasted = self.duration_in(state);
        if let Some(before) = before.filter(|_| self.first > from) {
            if before.last > self.first {
                return Err(Error::Overlap { kind: self.name() });
            }
            if before.known.get(before.last_state) == Some(state) {
                lasted = lasted.saturating_add(self.first.saturating_sub(from));
            }
        }
        if to > self.last && self.known.get(self.last_state) == Some(state) {
            lasted = lasted.saturating_add(to.saturating_sub(self.last));
        }
        Ok(lasted)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.known.iter().map(Scalar::bytes).sum();
        self.periods.capacity() * size_of::<Period>()
            + self.known.capacity() * (size_of::<Scalar>() + 8)
            + texts
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.u8(u8::from(self.is_compact));
        to.count(self.known.len());
        for (state, lasted) in self.durations() {
            state.write(to);
            to.i64(lasted);
        }
        to.i64(self.first);
        to.i64(self.last);
        to.count(self.last_state);
        to.count(self.periods.len());
        for period in &self.periods {
            to.count(period.state);
            to.i64(period.start);
            to.i64(period.end);
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let is_compact = from.flag()?;
        let count = from.count(SCALAR_BYTES_MIN + 8)?;
        if count == 0 || count > STATES_MAX {
            return Err(damaged("a number of states"));
        }
        let mut states: Vec<Scalar> = Vec::with_capacity(count);
        let mut durations = Vec::with_capacity(count);
        for _ in 0..count {
            let state = Scalar::read(from)?;
            let is_alike = states
                .first()
                .is_none_or(|known| known.kind() == state.kind());
            if !is_alike || states.contains(&state) {
                return Err(damaged("a state"));
            }
            states.push(state);
            durations.push(from.i64()?);
        }
        let (first, last) = (from.i64()?, from.i64()?);
        let place = |value: u64| {
            let place = usize::try_from(value).ok();
            place
                .filter(|place| *place < count)
                .ok_or(damaged("a state"))
        };
        let last_state = place(from.u64()?)?;
        let mut periods: Vec<Period> = Vec::new();
        for _ in 0..from.count(24)? {
            let period = Period {
                state: place(from.u64()?)?,
                start: from.i64()?,
                end: from.i64()?,
            };
            let begins = periods.last().map_or(first, |before| before.end);
            if period.start != begins || period.end < period.start {
                return Err(damaged("a period"));
            }
            periods.push(period);
        }
        let is_whole = periods
            .last()
            .is_none_or(|period| period.end == last && period.state == last_state);
        if last < first || is_compact != periods.is_empty() || !is_whole {
            return Err(damaged("a period"));
        }
        Ok(Self {
            is_compact,
            known: states,
            durations,
            periods,
            first,
            last,
            last_state,
        })
    }
}
