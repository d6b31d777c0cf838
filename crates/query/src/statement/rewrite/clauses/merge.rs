//! `WHEN [NOT] MATCHED THEN DO NOTHING` of MERGE, which the parser does not know: it is spelled as an action that no statement means.

use datafusion::sql::sqlparser::ast::{AssignmentTarget, MergeAction, ObjectName};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The column that such an action names. No column of a user is called so by accident.
const NOTHING: &str = "do nothing";

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Spells the actions of a MERGE that do nothing as the parser knows actions.
pub(crate) fn spell(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_space = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    if !tokens
        .iter()
        .find(is_space)
        .is_some_and(|it| is_word(it, "merge"))
    {
        return tokens;
    }
    let mut spelled: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut is_matched = true;
    let mut tokens = tokens.into_iter().peekable();
    let mut last: Option<TokenWithSpan> = None;
    while let Some(token) = tokens.next() {
        if matches!(token.token, Token::Whitespace(_)) {
            spelled.push(token);
            continue;
        }
        if is_word(&token, "matched") {
            is_matched = !last.as_ref().is_some_and(|it| is_word(it, "not"));
        }
        let follows = last.as_ref().is_some_and(|it| is_word(it, "then"));
        last = Some(token.clone());
        if !(follows && is_word(&token, "do")) {
            spelled.push(token);
            continue;
        }
        let mut spaces = Vec::new();
        while let Some(space) = tokens.next_if(|it| matches!(it.token, Token::Whitespace(_))) {
            spaces.push(space);
        }
        if tokens.next_if(|it| is_word(it, "nothing")).is_some() {
            spelled.extend(action(is_matched, &token));
        } else {
            spelled.push(token);
            spelled.extend(spaces);
        }
    }
    spelled
}

/// The tokens of an action of a kind of clause, at the place of another.
fn action(is_matched: bool, at: &TokenWithSpan) -> Vec<TokenWithSpan> {
    let word = |text: &str| Token::make_word(text, None);
    let name = Token::Word(Word {
        value: NOTHING.to_owned(),
        quote_style: Some('"'),
        keyword: datafusion::sql::sqlparser::keywords::Keyword::NoKeyword,
    });
    let one = Token::Number("1".to_owned(), false);
    let tokens = if is_matched {
        vec![word("UPDATE"), word("SET"), name, Token::Eq, one]
    } else {
        let open = || Token::LParen;
        let close = || Token::RParen;
        vec![
            word("INSERT"),
            open(),
            name,
            close(),
            word("VALUES"),
            open(),
            one,
            close(),
        ]
    };
    let placed = tokens.into_iter().map(|token| TokenWithSpan {
        token,
        span: at.span,
    });
    placed.collect()
}

/// Whether an action does nothing.
pub(crate) fn does_nothing(action: &MergeAction) -> bool {
    let is_it = |name: &ObjectName| name.to_string() == format!("\"{NOTHING}\"");
    match action {
        MergeAction::Update(update) => match update.assignments.as_slice() {
            [only] => matches!(&only.target, AssignmentTarget::ColumnName(name) if is_it(name)),
            _ => false,
        },
        MergeAction::Insert(insert) => insert.columns.first().is_some_and(is_it),
        MergeAction::Delete { .. } => false,
    }
}
