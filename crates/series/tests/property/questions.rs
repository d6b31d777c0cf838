//! Questions of every form.

use nilometer_series::{
    Aggregate, Binary, Bucket, Choice, Column, Expr, Fill, Function, Limit, Literal, Order,
    OrderBy, Percentile, Rules, Selector, Shape, Shift, Source, TableName, TagExpr, TimeRange, Top,
    Transform, Unary, Value, Width,
};

use crate::data::{HOSTS, HOUR, RACKS, SECOND, START, TAGS};
use crate::dice::Dice;

fn table(name: &str) -> TableName {
    TableName {
        database: "d".to_owned(),
        schema: Some("public".to_owned()),
        table: name.to_owned(),
    }
}

fn column(name: &str, expr: Expr) -> Column {
    Column {
        name: name.to_owned(),
        expr,
    }
}

/// A question, and the fields that its source has.
pub(crate) fn question(dice: &mut Dice) -> Shape {
    if dice.one_in(5) {
        return around(dice);
    }
    let (source, fields) = source(dice);
    let rules = dice.one(&[Rules::Postgres, Rules::Influx]);
    match dice.below(7) {
        0 => choice(dice, rules, source, fields),
        1 | 2 => rows(dice, rules, source, fields),
        3 => present(dice, rules, source, fields),
        _ => groups(dice, rules, source, fields, false),
    }
}

/// Aggregates of one field, of the rows that have it.
fn present(dice: &mut Dice, rules: Rules, source: Source, fields: &'static [&str]) -> Shape {
    let mut shape = groups(dice, rules, source, fields, false);
    let of = Expr::field(dice.one(fields));
    shape.rows = Some(Expr::Unary(Unary::IsNotNull, Box::new(of.clone())));
    shape.columns = vec![
        column("count", Expr::aggregate(Aggregate::Count(of.clone()))),
        column("max", Expr::aggregate(Aggregate::Max(of))),
    ];
    (shape.fill, shape.fills) = (Fill::Absent, Vec::new());
    shape
}

fn source(dice: &mut Dice) -> (Source, &'static [&'static str]) {
    let all: &[&str] = &["f", "n", "u", "t", "b"];
    match dice.below(8) {
        0..3 => (Source::Tables(vec![table("merged")]), all),
        3 | 4 => (Source::Tables(vec![table("kept")]), all),
        5 => (Source::Tables(vec![table("replaced")]), &["f", "n"]),
        6 => (
            Source::Tables(vec![table("replaced"), table("merged")]),
            all,
        ),
        _ => (Source::Tables(vec![table("merged"), table("kept")]), all),
    }
}

/// A question about the answer of another.
fn around(dice: &mut Dice) -> Shape {
    let (source, fields) = source(dice);
    let rules = dice.one(&[Rules::Postgres, Rules::Influx]);
    let mut inner = groups(dice, rules, source, fields, true);
    inner.group = TAGS.iter().map(|tag| (*tag).to_owned()).collect();
    inner.columns = vec![
        column("f", Expr::aggregate(Aggregate::Max(Expr::field("f")))),
        column("n", Expr::aggregate(Aggregate::Count(Expr::field("n")))),
    ];
    inner.fills = Vec::new();
    if inner.fill != Fill::Absent && dice.one_in(2) {
        inner.fills.push(("n".to_owned(), Fill::Null));
    }
    if dice.one_in(4) {
        // The rows of the greatest values of each bucket, in place of its aggregates.
        inner.choice = Some(top(dice, rules, &["f", "n"]));
        (inner.fill, inner.fills) = (Fill::Absent, Vec::new());
        inner.columns = vec![column("f", Expr::field("f")), column("n", Expr::field("n"))];
    }
    let nested = Source::Nested(Box::new(inner));
    if dice.one_in(6) {
        return choice(dice, rules, nested, &["f", "n"]);
    }
    if dice.one_in(2) {
        rows(dice, rules, nested, &["f", "n"])
    } else {
        groups(dice, rules, nested, &["f", "n"], false)
    }
}

fn start(dice: &mut Dice, rules: Rules, source: Source, fields: &[&str]) -> Shape {
    let mut shape = Shape::of(rules, source);
    let time = |dice: &mut Dice| {
        let minutes = dice.below(500) as i64 - 100;
        let time = START + minutes * 60 * SECOND + dice.one(&[0, 0, 1]);
        Literal::Value(if dice.one_in(2) {
            Value::Time(time)
        } else {
            Value::Int(time)
        })
    };
    if dice.one_in(2) {
        shape.time = TimeRange {
            from: dice.one_in(2).then(|| time(dice)),
            to: dice.one_in(2).then(|| time(dice)),
        };
    }
    if dice.one_in(3) {
        shape.tags = tag_expr(dice, 2);
    }
    if dice.one_in(3) {
        shape.rows = Some(condition(dice, fields, 2));
    }
    for tag in TAGS {
        if dice.one_in(2) {
            shape.group.push(tag.to_owned());
        }
    }
    let number = |dice: &mut Dice, end: usize| Literal::from(dice.below(end) as i64);
    if dice.one_in(4) {
        shape.limit_per_group = Some(Limit {
            rows: number(dice, 4),
            skip: number(dice, 2),
        });
    }
    if dice.one_in(3) {
        shape.limit = Some(Limit {
            rows: number(dice, 12),
            skip: number(dice, 3),
        });
    }
    if dice.one_in(5) {
        shape.limit_groups = Some(Limit {
            rows: number(dice, 4),
            skip: number(dice, 3),
        });
    }
    shape.order = Order {
        by: dice.one(&[OrderBy::Group, OrderBy::Time]),
        descending: dice.one_in(2),
    };
    shape
}

fn tag_expr(dice: &mut Dice, depth: usize) -> TagExpr {
    let text = |dice: &mut Dice, of: &[&str]| Literal::from(dice.one(of));
    match dice.below(if depth == 0 { 6 } else { 9 }) {
        0 => TagExpr::OneOf("host".to_owned(), vec![text(dice, &HOSTS)]),
        1 => {
            let values = [text(dice, &HOSTS), text(dice, &["", "none"])];
            TagExpr::OneOf("host".to_owned(), values.to_vec())
        }
        2 => TagExpr::OneOf(
            "rack".to_owned(),
            vec![Literal::from(7_i64), text(dice, &RACKS)],
        ),
        3 => {
            let (low, high) = (dice.below(9) as i64 - 5, dice.below(20) as i64);
            let first = dice.one_in(2).then(|| Literal::from(low));
            TagExpr::Range("rack".to_owned(), first, Some(Literal::from(high)))
        }
        4 => TagExpr::Range("host".to_owned(), Some(text(dice, &["a", "ab", ""])), None),
        5 if dice.one_in(2) => TagExpr::Absent("rack".to_owned()),
        5 => TagExpr::Matches("host".to_owned(), text(dice, &["^a", "^ho", "^"])),
        6 => TagExpr::Not(Box::new(tag_expr(dice, depth - 1))),
        7 => TagExpr::And(vec![tag_expr(dice, depth - 1), tag_expr(dice, depth - 1)]),
        _ => TagExpr::Or(vec![tag_expr(dice, depth - 1), tag_expr(dice, depth - 1)]),
    }
}

/// A condition that calculates nothing that could fail.
fn condition(dice: &mut Dice, fields: &[&str], depth: usize) -> Expr {
    let comparison = [
        Binary::Equal,
        Binary::NotEqual,
        Binary::Less,
        Binary::LessOrEqual,
        Binary::Greater,
        Binary::GreaterOrEqual,
    ];
    if depth > 0 && dice.one_in(3) {
        let operator = dice.one(&[Binary::And, Binary::And, Binary::Or]);
        let left = condition(dice, fields, depth - 1);
        return Expr::binary(operator, left, condition(dice, fields, depth - 1));
    }
    if depth > 0 && dice.one_in(8) {
        return Expr::Unary(Unary::Not, Box::new(condition(dice, fields, depth - 1)));
    }
    let operator = dice.one(&comparison);
    let field = dice.one(fields);
    let (left, right) = match field {
        _ if dice.one_in(10) => {
            let of = Box::new(Expr::field(field));
            return Expr::Unary(dice.one(&[Unary::IsNull, Unary::IsNotNull]), of);
        }
        _ if dice.one_in(8) => (Expr::tag("host"), Expr::literal(dice.one(&HOSTS))),
        "f" => {
            let bounds = [0.0, -0.0, 10.0, 60.5, f64::NAN, f64::INFINITY];
            (Expr::field("f"), Expr::literal(dice.one(&bounds)))
        }
        "n" if dice.one_in(3) => (Expr::field("n"), Expr::field("f")),
        "n" => (Expr::field("n"), Expr::literal(dice.below(15) as i64 - 4)),
        "u" => (Expr::field("u"), Expr::literal(dice.below(9) as i64 - 1)),
        "t" => (Expr::field("t"), Expr::literal(dice.one(&["low", "", "m"]))),
        _ => (Expr::field("b"), Expr::literal(dice.one_in(2))),
    };
    if dice.one_in(3) {
        Expr::binary(operator, right, left)
    } else {
        Expr::binary(operator, left, right)
    }
}

fn top(dice: &mut Dice, rules: Rules, fields: &[&str]) -> Choice {
    let numbers = fields.iter().copied().filter(|it| "fnu".contains(it));
    let numbers: Vec<&str> = numbers.collect();
    let by = match dice.below(8) {
        0 => Expr::Time,
        1 if rules == Rules::Influx => calculated(dice, &numbers),
        _ => Expr::field(dice.one(&numbers)),
    };
    let each = match dice.below(6) {
        0 => vec![Expr::tag("host")],
        1 => vec![Expr::tag("rack"), Expr::tag("host")],
        2 => vec![Expr::field(dice.one(fields))],
        _ => Vec::new(),
    };
    Choice::Top(Top {
        by,
        rows: Literal::from(dice.below(6) as i64),
        smallest: dice.one_in(2),
        each,
    })
}

/// Some rows or values of groups and buckets.
fn choice(dice: &mut Dice, rules: Rules, source: Source, fields: &'static [&'static str]) -> Shape {
    let mut shape = start(dice, rules, source, fields);
    if dice.one_in(2) {
        shape.bucket = Some(bucket(dice));
    }
    if dice.one_in(2) {
        shape.choice = Some(top(dice, rules, fields));
        for field in fields {
            shape.columns.push(column(field, Expr::field(field)));
        }
        if !shape.group.contains(&"host".to_owned()) {
            shape.columns.push(column("the host", Expr::tag("host")));
        }
        if dice.one_in(3) {
            let ratio = Expr::binary(Binary::Divide, Expr::field("f"), Expr::field("n"));
            shape.columns.push(column("calculated", ratio));
        }
        return shape;
    }
    let of = match dice.below(8) {
        0 => Expr::Time,
        1 => Expr::field("n"),
        2 => Expr::Call(Function::Coalesce, vec![Expr::field("f"), Expr::field("n")]),
        _ => Expr::field(dice.one(fields)),
    };
    shape.columns.push(column("value", of.clone()));
    if dice.one_in(3) {
        let is_null = Expr::Unary(Unary::IsNull, Box::new(of.clone()));
        shape.columns.push(column("is null", is_null));
    }
    if shape.bucket.is_none() {
        shape.order.by = OrderBy::Group;
    } else if of != Expr::Time && dice.one_in(3) {
        shape.columns.push(column("start", Expr::Time));
    }
    shape.choice = Some(Choice::Distinct(of));
    shape
}

fn rows(dice: &mut Dice, rules: Rules, source: Source, fields: &'static [&'static str]) -> Shape {
    let is_nested = matches!(source, Source::Nested(_));
    let mut shape = start(dice, rules, source, fields);
    for field in fields {
        shape.columns.push(column(field, Expr::field(field)));
    }
    if !shape.group.contains(&"host".to_owned()) {
        shape.columns.push(column("the host", Expr::tag("host")));
    }
    match dice.below(5) {
        0 => {
            let sum = Expr::binary(Binary::Multiply, Expr::field("n"), Expr::field("n"));
            shape.columns.push(column("calculated", sum));
        }
        1 => {
            let ratio = Expr::binary(Binary::Divide, Expr::field("f"), Expr::field("n"));
            shape.columns.push(column("calculated", ratio));
        }
        2 => {
            let or = Expr::Call(Function::Coalesce, vec![Expr::field("f"), Expr::field("n")]);
            shape.columns.push(column("calculated", or));
        }
        3 => {
            let which = dice.one(&[Transform::Previous, Transform::Next]);
            let other = Expr::Neighbour(which, Box::new(Expr::field("n")));
            shape.columns.push(column("other", other));
            let time = Expr::Neighbour(which, Box::new(Expr::Time));
            let distance = Expr::binary(Binary::Subtract, Expr::Time, time);
            shape.columns.push(column("distance", distance));
        }
        _ => {}
    }
    if !is_nested && dice.one_in(3) {
        // What the ends of series, or of time, answer.
        shape.rows = None;
        shape
            .columns
            .retain(|column| !column.expr.to_string().contains('('));
        let rows = Literal::from(1 + dice.below(4) as i64);
        let skip = Literal::from(dice.below(2) as i64);
        let limit = Some(Limit { rows, skip });
        if dice.one_in(2) {
            shape.limit_per_group = limit;
        } else {
            shape.limit_per_group = None;
            shape.limit = limit;
            shape.order.by = OrderBy::Time;
            let is_table = matches!(&shape.source, Source::Tables(tables) if tables.len() == 1);
            if is_table && shape.limit_groups.is_none() && dice.one_in(2) {
                shape.with_ties = true;
                shape.limit = shape.limit.map(|limit| Limit {
                    skip: Literal::from(0),
                    ..limit
                });
            }
        }
    }
    let is_limited = shape.limit.is_some() || shape.limit_per_group.is_some();
    if !is_limited && !is_nested && dice.one_in(2) {
        // Compared without their order.
        shape.order.by = OrderBy::Nothing;
    }
    shape
}

fn groups(
    dice: &mut Dice,
    rules: Rules,
    source: Source,
    fields: &'static [&'static str],
    is_inner: bool,
) -> Shape {
    let mut shape = start(dice, rules, source, fields);
    if is_inner {
        shape.limit = None;
        shape.limit_per_group = None;
    }
    if dice.one_in(3) && !is_inner {
        shape.bucket = None;
        if shape.order.by == OrderBy::Time {
            shape.order.by = OrderBy::Group;
        }
    } else {
        shape.bucket = Some(bucket(dice));
        let is_fixed = matches!(shape.bucket.as_ref().unwrap().width, Width::Fixed(_));
        if is_fixed && dice.one_in(4) {
            shape.fill = match dice.below(4) {
                0 => Fill::Null,
                1 => Fill::Previous,
                2 => Fill::Value(Literal::Value(Value::Null)),
                _ => Fill::Linear,
            };
        }
    }
    let is_linear = shape.fill == Fill::Linear;
    for at in 0..=dice.below(4) {
        let aggregate = aggregate(dice, rules, fields, is_linear);
        let name = format!("c{at}");
        shape
            .columns
            .push(column(&name, Expr::aggregate(aggregate)));
    }
    if dice.one_in(4) {
        // Exact on both sides.
        let (count, rows) = (Aggregate::Count(Expr::field("n")), Aggregate::Rows);
        let (count, rows) = (Expr::aggregate(count), Expr::aggregate(rows));
        let ratio = Expr::binary(Binary::Divide, count, rows);
        shape.columns.push(column("ratio", ratio));
    }
    if shape.fill != Fill::Absent {
        for column in &shape.columns {
            let fill = match dice.below(6) {
                0 => Fill::Null,
                1 => Fill::Previous,
                2 => Fill::Value(Literal::Value(Value::Null)),
                3 if is_linear => Fill::Linear,
                _ => continue,
            };
            shape.fills.push((column.name.clone(), fill));
        }
    }
    shape
}

fn bucket(dice: &mut Dice) -> Bucket {
    let mut bucket =
        Bucket::fixed(dice.one(&[HOUR, HOUR, 24 * HOUR, HOUR / 4, 7 * HOUR, HOUR / 2]));
    match dice.below(6) {
        0 => bucket.origin_ns = START + 17 * 60 * SECOND,
        1 => {
            bucket.offset = Shift {
                months: 0,
                fixed_ns: -25 * 60 * SECOND,
            };
        }
        2 => bucket.width = Width::Months(dice.one(&[1, 3, 5])),
        _ => {}
    }
    bucket
}

/// A calculation with numbers, which never fails by `InfluxQL`'s rules.
fn calculated(dice: &mut Dice, numbers: &[&str]) -> Expr {
    let operators = [
        Binary::Add,
        Binary::Subtract,
        Binary::Multiply,
        Binary::Divide,
    ];
    let operator = dice.one(&operators);
    let left = Expr::field(dice.one(numbers));
    let right = match dice.below(4) {
        0 => Expr::literal(dice.one(&[0.0, 2.5])),
        1 => Expr::literal(dice.below(3) as i64),
        _ => Expr::field(dice.one(numbers)),
    };
    let of = Expr::binary(operator, left, right);
    if dice.one_in(2) {
        return Expr::Call(Function::NullIfNan, vec![of]);
    }
    of
}

fn aggregate(dice: &mut Dice, rules: Rules, fields: &[&str], numbers_only: bool) -> Aggregate {
    let number = |dice: &mut Dice| {
        let numbers: Vec<&str> = fields
            .iter()
            .copied()
            .filter(|it| "fnu".contains(it))
            .collect();
        if rules == Rules::Influx && dice.one_in(4) {
            return calculated(dice, &numbers);
        }
        Expr::field(dice.one(&numbers))
    };
    let any = |dice: &mut Dice| {
        if numbers_only || (rules == Rules::Influx && dice.one_in(8)) {
            number(dice)
        } else {
            Expr::field(dice.one(fields))
        }
    };
    match dice.below(17) {
        0 => Aggregate::Rows,
        1 => Aggregate::Count(any(dice)),
        2 => Aggregate::CountDistinct(any(dice)),
        3 => Aggregate::Sum(number(dice)),
        4 => Aggregate::Mean(number(dice)),
        5 | 6 => Aggregate::Min(any(dice)),
        7 | 8 => Aggregate::Max(any(dice)),
        9 => Aggregate::Spread(number(dice)),
        10 => Aggregate::Stddev(number(dice)),
        11 => Aggregate::First(any(dice)),
        12 => Aggregate::Last(any(dice)),
        13 => Aggregate::Select {
            selector: dice.one(&[
                Selector::First,
                Selector::Last,
                Selector::Min,
                Selector::Max,
            ]),
            by: any(dice),
            value: if numbers_only || dice.one_in(2) {
                Expr::field("n")
            } else {
                Expr::Time
            },
        },
        14 => Aggregate::Median(number(dice)),
        15 if dice.one_in(2) || numbers_only => {
            let kinds = [
                Percentile::Nearest,
                Percentile::Continuous,
                Percentile::Discrete,
            ];
            let percent = dice.one(&[0.0, 10.0, 50.0, 95.0, 100.0]);
            Aggregate::Percentile(number(dice), percent, dice.one(&kinds))
        }
        15 => Aggregate::Histogram {
            of: number(dice),
            low: 0.0,
            high: 50.0,
            buckets: 5,
        },
        _ => Aggregate::Mode(any(dice)),
    }
}
