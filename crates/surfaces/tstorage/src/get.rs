//! GET and `GET_ACQ`: records out, and up to when they are complete.
//!
//! Does: check what is asked, find out up to which acquisition time the store is complete before it looks at the rows, send records
//! while the next ones are read. Does not: read rows (`reader.rs` does), or hold more than a few chunks of them.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use nilometer_service::{Error as ServiceError, Place, Privilege, Turn};
use tokio::io::AsyncWrite;

use crate::connection::{Outgoing, Shared};
use crate::error::Error;
use crate::metrics::READ;
use crate::reader::{Reader, Step};
use crate::table::{self, Shape};
use crate::wire::{EPOCH_NS, KeyBox, Status, put_header};

/// Says up to when a box is complete: later records are stamped at or after it.
pub(crate) async fn get_acq(
    shared: &Arc<Shared>,
    asked: &KeyBox,
    answer: &mut BytesMut,
) -> Result<(), Error> {
    let complete = complete(shared, asked).await?;
    put_header(answer, Status::Ok, 8);
    answer.put_i64_le(complete);
    Ok(())
}

/// Sends the records of a box.
pub(crate) async fn get<W: AsyncWrite + Unpin>(
    shared: &Arc<Shared>,
    asked: &KeyBox,
    outgoing: &mut Outgoing<W>,
) -> Result<(), Error> {
    if asked.is_empty() {
        return Err(Error::Refused(
            "the box is empty: each component's minimum must be below its maximum".to_owned(),
        ));
    }
    // Before the snapshot: what is complete now is in it.
    let complete = complete(shared, asked).await?;
    let turn = shared.service.turn().await?;
    let mut asked = *asked;
    asked.max.acq = complete;
    let reader = reader(shared, &asked)?;
    let mut bytes = BytesMut::new();
    put_header(&mut bytes, Status::Ok, 0);
    if let Some(reader) = reader {
        records(shared, (reader, turn), &mut bytes, outgoing).await?;
    }
    bytes.put_i32_le(0);
    put_header(&mut bytes, Status::Ok, 8);
    bytes.put_i64_le(complete);
    outgoing.send(&bytes).await
}

/// Sends what `bytes` has, and all records but the last ones, which it has then. Each slice is read under a turn, which others have
/// while the client takes what was read.
async fn records<W: AsyncWrite + Unpin>(
    shared: &Arc<Shared>,
    (reader, turn): (Reader, Turn),
    bytes: &mut BytesMut,
    outgoing: &mut Outgoing<W>,
) -> Result<(), Error> {
    let executor = shared.service.executor();
    let step = |mut reader: Reader, turn: Option<Turn>| {
        let by = Arc::clone(executor);
        async move {
            let _turn = match turn {
                Some(turn) => turn,
                None => shared.service.turn_again().await?,
            };
            let read = executor.block(move || {
                let step = reader.step(&*by);
                (reader, step)
            });
            let stopped = |_| ServiceError::Panicked { what: "GET" };
            let (reader, step) = read.await.map_err(stopped)?;
            Ok::<_, Error>((reader, step?))
        }
    };
    let mut next = step(reader, Some(turn)).await;
    loop {
        let (reader, read) = match next {
            Ok(read) => read,
            Err(error) => {
                // In the place of a record's size: what follows says what went wrong.
                bytes.put_i32_le(0);
                outgoing.send(bytes).await?;
                return Err(error);
            }
        };
        let Step {
            parts,
            records,
            is_last,
        } = read;
        shared.service.counters().counter(&READ).add(records);
        if is_last {
            for part in &parts {
                bytes.extend_from_slice(part);
            }
            return Ok(());
        }
        let sending = async {
            outgoing.send(bytes).await?;
            for part in &parts {
                outgoing.send(part).await?;
            }
            Ok::<(), Error>(())
        };
        let (read, sent) = tokio::join!(step(reader, None), sending);
        sent?;
        bytes.clear();
        next = read.map(|(mut reader, step)| {
            reader.take_back(parts);
            (reader, step)
        });
    }
}

/// Up to when a box is complete, as the wire has it: no later than its own end.
async fn complete(shared: &Shared, asked: &KeyBox) -> Result<i64, Error> {
    if asked.min.cid < 0 {
        return Err(Error::Refused("a client id is negative".to_owned()));
    }
    let place = &shared.config.table;
    let default = || shared.service.snapshot().default_schema(&place.database);
    let schema = place.schema.clone().or_else(default).unwrap_or_default();
    let place = Place::table(&place.database, &schema, &place.table);
    shared.principal()?.check(Privilege::Read, place)?;
    let complete = shared.service.complete_acquisition().await?;
    let complete = complete.saturating_sub(EPOCH_NS);
    if asked.min.acq > complete {
        return Err(Error::Refused(
            "the box begins at an acquisition time that has not come yet".to_owned(),
        ));
    }
    Ok(asked.max.acq.min(complete))
}

/// Who reads the records; `None` = there is no table.
fn reader(shared: &Shared, asked: &KeyBox) -> Result<Option<Reader>, Error> {
    let snapshot = shared.service.snapshot();
    let Some(table) = table::find(&snapshot, &shared.config.table) else {
        return Ok(None);
    };
    let shape = Shape::of(&table)?;
    Ok(Some(Reader::new(snapshot, table, &shape, asked)))
}
