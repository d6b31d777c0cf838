//! Functions of a SELECT: which stand together, and what they are of.
//!
//! Does: refuse what InfluxDB refuses, in its words and in its order.

use nilometer_influxql_syntax::ast::{Call, Expr, Fill, Select};

use crate::select::checked::arguments::{
    Checked, between, check_count, positive, refuse, technical_arguments, transform_arguments,
};
use crate::select::checked::fold::is_literal;
use crate::select::functions::{is_math, is_technical};

/// What is known of the fields so far.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all combinations occur"
)]
pub(super) struct Checker {
    pub(super) has_window: bool,
    pub(super) inherited: bool,
    pub(super) only_selectors: bool,
    pub(super) limit: u64,
    pub(super) has_target: bool,
    pub(super) calls: usize,
    pub(super) has_distinct: bool,
    pub(super) top_bottom: Option<String>,
    /// Fields or tags beside calls.
    pub(super) has_references: bool,
    pub(super) allows_wildcard: bool,
}

impl Checker {
    pub(super) fn field(&mut self, expr: &Expr) -> Checked<()> {
        match expr {
            Expr::Reference(_) => {
                self.has_references = true;
                Ok(())
            }
            Expr::Wildcard(_) | Expr::Regex(_) => {
                self.has_references = true;
                let what = if matches!(expr, Expr::Regex(_)) {
                    "regex"
                } else {
                    "wildcard"
                };
                if self.allows_wildcard {
                    return Ok(());
                }
                refuse(format!("unable to use {what} in a binary expression"))
            }
            Expr::Call(call) if is_math(&call.name) => {
                let expected = if matches!(call.name.as_str(), "atan2" | "pow" | "log") {
                    2
                } else {
                    1
                };
                check_count(&call.name, expected, call.arguments.len())?;
                let mut operands = call
                    .arguments
                    .iter()
                    .filter(|argument| !is_literal(argument));
                operands.try_for_each(|argument| self.field(argument))
            }
            Expr::Call(call) => {
                self.calls += 1;
                self.call(call)
            }
            Expr::Distinct(_) => {
                self.calls += 1;
                self.has_distinct = true;
                self.only_selectors = false;
                Ok(())
            }
            Expr::Binary(_, left, right) => {
                self.allows_wildcard = false;
                match (is_literal(left), is_literal(right)) {
                    (true, true) => refuse("cannot perform a binary expression on two literals"),
                    (true, false) => self.field(right),
                    (false, true) => self.field(left),
                    (false, false) => {
                        self.field(left)?;
                        self.field(right)
                    }
                }
            }
            Expr::Paren(inner) => self.field(inner),
            _ => refuse("field must contain at least one variable"),
        }
    }

    fn call(&mut self, call: &Call) -> Checked<()> {
        let (name, arguments) = (call.name.as_str(), call.arguments.as_slice());
        match name {
            "percentile" => {
                check_count(name, 2, arguments.len())?;
                if !matches!(arguments.get(1), Some(Expr::Integer(_) | Expr::Float(_))) {
                    return refuse("expected float argument in percentile()");
                }
                self.symbol(name, arguments.first())
            }
            "sample" => {
                check_count(name, 2, arguments.len())?;
                match arguments.get(1) {
                    Some(Expr::Integer(size)) if *size <= 0 => {
                        refuse(format!("sample window must be greater than 1, got {size}"))
                    }
                    Some(Expr::Integer(_)) => self.symbol(name, arguments.first()),
                    _ => refuse("expected integer argument in sample()"),
                }
            }
            "distinct" => self.distinct(arguments, false),
            "top" | "bottom" => self.top_bottom(call),
            "derivative"
            | "non_negative_derivative"
            | "elapsed"
            | "difference"
            | "non_negative_difference"
            | "cumulative_sum"
            | "moving_average" => {
                transform_arguments(name, arguments)?;
                self.over(name, arguments.first(), true)
            }
            "integral" => {
                between(name, 1, 2, arguments.len())?;
                match arguments.get(1) {
                    None => {}
                    Some(Expr::Duration(ns)) => positive(*ns)?,
                    Some(_) => return refuse("second argument must be a duration"),
                }
                self.only_selectors = false;
                self.symbol(name, arguments.first())
            }
            "count_hll" => {
                check_count(name, 1, arguments.len())?;
                self.only_selectors = false;
                match arguments.first() {
                    Some(inner @ Expr::Call(_)) => self.field(inner),
                    argument => self.symbol(name, argument),
                }
            }
            "holt_winters" | "holt_winters_with_fit" => self.holt_winters(name, arguments),
            name if is_technical(name) => {
                technical_arguments(name, arguments)?;
                self.over(name, arguments.first(), false)
            }
            _ => self.function(name, arguments),
        }
    }

    fn function(&mut self, name: &str, arguments: &[Expr]) -> Checked<()> {
        match name {
            "max" | "min" | "first" | "last" => {}
            "count" | "sum" | "mean" | "median" | "mode" | "stddev" | "spread" | "sum_hll" => {
                self.only_selectors = false;
            }
            _ => return refuse(format!("undefined function {name}()")),
        }
        check_count(name, 1, arguments.len())?;
        match arguments.first() {
            Some(Expr::Call(inner)) if name == "count" && inner.name == "distinct" => {
                self.distinct(&inner.arguments, true)
            }
            Some(Expr::Distinct(_)) if name == "count" => Ok(()),
            argument => self.symbol(name, argument),
        }
    }

    /// An argument that must be a field.
    fn symbol(&mut self, name: &str, argument: Option<&Expr>) -> Checked<()> {
        match argument {
            Some(Expr::Reference(_)) => Ok(()),
            Some(Expr::Wildcard(_)) if !self.allows_wildcard => {
                refuse(format!("unsupported expression with wildcard: {name}()"))
            }
            Some(Expr::Regex(_)) if !self.allows_wildcard => {
                refuse(format!("unsupported expression with regex field: {name}()"))
            }
            Some(Expr::Wildcard(_) | Expr::Regex(_)) => {
                self.only_selectors = false;
                Ok(())
            }
            _ => refuse(format!("expected field argument in {name}()")),
        }
    }

    /// The argument of a transformation: a call if there are buckets, a field if not.
    fn over(&mut self, name: &str, argument: Option<&Expr>, distinct: bool) -> Checked<()> {
        self.only_selectors = false;
        match argument {
            Some(Expr::Call(inner)) => {
                if !self.has_window {
                    return refuse(format!("{name} aggregate requires a GROUP BY interval"));
                }
                if distinct && inner.name == "distinct" {
                    return self.distinct(&inner.arguments, true);
                }
                self.field(&Expr::Call(inner.clone()))
            }
            argument => {
                if self.has_window && !self.inherited {
                    return refuse(format!(
                        "aggregate function required inside the call to {name}"
                    ));
                }
                self.symbol(name, argument)
            }
        }
    }

    fn distinct(&mut self, arguments: &[Expr], nested: bool) -> Checked<()> {
        match arguments {
            [] => refuse("distinct function requires at least one argument"),
            [Expr::Reference(_)] => {
                self.has_distinct |= !nested;
                self.only_selectors = false;
                Ok(())
            }
            [_] => refuse("expected field argument in distinct()"),
            _ => refuse("distinct function can only have one argument"),
        }
    }

    fn holt_winters(&mut self, name: &str, arguments: &[Expr]) -> Checked<()> {
        check_count(name, 3, arguments.len())?;
        match arguments.get(1) {
            Some(Expr::Integer(count)) if *count <= 0 => {
                return refuse(format!(
                    "second arg to {name} must be greater than 0, got {count}"
                ));
            }
            Some(Expr::Integer(_)) => {}
            _ => return refuse(format!("expected integer argument as second arg in {name}")),
        }
        match arguments.get(2) {
            Some(Expr::Integer(season)) if *season < 0 => {
                return refuse(format!(
                    "third arg to {name} cannot be negative, got {season}"
                ));
            }
            Some(Expr::Integer(_)) => {}
            _ => return refuse(format!("expected integer argument as third arg in {name}")),
        }
        self.only_selectors = false;
        match arguments.first() {
            Some(Expr::Call(_)) if !self.has_window => {
                refuse(format!("{name} aggregate requires a GROUP BY interval"))
            }
            Some(inner @ Expr::Call(_)) => self.field(inner),
            _ => refuse(format!("must use aggregate function with {name}")),
        }
    }

    fn top_bottom(&mut self, call: &Call) -> Checked<()> {
        if let Some(earlier) = &self.top_bottom {
            return refuse(format!(
                "selector function {earlier}() cannot be combined with other functions"
            ));
        }
        let name = &call.name;
        let [first, tags @ .., last] = call.arguments.as_slice() else {
            let found = call.arguments.len();
            return refuse(format!(
                "invalid number of arguments for {name}, expected at least 2, got {found}"
            ));
        };
        let Expr::Integer(limit) = last else {
            return refuse(format!(
                "expected integer as last argument in {name}(), found {last}"
            ));
        };
        if *limit <= 0 {
            return refuse(format!(
                "limit ({limit}) in {name} function must be at least 1"
            ));
        }
        if self.limit > 0 && limit.unsigned_abs() > self.limit {
            let most = self.limit;
            return refuse(format!(
                "limit ({limit}) in {name} function can not be larger than the LIMIT ({most}) in the select statement"
            ));
        }
        if !matches!(first, Expr::Reference(_)) {
            return refuse(format!(
                "expected first argument to be a field in {name}(), found {first}"
            ));
        }
        for tag in tags {
            if !matches!(tag, Expr::Reference(_)) {
                return refuse(format!(
                    "only fields or tags are allowed in {name}(), found {tag}"
                ));
            }
            self.has_references |= !self.has_target;
        }
        self.top_bottom = Some(name.clone());
        Ok(())
    }

    /// Whether the fields can stand beside each other.
    pub(super) fn together(&self, select: &Select) -> Checked<()> {
        if select.fields.is_empty() {
            return refuse("at least 1 non-time field must be queried");
        }
        if let Some(name) = self.top_bottom.as_ref().filter(|_| self.calls > 1) {
            return refuse(format!(
                "selector function {name}() cannot be combined with other functions"
            ));
        }
        if self.calls == 0 {
            match select.fill {
                Fill::None => return refuse("fill(none) must be used with a function"),
                Fill::Linear => return refuse("fill(linear) must be used with a function"),
                _ => {}
            }
            if self.has_window && !self.inherited {
                return refuse("GROUP BY requires at least one aggregate function");
            }
        }
        if self.has_distinct && (self.calls != 1 || self.has_references) {
            return refuse(
                "aggregate function distinct() cannot be combined with other functions or fields",
            );
        }
        if self.has_references {
            if !self.only_selectors {
                return refuse("mixing aggregate and non-aggregate queries is not supported");
            }
            if self.calls > 1 {
                return refuse(
                    "mixing multiple selector functions with tags or fields is not supported",
                );
            }
        }
        Ok(())
    }
}
