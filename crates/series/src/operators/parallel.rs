//! Work on several units at once, on the caller's threads.
//!
//! Does: hand out units, and gather what comes of them in their order. Does not: spawn.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use nilometer_engine::{Narrowing, Snapshot};

use crate::context::{Context, Step};
use crate::error::Error;
use crate::input::{Chunk, Inputs, Reading, Which};

/// What comes of each unit, in their order; the first error in that order, if there is one.
pub(super) fn each<T: Send>(
    context: &Context,
    workers: usize,
    units: Range<usize>,
    work: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    if workers <= 1 || units.len() <= 1 {
        return units.map(work).collect();
    }
    let places: Vec<Mutex<Option<Result<T, Error>>>> =
        units.clone().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    context.threads.run(workers.min(units.len()), &|_| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = places.get(at) else {
                break;
            };
            let result = work(units.start + at);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    });
    gathered(places)
}

/// What each of the workers made of the units that it took.
pub(super) fn fold<T: Send>(
    context: &Context,
    workers: usize,
    units: usize,
    new: impl Fn() -> T + Sync,
    work: impl Fn(&mut T, usize) -> Result<(), Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let take = |made: &mut T| -> Result<(), Error> {
        loop {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            if unit >= units {
                return Ok(());
            }
            context.check()?;
            work(made, unit).inspect_err(|_| next.store(units, Ordering::Relaxed))?;
        }
    };
    if workers <= 1 {
        let mut made = new();
        take(&mut made)?;
        return Ok(vec![made]);
    }
    let places: Vec<Mutex<Option<Result<T, Error>>>> =
        (0..workers).map(|_| Mutex::new(None)).collect();
    context.threads.run(workers, &|worker| {
        let mut made = new();
        let result = take(&mut made).map(|()| made);
        if let Some(place) = places.get(worker) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    });
    gathered(places)
}

/// What each of the workers made of the rows of a range of time, a chunk at a time. Rows of one series and time are met by one
/// worker, in the order in which they were written.
pub(super) fn chunks<T: Send>(
    inputs: &Inputs,
    (snapshot, context): (&Snapshot, &Context),
    (range, narrowing): ((i64, i64), &Narrowing),
    new: impl Fn() -> Result<T, Error> + Sync,
    add: impl Fn(&mut T, Chunk) -> Result<(), Error> + Sync,
) -> Result<Vec<T>, Error> {
    let read = |range, which| inputs.read(snapshot, range, narrowing, (None, which), context);
    let mut readings = vec![read(range, Which::All)?];
    let rows = readings.iter().map(|reading| reading.rows_estimate).sum();
    // Parts in which no series has more rows than are held at once.
    let rows_max = context.memory.slice_rows().max(1);
    if *narrowing == Narrowing::None
        && rows > rows_max
        && inputs.tables().is_some()
        && let Some(portions) = inputs.portions(snapshot, range, rows_max)?
    {
        readings.clear();
        for portion in &portions {
            readings.push(read(portion.range, Which::Series(&portion.series))?);
        }
    }
    let units = readings
        .iter()
        .flat_map(|reading| (0..reading.units()).map(move |unit| (reading, unit)));
    let units: Vec<(&Reading, usize)> = units.collect();
    let workers = context.workers(rows, units.len())?;
    let parts = fold(context, workers, units.len(), new, |made, unit| {
        let made = made.as_mut().map_err(taken)?;
        let Some((reading, unit)) = units.get(unit) else {
            return Ok(());
        };
        inputs.visit(reading, *unit, context, &mut |chunk| {
            let _timed = context.timed(Step::Operate);
            add(made, chunk)?;
            Ok(true)
        })
    })?;
    parts.into_iter().collect()
}

/// An error that is met a second time: it was returned when it was made.
pub(super) fn taken(error: &mut Error) -> Error {
    std::mem::replace(error, Error::Cancelled)
}

fn gathered<T>(places: Vec<Mutex<Option<Result<T, Error>>>>) -> Result<Vec<T>, Error> {
    let results = places.into_iter().filter_map(|place| {
        let place = place.into_inner();
        place.unwrap_or_else(PoisonError::into_inner)
    });
    results.collect()
}
