//! Parameters of a request, from its query string or a form: each name once.

use crate::error::ErrorResponse;

/// What a client may tell about a request, by name. The last value of a name counts.
#[derive(Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads `name=value&...`, as in a query string or in the body of a form.
    pub fn parse(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text);
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// Adds one, which counts before those that are there.
    pub fn push(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The same, of one that must be there.
    pub fn required(&self, name: &str) -> Result<&str, ErrorResponse> {
        match self.get(name) {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(ErrorResponse::bad_request(format!(
                "missing query parameter '{name}'"
            ))),
        }
    }

    /// A yes or no, or the default.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, ErrorResponse> {
        match self.get(name).map(str::to_lowercase).as_deref() {
            None => Ok(default),
            Some("true" | "1" | "") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(other) => Err(ErrorResponse::bad_request(format!(
                "invalid {name} '{other}': use true or false"
            ))),
        }
    }
}
