//! Licence expressions, as crates declare them.
//!
//! Does: say whether one can be satisfied with a set of accepted licences.
//! Does not: know any licence; names are compared letter by letter.
//!
//! ```text
//! any  = all { ("OR" | "/") all }
//! all  = one { "AND" one }
//! one  = "(" any ")" | name [ "WITH" name ]
//! ```

/// Whether whoever accepts `allowed` may use what is licensed under `expression`.
pub(crate) fn is_satisfied(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        words: &words,
        at: 0,
        allowed,
    };
    let satisfied = parser.any()?;
    match parser.peek() {
        None => Ok(satisfied),
        Some(word) => Err(format!("`{word}` is not expected there")),
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut satisfied = self.all()?;
        while self.take("OR") {
            satisfied |= self.all()?;
        }
        Ok(satisfied)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut satisfied = self.one()?;
        while self.take("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let satisfied = self.any()?;
            return if self.take(")") {
                Ok(satisfied)
            } else {
                Err("a parenthesis is not closed".to_owned())
            };
        }
        let name = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok(self
                .allowed
                .contains(&format!("{name} WITH {exception}").as_str()));
        }
        Ok(self.allowed.contains(&name))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            None => Err("a licence is missing at its end".to_owned()),
            Some(word @ ("OR" | "AND" | "WITH" | "(" | ")")) => {
                Err(format!("a licence is missing before `{word}`"))
            }
            Some(name) => {
                self.at += 1;
                Ok(name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_satisfied;

    const ALLOWED: &[&str] = &[
        "MIT",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "Unicode-3.0",
    ];

    #[test]
    fn expressions_follow_the_precedence_of_their_grammar() {
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("Unlicense/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("MIT OR Apache-2.0 AND GPL-3.0", true),
            ("GPL-3.0 AND MIT OR GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
        ] {
            assert_eq!(
                is_satisfied(expression, ALLOWED),
                Ok(expected),
                "{expression}"
            );
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        for expression in [
            "",
            "MIT OR",
            "AND MIT",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "MIT WITH",
            "()",
        ] {
            assert!(is_satisfied(expression, ALLOWED).is_err(), "{expression:?}");
        }
    }
}
