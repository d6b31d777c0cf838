//! SELECT: from a tree to sets.
//!
//! ```text
//! compile: checks, constants, range of time -> names: types, wildcards -> query: rows of fields or calls -> output: sets
//!                                              calls: aggregates of the engine (stored) or of rows (read), fill, transform
//! ```

pub(crate) mod checked;
mod error;
mod functions;
mod planned;
mod run;
mod steps;
mod values;

use nilometer_engine::Snapshot;
use nilometer_influxql_syntax::ast::Select;
use nilometer_series::{Charge, Context};
use nilometer_service::Set;

pub use error::Error;
use planned::plan::Plan;

/// What a SELECT is run with.
#[derive(Debug, Clone, Copy)]
pub struct SelectContext<'a> {
    /// The moment that it sees.
    pub snapshot: &'a Snapshot,
    /// The database of measurements without one; empty if there is none.
    pub database: &'a str,
    /// The retention policy (schema) of measurements of that database without one; `None` = the default.
    pub policy: Option<&'a str>,
    /// What `now()` is, in nanoseconds since 1970.
    pub now_ns: i64,
    /// Threads, memory, cancellation and limits.
    pub context: &'a Context,
}

/// The sets of an answer in the order of their names and tags. What `INTO` asks for is the caller's to write.
#[derive(Debug)]
pub struct Sets(State);

#[derive(Debug)]
enum State {
    /// They are there.
    Ready(
        steps::output::Ready,
        #[expect(dead_code, reason = "it gives the memory back")] Charge,
    ),
    /// They are read as they are asked for.
    Stream(Box<steps::stream::Stream>),
}

impl Iterator for Sets {
    type Item = Result<Set, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            State::Ready(ready, _) => ready.next().map(Ok),
            State::Stream(stream) => stream.next(),
        }
    }
}

fn planned(select: &Select, context: &SelectContext<'_>) -> Result<Plan, Error> {
    let compiled = checked::compile::compile(select, context.now_ns)?;
    let scope = planned::names::Scope {
        snapshot: context.snapshot,
        database: context.database,
        policy: context.policy,
    };
    planned::names::plan(&compiled, scope)
}

/// The plan whose queries inside leave out series that the queries around them throw away.
fn narrowed(select: &Select, context: &SelectContext<'_>) -> Result<Plan, Error> {
    let mut plan = planned(select, context)?;
    planned::narrowed::narrowed(&mut plan, context.snapshot)?;
    Ok(plan)
}

/// The plan of a SELECT, line by line: its expressions, and the series query of each measurement.
pub fn explain(select: &Select, context: &SelectContext<'_>) -> Result<Vec<String>, Error> {
    let plan = narrowed(select, context)?;
    let frame = steps::frame::Frame::outermost(&plan);
    let mut lines = Vec::new();
    steps::explain::lines(&plan, &frame, context.now_ns, 0, &mut lines);
    Ok(lines)
}

/// The same answer as [`run`], value by value from the rows of each query inside on: what tests compare columns with.
#[doc(hidden)]
pub fn run_by_values(select: &Select, context: &SelectContext<'_>) -> Result<Sets, Error> {
    let plan = planned(select, context)?;
    let frame = steps::frame::Frame::outermost(&plan);
    let run = run::Run::new(context.snapshot, context.context, context.now_ns);
    answer(&plan, &frame, run.by_values())
}

fn answer(plan: &Plan, frame: &steps::frame::Frame, run: run::Run<'_>) -> Result<Sets, Error> {
    let rows = run.rows(plan, frame)?;
    let ready = steps::output::Ready::new(plan, rows);
    Ok(Sets(State::Ready(ready, run.into_charge())))
}

/// Answers a SELECT, without its INTO.
pub fn run(select: &Select, context: &SelectContext<'_>) -> Result<Sets, Error> {
    let plan = narrowed(select, context)?;
    let frame = steps::frame::Frame::outermost(&plan);
    let read = (context.snapshot, context.context);
    let stream = match steps::stream::Stream::few(&plan, &frame, read)? {
        None => steps::stream::Stream::of(&plan, &frame, context.now_ns, read)?,
        stream => stream,
    };
    let stream = match stream {
        None => steps::buckets::answer(&plan, &frame, read)?
            .map(|held| steps::stream::Stream::whole(held, read)),
        stream => stream,
    };
    if let Some(stream) = stream {
        return Ok(Sets(State::Stream(Box::new(stream))));
    }
    let run = run::Run::new(context.snapshot, context.context, context.now_ns);
    answer(&plan, &frame, run)
}
