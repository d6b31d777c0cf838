//! Work of patterns: what `LIKE`, `~` and the functions of regular expressions may take for one batch.
//!
//! A match costs the length of the text times the size of the compiled pattern, once that is too large for a table of its
//! states: `repeat('a', 100000) ~ '(.*a){3000}b'` took a minute, in one call that nothing could end.
//!
//! Does: put a function around texts that are matched with a large pattern, or with one that is only known row by row, which
//! refuses a batch that would take longer than a second or so. Does not: look at small patterns, which are most, or at tags,
//! which are short and matched once each.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, kernels::length::length};
use arrow::datatypes::{DataType, FieldRef, UInt64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, exec_err, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use regex_automata::nfa::thompson::{Config, NFA};

use crate::walk::{ExprWalk, PlanWalk};

/// Bytes of a compiled pattern that are never too many.
const SMALL_BYTES: u64 = 64 << 10;

/// The library refuses what would be larger.
const PATTERN_BYTES_MAX: usize = 10 << 20;

/// What the function is called; no statement can call it.
const NAME: &str = "matched_text";

/// Bytes of text times bytes of pattern, for one batch: a second at the slowest that was seen.
const STEPS_MAX: u64 = 1 << 33;

/// What a pattern is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Like,
    Regex,
}

/// The rule. It comes when types are settled.
#[derive(Debug)]
pub(crate) struct BoundPatterns {
    like: Arc<ScalarUDF>,
    regex: Arc<ScalarUDF>,
}

impl BoundPatterns {
    pub(crate) fn new() -> Self {
        let function = |kind| {
            Arc::new(ScalarUDF::new_from_impl(MatchedText {
                kind,
                signature: Signature::any(2, Volatility::Immutable),
            }))
        };
        Self {
            like: function(Kind::Like),
            regex: function(Kind::Regex),
        }
    }

    fn bounded(&self, mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let (text, pattern, kind) = match &mut expr {
            Expr::Like(like) => (&mut *like.expr, &*like.pattern, Kind::Like),
            Expr::BinaryExpr(binary) if is_match(binary.op) => {
                (&mut *binary.left, &*binary.right, Kind::Regex)
            }
            Expr::ScalarFunction(call) if call.func.name().starts_with("regexp_") => {
                let [text, pattern, ..] = call.args.as_mut_slice() else {
                    return Transformed::no(expr);
                };
                (text, &*pattern, Kind::Regex)
            }
            _ => return Transformed::no(expr),
        };
        if !is_asked(text, pattern, kind, schema) {
            return Transformed::no(expr);
        }
        let function = match kind {
            Kind::Like => &self.like,
            Kind::Regex => &self.regex,
        };
        let args = vec![std::mem::take(text), pattern.clone()];
        let call = ScalarFunction::new_udf(Arc::clone(function), args);
        *text = Expr::ScalarFunction(call);
        Transformed::yes(expr)
    }
}

fn is_match(op: Operator) -> bool {
    matches!(
        op,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
    )
}

/// Whether a match may take long.
fn is_asked(text: &Expr, pattern: &Expr, kind: Kind, schema: &DFSchema) -> bool {
    let is_tag = matches!(text.get_type(schema), Ok(DataType::Dictionary(..)));
    let is_bounded = matches!(text, Expr::ScalarFunction(call) if call.func.name() == NAME);
    if is_tag || is_bounded {
        return false;
    }
    match pattern {
        Expr::Literal(pattern, _) => {
            let pattern = pattern.try_as_str().flatten();
            pattern.is_some_and(|pattern| compiled_bytes(pattern, kind) > SMALL_BYTES)
        }
        _ => true,
    }
}

/// Bytes of a pattern as the library compiles it; 0 = it is none, or too large, and the library says so.
fn compiled_bytes(pattern: &str, kind: Kind) -> u64 {
    let regex;
    let pattern = match kind {
        Kind::Regex => pattern,
        Kind::Like => {
            regex = like_as_regex(pattern);
            &regex
        }
    };
    // Whatever is counted is written out: a short one without braces is small.
    if pattern.len() < 64 && !pattern.contains('{') {
        return 0;
    }
    let config = Config::new().nfa_size_limit(Some(PATTERN_BYTES_MAX));
    let compiled = NFA::compiler().configure(config).build(pattern);
    compiled.map_or(0, |compiled| compiled.memory_usage() as u64)
}

fn like_as_regex(pattern: &str) -> String {
    let mut regex = String::from("(?s)^");
    for letter in pattern.chars() {
        match letter {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            // Which it is does not matter for the size.
            letter if letter.is_alphanumeric() => regex.push(letter),
            _ => regex.push('x'),
        }
    }
    regex.push('$');
    regex
}

impl AnalyzerRule for BoundPatterns {
    fn name(&self) -> &'static str {
        "bound_patterns"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_patterns = false;
        plan.walk(&mut |node| {
            node.walk_expressions(&mut |expr| {
                has_patterns |= expr.has(&mut |part| Ok(matches_pattern(part)))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !has_patterns {
            return Ok(plan);
        }
        plan.replace_up(&mut |node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.replace_expressions(&mut |expr| {
                let name = names.save(&expr);
                let bounded = expr.replace_up(&mut |part| Ok(self.bounded(part, &schema)))?;
                Ok(bounded.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }
}

fn matches_pattern(expr: &Expr) -> bool {
    match expr {
        Expr::Like(_) => true,
        Expr::BinaryExpr(binary) => is_match(binary.op),
        Expr::ScalarFunction(call) => call.func.name().starts_with("regexp_"),
        _ => false,
    }
}

/// The function that is put around: the text as it is, or an error.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MatchedText {
    kind: Kind,
    signature: Signature,
}

impl MatchedText {
    fn check(&self, texts: &ArrayRef, patterns: &ArrayRef) -> Result<()> {
        let lengths = lengths_of(texts)?;
        let patterns = cast(patterns, &DataType::Utf8)?;
        let patterns = patterns.as_string::<i32>();
        let mut known: HashMap<&str, u64> = HashMap::new();
        let mut steps = 0u64;
        for (row, text_bytes) in lengths.into_iter().enumerate() {
            // A pattern that is a constant comes as one row.
            let place = if patterns.len() == 1 { 0 } else { row };
            if text_bytes == 0 || patterns.is_null(place) {
                continue;
            }
            let pattern = patterns.value(place);
            let bytes = *known
                .entry(pattern)
                .or_insert_with(|| compiled_bytes(pattern, self.kind));
            if bytes > SMALL_BYTES {
                steps = steps.saturating_add(bytes.saturating_mul(text_bytes));
            }
            if steps > STEPS_MAX {
                return exec_err!(
                    "a pattern of {} characters takes {bytes} bytes once its repetitions are written out, and would be matched with texts of {text_bytes} bytes, which takes too long; write a shorter pattern, or match shorter texts, as with left(text, 1000)",
                    pattern.chars().count()
                );
            }
        }
        Ok(())
    }
}

fn lengths_of(texts: &ArrayRef) -> Result<Vec<u64>> {
    let bytes = length(texts)?;
    let bytes = cast(&bytes, &DataType::UInt64)?;
    let bytes = bytes.as_primitive::<UInt64Type>();
    Ok(bytes.iter().map(Option::unwrap_or_default).collect())
}

impl ScalarUDFImpl for MatchedText {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("{NAME} returns what it is given")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [text, _] = args.arg_fields else {
            return internal_err!("{NAME} has two arguments");
        };
        Ok(Arc::clone(text))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, pattern] = args.args.as_slice() else {
            return internal_err!("{NAME} has two arguments");
        };
        let texts = match text {
            ColumnarValue::Array(texts) => Arc::clone(texts),
            ColumnarValue::Scalar(text) => text.to_array()?,
        };
        let patterns = match pattern {
            ColumnarValue::Array(patterns) => Arc::clone(patterns),
            ColumnarValue::Scalar(pattern) => pattern.to_array()?,
        };
        let is_text = |kind: &DataType| {
            matches!(
                kind,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            )
        };
        if is_text(texts.data_type()) && is_text(patterns.data_type()) {
            self.check(&texts, &patterns)?;
        }
        Ok(text.clone())
    }
}
