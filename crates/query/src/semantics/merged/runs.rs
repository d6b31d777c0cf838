//! Joins with `USING` and `NATURAL` that follow each other, as one table in parentheses with a number for its name.

use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    self, Ident, Join, JoinConstraint, JoinOperator, Select, TableAlias, TableFactor,
    TableWithJoins, VisitorMut,
};

use super::MARK;
use crate::walk;

/// Parentheses that may be put around each other in one FROM: the planner goes down into each.
const LEVELS_MAX: usize = 8;

/// Marks every run of a statement. Says whether there is one.
pub(super) fn mark(statement: &mut ast::Statement) -> Result<bool> {
    let mut marking = Marking {
        runs: 0,
        is_too_deep: false,
    };
    walk::visit_mut(statement, &mut marking);
    if marking.is_too_deep {
        return plan_err!(
            "USING or NATURAL takes turns with other joins more than {LEVELS_MAX} times in one FROM; name the columns in their ON"
        );
    }
    Ok(marking.runs > 0)
}

/// What parentheses that were put around something are for.
pub(super) enum Mark {
    /// The joins of this number.
    Run(usize),
    /// Joins that have an alias, by which nobody sees what is hidden.
    Whole,
}

impl Mark {
    pub(super) fn of(alias: &TableAlias) -> Option<Self> {
        match alias.name.value.strip_prefix(MARK)? {
            "" => Some(Self::Whole),
            number => Some(Self::Run(number.trim_start().parse().ok()?)),
        }
    }

    fn alias(&self) -> TableAlias {
        let name = match self {
            Self::Run(number) => super::tag(*number),
            Self::Whole => MARK.to_owned(),
        };
        TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name),
            columns: Vec::new(),
            at: None,
        }
    }
}

/// How its sides are joined, if a join merges columns and is ours to plan.
pub(super) fn merging(join: &Join) -> Option<&JoinConstraint> {
    use JoinOperator as Op;
    if is_lateral(&join.relation) {
        return None;
    }
    match &join.join_operator {
        Op::Join(constraint)
        | Op::Inner(constraint)
        | Op::Left(constraint)
        | Op::LeftOuter(constraint)
        | Op::Right(constraint)
        | Op::RightOuter(constraint)
        | Op::FullOuter(constraint) => Some(constraint).filter(|constraint| {
            matches!(
                constraint,
                JoinConstraint::Using(_) | JoinConstraint::Natural
            )
        }),
        _ => None,
    }
}

/// Whether a table reads those beside it, which only the planner's own joins hand to it.
fn is_lateral(table: &TableFactor) -> bool {
    match table {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral,
        TableFactor::UNNEST { .. } => true,
        _ => false,
    }
}

struct Marking {
    runs: usize,
    is_too_deep: bool,
}

impl VisitorMut for Marking {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for tree in &mut select.from {
            self.tree(tree);
        }
        ControlFlow::Continue(())
    }
}

impl Marking {
    /// Marks the runs of joins, and says how deep they are in each other.
    fn tree(&mut self, tree: &mut TableWithJoins) -> usize {
        let joins = tree.joins.iter_mut().map(|join| &mut join.relation);
        let tables = std::iter::once(&mut tree.relation).chain(joins);
        let mut levels = tables.map(|table| self.table(table)).max().unwrap_or(0);
        if tree.joins.iter().all(|join| merging(join).is_none()) {
            return levels;
        }
        let joins = std::mem::take(&mut tree.joins);
        let mut joins = joins.into_iter().peekable();
        while let Some(join) = joins.next() {
            let is_run = merging(&join).is_some();
            tree.joins.push(join);
            let is_next_same = joins
                .peek()
                .is_some_and(|next| merging(next).is_some() == is_run);
            if is_next_same {
                continue;
            }
            if is_run {
                levels += 1;
                self.runs += 1;
                parenthesize(tree, Some(&Mark::Run(self.runs)));
            } else if joins.peek().is_some() {
                parenthesize(tree, None);
            }
        }
        self.is_too_deep |= levels > LEVELS_MAX;
        levels
    }

    fn table(&mut self, table: &mut TableFactor) -> usize {
        let TableFactor::NestedJoin {
            table_with_joins,
            alias,
        } = table
        else {
            return 0;
        };
        let levels = self.tree(table_with_joins);
        if alias.is_some() && levels > 0 {
            parenthesize(table_with_joins, Some(&Mark::Whole));
        }
        levels
    }
}

/// Puts parentheses around joins.
fn parenthesize(tree: &mut TableWithJoins, mark: Option<&Mark>) {
    let nothing = TableFactor::UNNEST {
        alias: None,
        array_exprs: Vec::new(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    let mut inside = TableWithJoins {
        relation: std::mem::replace(&mut tree.relation, nothing),
        joins: std::mem::take(&mut tree.joins),
    };
    if mark.is_some() && is_lateral(&inside.relation) {
        // In parentheses of its own the planner's own joins hand it what is beside it.
        let joins = std::mem::take(&mut inside.joins);
        parenthesize(&mut inside, None);
        inside.joins = joins;
    }
    tree.relation = TableFactor::NestedJoin {
        table_with_joins: Box::new(inside),
        alias: mark.map(Mark::alias),
    };
}
