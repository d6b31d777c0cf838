//! What an import will make, shown before it begins.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use anyhow::Context;
use nilometer_lineproto::{FieldValue, Precision, Reader, SeriesKey};

use super::csv::{CsvFile, CsvOptions};
use super::input::{FileFormat, Input, open};
use super::parquet::ParquetFile;
use super::times::TimeFormat;
use crate::lines::{Kind, Role, Wishes};
use crate::print::{Table, thousands};

/// Bytes of line protocol that are looked at.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Tables that are shown of a file.
const TABLES_SHOWN: usize = 10;

/// How an input is read, with the table that it goes to.
pub(super) struct Reading<'a> {
    pub(super) table: Option<&'a str>,
    pub(super) precision: Precision,
    pub(super) csv: &'a CsvOptions,
    pub(super) wishes: &'a Wishes,
}

impl Reading<'_> {
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

    /// The columns of an input and what they become, as text.
    pub(super) fn describe(&self, input: &Input) -> anyhow::Result<String> {
        let name = input.name();
        match input.format {
            FileFormat::LineProtocol => {
                let Some(_) = &input.path else {
                    return Ok(format!("{name}: line protocol\n"));
                };
                let mut sample = Vec::new();
                let text = open(input, &Arc::default())?;
                text.take(SAMPLE_BYTES)
                    .read_to_end(&mut sample)
                    .with_context(|| format!("cannot read {name}"))?;
                Ok(format!(
                    "{name}: line protocol\n{}",
                    points(&sample, self.precision)
                ))
            }
            FileFormat::Csv => {
                let table = self.table_of(input)?;
                if input.path.is_none() {
                    return Ok(format!("{name}: CSV -> table {table}\n"));
                }
                let file = CsvFile::open(open(input, &Arc::default())?, self.csv);
                let file = file.with_context(|| name.clone())?;
                let mut shown = Table::new(&["column", "becomes", "type", "first value"]);
                for column in &file.columns.all {
                    let time = file.columns.time.as_ref().map(|(_, format)| format);
                    shown.row([
                        column.name.clone(),
                        becomes(column.role).to_owned(),
                        type_of(column.role, time),
                        column.example.clone(),
                    ]);
                }
                Ok(format!("{name}: CSV -> table {table}\n{shown}"))
            }
            FileFormat::Parquet => {
                let table = self.table_of(input)?;
                let path = input.path.as_deref();
                let path = path.context(
                    "a Parquet file is read from its end; save standard input to a file first",
                )?;
                let file =
                    ParquetFile::open(path, &table, self.wishes).with_context(|| name.clone())?;
                let mut shown = Table::new(&["column", "becomes", "type"]);
                for (column, role) in file.printer.columns() {
                    let kind = type_of(*role, None);
                    shown.row([column.clone(), becomes(*role).to_owned(), kind]);
                }
                let rows = thousands(file.rows());
                Ok(format!(
                    "{name}: Parquet, {rows} rows -> table {table}\n{shown}"
                ))
            }
        }
    }
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
                FieldValue::Float(_) => Kind::Float,
                FieldValue::Integer(_) => Kind::Integer,
                FieldValue::Unsigned(_) => Kind::Unsigned,
                FieldValue::Boolean(_) => Kind::Boolean,
                FieldValue::Text(_) => Kind::Text,
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
