//! Paths in the source of one file.
//!
//! Does: take `use` statements apart, nested braces and renames included, and list the paths in the rest of the code.
//! Does not: know which of them are modules.

/// One name that a `use` brings.
#[derive(Debug)]
pub(super) struct Import {
    /// As the file calls it.
    pub(super) name: String,
    /// As it is written, `crate`, `super` and `self` included.
    pub(super) path: Vec<String>,
    pub(super) is_public: bool,
}

/// What a file imports, and what its code names by a path.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) imports: Vec<Import>,
    pub(super) mentioned: Vec<Vec<String>>,
    words: Vec<String>,
}

impl Source {
    pub(super) fn read(code: &str) -> Self {
        let tokens = tokens(code);
        let mut source = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at..].starts_with(&["pub", "(", "in"]) {
                // It says who may see a name, and brings none.
                let end = tokens[at..].iter().position(|token| *token == ")");
                at += end.unwrap_or(0);
            } else if tokens[at] == "use" {
                let end = tokens[at..].iter().position(|token| *token == ";");
                let end = end.map_or(tokens.len(), |length| at + length);
                let is_public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
                source.read_tree(&tokens[at + 1..end], &[], is_public);
                at = end;
            } else if is_name(tokens[at]) {
                let mut path = vec![tokens[at].to_owned()];
                while tokens.get(at + 1) == Some(&"::")
                    && tokens.get(at + 2).is_some_and(|token| is_name(token))
                {
                    at += 2;
                    path.push(tokens[at].to_owned());
                }
                source.words.push(path[0].clone());
                if path.len() > 1 {
                    source.mentioned.push(path);
                }
            }
            at += 1;
        }
        source.words.sort_unstable();
        source.words.dedup();
        source
    }

    /// Whether the code outside of `use` has the word at the beginning of a path.
    pub(super) fn mentions(&self, name: &str) -> bool {
        let found = self.words.binary_search_by(|word| word.as_str().cmp(name));
        found.is_ok()
    }

    /// `a::b::{self, C as D, e::*}`, without the `use` and the semicolon.
    fn read_tree(&mut self, tokens: &[&str], above: &[String], is_public: bool) {
        for branch in branches(tokens) {
            let mut path = above.to_vec();
            let mut at = 0;
            while at < branch.len() && (branch[at] == "::" || is_name(branch[at])) {
                if branch[at] == "as" {
                    break;
                }
                if is_name(branch[at]) {
                    path.push(branch[at].to_owned());
                }
                at += 1;
            }
            match branch.get(at) {
                Some(&"{") => {
                    let inside = &branch[at + 1..branch.len() - 1];
                    self.read_tree(inside, &path, is_public);
                }
                Some(&"as") => {
                    let name = branch.get(at + 1).copied().unwrap_or_default();
                    self.import(path, name, is_public);
                }
                _ => self.import(path, "", is_public),
            }
        }
    }

    fn import(&mut self, mut path: Vec<String>, name: &str, is_public: bool) {
        // `{self, ...}` names what stands before the brace.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = match (name, path.last()) {
            ("", Some(last)) => last.clone(),
            ("", None) => return,
            (name, _) => name.to_owned(),
        };
        self.imports.push(Import {
            name,
            path,
            is_public,
        });
    }
}

/// What stands between the commas outside of braces.
fn branches<'a, 'b>(tokens: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    let mut found = Vec::new();
    let mut depth = 0;
    let mut from = 0;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                found.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&tokens[from..]);
    found.retain(|branch| !branch.is_empty());
    found
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Names, `::` and single signs; comments and the contents of plain strings left out.
fn tokens(code: &str) -> Vec<&str> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &code[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if bytes[at] == b'"' {
            string_length(rest)
        } else if bytes[at] == b'\''
            && rest.len() > 2
            && (bytes[at + 1] == b'\\' || bytes[at + 2] == b'\'')
        {
            // A character, not a lifetime.
            3
        } else if is_name(rest) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let length = end.unwrap_or(rest.len());
            found.push(&rest[..length]);
            length
        } else if rest.starts_with("::") {
            found.push("::");
            2
        } else {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            if !rest[..length].trim().is_empty() {
                found.push(&rest[..length]);
            }
            length
        };
        at += length.max(1);
        while !code.is_char_boundary(at) {
            at += 1;
        }
    }
    found
}

fn string_length(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_taken_apart() {
        let source = Source::read("pub(crate) use a::{self, b::{C as D, e}, f};\nuse crate::g;");
        let found: Vec<String> = source
            .imports
            .iter()
            .map(|i| format!("{}={} {}", i.name, i.path.join("::"), i.is_public))
            .collect();
        assert_eq!(
            found,
            [
                "a=a true",
                "D=a::b::C true",
                "e=a::b::e true",
                "f=a::f true",
                "g=crate::g false"
            ]
        );
    }

    #[test]
    fn paths_in_the_code_are_found_and_those_in_texts_are_not() {
        let source = Source::read(
            "fn f<'a>(x: &'a str) { crate::a::b(\"super::c\", 'x', '\"', super::d::E); } // self::g",
        );
        let found: Vec<String> = source.mentioned.iter().map(|p| p.join("::")).collect();
        assert_eq!(found, ["crate::a::b", "super::d::E"]);
        assert!(source.mentions("f") && !source.mentions("g"));
    }

    /// `pub(in crate::engine)` made each file that used it import the parent of all of them; `pub(super)`, which says the
    /// same, did not.
    #[test]
    fn who_may_see_a_name_is_no_import() {
        let source = Source::read("pub(in crate::a) fn f() {}\npub(in crate::a) use b::C;\n");
        assert!(source.mentioned.is_empty(), "{source:?}");
        let imports: Vec<&str> = source.imports.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(imports, ["C"]);
        assert!(source.imports[0].is_public);
    }
}
