//! The preview of an import.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use nilometer_lineproto::{FieldValue, Precision, Reader, SeriesKey};

use super::columns::{Column, Columns};
use super::cut::{Cutter, is_cut_off};
use super::format::csv::{CsvFile, CsvOptions};
use super::format::exported::{Export, Head, Part};
use super::format::parquet::ParquetFile;
use super::input::{FileFormat, Input, open, open_lines};
use super::plan::Plan;
use super::times::TimeFormat;
use crate::lines::{FieldType, Role, Wishes};
use crate::print::{Table, thousands};

/// Bytes of line protocol that are looked at.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Tables that are shown of a file.
const TABLES_SHOWN: usize = 10;

/// How an input is read, with the table that it goes to.
pub(super) struct InputReading<'a> {
    /// `None` = each input says it.
    pub(super) database: Option<&'a str>,
    pub(super) table: Option<&'a str>,
    pub(super) precision: Precision,
    pub(super) csv: &'a CsvOptions,
    pub(super) wishes: &'a Wishes,
    /// What the columns will be, of all inputs together.
    pub(super) plan: Plan,
}

/// What is known of an input before it is read.
pub(super) enum Look {
    /// Line protocol, which says itself what it is, as far as its first lines tell; of an export also what is to be defined.
    Lines {
        points: String,
        defines: Option<Vec<String>>,
    },
    /// Columns for a table.
    Columns {
        table: String,
        columns: Vec<(Column, Option<TimeFormat>)>,
        /// How many rows there are, if the file says so.
        rows: Option<u64>,
        /// What the user should know.
        notes: Vec<String>,
    },
    /// What cannot be looked at before it is read.
    Unknown { table: String },
}

impl InputReading<'_> {
    /// The table of a file that does not name one in each line.
    pub(super) fn table_of(&self, input: &Input) -> anyhow::Result<String> {
        let named = self.table.map(str::to_owned);
        named.or_else(|| input.table()).with_context(|| {
            format!(
                "{} does not say which table its rows belong to; add --table NAME",
                input.name()
            )
        })
    }

    /// The unit of times in line protocol, of an input that says one or none.
    pub(super) fn unit_of(&self, said: Option<Precision>) -> Precision {
        match self.precision {
            Precision::Auto => said.unwrap_or(Precision::Auto),
            wished => wished,
        }
    }

    /// Refuses an input whose rows nobody says the database of.
    pub(super) fn check_database(&self, input: &Input, head: Head) -> anyhow::Result<()> {
        if self.database.is_some() || head.is_export {
            return Ok(());
        }
        bail!(
            "{} does not say which database its rows belong to; add --database NAME",
            input.name()
        )
    }

    /// Looks at an input, and adds its columns to the plan.
    pub(super) fn look(&mut self, input: &Input) -> anyhow::Result<Look> {
        let name = input.name();
        if input.format != FileFormat::LineProtocol {
            self.check_database(input, Head::default())?;
        }
        match input.format {
            FileFormat::LineProtocol => {
                let Some(_) = &input.path else {
                    return Ok(Look::Lines {
                        points: String::new(),
                        defines: None,
                    });
                };
                let mut sample = Vec::new();
                let (head, text) = open_lines(input, &Arc::default())?;
                self.check_database(input, head)?;
                let read = text.take(SAMPLE_BYTES).read_to_end(&mut sample);
                // A file that is cut off is imported up to there, and then it is said.
                match read {
                    Err(error) if sample.is_empty() || !is_cut_off(&error) => {
                        return Err(error).with_context(|| format!("cannot read {name}"));
                    }
                    _ => {}
                }
                // A name that ends with the sample would be another one.
                if sample.len() as u64 == SAMPLE_BYTES {
                    sample.truncate(memchr::memrchr(b'\n', &sample).map_or(0, |at| at + 1));
                }
                let defines = head.is_export.then(|| self.defined(&sample)).transpose();
                Ok(Look::Lines {
                    points: points(&sample, self.unit_of(head.unit)),
                    defines: defines.with_context(|| name.clone())?,
                })
            }
            FileFormat::Csv => {
                let table = self.table_of(input)?;
                if input.path.is_none() {
                    return Ok(Look::Unknown { table });
                }
                let file = CsvFile::open(open(input, &Arc::default())?, self.csv);
                let Columns { all, time, notes } = file.with_context(|| name.clone())?.columns;
                let columns = all.into_iter().map(|column| {
                    let format = time.as_ref().filter(|_| column.role == Role::Time);
                    (column, format.map(|(_, format)| format.clone()))
                });
                Ok(self.planned(table, columns.collect(), None, notes))
            }
            FileFormat::Parquet => {
                let table = self.table_of(input)?;
                let (file, notes) = ParquetFile::look(parquet_path(input)?, self.wishes)
                    .with_context(|| name.clone())?;
                let rows = file.rows();
                let columns = file.columns.into_iter().map(|(name, role)| {
                    let example = String::new();
                    let column = Column {
                        name,
                        role,
                        example,
                    };
                    (column, None)
                });
                Ok(self.planned(table, columns.collect(), Some(rows), notes))
            }
        }
    }

    /// What the first lines of an export define; what is wrong there is said before anything is imported.
    fn defined(&self, sample: &[u8]) -> anyhow::Result<Vec<String>> {
        let mut cutter = Cutter::new(sample, 0, 1);
        let mut export = Export::new(self.database);
        let mut defined = Vec::new();
        while let Some(piece) = cutter.next()? {
            for part in export.take(piece)? {
                if let Part::Define(definition) = part {
                    defined.push(definition.statement.to_string());
                }
            }
        }
        Ok(defined)
    }

    fn planned(
        &mut self,
        table: String,
        columns: Vec<(Column, Option<TimeFormat>)>,
        rows: Option<u64>,
        notes: Vec<String>,
    ) -> Look {
        let wishes = &self.csv.wishes;
        for (column, _) in &columns {
            let is_typed = wishes.types.iter().any(|(name, _)| *name == column.name);
            let is_wished = is_typed || wishes.tags.is_some() && column.role == Role::Tag;
            self.plan.add(&table, &column.name, column.role, is_wished);
        }
        Look::Columns {
            table,
            columns,
            rows,
            notes,
        }
    }

    /// The columns of an input and what they become, as text.
    pub(super) fn describe(&self, input: &Input, look: &Look) -> String {
        let name = input.name();
        match look {
            Look::Lines {
                points,
                defines: None,
            } => format!("{name}: line protocol\n{points}"),
            Look::Lines {
                points,
                defines: Some(defines),
            } => {
                let lines: Vec<String> = defines.iter().map(|it| format!("    {it}\n")).collect();
                format!(
                    "{name}: export of InfluxDB 1 -> the databases and retention policies that it names\n{}{points}",
                    lines.concat()
                )
            }
            Look::Unknown { table } => format!("{name}: CSV -> table {table}\n"),
            Look::Columns {
                table,
                columns,
                rows,
                notes,
            } => {
                let has_examples = rows.is_none();
                let mut heads = vec!["column", "becomes", "type"];
                heads.extend(has_examples.then_some("first value"));
                let mut shown = Table::new(&heads);
                for (column, time) in columns {
                    let planned = self.plan.role(table, &column.name);
                    let role = planned
                        .filter(|_| column.role != Role::Time)
                        .unwrap_or(column.role);
                    let mut cells = vec![
                        column.name.clone(),
                        becomes(role).to_owned(),
                        type_of(role, time.as_ref()),
                    ];
                    cells.extend(has_examples.then(|| column.example.clone()));
                    shown.row(cells);
                }
                let kind = match rows {
                    None => "CSV".to_owned(),
                    Some(rows) => format!("Parquet, {} rows", thousands(*rows)),
                };
                let notes: Vec<String> =
                    notes.iter().map(|note| format!("note: {note}\n")).collect();
                let notes = notes.concat();
                format!("{name}: {kind} -> table {table}\n{shown}{notes}")
            }
        }
    }
}

/// The file that a Parquet reader needs: it begins at the end.
pub(super) fn parquet_path(input: &Input) -> anyhow::Result<&Path> {
    let path = input.path.as_deref();
    path.context("a Parquet file is read from its end; save standard input to a file first")
}

fn becomes(role: Role) -> &'static str {
    match role {
        Role::Time => "time",
        Role::Tag => "tag",
        Role::Field(_) => "field",
    }
}

fn type_of(role: Role, time: Option<&TimeFormat>) -> String {
    match role {
        Role::Time => time.map_or_else(|| "time".to_owned(), TimeFormat::name),
        Role::Tag => "text".to_owned(),
        Role::Field(kind) => kind.name().to_owned(),
    }
}

/// Tables, tags and fields of the first lines.
fn points(sample: &[u8], precision: Precision) -> String {
    let mut tables: BTreeMap<String, BTreeMap<(u8, String), String>> = BTreeMap::new();
    let mut reader = Reader::new(sample, precision);
    while let Some(point) = reader.next() {
        let Ok(point) = point else { continue };
        let Ok(key) = SeriesKey::parse(point.series) else {
            continue;
        };
        let columns = tables.entry(key.measurement.to_string()).or_default();
        for (name, _) in &key.tags {
            columns.insert((0, name.to_string()), "tag".to_owned());
        }
        for field in point.fields {
            let kind = match field.value {
                FieldValue::Float(_) => FieldType::Float,
                FieldValue::Integer(_) => FieldType::Integer,
                FieldValue::Unsigned(_) => FieldType::Unsigned,
                FieldValue::Boolean(_) => FieldType::Boolean,
                FieldValue::Text(_) => FieldType::Text,
            };
            let name = (1, field.name().to_string());
            columns
                .entry(name)
                .or_insert_with(|| kind.name().to_owned());
        }
    }
    let mut shown = Table::new(&["table", "tags", "fields"]);
    let count = tables.len();
    for (table, columns) in tables.into_iter().take(TABLES_SHOWN) {
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        for ((kind, name), what) in columns {
            match kind {
                0 => tags.push(name),
                _ => fields.push(format!("{name} {what}")),
            }
        }
        shown.row([table, tags.join(", "), fields.join(", ")]);
    }
    let more = count.saturating_sub(TABLES_SHOWN);
    match more {
        0 => shown.to_string(),
        more => format!("{shown}and {more} more tables\n"),
    }
}
