//! Walks over parsed statements and logical plans.
//!
//! Does: visit every node, with a visitor or closure behind a `dyn`. Does not: look at what it visits. The library's own walks
//! are generic over the visitor: each of ours would be compiled with its own copy of the walk over every type of the syntax
//! tree (100,000 functions for thirty visitors, more than half of the crate's code). These are compiled once.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{self, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// A method of a visitor that hands its node on.
macro_rules! forward {
    ($($name:ident: $node:ty),* $(,)?) => {
        $(fn $name(&mut self, node: $node) -> ControlFlow<()> {
            self.0.$name(node)
        })*
    };
}

struct Shared<'a>(&'a mut dyn Visitor<Break = ()>);

impl Visitor for Shared<'_> {
    type Break = ();

    forward!(
        pre_visit_query: &Query,
        post_visit_query: &Query,
        pre_visit_select: &Select,
        post_visit_select: &Select,
        pre_visit_relation: &ObjectName,
        post_visit_relation: &ObjectName,
        pre_visit_table_factor: &TableFactor,
        post_visit_table_factor: &TableFactor,
        pre_visit_expr: &Expr,
        post_visit_expr: &Expr,
        pre_visit_statement: &Statement,
        post_visit_statement: &Statement,
        pre_visit_value: &ValueWithSpan,
        post_visit_value: &ValueWithSpan,
    );
}

struct SharedMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

impl VisitorMut for SharedMut<'_> {
    type Break = ();

    forward!(
        pre_visit_query: &mut Query,
        post_visit_query: &mut Query,
        pre_visit_select: &mut Select,
        post_visit_select: &mut Select,
        pre_visit_relation: &mut ObjectName,
        post_visit_relation: &mut ObjectName,
        pre_visit_table_factor: &mut TableFactor,
        post_visit_table_factor: &mut TableFactor,
        pre_visit_expr: &mut Expr,
        post_visit_expr: &mut Expr,
        pre_visit_statement: &mut Statement,
        post_visit_statement: &mut Statement,
        pre_visit_value: &mut ValueWithSpan,
        post_visit_value: &mut ValueWithSpan,
    );
}

/// Visits a part of a statement.
pub(crate) fn visit(node: &impl Visit, visitor: &mut dyn Visitor<Break = ()>) {
    let _: ControlFlow<()> = node.visit(&mut Shared(visitor));
}

/// Visits a part of a statement, which may be changed.
pub(crate) fn visit_mut(node: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = ()>) {
    let _: ControlFlow<()> = node.visit(&mut SharedMut(visitor));
}

/// Visits the expressions of a part of a statement, the whole before its parts, until `look` breaks.
pub(crate) fn expressions(
    node: &impl Visit,
    look: &mut dyn FnMut(&Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    struct Each<'a>(&'a mut dyn FnMut(&Expr) -> ControlFlow<()>);

    impl Visitor for Each<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            (self.0)(expr)
        }
    }

    node.visit(&mut Shared(&mut Each(look)))
}

/// Visits the expressions of a part of a statement, the parts before the whole, until `change` breaks.
pub(crate) fn expressions_mut(
    node: &mut impl VisitMut,
    change: &mut dyn FnMut(&mut Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    struct Each<'a>(&'a mut dyn FnMut(&mut Expr) -> ControlFlow<()>);

    impl VisitorMut for Each<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            (self.0)(expr)
        }
    }

    node.visit(&mut SharedMut(&mut Each(change)))
}

/// Walks over a logical plan, subqueries included.
pub(crate) trait PlanWalk: Sized {
    /// Looks at every node, the whole before its parts.
    fn walk(&self, look: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>) -> Result<()>;

    /// Looks at the expressions of this node.
    fn walk_expressions(
        &self,
        look: &mut dyn FnMut(&logical_expr::Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion>;

    /// Whether an expression of any node, or a part of one, is of a kind: a rule for few statements asks first, as looking is cheaper
    /// than taking them apart.
    fn has_expr(&self, is_so: &mut dyn FnMut(&logical_expr::Expr) -> bool) -> Result<bool>;

    /// Replaces every node, the parts before the whole.
    fn replace_up(
        self,
        replace: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// Replaces the expressions of this node.
    fn replace_expressions(
        self,
        replace: &mut dyn FnMut(logical_expr::Expr) -> Result<Transformed<logical_expr::Expr>>,
    ) -> Result<Transformed<Self>>;
}

impl PlanWalk for LogicalPlan {
    fn walk(&self, look: &mut dyn FnMut(&Self) -> Result<TreeNodeRecursion>) -> Result<()> {
        self.apply_with_subqueries(look).map(|_| ())
    }

    fn walk_expressions(
        &self,
        look: &mut dyn FnMut(&logical_expr::Expr) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.apply_expressions(look)
    }

    fn has_expr(&self, is_so: &mut dyn FnMut(&logical_expr::Expr) -> bool) -> Result<bool> {
        let mut found = false;
        let next = |found: bool| {
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        };
        self.walk(&mut |node| {
            node.walk_expressions(&mut |expr| {
                found |= expr.has(&mut |part| Ok(is_so(part)))?;
                next(found)
            })?;
            next(found)
        })?;
        Ok(found)
    }

    fn replace_up(
        self,
        replace: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_up_with_subqueries(replace)
    }

    fn replace_expressions(
        self,
        replace: &mut dyn FnMut(logical_expr::Expr) -> Result<Transformed<logical_expr::Expr>>,
    ) -> Result<Transformed<Self>> {
        self.map_expressions(replace)
    }
}

/// Walks over an expression of a logical plan.
pub(crate) trait ExprWalk: Sized {
    /// Whether `is_so` holds of a part, the whole included.
    fn has(&self, is_so: &mut dyn FnMut(&Self) -> Result<bool>) -> Result<bool>;

    /// Replaces every part, the parts before the whole.
    fn replace_up(
        self,
        replace: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;

    /// Replaces every part, the whole before its parts.
    fn replace_down(
        self,
        replace: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>>;
}

impl ExprWalk for logical_expr::Expr {
    fn has(&self, is_so: &mut dyn FnMut(&Self) -> Result<bool>) -> Result<bool> {
        self.exists(is_so)
    }

    fn replace_up(
        self,
        replace: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_up(replace)
    }

    fn replace_down(
        self,
        replace: &mut dyn FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        self.transform_down(replace)
    }
}
