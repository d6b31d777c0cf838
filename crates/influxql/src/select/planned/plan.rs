//! The plan of a SELECT: its inputs, columns, conditions and groups, every name with its type.

use std::sync::Arc;

use nilometer_engine::TableSchema;
use nilometer_influxql_syntax::ast::{Expr, Fill};
use nilometer_series::TableName;

use crate::select::checked::window::Window;
use crate::select::planned::types::kind_of;
use crate::select::values::value::Kind;

/// Where rows come from.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    Table(Table),
    Nested(Box<Plan>),
}

/// A measurement: one table, or one of each retention policy that was named.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) name: Arc<str>,
    pub(crate) tables: Vec<TableName>,
    pub(crate) schemas: Vec<Arc<TableSchema>>,
}

impl Table {
    pub(crate) fn has_tag(&self, name: &str) -> bool {
        self.schemas.iter().any(|schema| schema.tag(name).is_some())
    }

    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.schemas
            .iter()
            .any(|schema| schema.field(name).is_some())
    }
}

/// A column of the answer.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) name: Arc<str>,
    pub(crate) expr: Expr,
    /// False for a tag that only stands in `top()` or `bottom()`.
    pub(crate) shown: bool,
}

/// A SELECT whose names are known.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) outputs: Vec<Output>,
    pub(crate) has_target: bool,
    pub(crate) inputs: Vec<Input>,
    pub(crate) condition: Option<Expr>,
    /// First and last time, both included.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) window: Option<Window>,
    pub(crate) ascending: bool,
    pub(crate) time_name: String,
    pub(crate) zone: Option<String>,
    /// Tags of its own GROUP BY, sorted.
    pub(crate) group: Vec<String>,
    pub(crate) fill: Fill,
    pub(crate) limit: u64,
    pub(crate) offset: u64,
    pub(crate) slimit: u64,
    pub(crate) soffset: u64,
    /// No function is called.
    pub(crate) is_raw: bool,
}

impl Plan {
    /// Whether all rows come from measurements, and none from a query inside.
    pub(crate) fn reads_tables(&self) -> bool {
        let is_table = |input: &Input| matches!(input, Input::Table(_));
        self.inputs.iter().all(is_table)
    }

    /// The type of a column of the answer, or of a tag of its groups.
    pub(crate) fn kind_of(&self, name: &str) -> Option<Kind> {
        let output = self.outputs.iter().find(|output| *output.name == *name);
        match output {
            Some(output) => kind_of(&output.expr),
            None => self
                .group
                .iter()
                .any(|tag| tag == name)
                .then_some(Kind::Tag),
        }
    }
}
