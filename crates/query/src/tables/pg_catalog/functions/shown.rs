//! Definitions and comments as text: `format_type`, `pg_get_indexdef`, `obj_description`.

#![expect(clippy::unnecessary_wraps, reason = "calls have one signature")]

use nilometer_service::define::{self, Counting};

use super::call::{Answer, Asked, Call, number, text};
use super::names::relation;
use crate::statement::name::quoted;
use crate::tables::pg_catalog::cells::Cell;
use crate::tables::pg_catalog::definitions::{self, format_type};
use crate::tables::pg_catalog::objects::Of;
use crate::tables::pg_catalog::oids;
use crate::tables::pg_catalog::values::Returns::{Bool, Int, Text};

pub(super) const CALLS: &[Call] = &[
    Call::new("format_type", (2, 2), Text, |asked, cells| {
        let oid = number(cells, 0);
        let own = oid.and_then(|oid| enumeration_named(asked, oid));
        let shown = || oid.map(|oid| format_type(oid, number(cells, 1)));
        Ok(own.or_else(shown).into())
    })
    .lenient(),
    Call::new("pg_get_expr", (2, 3), Text, |_, cells| {
        Ok(text(cells, 0).into())
    }),
    Call::new("pg_get_indexdef", (1, 3), Text, |asked, cells| {
        let catalogue = asked.catalogue();
        let index = relation(&catalogue, cells.first());
        let column = number(cells, 1).unwrap_or_default();
        Ok(index
            .and_then(|index| definitions::index(&catalogue, index, column))
            .into())
    }),
    Call::new("pg_get_constraintdef", (1, 2), Text, |asked, cells| {
        let oid = number(cells, 0).unwrap_or_default();
        Ok(definitions::constraint(&asked.catalogue(), oid).into())
    }),
    Call::new("pg_get_viewdef", (1, 2), Text, view),
    Call::new("pg_get_ruledef", (1, 2), Text, nothing),
    Call::new("pg_get_triggerdef", (1, 2), Text, nothing),
    Call::new("pg_get_functiondef", (1, 1), Text, nothing),
    Call::new("pg_get_function_arguments", (1, 1), Text, nothing),
    Call::new("pg_get_function_identity_arguments", (1, 1), Text, nothing),
    Call::new("pg_get_function_result", (1, 1), Text, nothing),
    Call::new("pg_get_function_sqlbody", (1, 1), Text, nothing),
    Call::new("pg_get_partkeydef", (1, 1), Text, nothing),
    Call::new("pg_get_partition_constraintdef", (1, 1), Text, nothing),
    Call::new("pg_get_statisticsobjdef", (1, 1), Text, nothing),
    Call::new("pg_get_statisticsobjdef_columns", (1, 1), Text, nothing),
    Call::new("pg_sequence_last_value", (1, 1), Int, nothing),
    Call::new("pg_relation_filenode", (1, 1), Int, |asked, cells| {
        let catalogue = asked.catalogue();
        let object = relation(&catalogue, cells.first());
        Ok(object.map(|object| object.oid).into())
    }),
    Call::new("pg_relation_is_publishable", (1, 1), Bool, |_, _| {
        Ok(false.into())
    }),
    Call::new("pg_relation_is_updatable", (2, 2), Int, |asked, cells| {
        let catalogue = asked.catalogue();
        let object = relation(&catalogue, cells.first());
        // INSERT, UPDATE and DELETE, as bits.
        Ok(object
            .map(|object| match object.of {
                Of::Series(_) | Of::Relation(_) => 28i64,
                _ => 0,
            })
            .into())
    }),
    Call::new("obj_description", (1, 2), Text, |asked, cells| {
        Ok(comment(asked, cells, None))
    }),
    Call::new("shobj_description", (2, 2), Text, nothing),
    Call::new("col_description", (2, 2), Text, |asked, cells| {
        let at = number(cells, 1).and_then(|it| usize::try_from(it).ok()?.checked_sub(1));
        Ok(at.map_or(Cell::Null, |at| comment(asked, cells, Some(at))))
    }),
    // What columns of a subquery of pg_sequence are rewritten to (`statement/rewrite/catalogue/identity.rs`).
    Call::new("__pg_sequence_option", (2, 2), Int, |asked, cells| {
        let Some(counting) = counting_of(asked, cells) else {
            return Ok(Cell::Null);
        };
        Ok(match text(cells, 1) {
            Some("seqstart") => counting.start.into(),
            Some("seqincrement") => counting.increment.into(),
            Some("seqmin") => counting.min.into(),
            Some("seqmax") => counting.max.into(),
            Some("seqcache") => 1i64.into(),
            _ => Cell::Null,
        })
    }),
    Call::new("__pg_sequence_cycles", (1, 1), Bool, |asked, cells| {
        let counting = counting_of(asked, cells);
        Ok(counting.map_or(Cell::Null, |it| it.cycles.into()))
    }),
    // What a subquery of pg_attrdef is rewritten to (`statement/rewrite/catalogue/empty.rs`).
    Call::new("__pg_attribute_default", (2, 2), Text, |asked, cells| {
        let catalogue = asked.catalogue();
        let object = number(cells, 0).and_then(|oid| catalogue.by_oid(oid));
        let at = number(cells, 1).and_then(|it| usize::try_from(it).ok()?.checked_sub(1));
        Ok(object
            .zip(at)
            .and_then(|(object, at)| object.default(at))
            .into())
    }),
];

/// How the sequence of a number counts.
fn counting_of(asked: &Asked, cells: &[Cell]) -> Option<Counting> {
    let catalogue = asked.catalogue();
    let object = number(cells, 0).and_then(|oid| catalogue.by_oid(oid))?;
    catalogue.counting_of(object, asked.reading.snapshot())
}

fn nothing(_: &Asked, _: &[Cell]) -> Answer {
    Ok(Cell::Null)
}

/// What was said of a table or of one of its columns.
fn comment(asked: &Asked, cells: &[Cell], column: Option<usize>) -> Cell {
    let catalogue = asked.catalogue();
    let object = number(cells, 0).and_then(|oid| catalogue.by_oid(oid));
    object.and_then(|object| object.comment(column)).into()
}

fn view(asked: &Asked, cells: &[Cell]) -> Answer {
    let catalogue = asked.catalogue();
    let object = relation(&catalogue, cells.first());
    Ok(match object.map(|object| &object.of) {
        // As PostgreSQL writes it: a statement with its end.
        Some(Of::View(query)) => format!(" {};", query.trim().trim_end_matches(';')).into(),
        _ => Cell::Null,
    })
}

/// The enumeration that has a number.
fn enumeration_named(asked: &Asked, oid: i64) -> Option<String> {
    let catalogue = asked.catalogue();
    let snapshot = asked.reading.snapshot();
    catalogue.schemas.iter().find_map(|schema| {
        let all = define::enumerations(snapshot, &asked.database, &schema.name);
        let mut all = all.into_iter();
        let found = all.find(|of| oids::enumeration(schema.oid, &of.name) == oid)?;
        Some(quoted(&found.name))
    })
}
