//! Verdict on an answer: what it says, and whether the server may give it here.

use serde_json::Value;

use super::{Client, Ran, Run, Wish};
use crate::answer;
use crate::client::{Ending, Got};
use crate::device;
use crate::influxql;
use crate::model::{Attempt, Shown, View, contradiction};
use crate::plan::{
    BODY_READ_MS_MAX, Change, Format, QUERY_MS_MAX, Question, Route, WRITE_MS_MAX, Write,
};
use crate::request::body_of;

/// What is known of an effect after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is there.
    Done,
    /// It is not.
    Refused,
    /// It may be.
    Unknown,
}

/// What ends a statement from outside; no limit, but what it ends has to be as free as after one.
const KILL: &str = "KILL QUERY";

/// Limits that the simulation meets.
pub const LIMITS: [&str; 12] = [
    "body-bytes-max",
    "bodies-bytes-max",
    "body-compressed-bytes-max",
    "body-read-ms-max",
    "write-ms-max",
    "queries-waiting-max",
    "answer-rows-max",
    "answer-pretty-rows-max",
    "query-memory-bytes-max",
    "query-ms-max",
    KILL,
    "disk_reserve_bytes",
];

/// An answer for people.
pub(super) fn said(got: &Got) -> String {
    let text: String = String::from_utf8_lossy(&got.bytes)
        .chars()
        .take(300)
        .collect();
    format!("{:?} {}", got.status, text.trim_end())
}

/// The sentence of an error, an answer of its own or within one.
fn error_of(got: &Got) -> String {
    if let Some((_, error)) = influxql::refusal(got) {
        return error;
    }
    let value: Value = serde_json::from_slice(&got.bytes).unwrap_or_default();
    value
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Status and error of an answer. The error of a statement in InfluxQL is within the answer.
pub(super) fn heard(got: &Got) -> Option<(u16, String)> {
    let within = influxql::refusal(got).filter(|_| got.status == Some(200));
    within.or_else(|| Some((got.status?, error_of(got))))
}

impl Run<'_> {
    /// Takes an answer that is at its end.
    pub(super) fn hear(&mut self, client: &Client) -> Ran<()> {
        let got = client.mailbox.got();
        self.note_limit(&got);
        match &client.wish {
            Wish::Write {
                write,
                attempts,
                ending,
            } => {
                let outcome = self.of_write(client, write, *ending, &got);
                let outcome = outcome.ok_or_else(|| {
                    format!(
                        "request {} had no reason for this answer: {}",
                        write.op,
                        said(&got)
                    )
                })?;
                self.count(outcome);
                let is_page = write.route == Route::Pages && outcome == Outcome::Done;
                self.counts.pages += u64::from(is_page);
                if write.tables.aside && outcome == Outcome::Done {
                    (self.aside.was_made, self.aside.has_table) = (true, true);
                }
                self.end_write(write, attempts, outcome, &got);
            }
            Wish::Change {
                change,
                tongue,
                attempt,
                ..
            } => {
                let outcome = self.of_change(client, *change, &got);
                let outcome = outcome.ok_or_else(|| {
                    let said = said(&got);
                    format!("{change:?} in {tongue:?} had no reason for this answer: {said}")
                })?;
                self.count(outcome);
                self.end_attempt(*attempt, outcome);
                self.aside.was_made |= *change == Change::MakeAside && outcome == Outcome::Done;
            }
            Wish::Accept { jumps } => {
                if got.status != Some(204) {
                    return Err(format!("the clock cannot be accepted: {}", said(&got)));
                }
                self.accepted(*jumps);
            }
            Wish::Ask {
                question,
                format,
                moments,
            } => {
                if let Some(wrong) = self.of_question(client, *question, *format, moments, &got)? {
                    return Err(wrong);
                }
            }
            Wish::Tell { at, deed, moments } => {
                self.heard_of_side(client, *at, deed, moments, &got)?;
            }
            Wish::Kill => self.kill(&got),
            Wish::Probe => {}
        }
        self.look();
        Ok(())
    }

    /// Limits that were met are counted by the setting that the refusal names.
    fn note_limit(&mut self, got: &Got) {
        let error = error_of(got);
        let named = LIMITS.iter().zip(&mut self.counts.limits);
        // An answer that has begun can only break off, and says nothing of why.
        let broke_off = |name: &str| name == KILL && self.killed && got.whole == Some(false);
        for (_, count) in named.filter(|(name, _)| error.contains(*name) || broke_off(name)) {
            *count += 1;
        }
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.counts.acknowledged += 1,
            Outcome::Refused => self.counts.refused += 1,
            Outcome::Unknown => self.counts.unanswered += 1,
        }
    }

    fn end_attempt(&mut self, attempt: Attempt, outcome: Outcome) {
        match outcome {
            Outcome::Done => self.model.end(attempt, true),
            Outcome::Refused => self.model.end(attempt, false),
            Outcome::Unknown => {}
        }
    }

    /// An Arrow stream says how many batches it has written; of others the answer is about all that there is.
    fn end_write(&mut self, write: &Write, attempts: &[Attempt], outcome: Outcome, got: &Got) {
        let mut written = 0;
        if matches!(write.route, Route::Arrow(_)) && outcome != Outcome::Done {
            let value: Value = serde_json::from_slice(&got.bytes).unwrap_or_default();
            written = value
                .get("batches_written")
                .and_then(Value::as_u64)
                .unwrap_or(0);
        }
        for (&attempt, nth) in attempts.iter().zip(0u64..) {
            let outcome = match outcome {
                Outcome::Done => Outcome::Done,
                _ if nth < written => Outcome::Done,
                outcome if nth == written => outcome,
                _ => Outcome::Refused,
            };
            self.end_attempt(attempt, outcome);
        }
    }

    /// `None` = there was no reason for this answer.
    fn of_write(
        &self,
        client: &Client,
        write: &Write,
        ending: Ending,
        got: &Got,
    ) -> Option<Outcome> {
        let (status, error) = (got.status?, error_of(got));
        let passed_ms = self.world.now_ms() - client.began_ms;
        let limits = &self.plan.limits;
        let names = |setting: &str| error.contains(setting);
        let refused = |reason: bool| reason.then_some(Outcome::Refused);
        // Who names a database or table that is not there, or is dropped meanwhile, is told so.
        let began = client.began_aside;
        let is_there = if write.route == Route::Insert {
            began.has_table
        } else {
            began.was_made
        };
        let is_certain = is_there && !self.aside.was_dropped;
        // A stream's batches are written as they come, so it may be told so before its end; others are read first.
        let is_heard = ending == Ending::Whole || matches!(write.route, Route::Arrow(_));
        let is_nowhere = write.tables.aside && !is_certain && is_heard;
        if write.route == Route::Insert && ending == Ending::Whole && !names("bod") {
            return match status {
                400 | 404 if is_nowhere => Some(Outcome::Refused),
                _ => self.of_statement(client, false, got),
            };
        }
        match status {
            404 if is_nowhere => Some(Outcome::Refused),
            200 | 204 => Some(Outcome::Done).filter(|_| ending == Ending::Whole),
            400 if names("partial write") => {
                let has_reason = write.bad_lines > 0 && ending == Ending::Whole;
                has_reason.then_some(Outcome::Done)
            }
            400 if names("broke off") => refused(ending != Ending::Whole),
            409 | 503 if device::is_overtaken(write, &error) => Some(Outcome::Refused),
            408 => refused(passed_ms >= BODY_READ_MS_MAX),
            413 if names("body-bytes-max") || names("body-compressed-bytes-max") => {
                refused(body_of(write).len() + write.padding > limits.body_bytes_max)
            }
            500 | 503 if names("bodies-bytes-max") => refused(limits.bodies_bytes_max < 1 << 30),
            500 | 504 if names("write-ms-max") => {
                (passed_ms >= WRITE_MS_MAX).then_some(Outcome::Unknown)
            }
            _ => self.of_disk(client, status, &error),
        }
    }

    /// Answers that the disk has caused.
    pub(super) fn of_disk(&self, client: &Client, status: u16, error: &str) -> Option<Outcome> {
        match status {
            507 if error.contains("disk_reserve_bytes") || error.contains("disk-reserve-bytes") => {
                let was_tight = self.world.was_tight(client.began_rooms);
                was_tight.then_some(Outcome::Refused)
            }
            500 | 503 | 507 if self.world.is_poisoned() => Some(Outcome::Unknown),
            // A writer that finds the head full flushes it first, and its rows have no place in the log yet.
            500 | 507 if self.world.has_faults(client.began_rooms) => Some(Outcome::Refused),
            _ => None,
        }
    }

    /// A definition is refused when its name is there already, or is not.
    fn of_change(&mut self, client: &Client, change: Change, got: &Got) -> Option<Outcome> {
        let Wish::Change {
            name: Some(_),
            in_its_way,
            ..
        } = &client.wish
        else {
            let is_drop = matches!(change, Change::Drop | Change::DropAside | Change::MakeAside);
            return self.of_statement(client, is_drop, got);
        };
        let is_refused = matches!(got.status?, 400 | 404 | 409) && !error_of(got).contains(KILL);
        let outcome = if is_refused {
            in_its_way.then_some(Outcome::Refused)
        } else {
            self.of_statement(client, true, got)
        };
        self.counts.defined += u64::from(is_refused || outcome == Some(Outcome::Done));
        outcome
    }

    pub(super) fn of_statement(
        &self,
        client: &Client,
        is_drop: bool,
        got: &Got,
    ) -> Option<Outcome> {
        let passed_ms = self.world.now_ms() - client.began_ms;
        let (status, error) = heard(got)?;
        let limits = &self.plan.limits;
        let refused = |reason: bool| reason.then_some(Outcome::Refused);
        match status {
            200 => Some(if got.whole == Some(true) {
                Outcome::Done
            } else {
                Outcome::Unknown
            }),
            400 | 404 => refused(self.dropped && error.contains("points")),
            409 if error.contains("KILL") => self.killed.then_some(Outcome::Unknown),
            // Another writer was faster, more than once.
            409 => refused(!is_drop),
            413 if error.contains("query-memory-bytes-max") => {
                refused(limits.query_memory_bytes_max < 1 << 20)
            }
            500 | 503 if error.contains("bodies-bytes-max") => {
                refused(limits.bodies_bytes_max < 1 << 30)
            }
            429 => refused(error.contains("queries-waiting-max")),
            504 if error.contains("query-ms-max") => {
                (passed_ms >= QUERY_MS_MAX).then_some(Outcome::Unknown)
            }
            _ => self.of_disk(client, status, &error),
        }
    }

    /// The failure that an answer to a question is, if it is one.
    fn of_question(
        &mut self,
        client: &Client,
        question: Question,
        format: Format,
        moments: &[crate::model::Moment],
        got: &Got,
    ) -> Ran<Option<String>> {
        let limits = &self.plan.limits;
        let (status, error) = heard(got).unwrap_or_default();
        let passed_ms = self.world.now_ms() - client.began_ms;
        let is_narrow = format == Format::Pretty && limits.answer_pretty_rows_max < 1 << 10;
        let tiny = limits.answer_rows_max < 1 << 20
            || limits.query_memory_bytes_max < 1 << 20
            || is_narrow;
        let view = match question {
            Question::Aside => View::Aside,
            Question::Defined => View::Names,
            Question::All | Question::Sorted | Question::Long => View::Rows,
        };
        let fine = match (status, got.whole) {
            (200, Some(true)) => {
                self.counts.acknowledged += 1;
                if question == Question::Long {
                    return Ok(None);
                }
                self.counts.compared += 1;
                self.counts.compared_midway += u64::from(moments.len() > 1);
                let shown = answer::shown(&got.bytes, format, &self.rows)?;
                return Ok(contradiction(view, moments, &shown));
            }
            // A database or table that is not there has no rows.
            (400 | 404, _) if view == View::Aside => {
                return Ok(contradiction(view, moments, &Shown::new()));
            }
            (200, _) => tiny || self.killed || passed_ms >= QUERY_MS_MAX,
            (504, _) => passed_ms >= QUERY_MS_MAX && error.contains("query-ms-max"),
            (400 | 404, _) => self.dropped && error.contains("points"),
            (409, _) => self.killed && error.contains("KILL"),
            (413, _) => tiny && error.contains("-max"),
            (500 | 503, _) => {
                limits.bodies_bytes_max < 1 << 30 && error.contains("bodies-bytes-max")
            }
            (429, _) => error.contains("queries-waiting-max"),
            _ => false,
        };
        self.counts.refused += 1;
        Ok((!fine).then(|| format!("a question had no reason for this answer: {}", said(got))))
    }

    /// The second line of the list is the newest statement but the one that asked.
    fn kill(&mut self, got: &Got) {
        let text = String::from_utf8_lossy(&got.bytes);
        let Some(id) = text.lines().nth(2).filter(|_| got.status == Some(200)) else {
            return;
        };
        self.killed = true;
        let request = crate::request::statement(&format!("KILL QUERY {id}"), "json");
        self.send(Wish::Probe, request, None, crate::client::ALL);
    }
}
