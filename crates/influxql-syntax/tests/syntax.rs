//! Statements and errors by the tables of `tests/printed.txt` and `tests/errors.txt`, whose facts are those of InfluxDB's own
//! parser and printer; random and hostile texts.

use nilometer_influxql_syntax::ast::{Expr, Operator, Statement};
use nilometer_influxql_syntax::{
    Error, HEIGHT_MAX, NESTING_MAX, Params, Statements, Value, parse, parse_expr,
};
use proptest::prelude::*;

/// Pairs of lines: a text, and what becomes of it, indented.
fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    std::iter::from_fn(move || Some((lines.next()?, lines.next()?.trim_start())))
}

fn printed(text: &str) -> Result<String, Error> {
    Ok(Statements(&parse(text, &Params::default())?).to_string())
}

#[test]
fn statements_print_in_their_normal_form_which_parses_to_the_same() {
    for (text, form) in pairs(include_str!("printed.txt")) {
        let form = if form == "=" { text } else { form };
        let once = printed(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(once, form, "{text}");
        if !form.contains("[REDACTED]") {
            assert_eq!(
                parse(&once, &Params::default()),
                parse(text, &Params::default()),
                "{text}"
            );
        }
    }
}

#[test]
fn errors_have_the_words_and_places_of_influxdb() {
    let mut different = Vec::new();
    for (text, error) in pairs(include_str!("errors.txt")) {
        match parse(text, &Params::default()) {
            // A text without a statement is an error of a single statement only.
            Ok(statements) if statements.is_empty() => {}
            Ok(_) => different.push(format!("{text}: is a statement")),
            Err(found) if found.to_string() == error => {}
            Err(found) => different.push(format!("{text}: {found}, not {error}")),
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn positions_count_lines_and_characters() {
    for (text, error) in [
        (
            "SELECT a\nFROM m\r\n  WHERE +",
            "found EOF, expected identifier, number, duration, ( at line 3, char 10",
        ),
        (
            "SELECT \u{e9}\u{e9} FROM m",
            "found \u{e9}, expected identifier, string, number, bool at line 1, char 8",
        ),
        (
            "SELECT a FROM m WHERE b = 'c",
            "found c, expected identifier, string, number, bool at line 1, char 26",
        ),
        (
            "SELECT a FROM m WHERE b = 'c\\d'",
            "found \\d, expected identifier, string, number, bool at line 1, char 30",
        ),
        (
            "SELECT a FROM m; SELECT b FROM n SHOW",
            "found SHOW, expected ; at line 1, char 34",
        ),
        (
            "SELECT a FROM a.b.c.d",
            "too many segments in \"a\".\"b\".\"c\".d at line 1, char 1",
        ),
        (
            "SELECT a FROM m WHERE b =~ /(/",
            "error parsing regexp: missing closing ): `(` at line 1, char 27",
        ),
        (
            "SELECT a FROM m WHERE b =~ /a",
            "bad regex:  at line 1, char 27",
        ),
        (
            "SELECT a FROM m tz('Mars/Phobos')",
            "unable to find time zone Mars/Phobos",
        ),
        (
            "SELECT a FROM m fill(x, y)",
            "fill requires an argument, e.g.: 0, null, none, previous, linear",
        ),
        ("SELECT a FROM m WHERE x = 1q", "invalid duration"),
        (
            "SELECT a::wrong FROM m",
            "found wrong, expected float, integer, unsigned, string, boolean, field, tag at line 1, char 11",
        ),
    ] {
        assert_eq!(
            parse(text, &Params::default()).unwrap_err().to_string(),
            error,
            "{text}"
        );
    }
}

#[test]
fn parameters_stand_for_their_values() {
    let params = Params::from([
        ("host".to_owned(), Value::Text("it's".to_owned())),
        ("m".to_owned(), Value::Identifier("cpu load".to_owned())),
        (
            "re".to_owned(),
            Value::of_object("regex", Value::Text("^a/b".to_owned())),
        ),
        ("limit".to_owned(), Value::Integer(3)),
        ("min".to_owned(), Value::Float(2.5)),
        ("ok".to_owned(), Value::Boolean(true)),
        (
            "width".to_owned(),
            Value::of_object("duration", Value::Integer(60_000_000_000)),
        ),
        (
            "odd".to_owned(),
            Value::of_object("colour", Value::Integer(1)),
        ),
        ("minus".to_owned(), Value::Integer(-1)),
    ]);
    let bound = |text: &str| parse(text, &params).map(|all| Statements(&all).to_string());
    let text = "SELECT mean(v) FROM $m WHERE host = $host AND t =~ $re AND v > $min AND ok = $ok GROUP BY time($width) LIMIT $limit";
    assert_eq!(
        bound(text).unwrap(),
        "SELECT mean(v) FROM \"cpu load\" WHERE host = 'it\\'s' AND t =~ /^a\\/b/ AND v > 2.5 AND ok = true GROUP BY time(1m) LIMIT 3"
    );
    for (text, error) in [
        ("SELECT v FROM m WHERE a = $b", "missing parameter: b"),
        ("SELECT v FROM m WHERE a = $", "empty bound parameter"),
        (
            "SELECT v FROM m WHERE a = $odd",
            "unknown bind object type: colour",
        ),
        (
            "SELECT v FROM m LIMIT $minus",
            "LIMIT must be >= 0 at line 1, char 23",
        ),
        (
            "SELECT v FROM $limit",
            "found 3, expected identifier at line 1, char 15",
        ),
    ] {
        assert_eq!(bound(text).unwrap_err().to_string(), error, "{text}");
    }
}

/// A text of a megabyte of parentheses ended InfluxDB by its stack: ours has to answer with an error.
#[test]
fn what_nests_too_deep_is_refused_and_long_rows_are_not() {
    let nested =
        |count: usize| format!("SELECT {}a{} FROM m", "(".repeat(count), ")".repeat(count));
    assert!(printed(&nested(NESTING_MAX - 2)).is_ok());
    for text in [
        nested(NESTING_MAX + 1),
        nested(1_000_000),
        format!("SELECT {}", "f(".repeat(1_000_000)),
        format!("SELECT {}", "-".repeat(1_000_000)),
        format!("SELECT a FROM {}", "(SELECT a FROM ".repeat(200_000)),
        format!("SELECT a{} FROM m", " + a".repeat(HEIGHT_MAX + 1)),
        format!("SELECT a{} FROM m", " + a * (b)".repeat(100_000)),
        format!(
            "SELECT {}a{} FROM m",
            "(".repeat(90),
            " + a) "
                .repeat(90)
                .replace(')', &format!("{})", " + a".repeat(20)))
        ),
    ] {
        assert!(
            parse(&text, &Params::default()).is_err(),
            "{} bytes",
            text.len()
        );
    }
    let longest = format!("SELECT a{} FROM m", " + a".repeat(HEIGHT_MAX));
    assert!(printed(&longest).is_ok());
    let row = format!("a = 'b'{}", " OR a = 'b'".repeat(100_000));
    assert_eq!(parse_expr(&row).unwrap().to_string(), row);
    let Statement::Select(select) =
        &parse("SELECT a + b - c FROM m", &Params::default()).unwrap()[0]
    else {
        panic!("a SELECT");
    };
    let Expr::Binary(Operator::Sub, left, _) = &select.fields[0].expr else {
        panic!("a difference")
    };
    assert!(matches!(**left, Expr::Binary(Operator::Add, ..)));
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,6}",
        "[ -~\\n\u{e9}]{1,6}",
        Just("select".to_owned())
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        name().prop_map(|name| Expr::name(&name)),
        any::<i64>()
            .prop_filter("a sign of its own", |value| *value >= 0)
            .prop_map(Expr::Integer),
        (0.0..1e12).prop_map(Expr::Float),
        any::<bool>().prop_map(Expr::Boolean),
        "[ -~\\n\u{e9}]{0,8}".prop_map(Expr::Text),
        (0..1_i64 << 50).prop_map(Expr::Duration),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0_usize..8, inner.clone()).prop_map(|(left, which, right)| {
                let operators = [
                    Operator::Add,
                    Operator::Sub,
                    Operator::Mul,
                    Operator::Div,
                    Operator::And,
                    Operator::Or,
                    Operator::Eq,
                    Operator::BitXor,
                ];
                // Parentheses, because the printer adds none.
                let operand = |expr| Box::new(Expr::Paren(Box::new(expr)));
                Expr::Binary(operators[which], operand(left), operand(right))
            }),
            ("[a-z]{1,5}_", prop::collection::vec(inner, 0..3)).prop_map(|(name, arguments)| {
                Expr::Call(nilometer_influxql_syntax::ast::Call { name, arguments })
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_what_it_was(expr in expr()) {
        let text = expr.to_string();
        prop_assert_eq!(parse_expr(&text).unwrap(), expr, "{}", text);
    }

    #[test]
    fn a_name_of_any_characters_is_one_name(name in name()) {
        let text = format!("SELECT {} FROM {0}", nilometer_influxql_syntax::quote_ident(&name));
        prop_assert_eq!(printed(&text).unwrap(), text);
    }

    #[test]
    fn hostile_texts_end_with_a_value(text in "\\PC{0,60}") {
        let _ = parse(&text, &Params::default());
    }

    #[test]
    fn words_in_any_order_end_with_a_value(words in prop::collection::vec(
        prop::sample::select(vec![
            "SELECT", "FROM", "WHERE", "GROUP", "BY", "ORDER", "time", "(", ")", ",", ".", "'a'", "\"b\"", "/c/", "1", "2.5",
            "3h", "$p", "$", "::", ":", ";", "-", "+", "*", "=~", "=", "AND", "fill", "tz", "SHOW", "TAG", "VALUES", "WITH",
            "KEY", "IN", "CREATE", "CONTINUOUS", "QUERY", "ON", "BEGIN", "END", "INTO", "DISTINCT", "a", "--", "/*", "*/",
            "\n", "\\", "'", "\"", "/",
        ]), 0..25), joined in any::<bool>())
    {
        let _ = parse(&words.join(if joined { "" } else { " " }), &Params::default());
    }
}
