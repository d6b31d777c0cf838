//! Writes, updates and changes of relations as transactions: what one call does, in several statements with one end.
//!
//! Does: split a call, look at what the transaction sees before its end, and answer as the call would have. Does not: judge; to
//! everybody but the transaction itself it is the same, so the same is expected of it, whatever crashes or comes in between.

use std::sync::Arc;

use arrow_array::RecordBatch;
use nilometer_engine::ingest::{OnConflict, Target, TypedReport, WriteReport};
use nilometer_engine::{Engine, Error, RelationChange, RowKey, TableSchema};

use crate::world::session_in;

/// The error that the call itself would have had.
fn of_call(error: Error) -> Error {
    match error {
        Error::TransactionMemory { limit, needed } => Error::Memory {
            usage: "query",
            limit,
            needed,
            total: limit,
            remedy: "",
        },
        other => other,
    }
}

/// A typed write; where the counts of two halves are those of the whole, as two statements.
pub(super) fn write(
    engine: &Arc<Engine>,
    place: &str,
    target: Target<'_>,
    rows: &RecordBatch,
    on_conflict: OnConflict,
) -> Result<TypedReport, Error> {
    let half = match on_conflict {
        OnConflict::Skip => rows.num_rows() / 2,
        OnConflict::Error | OnConflict::Replace => 0,
    };
    loop {
        let own = engine.begin()?;
        let mut session = session_in(engine, place)?.within(&own);
        let mut all = TypedReport::default();
        // What is taken back leaves nothing.
        let before = own.savepoint()?;
        if session.write_arrow(target, rows, on_conflict).is_ok() {
            own.rollback_to(&before)?;
        }
        for part in [
            rows.slice(0, half),
            rows.slice(half, rows.num_rows() - half),
        ] {
            let report = session.write_arrow(target, &part, on_conflict);
            let report = report.map_err(of_call)?;
            all.written += report.written;
            all.skipped += report.skipped;
            all.replaced += report.replaced;
        }
        match own.commit() {
            // Somebody came in between; the call itself would have looked again.
            Err(Error::TransactionOvertaken { .. }) => {}
            done => {
                all.lsn = done.map_err(of_call)?;
                return Ok(all);
            }
        }
    }
}

/// An update: the old rows go in one statement, and the new ones come in another.
pub(super) fn update(
    engine: &Arc<Engine>,
    place: &str,
    table: &TableSchema,
    gone: &[RowKey],
    rows: &RecordBatch,
) -> Result<TypedReport, Error> {
    let own = engine.begin()?;
    let seen = own.snapshot();
    if rows.num_rows() == 0 {
        own.delete_rows(&seen, table, gone).map_err(of_call)?;
    } else {
        let mut session = session_in(engine, place)?.within(&own);
        let report = session.update_rows(&seen, table, gone, rows);
        report.map_err(of_call)?;
    }
    let lsn = match own.commit() {
        Err(Error::TransactionOvertaken { table }) => Err(Error::ChangedMeanwhile {
            table,
            tags: String::new(),
            time: 0,
        }),
        done => done.map_err(of_call),
    };
    Ok(TypedReport {
        written: rows.num_rows() as u64,
        replaced: gone.len() as u64,
        lsn: lsn?,
        ..TypedReport::default()
    })
}

/// Changes of a relation.
pub(super) fn relate(
    engine: &Arc<Engine>,
    changes: &[RelationChange],
) -> Result<WriteReport, Error> {
    let own = engine.begin()?;
    own.write_relations(None, changes).map_err(of_call)?;
    let lsn = own.commit().map_err(of_call)?;
    Ok(WriteReport {
        lsn,
        ..WriteReport::default()
    })
}
