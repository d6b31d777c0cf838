//! The same questions and changes in InfluxQL, over `/query`.
//!
//! Does: say what a statement of InfluxQL is and how it is sent; read what its answers show, in each of their forms; tell
//! a refusal within an answer from an answer. Does not: judge either.

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use serde_json::Value;

use crate::client::Got;
use crate::model::OpId;
use crate::plan::{Change, Format, Question, Route, Write};
use crate::request::{ASIDE, BRIEF, KEEP, LAST, tag};

/// So few that an answer of some requests has several.
const CHUNK_ROWS: usize = 5;
const COLUMNS: [&str; 4] = ["time", "op", "n", "w"];

/// One row: table, request, place and version, as its text or number.
pub(crate) type Cells = (String, String, i64, i64);

/// Whether a question can be asked in InfluxQL: what definitions have made is asked for in SQL alone.
pub(crate) fn can_ask(question: Question) -> bool {
    matches!(question, Question::All | Question::Aside)
}

/// The text of a question; one statement, so that it is answered of one moment.
pub(crate) fn text_of(question: Question) -> String {
    match question {
        Question::Aside => format!("SELECT op, n, w FROM e.autogen.{ASIDE}"),
        _ => format!("SELECT op, n, w FROM {LAST}, {KEEP}, {BRIEF}"),
    }
}

/// The text of a change; `None` = InfluxQL has no such statement.
pub(crate) fn change(change: Change) -> Option<String> {
    // Both delete all rows of a series.
    let delete = |op: OpId| {
        if op.is_multiple_of(2) {
            "DELETE"
        } else {
            "DROP SERIES"
        }
    };
    Some(match change {
        Change::DeleteLast(op) => format!("{} FROM {LAST} WHERE op = '{}'", delete(op), tag(op)),
        Change::DeleteKept(op) => format!("{} FROM {KEEP} WHERE op = '{}'", delete(op), tag(op)),
        Change::Drop => format!("DROP MEASUREMENT {LAST}"),
        Change::MakeAside => "CREATE DATABASE e".to_owned(),
        Change::DropAside => "DROP DATABASE e".to_owned(),
        _ => return None,
    })
}

/// A request with its body.
pub(crate) fn whole(request: Builder, body: impl Into<Body>) -> Request<Body> {
    // The server would choose a number at random, and say it in its answers.
    let request = request
        .header("x-request-id", "simulated")
        .body(body.into());
    request.expect("constant paths and headers make a request")
}

fn form(text: &str) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair("db", "d")
        .append_pair("q", text)
        .finish()
}

/// A change, by POST.
pub(crate) fn statement(text: &str) -> Request<Body> {
    let request =
        Request::post("/query").header("content-type", "application/x-www-form-urlencoded");
    whole(request, form(text))
}

/// A question, by GET, in a form.
pub(crate) fn question(question: Question, format: Format) -> Request<Body> {
    let chunked = match format {
        Format::InfluxChunks => format!("&chunked=true&chunk_size={CHUNK_ROWS}"),
        _ => String::new(),
    };
    let path = format!("/query?epoch=ns&{}{chunked}", form(&text_of(question)));
    let accept = match format {
        Format::InfluxCsv => "application/csv",
        _ => "application/json",
    };
    whole(Request::get(path).header("accept", accept), Body::empty())
}

/// The unit of a body's times, and where it goes, by `/write`: every precision, with a retention policy and without.
pub(crate) fn place_of(write: &Write) -> (&'static str, i64) {
    match (write.route, write.op % 5) {
        (Route::V1, 0) => ("&precision=s", 1_000_000_000),
        (Route::V1, 1) => ("&precision=ms&rp=autogen", 1_000_000),
        (Route::V1, 2) => ("&precision=u&consistency=all", 1_000),
        (Route::V1, 3) => ("&rp=autogen", 1),
        _ => ("&precision=n", 1),
    }
}

/// The error of a statement stands in its result, whatever the status is.
pub(crate) fn refusal(got: &Got) -> Option<(u16, String)> {
    let text = String::from_utf8_lossy(&got.bytes);
    let in_csv = text.split_once("error\n");
    let error = match in_csv.filter(|(before, _)| before.is_empty() || before.ends_with('\n')) {
        Some((_, error)) => error.to_owned(),
        None => documents(&got.bytes).ok()?.iter().find_map(error_in)?,
    };
    Some((status_of(&error), error))
}

fn error_in(document: &Value) -> Option<String> {
    let of_result = |result: &Value| {
        result
            .get("error")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let results = document.get("results").and_then(Value::as_array)?;
    results.iter().find_map(of_result)
}

/// The status that the same error has as an answer of its own.
fn status_of(error: &str) -> u16 {
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if says(&["query-memory-bytes-max"]) {
        413
    } else if says(&["query-ms-max"]) {
        504
    } else if says(&["KILL"]) {
        409
    } else if says(&["disk_reserve_bytes", "disk-reserve-bytes"]) {
        507
    } else if says(&["not found"]) {
        404
    } else {
        500
    }
}

fn documents(bytes: &[u8]) -> Result<Vec<Value>, String> {
    let read = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    read.collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

/// Rows of an answer.
pub(crate) fn rows(bytes: &[u8], format: Format) -> Result<Vec<Cells>, String> {
    if format == Format::InfluxCsv {
        return csv(bytes);
    }
    let documents = documents(bytes)?;
    if documents.is_empty() {
        return Err("an answer without a document".to_owned());
    }
    let mut rows = Vec::new();
    let mut partial = false;
    for document in &documents {
        let wrong = || format!("not one result: {document}");
        let results = document.get("results").and_then(Value::as_array);
        let [result] = results.ok_or_else(wrong)?.as_slice() else {
            return Err(wrong());
        };
        partial = result.get("partial").is_some();
        let series = result.get("series").and_then(Value::as_array);
        for one in series.into_iter().flatten() {
            take_series(one, &mut rows)?;
        }
    }
    if partial {
        return Err("the last document says that more follows".to_owned());
    }
    if documents.len() > 1 && format != Format::InfluxChunks {
        return Err(format!("{} documents", documents.len()));
    }
    Ok(rows)
}

fn take_series(series: &Value, rows: &mut Vec<Cells>) -> Result<(), String> {
    let wrong = || format!("no series of these columns: {series}");
    let name = series
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(wrong)?;
    let columns = series
        .get("columns")
        .and_then(Value::as_array)
        .ok_or_else(wrong)?;
    if !columns.iter().map(Value::as_str).eq(COLUMNS.map(Some)) {
        return Err(wrong());
    }
    let values = series
        .get("values")
        .and_then(Value::as_array)
        .ok_or_else(wrong)?;
    for row in values {
        let cells = row.as_array().map(Vec::as_slice);
        let Some([Value::Number(_), Value::String(op), n, w]) = cells else {
            return Err(format!("no row: {row}"));
        };
        let number = |it: &Value| it.as_i64().ok_or_else(|| format!("no row: {row}"));
        rows.push((name.to_owned(), op.clone(), number(n)?, number(w)?));
    }
    Ok(())
}

fn csv(bytes: &[u8]) -> Result<Vec<Cells>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut lines = text.lines();
    match lines.next() {
        None => return Ok(Vec::new()),
        Some("name,tags,time,op,n,w") => {}
        Some(other) => return Err(format!("CSV under {other:?}")),
    }
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [name, "", _, op, n, w] = cells.as_slice() else {
            return Err(format!("no row: {line:?}"));
        };
        let number = |it: &str| it.parse().map_err(|_| format!("no row: {line:?}"));
        Ok(((*name).to_owned(), (*op).to_owned(), number(n)?, number(w)?))
    };
    lines.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(text: &str) -> Got {
        Got {
            status: Some(200),
            bytes: text.as_bytes().to_vec(),
            whole: Some(true),
        }
    }

    #[test]
    fn rows_of_all_forms_are_the_same() {
        let wanted = vec![
            ("kept".to_owned(), "op1".to_owned(), 0, 0),
            ("points".to_owned(), "op1".to_owned(), 1, 2),
        ];
        let head = r#""columns":["time","op","n","w"]"#;
        let first = format!(r#"{{"name":"kept",{head},"values":[[5,"op1",0,0]]}}"#);
        let second = format!(r#"{{"name":"points",{head},"values":[[6,"op1",1,2]]}}"#);
        let one = format!(r#"{{"results":[{{"statement_id":0,"series":[{first},{second}]}}]}}"#);
        assert_eq!(rows(one.as_bytes(), Format::InfluxJson).unwrap(), wanted);
        let cut = format!(
            "{{\"results\":[{{\"statement_id\":0,\"series\":[{first}],\"partial\":true}}]}}\n"
        );
        let rest = format!("{{\"results\":[{{\"statement_id\":0,\"series\":[{second}]}}]}}\n");
        let both = format!("{cut}{rest}");
        assert_eq!(rows(both.as_bytes(), Format::InfluxChunks).unwrap(), wanted);
        // What ends too early is no answer.
        assert!(rows(cut.as_bytes(), Format::InfluxChunks).is_err());
        assert!(rows(b"", Format::InfluxJson).is_err());
        let text = "name,tags,time,op,n,w\nkept,,5,op1,0,0\npoints,,6,op1,1,2\n";
        assert_eq!(rows(text.as_bytes(), Format::InfluxCsv).unwrap(), wanted);
    }

    #[test]
    fn an_error_in_a_result_is_a_refusal() {
        let json = r#"{"results":[{"statement_id":0,"error":"database not found: e"}]}"#;
        let wanted = Some((404, "database not found: e".to_owned()));
        assert_eq!(refusal(&got(json)), wanted);
        let csv = "error\nraise --query-memory-bytes-max\n";
        assert_eq!(refusal(&got(csv)).unwrap().0, 413);
        assert_eq!(refusal(&got(r#"{"results":[{"statement_id":0}]}"#)), None);
        assert_eq!(refusal(&got("name,tags,time,op,n,w\n")), None);
    }
}
