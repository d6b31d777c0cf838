//! Plans as text: points as line protocol, steps for people.
//!
//! Does: write. Does not: read back.

use std::fmt;
use std::fmt::Write as _;

use super::{Act, Line, Plan, Relate, Step, Value};

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
pub(crate) fn spell_lines(lines: &[Line]) -> String {
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
            Act::Write {
                database,
                lines,
                key,
            } => {
                write!(f, "write {database}, {} lines", lines.len())?;
                if let Some(key) = key {
                    write!(f, ", key {key}")?;
                }
            }
            Act::WriteTyped {
                database,
                table,
                lines,
                on_conflict,
                key,
            } => {
                write!(
                    f,
                    "write {database}.{table} typed, {} rows, on conflict {on_conflict:?}",
                    lines.len()
                )?;
                if let Some(key) = key {
                    write!(f, ", key {key}")?;
                }
            }
            Act::Update {
                database,
                table,
                which,
                lines,
            } => write!(
                f,
                "update {database}.{table}, rows {which:#x}, {} new",
                lines.len()
            )?,
            Act::Delete { database, delete } => write!(f, "delete in {database}: {delete:?}")?,
            Act::Change { database, change } => write!(f, "change {database}: {change:?}")?,
            Act::Relate(relate) => {
                let (place, relation) = (&relate.database, &relate.relation);
                write!(f, "relate {place}.{relation}, {} lines", relate.lines.len())?;
                if let Some(key) = relate.key {
                    write!(f, ", key {key}")?;
                }
                for step in &relate.steps {
                    write!(f, "\n        {step:?}")?;
                }
            }
            Act::Advance { ms, jump_ns } => write!(f, "advance {ms} ms, jump {jump_ns} ns")?,
            Act::Compare(probe) => write!(f, "compare, probe {probe:?}")?,
            _ => write!(f, "{:?}", self.act)?,
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
        if let Some(visit) = &self.visit {
            let within = Step::new(visit.act.clone());
            write!(f, "\n        [at call {}: {within}]", visit.call)?;
        }
        if let Act::Write { lines, .. }
        | Act::WriteTyped { lines, .. }
        | Act::Update { lines, .. }
        | Act::Relate(Relate { lines, .. }) = &self.act
        {
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
