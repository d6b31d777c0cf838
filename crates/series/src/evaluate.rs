//! Expressions over columns, a batch at a time.
//!
//! Does: find the columns that an expression names and the type that comes out, and calculate it by the rules of its
//! language. Does not: aggregate (`operators`), or read.

mod arithmetic;
mod call;
mod compare;
mod narrow;
mod scalar;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, StringArray,
    TimestampNanosecondArray, UInt64Array,
};

use crate::error::Error;
use crate::query::{Binary, Expr, Function, Unary};
use crate::value::{Literal, Rules, Type, Value};

pub(crate) use narrow::{low_bits, place, saturated, saturated_unsigned, wrapped};
pub(crate) use scalar::{Scalar, array_of, order, scalar_at};

/// A column that expressions may name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Name {
    Time,
    Tag(String),
    Field(String),
}

/// The name under which what was hoisted is found. No column of a table has one that begins so.
pub(crate) fn hoisted_name(number: usize) -> String {
    format!("\0{number}")
}

/// The expression with each aggregate and neighbour in it replaced by a field of [`hoisted_name`]: its place in `hoisted`,
/// where each stands once.
pub(crate) fn hoist(expr: &Expr, hoisted: &mut Vec<Expr>) -> Expr {
    hoist_from(expr, 0, hoisted)
}

/// The same apart from what was hoisted before a place.
pub(crate) fn hoist_from(expr: &Expr, from: usize, hoisted: &mut Vec<Expr>) -> Expr {
    match expr {
        Expr::Time | Expr::Tag(_) | Expr::Field(_) | Expr::Literal(_) => expr.clone(),
        Expr::Aggregate(_) | Expr::Neighbour(..) => {
            let known = hoisted.iter().skip(from).position(|it| it == expr);
            let place = known.map_or(hoisted.len(), |at| from + at);
            if known.is_none() {
                hoisted.push(expr.clone());
            }
            Expr::Field(hoisted_name(place))
        }
        Expr::Unary(operator, of) => {
            Expr::Unary(*operator, Box::new(hoist_from(of, from, hoisted)))
        }
        Expr::Binary(operator, left, right) => {
            let left = hoist_from(left, from, hoisted);
            Expr::binary(*operator, left, hoist_from(right, from, hoisted))
        }
        Expr::Call(function, operands) => {
            let operands = operands.iter().map(|of| hoist_from(of, from, hoisted));
            Expr::Call(*function, operands.collect())
        }
    }
}

/// The columns of a batch: their names, and their types where they have one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots {
    pub(crate) all: Vec<(Name, Option<Type>)>,
}

impl Slots {
    pub(crate) fn place(&self, wanted: &Name) -> Option<usize> {
        self.all.iter().position(|(name, _)| name == wanted)
    }
}

/// An expression whose columns and types are known.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    node: Node,
    /// `None` = null in every row.
    pub(crate) kind: Option<Type>,
    rules: Rules,
}

#[derive(Debug, Clone)]
enum Node {
    Slot(usize),
    /// A tag, which is the empty text where it is absent.
    Text(usize),
    Literal(Value),
    Unary(Unary, Box<Resolved>),
    Arithmetic(Binary, Box<Resolved>, Box<Resolved>),
    Compare(Binary, Box<Resolved>, Box<Resolved>),
    Logic(Binary, Box<Resolved>, Box<Resolved>),
    Call(Function, Vec<Resolved>),
}

/// Finds the columns and types of an expression, in which no aggregate and no neighbour is left (see [`hoist`]).
pub(crate) fn resolve(expr: &Expr, slots: &Slots, rules: Rules) -> Result<Resolved, Error> {
    let of_slot = |name: Name| {
        let place = slots.place(&name);
        let kind = place.and_then(|at| slots.all.get(at)).and_then(|it| it.1);
        let node = match (place, kind, &name) {
            (Some(at), Some(_), Name::Tag(_)) if rules == Rules::Influx => Node::Text(at),
            (Some(at), Some(_), _) => Node::Slot(at),
            // No table has it.
            (None, ..) if matches!(name, Name::Tag(_)) && rules == Rules::Influx => {
                return (Node::Literal(Value::from("")), Some(Type::Text));
            }
            _ => Node::Literal(Value::Null),
        };
        (node, kind)
    };
    let inner = |expr: &Expr| resolve(expr, slots, rules);
    let (node, kind) = match expr {
        Expr::Time => of_slot(Name::Time),
        Expr::Tag(tag) => of_slot(Name::Tag(tag.clone())),
        Expr::Field(field) => of_slot(Name::Field(field.clone())),
        Expr::Literal(Literal::Value(value)) => (Node::Literal(value.clone()), value.kind()),
        Expr::Literal(Literal::Parameter(number)) => {
            return Err(Error::Parameter {
                number: number + 1,
                problem: "it has no value".to_owned(),
            });
        }
        Expr::Neighbour(..) | Expr::Aggregate(_) => {
            return Err(Error::contradiction(format!("{expr} stands among rows")));
        }
        Expr::Unary(operator, of) => {
            let of = inner(of)?;
            let kind = unary_type(*operator, of.kind)?;
            (Node::Unary(*operator, Box::new(of)), kind)
        }
        Expr::Binary(operator, left, right) => {
            let (left, right) = (Box::new(inner(left)?), Box::new(inner(right)?));
            binary(*operator, left, right, rules)?
        }
        Expr::Call(function, operands) => {
            let operands: Vec<Resolved> =
                operands.iter().map(inner).collect::<Result<_, Error>>()?;
            let kind = call::kind(*function, &operands)?;
            (Node::Call(*function, operands), kind)
        }
    };
    Ok(Resolved { node, kind, rules })
}

fn unary_type(operator: Unary, kind: Option<Type>) -> Result<Option<Type>, Error> {
    let wrong = |kind: Type, operation: &str| {
        Err(Error::WrongType {
            operation: operation.to_owned(),
            types: vec![kind],
        })
    };
    match (operator, kind) {
        (Unary::IsNull | Unary::IsNotNull, _) | (Unary::Not, None | Some(Type::Bool)) => {
            Ok(Some(Type::Bool))
        }
        (Unary::Not, Some(kind)) => wrong(kind, "not"),
        // The negation of an unsigned integer is none.
        (Unary::Negate, Some(Type::Int | Type::Unsigned)) => Ok(Some(Type::Int)),
        (Unary::Negate, None | Some(Type::Float)) => Ok(kind),
        (Unary::Negate, Some(kind)) => wrong(kind, "-"),
    }
}

fn binary(
    operator: Binary,
    left: Box<Resolved>,
    right: Box<Resolved>,
    rules: Rules,
) -> Result<(Node, Option<Type>), Error> {
    Ok(match operator {
        Binary::And | Binary::Or => {
            for side in [&left, &right] {
                if let Some(kind) = side.kind.filter(|kind| *kind != Type::Bool) {
                    return Err(Error::WrongType {
                        operation: operator.to_string(),
                        types: vec![kind],
                    });
                }
            }
            (Node::Logic(operator, left, right), Some(Type::Bool))
        }
        Binary::Equal
        | Binary::NotEqual
        | Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual => {
            compare::check(operator, left.kind, right.kind)?;
            (Node::Compare(operator, left, right), Some(Type::Bool))
        }
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => {
            let kind = arithmetic::kind(operator, left.kind, right.kind, rules)?;
            (Node::Arithmetic(operator, left, right), kind)
        }
    })
}

impl Resolved {
    /// The type of the column that comes out: booleans stand for what is null in every row.
    pub(crate) fn arrow_type(&self) -> Type {
        self.kind.unwrap_or(Type::Bool)
    }

    /// The column, of so many rows.
    pub(crate) fn column(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, Error> {
        if self.kind.is_none() {
            return Ok(array_of(Type::Bool, vec![None; rows]));
        }
        self.evaluate(columns, rows)
    }

    /// The rows for which it is true.
    pub(crate) fn holds(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray, Error> {
        let column = self.column(columns, rows)?;
        let Some(truth) = column.as_boolean_opt() else {
            return Err(Error::WrongType {
                operation: "a condition".to_owned(),
                types: self.kind.into_iter().collect(),
            });
        };
        Ok(match truth.nulls() {
            None => truth.clone(),
            Some(valid) => BooleanArray::new(truth.values() & valid.inner(), None),
        })
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef, Error> {
        let null = || Arc::new(NullArray::new(rows)) as ArrayRef;
        Ok(match &self.node {
            Node::Slot(at) => columns.get(*at).map_or_else(null, unpacked),
            Node::Text(at) => columns.get(*at).map_or_else(null, filled),
            Node::Literal(value) => literal(value, rows),
            Node::Unary(operator, of) => {
                let column = of.evaluate(columns, rows)?;
                match operator {
                    Unary::IsNull => validity(&column, false),
                    Unary::IsNotNull => validity(&column, true),
                    Unary::Not => compare::not(&column),
                    Unary::Negate => arithmetic::negate(&column, of.kind, self.rules)?,
                }
            }
            Node::Arithmetic(operator, left, right) => {
                let (one, other) = (
                    left.evaluate(columns, rows)?,
                    right.evaluate(columns, rows)?,
                );
                match self.kind {
                    Some(kind) => arithmetic::calculate(*operator, &one, &other, kind, self.rules)?,
                    None => null(),
                }
            }
            Node::Compare(operator, left, right) => {
                let (one, other) = (
                    left.evaluate(columns, rows)?,
                    right.evaluate(columns, rows)?,
                );
                match (left.kind, right.kind) {
                    (Some(_), Some(_)) => compare::compare(*operator, &one, &other, self.rules),
                    _ => array_of(Type::Bool, vec![None; rows]),
                }
            }
            Node::Logic(operator, left, right) => {
                let one = left.column(columns, rows)?;
                let other = right.column(columns, rows)?;
                compare::logic(*operator, &one, &other)
            }
            Node::Call(function, operands) => {
                let mut all = Vec::with_capacity(operands.len());
                for operand in operands {
                    all.push(operand.evaluate(columns, rows)?);
                }
                match self.kind {
                    Some(kind) => call::call(*function, &all, kind, rows, self.rules)?,
                    None => null(),
                }
            }
        })
    }
}

fn validity(column: &ArrayRef, valid: bool) -> ArrayRef {
    let is_null = column.data_type().is_null();
    let truth = (0..column.len()).map(|row| (!is_null && column.is_valid(row)) == valid);
    Arc::new(truth.map(Some).collect::<BooleanArray>())
}

fn literal(value: &Value, rows: usize) -> ArrayRef {
    match value {
        Value::Null => Arc::new(NullArray::new(rows)),
        Value::Bool(value) => Arc::new(BooleanArray::from(vec![*value; rows])),
        Value::Int(value) => Arc::new(Int64Array::from_value(*value, rows)),
        Value::Unsigned(value) => Arc::new(UInt64Array::from_value(*value, rows)),
        Value::Float(value) => Arc::new(Float64Array::from_value(*value, rows)),
        Value::Text(text) => {
            let texts = std::iter::repeat_n(text.as_ref(), rows);
            Arc::new(StringArray::from_iter_values(texts))
        }
        Value::Time(value) => {
            let times = TimestampNanosecondArray::from_value(*value, rows);
            Arc::new(times.with_timezone("UTC"))
        }
    }
}

/// Tags as texts, anything else as it is.
pub(crate) fn unpacked(column: &ArrayRef) -> ArrayRef {
    texts(column, None).unwrap_or_else(|| Arc::clone(column))
}

/// Tags as texts, the empty one for those that are absent.
fn filled(column: &ArrayRef) -> ArrayRef {
    texts(column, Some("")).unwrap_or_else(|| Arc::clone(column))
}

fn texts(column: &ArrayRef, absent: Option<&str>) -> Option<ArrayRef> {
    let tags = column.as_dictionary_opt::<Int32Type>()?;
    let values = tags.values().as_string::<i32>();
    let texts = tags.keys().iter().map(|key| {
        let key = key.and_then(|key| usize::try_from(key).ok());
        let key = key.filter(|key| *key < values.len() && values.is_valid(*key));
        key.map(|key| values.value(key)).or(absent)
    });
    Some(Arc::new(texts.collect::<StringArray>()))
}

/// Integers, unsigned ones and times as wide integers; `None` = it has none.
fn wide(column: &ArrayRef) -> Option<Box<dyn Iterator<Item = Option<i128>> + '_>> {
    if let Some(values) = column.as_primitive_opt::<Int64Type>() {
        return Some(Box::new(values.iter().map(|it| it.map(i128::from))));
    }
    if let Some(values) = column.as_primitive_opt::<UInt64Type>() {
        return Some(Box::new(values.iter().map(|it| it.map(i128::from))));
    }
    let times = column.as_primitive_opt::<TimestampNanosecondType>()?;
    Some(Box::new(times.iter().map(|it| it.map(i128::from))))
}

/// Numbers as floats; `None` = it has none.
pub(crate) fn floats(column: &ArrayRef) -> Option<Float64Array> {
    if let Some(values) = column.as_primitive_opt::<Float64Type>() {
        return Some(values.clone());
    }
    if let Some(values) = column.as_primitive_opt::<Int64Type>() {
        return Some(values.unary(|value| value as f64));
    }
    let values = column.as_primitive_opt::<UInt64Type>()?;
    Some(values.unary(|value| value as f64))
}
