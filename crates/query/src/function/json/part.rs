//! Parts of JSON: what keys and paths find, and what one value has of another.

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use nilometer_engine::Json;

/// What a part is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// Of an object.
    Name(String),
    /// Of an array, from 0; below it from the end.
    Place(i64),
}

pub(super) fn part<'a>(json: &'a Json, key: &Key) -> Option<&'a Json> {
    match (json, key) {
        // Of equal keys the last one counts.
        (Json::Object(entries), Key::Name(name)) => {
            let mut entries = entries.iter().rev();
            entries.find(|(key, _)| key == name).map(|(_, value)| value)
        }
        (Json::Array(items), Key::Place(place)) => items.get(place_in(items.len(), *place)?),
        _ => None,
    }
}

/// The place in an array of so many.
pub(super) fn place_in(length: usize, place: i64) -> Option<usize> {
    if place >= 0 {
        return usize::try_from(place).ok();
    }
    let from_end = usize::try_from(place.unsigned_abs()).ok()?;
    length.checked_sub(from_end)
}

/// What is at the end of a path; a part of it may be a key, or a place in an array.
pub(super) fn along<'a>(json: &'a Json, path: &[String]) -> Option<&'a Json> {
    path.iter().try_fold(json, |json, name| match json {
        Json::Array(_) => part(json, &Key::Place(name.trim().parse().ok()?)),
        _ => part(json, &Key::Name(name.clone())),
    })
}

/// A path as text: `{a,0,"b c"}`.
pub(super) fn path_of(text: &str) -> Result<Vec<String>> {
    let malformed = || exec_datafusion_err!("malformed array literal: \"{text}\"");
    let inner = text.trim().strip_prefix('{');
    let inner = inner.and_then(|inner| inner.strip_suffix('}'));
    let inner = inner.ok_or_else(malformed)?;
    if inner.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut parts = Vec::new();
    let mut letters = inner.chars().peekable();
    loop {
        let mut part = String::new();
        while letters.next_if(|it| it.is_whitespace()).is_some() {}
        if letters.next_if_eq(&'"').is_some() {
            loop {
                match letters.next().ok_or_else(malformed)? {
                    '"' => break,
                    '\\' => part.push(letters.next().ok_or_else(malformed)?),
                    letter => part.push(letter),
                }
            }
            while letters.next_if(|it| it.is_whitespace()).is_some() {}
        } else {
            while let Some(letter) = letters.next_if(|it| *it != ',') {
                if matches!(letter, '{' | '}' | '"') {
                    return Err(malformed());
                }
                part.push(letter);
            }
            part.truncate(part.trim_end().len());
            if part.is_empty() {
                return Err(malformed());
            }
        }
        parts.push(part);
        match letters.next() {
            None => return Ok(parts),
            Some(',') => {}
            Some(_) => return Err(malformed()),
        }
    }
}

/// A value as `->>` has it: a string by its letters; `None` = null.
pub(super) fn text_of(json: &Json) -> Option<String> {
    match json {
        Json::Text(text) => Some(text.clone()),
        Json::Word(word) if word == "null" => None,
        other => Some(other.to_string()),
    }
}

/// Whether the first has all of the second. An array has a value that stands by itself, at the top only.
pub(super) fn contains(json: &Json, other: &Json) -> bool {
    match (json, other) {
        (Json::Array(items), Json::Word(_) | Json::Text(_)) => {
            items.iter().any(|item| is_same(item, other))
        }
        _ => has(json, other),
    }
}

fn has(json: &Json, other: &Json) -> bool {
    match (json, other) {
        (Json::Object(_), Json::Object(_)) => other.entries().into_iter().all(|(key, value)| {
            let found = part(json, &Key::Name(key.to_owned()));
            found.is_some_and(|found| has(found, value))
        }),
        (Json::Array(items), Json::Array(others)) => others
            .iter()
            .all(|other| items.iter().any(|item| has(item, other))),
        _ => is_same(json, other),
    }
}

/// Whether two values that stand by themselves are equal: numbers whatever digits they are written with.
fn is_same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Text(one), Json::Text(other)) => one == other,
        (Json::Word(one), Json::Word(other)) => number(one) == number(other),
        _ => false,
    }
}

/// A number without digits that mean nothing.
fn number(word: &str) -> &str {
    if word.contains('.') {
        word.trim_end_matches('0').trim_end_matches('.')
    } else {
        word
    }
}

/// Whether an object has a key, or an array a string.
pub(super) fn exists(json: &Json, key: &str) -> bool {
    match json {
        Json::Object(entries) => entries.iter().any(|(name, _)| name == key),
        Json::Array(items) => items
            .iter()
            .any(|item| matches!(item, Json::Text(text) if text == key)),
        Json::Text(text) => text == key,
        Json::Word(_) => false,
    }
}

pub(super) fn type_of(json: &Json) -> &'static str {
    match json {
        Json::Object(_) => "object",
        Json::Array(_) => "array",
        Json::Text(_) => "string",
        Json::Word(word) => match word.as_str() {
            "null" => "null",
            "true" | "false" => "boolean",
            _ => "number",
        },
    }
}

pub(super) fn length(json: &Json) -> Result<i32> {
    match json {
        Json::Array(items) => i32::try_from(items.len())
            .map_err(|_| exec_datafusion_err!("the array has more elements than integer counts")),
        Json::Object(_) => exec_err!("cannot get array length of a non-array"),
        _ => exec_err!("cannot get array length of a scalar"),
    }
}

fn items(json: &Json) -> Result<&[Json]> {
    match json {
        Json::Array(items) => Ok(items),
        Json::Object(_) => exec_err!("cannot extract elements from an object"),
        _ => exec_err!("cannot extract elements from a scalar"),
    }
}

pub(super) fn elements(json: &Json) -> Result<Vec<Option<String>>> {
    let items = items(json)?.iter();
    Ok(items.map(|item| Some(item.to_string())).collect())
}

pub(super) fn element_texts(json: &Json) -> Result<Vec<Option<String>>> {
    Ok(items(json)?.iter().map(text_of).collect())
}

pub(super) fn keys(json: &Json) -> Result<Vec<Option<String>>> {
    match json {
        Json::Object(_) => {
            let entries = json.entries().into_iter();
            Ok(entries.map(|(key, _)| Some(key.to_owned())).collect())
        }
        Json::Array(_) => exec_err!("cannot call jsonb_object_keys on an array"),
        _ => exec_err!("cannot call jsonb_object_keys on a scalar"),
    }
}
