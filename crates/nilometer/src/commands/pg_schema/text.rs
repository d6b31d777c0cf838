//! Statements of a dump, and their tokens.
//!
//! Does: find where a statement ends, whatever its texts, names and comments hold; read words, names and what stands in parentheses. Does
//! not: know statements.

use anyhow::{Context, ensure};

/// A piece of a statement: where it begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    from: usize,
    to: usize,
}

/// One statement without its semicolon.
#[derive(Debug, Clone)]
pub(super) struct Statement<'a> {
    text: &'a str,
    pieces: Vec<Piece>,
    at: usize,
}

/// The statements of a dump. Commands of psql are none.
pub(super) fn statements(dump: &str) -> anyhow::Result<Vec<Statement<'_>>> {
    let mut all = Vec::new();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = 0;
    while let Some(letter) = dump.get(at..).and_then(|rest| rest.chars().next()) {
        if letter.is_whitespace() {
            at += letter.len_utf8();
            continue;
        }
        let rest = dump.get(at..).unwrap_or_default();
        if rest.starts_with("--") || (letter == '\\' && pieces.is_empty()) {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        if letter == ';' {
            if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
                let text = dump.get(first.from..last.to).unwrap_or_default();
                let from = first.from;
                for piece in &mut pieces {
                    piece.from -= from;
                    piece.to -= from;
                }
                let pieces = std::mem::take(&mut pieces);
                all.push(Statement {
                    text,
                    pieces,
                    at: 0,
                });
            }
            at += 1;
            continue;
        }
        let line = || dump.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let length = length_of(rest).with_context(|| {
            format!(
                "line {}: a text, a name or a comment has no end; is the dump whole?",
                line()
            )
        })?;
        if !rest.starts_with("/*") {
            pieces.push(Piece {
                from: at,
                to: at + length,
            });
        }
        at += length;
    }
    ensure!(
        pieces.is_empty(),
        "the last statement has no end; is the dump whole?"
    );
    Ok(all)
}

/// The bytes of the first piece; `None` = it has no end.
fn length_of(rest: &str) -> Option<usize> {
    let first = rest.chars().next()?;
    if rest.starts_with("/*") {
        return rest.find("*/").map(|at| at + 2);
    }
    if let Some(of_escapes) = rest.strip_prefix(['e', 'E'])
        && of_escapes.starts_with('\'')
    {
        return quoted(of_escapes, '\'', true).map(|length| length + 1);
    }
    if matches!(first, '\'' | '"') {
        return quoted(rest, first, false);
    }
    if first == '$'
        && let Some(end) = rest.get(1..)?.find(|letter| !is_of_word(letter))
        && rest.get(end + 1..)?.starts_with('$')
    {
        let end = end + 2;
        let tag = rest.get(..end)?;
        return rest.get(end..)?.find(tag).map(|at| at + 2 * end);
    }
    if is_of_word(first) {
        let mut letters = rest.char_indices();
        let end = letters.find(|(_, letter)| !is_of_word(*letter) && *letter != '$');
        return Some(end.map_or(rest.len(), |(at, _)| at));
    }
    Some(first.len_utf8())
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The bytes of what stands in quotes, with them.
fn quoted(rest: &str, quote: char, has_escapes: bool) -> Option<usize> {
    let mut letters = rest.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' && has_escapes {
            letters.next();
        } else if letter == quote && letters.next_if(|(_, next)| *next == quote).is_none() {
            return Some(at + quote.len_utf8());
        }
    }
    None
}

impl<'a> Statement<'a> {
    /// As it is written.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Its first words, for who is told of it.
    pub(super) fn shown(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().take(8).collect();
        words.join(" ")
    }

    fn piece(&self, ahead: usize) -> Option<&'a str> {
        let piece = self.pieces.get(self.at + ahead)?;
        self.text.get(piece.from..piece.to)
    }

    /// Takes these words, if they come next.
    pub(super) fn words(&mut self, words: &str) -> bool {
        let mut count = 0;
        for word in words.split(' ') {
            match self.piece(count) {
                Some(piece) if piece.eq_ignore_ascii_case(word) => count += 1,
                _ => return false,
            }
        }
        self.at += count;
        true
    }

    /// Takes a name, with its schema if it has one, as it is written.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        let from = self.pieces.get(self.at)?.from;
        self.at += 1;
        while self.piece(0) == Some(".") {
            self.at += 2;
        }
        let to = self.pieces.get(self.at.checked_sub(1)?)?.to;
        self.text.get(from..to)
    }

    /// What comes next, to the end.
    pub(super) fn rest(&self) -> &'a str {
        let from = self.pieces.get(self.at).map(|piece| piece.from);
        from.and_then(|from| self.text.get(from..))
            .unwrap_or_default()
    }

    /// Takes what stands in parentheses, cut at its commas.
    pub(super) fn elements(&mut self) -> Option<Vec<String>> {
        if self.piece(0) != Some("(") {
            return None;
        }
        let (mut depth, mut from, mut elements) = (0usize, None, Vec::new());
        loop {
            let piece = *self.pieces.get(self.at)?;
            let shown = self.text.get(piece.from..piece.to)?;
            self.at += 1;
            let is_cut = depth == 1 && matches!(shown, "," | ")");
            if is_cut && let Some(from) = from.take() {
                let element = self.text.get(from..piece.from)?;
                elements.push(element.trim_end().to_owned());
            }
            match shown {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(elements);
            }
            if !is_cut && from.is_none() && (shown != "(" || depth > 1) {
                from = Some(piece.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_no_text_name_or_comment_holds_them() {
        let dump = "\\restrict x\n-- a; b\nSELECT 'a;''b', \"c;\"\"d\" /* ; */, E'\\';', $f$ ; $$ ; $f$, $1;\n;CREATE TABLE t (a int)\n;";
        let found: Vec<&str> = statements(dump).unwrap().iter().map(|it| it.text).collect();
        let first = "SELECT 'a;''b', \"c;\"\"d\" /* ; */, E'\\';', $f$ ; $$ ; $f$, $1";
        assert_eq!(found, [first, "CREATE TABLE t (a int)"]);
        for broken in [
            "SELECT 'a",
            "SELECT 1",
            "SELECT \"a",
            "/* a",
            "SELECT $f$ a",
        ] {
            statements(broken).unwrap_err();
        }
    }

    #[test]
    fn what_stands_in_parentheses_is_cut_at_its_own_commas() {
        let dump =
            "CREATE TABLE \"a,b\".t (a numeric(10,2) DEFAULT 'x,)', CHECK ((a > 1)), b int);";
        let mut statement = statements(dump).unwrap().remove(0);
        assert!(statement.words("create table"));
        assert_eq!(statement.name(), Some("\"a,b\".t"));
        let elements = statement.elements().unwrap();
        assert_eq!(
            elements,
            ["a numeric(10,2) DEFAULT 'x,)'", "CHECK ((a > 1))", "b int"]
        );
        assert_eq!(statement.rest(), "");
    }
}
