//! Predicates of deletes of version 2: `_measurement="m" AND host='a'`, as a statement of version 1.

use chrono::DateTime;

/// The first and the last time of a point, in nanoseconds since 1970 and as a text.
const FIRST: (i64, &str) = (i64::MIN + 3, "1677-09-21T00:12:43.145224195Z");
const LAST: (i64, &str) = (i64::MAX - 1, "2262-04-11T23:47:16.854775806Z");

/// The statement that deletes what a predicate selects between two times; or why it is none.
pub(crate) fn delete(start: &str, stop: &str, predicate: &str) -> Result<String, String> {
    for (name, text) in [("start", start), ("stop", stop)] {
        let Ok(time) = DateTime::parse_from_rfc3339(text) else {
            return Err(format!(
                "{name} must be a time such as 2024-01-31T00:00:00Z, not {text:?}"
            ));
        };
        let ns = time.timestamp_nanos_opt();
        if ns.is_none_or(|ns| !(FIRST.0..=LAST.0).contains(&ns)) {
            return Err(format!(
                "{name} must be a time from {} to {}, which are the first and the last of a point, not {text:?}",
                FIRST.1, LAST.1
            ));
        }
    }
    let mut measurement = None;
    let mut conditions = vec![
        format!("time >= {}", quoted(start, '\'')),
        format!("time <= {}", quoted(stop, '\'')),
    ];
    let mut rest = predicate.trim();
    while !rest.is_empty() {
        let (key, after) = word(rest)?;
        let after = after.trim_start();
        let Some(after) = after.strip_prefix('=').filter(|it| !it.starts_with('~')) else {
            return Err(format!(
                "only = is known between a tag and its value: {after:?}"
            ));
        };
        let (value, after) = word(after.trim_start())?;
        if key == "_measurement" {
            if measurement.replace(value).is_some() {
                return Err("_measurement is there twice".to_owned());
            }
        } else if key == "_field" {
            return Err(
                "_field cannot be in a predicate: points are deleted with all their fields; name _measurement and tags"
                    .to_owned(),
            );
        } else {
            conditions.push(format!("{} = {}", quoted(&key, '"'), quoted(&value, '\'')));
        }
        rest = after.trim_start();
        if rest.is_empty() {
            break;
        }
        let and = rest.get(..3).filter(|and| and.eq_ignore_ascii_case("and"));
        let next = and.and_then(|_| rest.get(3..));
        match next.filter(|next| next.starts_with(char::is_whitespace) && !next.trim().is_empty()) {
            Some(next) => rest = next.trim_start(),
            None => return Err(format!("only AND is known between conditions: {rest:?}")),
        }
    }
    let from = measurement.map_or_else(
        || "/.*/".to_owned(),
        |measurement| quoted(&measurement, '"'),
    );
    let conditions = conditions.join(" AND ");
    Ok(format!("DELETE FROM {from} WHERE {conditions}"))
}

/// The first word, quoted in one way or the other or not at all, and what follows it.
fn word(text: &str) -> Result<(String, &str), String> {
    let quote = text
        .chars()
        .next()
        .filter(|char| matches!(char, '"' | '\''));
    let Some(quote) = quote else {
        let is_end = |char: char| char.is_whitespace() || char == '=' || char == '!';
        let end = text.find(is_end).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        if word.is_empty() {
            return Err(format!("a name or a value is missing: {text:?}"));
        }
        return Ok((word.to_owned(), rest));
    };
    let mut word = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => word.extend(chars.next().map(|(_, char)| char)),
            _ if char == quote => {
                return Ok((word, text.get(at + 1..).unwrap_or_default()));
            }
            _ => word.push(char),
        }
    }
    Err(format!("the quote is not closed: {text:?}"))
}

fn quoted(text: &str, quote: char) -> String {
    let mut quoted = String::from(quote);
    for char in text.chars() {
        match char {
            '\n' => quoted.push_str("\\n"),
            _ if char == quote || char == '\\' => quoted.extend(['\\', char]),
            _ => quoted.push(char),
        }
    }
    quoted.push(quote);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "2024-01-01T00:00:00Z";
    const STOP: &str = "2024-02-01T00:00:00Z";

    #[test]
    fn a_predicate_is_a_delete_of_version_1() {
        let times = "time >= '2024-01-01T00:00:00Z' AND time <= '2024-02-01T00:00:00Z'";
        for (predicate, from, conditions) in [
            ("", "/.*/", ""),
            ("_measurement=\"m\"", "\"m\"", ""),
            (
                "_measurement = m and host='a b'",
                "\"m\"",
                " AND \"host\" = 'a b'",
            ),
            (
                r#""host"="it's" AND dc=x"#,
                "/.*/",
                r#" AND "host" = 'it\'s' AND "dc" = 'x'"#,
            ),
        ] {
            let statement = delete(START, STOP, predicate).unwrap();
            let wanted = format!("DELETE FROM {from} WHERE {times}{conditions}");
            assert_eq!(statement, wanted, "{predicate}");
        }
    }

    #[test]
    fn what_is_no_predicate_is_refused_with_its_place() {
        for (predicate, why) in [
            ("host", "only ="),
            ("host=", "missing"),
            ("host=~/a/", "only ="),
            ("host!=a", "only ="),
            ("host=a OR dc=b", "only AND"),
            ("host=a AND", "only AND"),
            ("host='a", "not closed"),
            ("_measurement=a AND _measurement=b", "twice"),
            // It deleted nothing, and said that it had.
            ("_measurement=a AND _field=\"f\"", "all their fields"),
        ] {
            let error = delete(START, STOP, predicate).unwrap_err();
            assert!(error.contains(why), "{predicate}: {error}");
        }
        assert!(delete("yesterday", STOP, "").is_err());
        // These were said to be no times at all. The ends are those of 64 bits of nanoseconds.
        for (start, stop) in [
            ("1000-01-01T00:00:00Z", STOP),
            (START, "9999-01-01T00:00:00Z"),
            ("1677-09-21T00:12:43.145224194Z", STOP),
            (START, "2262-04-11T23:47:16.854775807Z"),
        ] {
            let error = delete(start, stop, "").unwrap_err();
            assert!(
                error.contains("the first and the last of a point"),
                "{error}"
            );
        }
        assert!(delete(FIRST.1, LAST.1, "").is_ok());
        assert_eq!(
            DateTime::from_timestamp_nanos(FIRST.0),
            FIRST.1.parse::<DateTime<chrono::Utc>>().unwrap()
        );
        assert_eq!(
            DateTime::from_timestamp_nanos(LAST.0),
            LAST.1.parse::<DateTime<chrono::Utc>>().unwrap()
        );
        assert!(delete(START, "", "").unwrap_err().contains("stop"));
    }
}
