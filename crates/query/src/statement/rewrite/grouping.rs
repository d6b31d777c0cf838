//! `ROLLUP` and `CUBE` inside of `GROUPING SETS`, as the sets of columns that they stand for.
//!
//! The parser takes them for calls of functions there. Does: put their sets into the list. Does not: touch them where they stand
//! in GROUP BY by themselves, or `GROUPING SETS` inside of `GROUPING SETS`, which the parser refuses.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use crate::error::Error;
use crate::statement::bounds::{GROUPING_SETS_MAX, too_many_sets};

/// Rewrites the list of a `GROUPING SETS` in place.
pub(super) fn rewrite(expr: &mut Expr) -> Result<(), Error> {
    let Expr::GroupingSets(sets) = expr else {
        return Ok(());
    };
    if sets.iter().all(|set| Inner::of(set).is_none()) {
        return Ok(());
    }
    let mut expanded = Vec::new();
    for set in sets.drain(..) {
        match Inner::of(&set) {
            Some(inner) => {
                if inner.sets() > GROUPING_SETS_MAX - expanded.len().min(GROUPING_SETS_MAX) {
                    return Err(too_many_sets());
                }
                inner.expand(&mut expanded);
            }
            None => expanded.push(set),
        }
    }
    *sets = expanded;
    Ok(())
}

/// A `ROLLUP` or `CUBE` among sets: its members, each a column or a row of columns.
struct Inner {
    is_cube: bool,
    members: Vec<Vec<Expr>>,
}

impl Inner {
    /// A name in quotes is that of a function, as everywhere.
    fn of(set: &[Expr]) -> Option<Self> {
        let [Expr::Function(function)] = set else {
            return None;
        };
        let [part] = function.name.0.as_slice() else {
            return None;
        };
        let name = part.as_ident().filter(|name| name.quote_style.is_none())?;
        let is_cube = name.value.eq_ignore_ascii_case("cube");
        if !is_cube && !name.value.eq_ignore_ascii_case("rollup") {
            return None;
        }
        let members = members(function)?;
        Some(Self { is_cube, members })
    }

    fn sets(&self) -> usize {
        if !self.is_cube {
            return self.members.len() + 1;
        }
        let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        2usize.checked_pow(members).unwrap_or(usize::MAX)
    }

    /// The largest set first, as in `PostgreSQL`.
    fn expand(&self, sets: &mut Vec<Vec<Expr>>) {
        let count = self.members.len();
        if self.is_cube {
            for chosen in (0..1usize << count).rev() {
                let is_in = |at: usize| chosen >> (count - 1 - at) & 1 == 1;
                let members = (0..count).filter(|&at| is_in(at));
                sets.push(members.flat_map(|at| self.members[at].clone()).collect());
            }
        } else {
            for length in (0..=count).rev() {
                sets.push(self.members[..length].concat());
            }
        }
    }
}

/// The members of a plain call; nothing if it has what no list of columns has.
fn members(function: &Function) -> Option<Vec<Vec<Expr>>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let is_plain = function.over.is_none()
        && function.filter.is_none()
        && function.within_group.is_empty()
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && !list.args.is_empty();
    if !is_plain {
        return None;
    }
    let member = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(columns))) => Some(columns.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(column)) => Some(vec![column.clone()]),
        _ => None,
    };
    list.args.iter().map(member).collect()
}
