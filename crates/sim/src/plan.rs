//! What one run does, as data: it prints, it shrinks, and it runs again.
//!
//! Does: name the steps, the points of a write and the faults, and spell points as line protocol. Does not: draw
//! plans (see [`crate::generate`]), run them (see [`crate::run()`]), or know what a store answers.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use nilometer_engine::Options;
use nilometer_engine::disk::CrashPlan;

/// Tags of a point: sorted by key, no empty value.
pub type Tags = BTreeMap<String, String>;
/// Fields of a point or of a row.
pub type Fields = BTreeMap<String, Value>;

/// A field's value; floats by their bits, so that equal means the same to the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Bits of an `f64`.
    Float(u64),
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// True or false.
    Boolean(bool),
    /// A text.
    Text(String),
}

/// A line of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A point; the store takes it unless a field has another type already.
    Point {
        /// Its table.
        table: String,
        /// Its tags.
        tags: Tags,
        /// Its fields, in the order in which they stand in the line.
        fields: Vec<(String, Value)>,
        /// Nanoseconds; `None` = the store's clock.
        time: Option<i64>,
    },
    /// Text that no parser takes.
    Bad(String),
}

/// How a life ends and the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The store is dropped and opened again by the same machine.
    Clean,
    /// The process dies; the machine lives and keeps every write.
    Kill,
    /// The power goes; the number decides what survives of what was not synced.
    PowerCut(u64),
}

/// A read that keeps a part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The table, in every database that has it.
    pub table: String,
    /// First and last time.
    pub time: (i64, i64),
    /// A tag, values of it (`None` = absent), and whether they are the ones to leave out.
    pub tag: (String, Vec<Option<String>>, bool),
    /// The one field to read.
    pub field: String,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Makes a database.
    CreateDatabase(String),
    /// Writes a body into a database.
    Write {
        /// The database.
        database: String,
        /// The body.
        lines: Vec<Line>,
    },
    /// Turns the head into a segment.
    Flush,
    /// Does one job of maintenance if one is due.
    Maintain,
    /// Lets time pass, and lets the wall clock jump besides.
    Advance {
        /// On both clocks.
        ms: u64,
        /// On the wall clock alone, in nanoseconds.
        jump_ns: i64,
    },
    /// Reads everything, then a part, and compares.
    Compare(Probe),
    /// Takes a snapshot, to be read again at later comparisons.
    Hold,
    /// Ends the life and opens the store again.
    Restart(Restart),
}

/// A step, and what the disk does to it, counted from the step's first call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub act: Act,
    /// What goes wrong.
    pub faults: CrashPlan,
}

impl Step {
    /// A step without faults.
    pub fn new(act: Act) -> Self {
        Self {
            act,
            faults: CrashPlan::default(),
        }
    }
}

/// Settings of the store that a plan chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// [`Options::flush_rows`].
    pub flush_rows: u64,
    /// [`Options::flush_idle_rows_min`].
    pub flush_idle_rows_min: u64,
    /// [`Options::log_bytes_max`].
    pub log_bytes_max: u64,
    /// [`Options::batch_rows_max`].
    pub batch_rows_max: u64,
}

impl Limits {
    /// The store's options; the rest as a server has it.
    pub fn options(&self) -> Options {
        Options {
            flush_rows: self.flush_rows,
            flush_idle_rows_min: self.flush_idle_rows_min,
            log_bytes_max: self.log_bytes_max,
            batch_rows_max: self.batch_rows_max,
            ..Options::default()
        }
    }
}

/// A run, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where it came from, and what drives the disk's choices.
    pub seed: u64,
    /// The store's limits.
    pub limits: Limits,
    /// What happens, in order. The store is closed before the first [`Act::Restart`].
    pub steps: Vec<Step>,
}

impl Value {
    fn spell(&self, out: &mut String) {
        let written = match self {
            Self::Float(bits) => write!(out, "{:?}", f64::from_bits(*bits)),
            Self::Integer(value) => write!(out, "{value}i"),
            Self::Unsigned(value) => write!(out, "{value}u"),
            Self::Boolean(value) => write!(out, "{value}"),
            Self::Text(text) => {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                write!(out, "\"{text}\"")
            }
        };
        written.expect("a string takes any text");
    }
}

impl Line {
    /// Appends the line as line protocol, with its line end.
    pub fn spell(&self, out: &mut String) {
        match self {
            Self::Bad(text) => out.push_str(text),
            Self::Point {
                table,
                tags,
                fields,
                time,
            } => {
                out.push_str(table);
                for (key, value) in tags {
                    out.push(',');
                    out.push_str(key);
                    out.push('=');
                    for c in value.chars() {
                        if matches!(c, ' ' | ',' | '=') {
                            out.push('\\');
                        }
                        out.push(c);
                    }
                }
                for (at, (key, value)) in fields.iter().enumerate() {
                    out.push(if at == 0 { ' ' } else { ',' });
                    out.push_str(key);
                    out.push('=');
                    value.spell(out);
                }
                if let Some(time) = time {
                    write!(out, " {time}").expect("a string takes any text");
                }
            }
        }
        out.push('\n');
    }
}

/// A body as line protocol.
pub fn spell(lines: &[Line]) -> String {
    let mut out = String::new();
    for line in lines {
        line.spell(&mut out);
    }
    out
}

/// Lines of a body that a printed plan shows.
const LINES_SHOWN_MAX: usize = 12;
/// Characters of a line that a printed plan shows.
const LINE_CHARS_MAX: usize = 160;

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.act {
            Act::Write { database, lines } => write!(f, "write {database}, {} lines", lines.len())?,
            Act::CreateDatabase(name) => write!(f, "create database {name}")?,
            Act::Advance { ms, jump_ns } => write!(f, "advance {ms} ms, jump {jump_ns} ns")?,
            Act::Compare(probe) => write!(f, "compare, probe {probe:?}")?,
            Act::Flush | Act::Maintain | Act::Hold | Act::Restart(_) => {
                write!(f, "{:?}", self.act)?;
            }
        }
        let faults = &self.faults;
        if let Some(at) = faults.crash_at {
            write!(f, " [crash at call {at}]")?;
        }
        if !faults.fail_sync_at.is_empty() {
            write!(f, " [syncs fail at calls {:?}]", faults.fail_sync_at)?;
        }
        if !faults.fail_write_at.is_empty() {
            write!(f, " [no space at calls {:?}]", faults.fail_write_at)?;
        }
        if faults.short_write_every > 0 {
            write!(f, " [every {}. write short]", faults.short_write_every)?;
        }
        if let Act::Write { lines, .. } = &self.act {
            for line in lines.iter().take(LINES_SHOWN_MAX) {
                let mut text = String::new();
                line.spell(&mut text);
                let shown: String = text.trim_end().chars().take(LINE_CHARS_MAX).collect();
                write!(f, "\n        {shown}")?;
            }
            if lines.len() > LINES_SHOWN_MAX {
                write!(f, "\n        ... {} more", lines.len() - LINES_SHOWN_MAX)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {:?}", self.seed, self.limits)?;
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "{at:4}  {step}")?;
        }
        Ok(())
    }
}
