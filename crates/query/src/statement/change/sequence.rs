//! CREATE SEQUENCE, ALTER SEQUENCE and DROP SEQUENCE.
//!
//! Does: read how a sequence counts, with what PostgreSQL takes where nothing is said. Does not: say whether it can be
//! (`nilometer_service::define` does).

use datafusion::sql::sqlparser::tokenizer::Token;
use nilometer_service::define::{Change, Counting, SequenceChange};

use super::written::{WrittenChange, refused};
use crate::error::{Error, Position};
use crate::statement::grammar::Grammar;

/// What a statement says.
#[derive(Default)]
#[expect(
    clippy::option_option,
    reason = "nothing said, NONE, and a column are three things, as in `SequenceChange`"
)]
struct Options {
    start: Option<i64>,
    increment: Option<i64>,
    min: Option<i64>,
    max: Option<i64>,
    cycles: Option<bool>,
    /// MINVALUE and MAXVALUE go back to what they are where nothing is said.
    no_min: bool,
    no_max: bool,
    /// The least and the greatest number of its type.
    of: Option<(i64, i64)>,
    /// The table and the column that it goes with.
    owned_by: Option<Option<(String, String)>>,
}

/// Reads what follows CREATE SEQUENCE.
pub(super) fn create(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_not_exists = grammar.if_not_exists();
    let path = grammar.path()?;
    let mut options = Options::default();
    let at = grammar.position();
    while option(grammar, &mut options)? {}
    let counting = options.counting();
    if matches!(options.owned_by, Some(Some(_))) {
        return Err(refused(
            "make the sequence first, and write ALTER SEQUENCE ... OWNED BY table.column then",
            at,
        ));
    }
    Ok(WrittenChange::of_path(&path, |path| {
        Change::CreateSequence {
            path,
            if_not_exists,
            counting,
        }
    }))
}

/// Reads one option; `false` = there is none.
fn option(grammar: &mut Grammar<'_>, options: &mut Options) -> Result<bool, Error> {
    let at = grammar.position();
    if grammar.word("as") {
        let of = grammar.name()?.text;
        options.of = Some(match of.as_str() {
            "smallint" | "int2" => (i16::MIN.into(), i16::MAX.into()),
            "integer" | "int" | "int4" => (i32::MIN.into(), i32::MAX.into()),
            "bigint" | "int8" => (i64::MIN, i64::MAX),
            _ => {
                let wrong = "sequence type must be smallint, integer, or bigint";
                return Err(refused(wrong, at));
            }
        });
    } else if grammar.word("increment") {
        grammar.word("by");
        options.increment = Some(number(grammar, at)?);
    } else if grammar.word("start") {
        grammar.word("with");
        options.start = Some(number(grammar, at)?);
    } else if grammar.word("minvalue") {
        options.min = Some(number(grammar, at)?);
    } else if grammar.word("maxvalue") {
        options.max = Some(number(grammar, at)?);
    } else if grammar.word("cache") {
        // Numbers are made durable many at a time in any case.
        number(grammar, at)?;
    } else if grammar.word("cycle") {
        options.cycles = Some(true);
    } else if grammar.word("no") {
        if grammar.word("minvalue") {
            options.no_min = true;
        } else if grammar.word("maxvalue") {
            options.no_max = true;
        } else if grammar.word("cycle") {
            options.cycles = Some(false);
        } else {
            return grammar.expected("MINVALUE, MAXVALUE or CYCLE");
        }
    } else if grammar.words(&["owned", "by"]) {
        if grammar.word("none") {
            options.owned_by = Some(None);
        } else {
            let Some((table, column)) = grammar.path()?.split_last() else {
                return Err(refused(
                    "invalid OWNED BY option; write OWNED BY table.column",
                    at,
                ));
            };
            options.owned_by = Some(Some((table.last.text, column.text)));
        }
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn number(grammar: &mut Grammar<'_>, at: Option<Position>) -> Result<i64, Error> {
    let is_negative = grammar.token(&Token::Minus);
    let digits = i128::from(grammar.number()?);
    let number = if is_negative { -digits } else { digits };
    let beyond = |_| refused("the number is beyond those of bigint", at);
    i64::try_from(number).map_err(beyond)
}

impl Options {
    fn counting(&self) -> Counting {
        let increment = self.increment.unwrap_or(1);
        let (least, greatest) = self.of.unwrap_or((i64::MIN, i64::MAX));
        let rises = increment >= 0;
        let min = self.min.unwrap_or(if rises { 1 } else { least });
        let max = self.max.unwrap_or(if rises { greatest } else { -1 });
        Counting {
            start: self.start.unwrap_or(if rises { min } else { max }),
            increment,
            min,
            max,
            cycles: self.cycles.unwrap_or(false),
        }
    }
}

/// Reads what follows ALTER SEQUENCE.
pub(super) fn alter(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_exists = grammar.if_exists();
    let path = grammar.path()?;
    let mut options = Options::default();
    let mut restart = None;
    loop {
        let at = grammar.position();
        if grammar.word("restart") {
            let next = grammar.next_shown();
            let is_number = next.starts_with(|it: char| it == '-' || it.is_ascii_digit());
            let is_said = grammar.word("with") || is_number;
            restart = Some(if is_said {
                Some(number(grammar, at)?)
            } else {
                None
            });
        } else if grammar.words(&["owner", "to"]) {
            // Everything has one owner.
            grammar.name()?;
        } else if grammar.word("rename") || grammar.word("set") {
            return Err(refused(
                "a sequence keeps its name and its schema; make another one with the options of this one",
                at,
            ));
        } else if !option(grammar, &mut options)? {
            break;
        }
    }
    let least_and_greatest = options.of;
    let bound = |said: Option<i64>, is_none: bool, of: Option<i64>| match (said, of) {
        (Some(number), _) => Some(Some(number)),
        (None, _) if is_none => Some(None),
        (None, of) => of.map(Some),
    };
    let change = SequenceChange {
        increment: options.increment,
        min: bound(options.min, options.no_min, None),
        max: bound(
            options.max,
            options.no_max,
            least_and_greatest.map(|it| it.1),
        ),
        start: options.start,
        cycles: options.cycles,
        restart,
        owned_by: options.owned_by,
    };
    Ok(WrittenChange::of_path(&path, |path| {
        Change::AlterSequence {
            path,
            if_exists,
            change,
        }
    }))
}

/// Reads what follows DROP SEQUENCE.
pub(super) fn drop(grammar: &mut Grammar<'_>) -> Result<WrittenChange, Error> {
    let if_exists = grammar.if_exists();
    let path = grammar.path()?;
    let mut paths = vec![path.names()];
    while grammar.token(&Token::Comma) {
        paths.push(grammar.path()?.names());
    }
    let at = grammar.position();
    if grammar.word("cascade") {
        let alone = "a sequence that numbers a column stays; drop the column or the table, and leave CASCADE out";
        return Err(refused(alone, at));
    }
    grammar.word("restrict");
    Ok(WrittenChange::of_path(&path, |_| Change::DropSequences {
        paths,
        if_exists,
    }))
}
