//! Forms of answers, and how many rows one has.

use std::fmt;
use std::io::Cursor;

use arrow_ipc::reader::StreamReader;
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::http::shown;
use crate::{Error, Result};

/// The form in which rows come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerFormat {
    /// An array of objects.
    #[default]
    Json,
    /// An Arrow IPC stream.
    Arrow,
}

impl AnswerFormat {
    /// As it stands in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Arrow => "arrow",
        }
    }

    /// Rows of an answer to the query `name`.
    pub(crate) fn count_rows(self, name: &str, answer: &[u8]) -> Result<usize> {
        let counted = match self {
            // The rows are walked over, not built: the widest answers have hundreds of thousands.
            Self::Json => serde_json::from_slice::<Vec<IgnoredAny>>(answer)
                .map(|rows| rows.len())
                .map_err(|e| format!("{e}: {}", shown(answer))),
            Self::Arrow => count_arrow_rows(answer).map_err(|e| e.to_string()),
        };
        counted.map_err(|why| Error::Answer {
            name: name.to_owned(),
            format: self.name(),
            why,
        })
    }
}

impl fmt::Display for AnswerFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn count_arrow_rows(answer: &[u8]) -> std::result::Result<usize, arrow_schema::ArrowError> {
    let mut rows = 0;
    for batch in StreamReader::try_new(Cursor::new(answer), None)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::AnswerFormat::{Arrow, Json};

    #[test]
    fn rows_are_counted_and_other_answers_refused() {
        assert_eq!(Json.count_rows("q", b"[]").unwrap(), 0);
        assert_eq!(
            Json.count_rows("q", br#"[{"a":[1,2]}, {"a":null}]"#)
                .unwrap(),
            2
        );
        for answer in [&b""[..], b"{}", b"[{}", b"{\"error\":\"no\"}"] {
            assert!(Json.count_rows("q", answer).is_err());
            let error = Arrow.count_rows("q", answer).unwrap_err().to_string();
            assert!(error.contains("arrow"), "{error}");
        }
    }

    /// Written by pyarrow 26.0: batches of 2 and 1 rows of one column `n`.
    #[test]
    fn rows_of_an_arrow_stream_are_those_of_all_its_batches() {
        let stream = include_bytes!("../../tests/data/three-rows.arrow");
        assert_eq!(Arrow.count_rows("q", stream).unwrap(), 3);
        assert!(Arrow.count_rows("q", &stream[..stream.len() / 2]).is_err());
    }
}
