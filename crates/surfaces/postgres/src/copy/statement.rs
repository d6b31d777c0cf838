//! The statement COPY, in its present and its older spelling.

use super::format::{CopyFormat, CsvFormat, TextFormat};
use crate::sqlstate::{INVALID_PARAMETER_VALUE, Refused, SYNTAX_ERROR};
use crate::statement::tokens::Reader;

/// What is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Table {
        /// The parts of its name.
        path: Vec<String>,
        /// None = all, in their order.
        columns: Vec<String>,
    },
    /// A query, to be copied out.
    Query(String),
}

/// A COPY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) source: Source,
    /// From the client, or to it.
    pub(crate) is_in: bool,
    pub(crate) format: CopyFormat,
}

/// Options as they are written.
#[derive(Debug, Default)]
struct Options {
    format: Option<String>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
}

/// Reads the statement.
pub(crate) fn read(text: &str) -> Result<Copy, Refused> {
    let mut reader = Reader::new(text);
    reader.take("copy");
    let mut options = Options::default();
    if reader.take("binary") {
        options.format = Some("binary".to_owned());
    }
    let source = source(&mut reader)?;
    let is_in = if reader.take("from") {
        true
    } else if reader.take("to") {
        false
    } else {
        return Err(reader.expected("FROM or TO"));
    };
    if is_in && matches!(source, Source::Query(_)) {
        return Err(reader.expected("TO"));
    }
    let is_stream = reader.take("stdin") || reader.take("stdout");
    if !is_stream {
        return Err(Refused::unsupported(
            "COPY of a file or program of the server is not supported; use STDIN or STDOUT, or \\copy in psql",
        ));
    }
    if !reader.take("with") {
        reader.take("using");
    }
    if reader.symbol('(') {
        list(&mut reader, &mut options)?;
    } else {
        words(&mut reader, &mut options)?;
    }
    if reader.take("where") {
        return Err(Refused::unsupported(
            "COPY ... WHERE is not supported; copy into a table and INSERT ... SELECT from it",
        ));
    }
    reader.end()?;
    Ok(Copy {
        source,
        is_in,
        format: format(options)?,
    })
}

fn source(reader: &mut Reader<'_>) -> Result<Source, Refused> {
    if reader.symbol('(') {
        return Ok(Source::Query(reader.until_closed()?.trim().to_owned()));
    }
    let mut path = vec![reader.name()?];
    while reader.symbol('.') {
        path.push(reader.name()?);
    }
    let mut columns = Vec::new();
    if reader.symbol('(') {
        loop {
            columns.push(reader.name()?);
            if !reader.symbol(',') {
                break;
            }
        }
        if !reader.symbol(')') {
            return Err(reader.expected(")"));
        }
    }
    Ok(Source::Table { path, columns })
}

/// The options between parentheses.
fn list(reader: &mut Reader<'_>, options: &mut Options) -> Result<(), Refused> {
    loop {
        let name = reader.name()?.to_lowercase();
        let value = if reader.symbol(',') {
            set(options, &name, None)?;
            continue;
        } else if reader.symbol(')') {
            return set(options, &name, None);
        } else if reader.symbol('(') {
            reader.until_closed()?;
            None
        } else if reader.symbol('*') {
            None
        } else {
            reader.value()?
        };
        set(options, &name, value)?;
        if reader.symbol(',') {
            continue;
        }
        if reader.symbol(')') {
            return Ok(());
        }
        return Err(reader.expected(", or )"));
    }
}

/// The options of older versions, which clients still send.
fn words(reader: &mut Reader<'_>, options: &mut Options) -> Result<(), Refused> {
    loop {
        if reader.take("binary") {
            options.format = Some("binary".to_owned());
        } else if reader.take("csv") {
            options.format = Some("csv".to_owned());
        } else if reader.take("header") {
            options.header = Some("true".to_owned());
        } else {
            let names = [
                "delimiter",
                "delimiters",
                "null",
                "quote",
                "escape",
                "encoding",
            ];
            let Some(name) = names.into_iter().find(|name| reader.take(name)) else {
                return if reader.take("force") {
                    set(options, "force_quote", None)
                } else {
                    Ok(())
                };
            };
            reader.take("as");
            let value = reader.value()?;
            set(options, name.trim_end_matches('s'), value)?;
        }
    }
}

fn set(options: &mut Options, name: &str, value: Option<String>) -> Result<(), Refused> {
    let place = match name {
        "format" => &mut options.format,
        "delimiter" => &mut options.delimiter,
        "null" => &mut options.null,
        "header" => {
            options.header = Some(value.unwrap_or_else(|| "true".to_owned()));
            return Ok(());
        }
        "quote" => &mut options.quote,
        "escape" => &mut options.escape,
        "freeze" => return Ok(()),
        "encoding" => {
            let encoding = value.unwrap_or_default().to_lowercase();
            if matches!(encoding.as_str(), "utf8" | "utf-8" | "unicode") {
                return Ok(());
            }
            return Err(Refused::unsupported(format!(
                "the encoding {encoding} is not supported in COPY; send UTF-8"
            )));
        }
        "force_quote" | "force_not_null" | "force_null" => {
            return Err(Refused::unsupported(format!(
                "the option {} of COPY is not supported",
                name.to_uppercase()
            )));
        }
        other => {
            return Err(Refused::new(
                SYNTAX_ERROR,
                format!("option \"{other}\" not recognized"),
            ));
        }
    };
    if place.is_some() && name != "format" {
        return Err(Refused::new(
            SYNTAX_ERROR,
            "conflicting or redundant options",
        ));
    }
    let Some(value) = value else {
        return Err(Refused::new(
            SYNTAX_ERROR,
            format!("{name} requires a parameter"),
        ));
    };
    *place = Some(value);
    Ok(())
}

fn format(options: Options) -> Result<CopyFormat, Refused> {
    let wrong = |message: String| Refused::new(INVALID_PARAMETER_VALUE, message);
    let format = options.format.as_deref().unwrap_or("text").to_lowercase();
    let one = |name: &str, value: Option<&str>, default: u8| match value.map(str::as_bytes) {
        None => Ok(default),
        Some([byte]) if !matches!(byte, b'\n' | b'\r' | b'\\') || name != "delimiter" => Ok(*byte),
        Some(_) => Err(Refused::unsupported(format!(
            "COPY {name} must be a single one-byte character"
        ))),
    };
    let is_csv = format == "csv";
    if !is_csv && (options.quote.is_some() || options.escape.is_some()) {
        return Err(Refused::unsupported(
            "COPY quote and escape are available only in CSV mode",
        ));
    }
    let has_header = match options.header.as_deref().map(str::to_lowercase).as_deref() {
        None | Some("false" | "off" | "0") => false,
        Some("true" | "on" | "1") => true,
        Some("match") => {
            return Err(Refused::unsupported(
                "COPY HEADER MATCH is not supported; write HEADER",
            ));
        }
        Some(other) => {
            return Err(Refused::new(
                SYNTAX_ERROR,
                format!("header requires a Boolean value or \"match\", and not \"{other}\""),
            ));
        }
    };
    match format.as_str() {
        "binary" => {
            if options.delimiter.is_some() || options.null.is_some() || has_header {
                return Err(Refused::new(
                    SYNTAX_ERROR,
                    "cannot specify DELIMITER, NULL or HEADER in BINARY mode",
                ));
            }
            Ok(CopyFormat::Binary)
        }
        "csv" => {
            let quote = one("quote", options.quote.as_deref(), b'"')?;
            let csv = CsvFormat {
                delimiter: one("delimiter", options.delimiter.as_deref(), b',')?,
                null: options.null.unwrap_or_default(),
                quote,
                escape: one("escape", options.escape.as_deref(), quote)?,
                has_header,
            };
            if csv.delimiter == csv.quote {
                return Err(wrong(
                    "COPY delimiter and quote must be different".to_owned(),
                ));
            }
            Ok(CopyFormat::Csv(csv))
        }
        "text" => Ok(CopyFormat::Text(TextFormat {
            delimiter: one("delimiter", options.delimiter.as_deref(), b'\t')?,
            null: options.null.unwrap_or_else(|| "\\N".to_owned()),
            has_header,
        })),
        other => Err(wrong(format!("COPY format \"{other}\" not recognized"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(path: &[&str], columns: &[&str]) -> Source {
        Source::Table {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn both_spellings_are_read() {
        let csv = CsvFormat {
            delimiter: b';',
            null: "NULL".to_owned(),
            quote: b'"',
            escape: b'"',
            has_header: true,
        };
        for (text, source, is_in, format) in [
            (
                "COPY t FROM STDIN",
                table(&["t"], &[]),
                true,
                CopyFormat::default(),
            ),
            (
                "copy \"T\" ( \"a\", b ) from stdin binary;",
                table(&["T"], &["a", "b"]),
                true,
                CopyFormat::Binary,
            ),
            (
                "COPY s.t TO STDOUT (FORMAT csv, HEADER, DELIMITER ';', NULL 'NULL')",
                table(&["s", "t"], &[]),
                false,
                CopyFormat::Csv(csv.clone()),
            ),
            (
                "COPY (SELECT (1), ')' FROM t) TO STDOUT WITH CSV HEADER DELIMITER AS ';' NULL 'NULL'",
                Source::Query("SELECT (1), ')' FROM t".to_owned()),
                false,
                CopyFormat::Csv(csv),
            ),
            (
                "COPY BINARY t TO STDOUT",
                table(&["t"], &[]),
                false,
                CopyFormat::Binary,
            ),
        ] {
            let text = text.trim_end_matches(';');
            let read = read(text).unwrap();
            assert_eq!(
                (read.source, read.is_in, read.format),
                (source, is_in, format),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_done_is_refused() {
        for (text, code) in [
            ("COPY t FROM '/etc/passwd'", "0A000"),
            ("COPY t FROM PROGRAM 'ls'", "0A000"),
            ("COPY t FROM STDIN WHERE a > 1", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, FORCE_NULL (a))", "0A000"),
            ("COPY t FROM STDIN (FORMAT csv, HEADER match)", "0A000"),
            ("COPY t FROM STDIN (ENCODING 'latin1')", "0A000"),
            ("COPY t FROM STDIN (DELIMITER 'ab')", "0A000"),
            ("COPY t FROM STDIN (FORMAT xml)", "22023"),
            ("COPY t FROM STDIN (FREEZE, COLOUR 'red')", "42601"),
            ("COPY (SELECT 1) FROM STDIN", "42601"),
            ("COPY t STDIN", "42601"),
            ("COPY t FROM STDIN (FORMAT binary, NULL 'x')", "42601"),
        ] {
            assert_eq!(read(text).unwrap_err().code, code, "{text}");
        }
    }
}
