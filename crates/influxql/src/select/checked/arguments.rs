//! Arguments of functions: how many, and of which kind.

use nilometer_influxql_syntax::ast::Expr;
use nilometer_influxql_syntax::format_duration;

use crate::select::checked::go_type::go_type;
use crate::select::error::Error;

pub(super) type Checked<T> = Result<T, Error>;

pub(super) fn refuse<T>(reason: impl Into<String>) -> Checked<T> {
    Err(Error::refused(reason))
}

pub(crate) fn check_count(name: &str, expected: usize, found: usize) -> Checked<()> {
    if expected == found {
        return Ok(());
    }
    refuse(format!(
        "invalid number of arguments for {name}, expected {expected}, got {found}"
    ))
}

pub(super) fn between(name: &str, least: usize, most: usize, found: usize) -> Checked<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    refuse(format!(
        "invalid number of arguments for {name}, expected at least {least} but no more than {most}, got {found}"
    ))
}

pub(super) fn positive(ns: i64) -> Checked<()> {
    if ns > 0 {
        return Ok(());
    }
    refuse(format!(
        "duration argument must be positive, got {}",
        format_duration(ns)
    ))
}

pub(super) fn transform_arguments(name: &str, arguments: &[Expr]) -> Checked<()> {
    match name {
        "derivative" | "non_negative_derivative" | "elapsed" => {
            between(name, 1, 2, arguments.len())?;
            match arguments.get(1) {
                None => Ok(()),
                Some(Expr::Duration(ns)) => positive(*ns),
                Some(other) => {
                    let found = go_type(other);
                    refuse(format!(
                        "second argument to {name} must be a duration, got {found}"
                    ))
                }
            }
        }
        "moving_average" => {
            check_count(name, 2, arguments.len())?;
            match arguments.get(1) {
                Some(Expr::Integer(size)) if *size <= 1 => refuse(format!(
                    "moving_average window must be greater than 1, got {size}"
                )),
                Some(Expr::Integer(_)) | None => Ok(()),
                Some(other) => {
                    let found = go_type(other);
                    refuse(format!(
                        "second argument for moving_average must be an integer, got {found}"
                    ))
                }
            }
        }
        _ => check_count(name, 1, arguments.len()),
    }
}

pub(super) fn technical_arguments(name: &str, arguments: &[Expr]) -> Checked<()> {
    let kaufman = name.starts_with("kaufmans");
    between(name, 2, if kaufman { 3 } else { 4 }, arguments.len())?;
    match arguments.get(1) {
        Some(Expr::Integer(period)) if *period >= 1 => {}
        Some(Expr::Integer(_)) => {
            return refuse(format!("{name} period must be greater than or equal to 1"));
        }
        _ => return refuse(format!("{name} period must be an integer")),
    }
    match arguments.get(2) {
        None | Some(Expr::Integer(-1)) => {}
        Some(Expr::Integer(hold)) => {
            let least = i64::from(name == "triple_exponential_derivative");
            if *hold < least {
                return refuse(format!(
                    "{name} hold period must be greater than or equal to {least}"
                ));
            }
        }
        Some(_) => return refuse(format!("{name} hold period must be an integer")),
    }
    let kinds: &[&str] = if name == "chande_momentum_oscillator" {
        &["none", "exponential", "simple"]
    } else {
        &["exponential", "simple"]
    };
    match arguments.get(3) {
        None => Ok(()),
        Some(Expr::Text(kind)) if kinds.contains(&kind.as_str()) => Ok(()),
        Some(Expr::Text(_)) => {
            let quoted: Vec<String> = kinds.iter().map(|kind| format!("'{kind}'")).collect();
            refuse(format!(
                "{name} warmup type must be one of: {}",
                quoted.join(" ")
            ))
        }
        Some(_) => refuse(format!("{name} warmup type must be a string")),
    }
}
