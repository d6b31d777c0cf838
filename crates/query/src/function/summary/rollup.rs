//! `rollup(summary)`: one summary of many.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};
use nilometer_summaries::Summary;

use super::super::aggregate::dense::{Grouped, Single};
use super::argument::{Argument, bytes};
use super::error::wrong;
use super::gather::{Gather, Group, Ordered, Take};
use super::maker::{MADE_BY, not_distinct, state_fields};
use super::names::ROLLUP;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rollup {
    signature: Signature,
}

pub(super) fn aggregate() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(Rollup {
        signature: Signature::user_defined(Volatility::Immutable),
    }))
}

/// What a field says about the summaries in it.
pub(super) fn said(field: &Field) -> HashMap<String, String> {
    let said = field.metadata().get(MADE_BY);
    said.map(|said| HashMap::from([(MADE_BY.to_owned(), said.clone())]))
        .unwrap_or_default()
}

impl AggregateUDFImpl for Rollup {
    fn name(&self) -> &'static str {
        ROLLUP
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let read = match arg_types {
            [kind] => Argument::Summary.read_as(kind),
            _ => None,
        };
        if let Some(read) = read {
            Ok(vec![read])
        } else {
            plan_err!(
                "rollup(summary): summary is what an aggregate such as stats_agg makes, kept as bytea"
            )
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn return_field(&self, arg_fields: &[FieldRef]) -> Result<FieldRef> {
        let said = arg_fields.first().map(|field| said(field));
        let field = Field::new(self.name(), DataType::Binary, true);
        Ok(Arc::new(field.with_metadata(said.unwrap_or_default())))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(state_fields(args.name))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        not_distinct(self.name(), &args)?;
        Ok(Box::new(Single::new(Gather::new(Arc::new(Parts)))?))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        not_distinct(self.name(), &args)?;
        Ok(Box::new(Grouped(Gather::new(Arc::new(Parts)))))
    }
}

#[derive(Debug)]
struct Parts;

impl Take for Parts {
    fn ordered(&self) -> Option<Ordered> {
        Some(Ordered::Parts)
    }

    fn take(&self, group: &mut Option<Box<Group>>, values: &[ArrayRef], row: usize) -> Result<()> {
        let Some(part) = values.first().and_then(|column| bytes(column, row)) else {
            return Ok(());
        };
        let part = Summary::decode(part).map_err(wrong)?;
        let begin = || Box::new(Group::Parts(Vec::new(), 0));
        match group.get_or_insert_with(begin).as_mut() {
            Group::Parts(parts, held) => Group::push(parts, held, part),
            _ => Ok(()),
        }
    }
}
