//! Exports of `InfluxDB` 1: definitions, then line protocol with the database and the retention policy of its rows.
//!
//! Does: tell an export by its first lines, follow its sections and contexts as the shell's `-import` does, hand the statements
//! out before the rows that need them. Does not: run a statement, or read a row.
//!
//! `influx_inspect export` writes `# INFLUXDB EXPORT: ...`, `# DDL`, a statement a line, `# DML`, and before the rows of each
//! retention policy `# CONTEXT-DATABASE:name` and `# CONTEXT-RETENTION-POLICY:name`.

use std::sync::Arc;

use anyhow::{Context, bail};
use memchr::memmem;
use nilometer_influxql_syntax as influxql;
use nilometer_influxql_syntax::ast::Statement;
use nilometer_lineproto::{Precision, line_end};

use crate::import::cut::{Piece, is_row};
use crate::lines::said_unit;

/// The first line of `influx_inspect export`, whose times are nanoseconds.
const EXPORT: &[u8] = b"# INFLUXDB EXPORT";
const DDL: &[u8] = b"# DDL";
const DML: &[u8] = b"# DML";
const DATABASE: &[u8] = b"# CONTEXT-DATABASE:";
const POLICY: &[u8] = b"# CONTEXT-RETENTION-POLICY:";

/// Database and retention policy of rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::import) struct LinePlace {
    pub(in crate::import) database: String,
    /// Empty = the default one.
    pub(in crate::import) policy: String,
}

impl LinePlace {
    /// What stands above rows in a file, so that they are imported to the same place.
    pub(in crate::import) fn heading(&self) -> String {
        let mut lines = format!("# DML\n# CONTEXT-DATABASE:{}", self.database);
        if !self.policy.is_empty() {
            lines.push_str("\n# CONTEXT-RETENTION-POLICY:");
            lines.push_str(&self.policy);
        }
        lines
    }
}

/// What the first lines of a file of line protocol say of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::import) struct Head {
    pub(in crate::import) unit: Option<Precision>,
    pub(in crate::import) is_export: bool,
}

impl Head {
    /// Takes a line at the beginning of a file; `false` = the next one says nothing more.
    pub(in crate::import) fn add(&mut self, line: &[u8]) -> bool {
        if line.trim_ascii().is_empty() {
            return true;
        }
        if let (None, Some(unit)) = (self.unit, said_unit(line)) {
            self.unit = Some(unit);
            return true;
        }
        let begins = |words: &&[u8]| line.starts_with(words);
        self.is_export = [EXPORT, DDL, DML].iter().any(begins);
        if line.starts_with(EXPORT) {
            self.unit = self.unit.or(Some(Precision::Nanosecond));
        }
        false
    }

    /// Of a text that begins with the beginning of a file.
    pub(in crate::import) fn of(text: &[u8]) -> Self {
        let mut head = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            if !head.add(line) {
                break;
            }
        }
        head
    }
}

/// A definition of an export, with the number of its line.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::import) struct Definition {
    pub(in crate::import) line: u64,
    pub(in crate::import) statement: Statement,
}

/// What follows in an export.
#[derive(Debug, PartialEq)]
pub(in crate::import) enum Part {
    Define(Box<Definition>),
    /// Lines of one place; definitions are comments in them. `None` = there are no rows among them.
    Lines(Piece, Option<Arc<LinePlace>>),
}

/// Sections and contexts of an export, up to where it was read.
#[derive(Debug)]
pub(in crate::import) struct Export {
    /// Takes the place of the one database that the export is of.
    wished: Option<String>,
    /// The database that the wished one stands for.
    instead_of: Option<String>,
    is_dml: bool,
    database: Option<String>,
    policy: String,
    place: Option<Arc<LinePlace>>,
}

impl Export {
    pub(in crate::import) fn new(wished: Option<&str>) -> Self {
        Self {
            wished: wished.map(str::to_owned),
            instead_of: None,
            is_dml: false,
            database: None,
            policy: String::new(),
            place: None,
        }
    }

    /// The parts of the next piece, in order. They cover it, and where they are cut depends on the text alone.
    pub(in crate::import) fn take(&mut self, piece: Piece) -> anyhow::Result<Vec<Part>> {
        let has = |words| memmem::find(&piece.text, words).is_some();
        if self.is_dml && !has(b"# CONTEXT-") && !has(DDL) {
            let place = self.place_of(piece.rows, piece.line)?;
            return Ok(vec![Part::Lines(piece, place)]);
        }
        let Piece {
            mut text,
            begin,
            line: first,
            ..
        } = piece;
        let mut parts = Vec::new();
        let mut open = (0, first, 0);
        let (mut at, mut line) = (0, first);
        while at < text.len() {
            let rest = text.get(at..).unwrap_or_default();
            let bytes = if self.is_dml {
                line_end(rest)
            } else {
                memchr::memchr(b'\n', rest).unwrap_or(rest.len())
            };
            let this = rest.get(..bytes).unwrap_or(rest);
            let feeds = memchr::memchr_iter(b'\n', this).count() as u64 + 1;
            let end = text.len().min(at + bytes + 1);
            if this.starts_with(b"#") {
                let moves = this.starts_with(DATABASE) || this.starts_with(POLICY);
                if moves && open.2 > 0 {
                    let place = self.place_of(open.2, open.1)?;
                    parts.push(lines(&text, begin, open, at, place));
                    open = (at, line, 0);
                }
                self.follow(this).with_context(|| format!("line {line}"))?;
            } else if self.is_dml {
                let is_row = is_row(this);
                if is_row {
                    self.place_of(1, line)?;
                }
                open.2 += u64::from(is_row);
            } else if !this.trim_ascii().is_empty() {
                let statement = self.definition(this).with_context(|| {
                    format!("line {line}: {}", String::from_utf8_lossy(this).trim())
                })?;
                parts.push(Part::Define(Box::new(Definition { line, statement })));
                // So that the rest is line protocol, at the places that it had.
                if let Some(byte) = text.get_mut(at) {
                    *byte = b'#';
                }
            }
            (at, line) = (end, line + feeds);
        }
        let place = self.place_of(open.2, open.1)?;
        parts.push(lines(&text, begin, open, text.len(), place));
        Ok(parts)
    }

    /// Where rows at this line go.
    fn place_of(&self, rows: u64, line: u64) -> anyhow::Result<Option<Arc<LinePlace>>> {
        if rows > 0 && self.place.is_none() {
            bail!(
                "line {line}: no line `# CONTEXT-DATABASE:` before it says which database this row belongs to; add --database NAME"
            );
        }
        Ok(self.place.clone().filter(|_| rows > 0))
    }

    /// Follows a comment.
    fn follow(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let name = |of: &[u8]| {
            let name = line.strip_prefix(of)?.trim_ascii();
            Some(String::from_utf8_lossy(name).into_owned())
        };
        if line.starts_with(DML) {
            self.is_dml = true;
        } else if line.starts_with(DDL) {
            self.is_dml = false;
        } else if let Some(database) = name(DATABASE) {
            self.database = Some(self.database_of(&database)?);
        } else if let Some(policy) = name(POLICY) {
            self.policy = policy;
        } else {
            return Ok(());
        }
        let database = self.database.as_ref().or(self.wished.as_ref());
        self.place = database.map(|database| {
            Arc::new(LinePlace {
                database: database.clone(),
                policy: self.policy.clone(),
            })
        });
        Ok(())
    }

    /// The name that a database gets.
    fn database_of(&mut self, name: &str) -> anyhow::Result<String> {
        let Some(wished) = &self.wished else {
            return Ok(name.to_owned());
        };
        let known = self.instead_of.get_or_insert_with(|| name.to_owned());
        if known != name {
            bail!(
                "the export is of the databases {known} and {name}, and --database {wished} would put both into one; leave it out, and each goes to the database of its name"
            );
        }
        Ok(wished.clone())
    }

    /// A statement of the section for definitions.
    fn definition(&mut self, line: &[u8]) -> anyhow::Result<Statement> {
        let text = std::str::from_utf8(line)?;
        let parsed = influxql::parse(text, &influxql::Params::new());
        let mut statements = parsed?.into_iter();
        let (Some(mut statement), None) = (statements.next(), statements.next()) else {
            bail!("write one statement a line");
        };
        let database = match &mut statement {
            Statement::CreateDatabase(create) => &mut create.name,
            Statement::CreateRetentionPolicy(create) => &mut create.database,
            Statement::AlterRetentionPolicy(alter) => &mut alter.database,
            _ => bail!(
                "an import runs CREATE DATABASE, CREATE RETENTION POLICY and ALTER RETENTION POLICY; run others yourself, and take this line out"
            ),
        };
        *database = self.database_of(database)?;
        Ok(statement)
    }
}

/// A part of a piece: from where `open` began, with the number of that line and its rows.
fn lines(
    text: &[u8],
    begin: u64,
    (at, line, rows): (usize, u64, u64),
    end: usize,
    place: Option<Arc<LinePlace>>,
) -> Part {
    let piece = Piece {
        text: text.get(at..end).unwrap_or_default().to_vec(),
        begin: begin + at as u64,
        line,
        rows,
    };
    Part::Lines(piece, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the form of `cmd/influx_inspect/export` of `InfluxDB` 1.9 and later.
    const TWO: &str = "# INFLUXDB EXPORT: 1677-09-21T00:12:43Z - 2262-04-11T23:47:16Z\n\
        # DDL\n\
        CREATE DATABASE \"a b\" WITH NAME autogen\n\
        CREATE RETENTION POLICY week ON \"a b\" DURATION 0s REPLICATION 1\n\
        # DML\n\
        # CONTEXT-DATABASE:a b\n\
        # CONTEXT-RETENTION-POLICY:autogen\n\
        # writing tsm data\n\
        m,host=x v=1 1\n\
        m,host=x s=\"two\n# CONTEXT-DATABASE:in a string\n\" 2\n\
        # writing wal data\n\
        m,host=x v=3 3\n\
        # CONTEXT-DATABASE:a b\n\
        # CONTEXT-RETENTION-POLICY:week\n\
        # writing tsm data\n\
        m,host=x v=4 1\n";

    fn piece(text: &str) -> Piece {
        Piece {
            text: text.as_bytes().to_vec(),
            begin: 100,
            line: 1,
            rows: 0,
        }
    }

    /// What parts say: statements, and for lines the place, the first line and the rows.
    fn shown(parts: &[Part]) -> Vec<String> {
        let show = |part: &Part| match part {
            Part::Define(it) => format!("{}: {}", it.line, it.statement),
            Part::Lines(piece, place) => {
                let place = place.as_ref().map_or_else(
                    || "nowhere".to_owned(),
                    |it| format!("{}/{}", it.database, it.policy),
                );
                format!("{}: {} rows of {place}", piece.line, piece.rows)
            }
        };
        parts.iter().map(show).collect()
    }

    /// The rows of all retention policies fell together, and the definitions were rejected as lines.
    #[test]
    fn definitions_come_first_and_rows_go_to_the_place_before_them() {
        assert_eq!(
            Head::of(TWO.as_bytes()),
            Head {
                unit: Some(Precision::Nanosecond),
                is_export: true
            }
        );
        let parts = Export::new(None).take(piece(TWO)).unwrap();
        assert_eq!(
            shown(&parts),
            [
                "3: CREATE DATABASE \"a b\" WITH NAME autogen",
                "4: CREATE RETENTION POLICY week ON \"a b\" DURATION 0s REPLICATION 1",
                "1: 3 rows of a b/autogen",
                "15: 1 rows of a b/week",
            ]
        );
        // Together they are the text, but that definitions are comments.
        let (mut next, mut text) = (100, Vec::new());
        for part in &parts {
            let Part::Lines(piece, _) = part else {
                continue;
            };
            assert_eq!(piece.begin, next);
            next += piece.text.len() as u64;
            text.extend_from_slice(&piece.text);
        }
        let want = TWO.replace("\nCREATE", "\n#REATE");
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }

    #[test]
    fn a_context_holds_from_piece_to_piece() {
        let mut export = Export::new(None);
        let (first, second) = TWO.split_at(TWO.find("# writing wal").unwrap());
        export.take(piece(first)).unwrap();
        let parts = export.take(piece(second)).unwrap();
        assert_eq!(
            shown(&parts),
            ["1: 1 rows of a b/autogen", "3: 1 rows of a b/week"]
        );
        let parts = export.take(piece("m v=5 5\n")).unwrap();
        assert_eq!(shown(&parts), ["1: 0 rows of nowhere"], "as the piece says");
    }

    #[test]
    fn another_database_takes_the_place_of_the_one_that_the_export_is_of() {
        let parts = Export::new(Some("new")).take(piece(TWO)).unwrap();
        assert_eq!(
            shown(&parts),
            [
                "3: CREATE DATABASE new WITH NAME autogen",
                "4: CREATE RETENTION POLICY week ON new DURATION 0s REPLICATION 1",
                "1: 3 rows of new/autogen",
                "15: 1 rows of new/week",
            ]
        );
        let two = format!("{TWO}# CONTEXT-DATABASE:c\nm v=1 1\n");
        let error = Export::new(Some("new")).take(piece(&two)).unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.starts_with("line 19: ") && error.contains("databases a b and c"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, words) in [
            ("# DDL\n\nCREATE DATABSE d\n# DML\n", 3, "found DATABSE"),
            ("# DDL\nDROP DATABASE d\n# DML\n", 2, "take this line out"),
            ("# DDL\n# DML\n\nm v=1 1\n", 4, "--database"),
        ] {
            let error = Export::new(None).take(piece(text)).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_export_is_told_by_its_first_lines() {
        for (text, unit, is_export) in [
            ("\n# DDL\nCREATE DATABASE d\n", None, true),
            (
                "# precision: s\n# DML\n# CONTEXT-DATABASE: d\n",
                Some(Precision::Second),
                true,
            ),
            (
                "# precision: s\nm v=1 1\n# DML\n",
                Some(Precision::Second),
                false,
            ),
            ("# note\n# DDL\n", None, false),
            ("m v=1 1\n# DDL\n", None, false),
            ("", None, false),
        ] {
            assert_eq!(
                Head::of(text.as_bytes()),
                Head { unit, is_export },
                "{text:?}"
            );
        }
        // What is rejected of an export is one.
        let place = LinePlace {
            database: "d".to_owned(),
            policy: "week".to_owned(),
        };
        let text = format!("{}\nm v=1 1\n", place.heading());
        assert!(Head::of(text.as_bytes()).is_export);
        let parts = Export::new(None).take(piece(&text)).unwrap();
        assert_eq!(shown(&parts), ["1: 1 rows of d/week"]);
    }
}
