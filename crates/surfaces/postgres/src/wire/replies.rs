//! Replies onto a socket, written with the message types of `pgwire`; rows are written by `rows.rs`.

use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{FieldDescription, NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{
    BindComplete, CloseComplete, ParseComplete, PortalSuspended,
};
pub(crate) use pgwire::messages::response::TransactionStatus;
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse, ReadyForQuery,
};

use crate::sqlstate::Refused;
use crate::values::kind::{Format, Kind};

/// What a client is told of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnOf {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// What its type says beside that; -1 = nothing.
    pub(crate) modifier: i32,
}

/// Adds a message. None that is made here is longer than a message may be: texts are bounded by statements.
pub(crate) fn put(out: &mut BytesMut, message: &PgWireBackendMessage) {
    let before = out.len();
    if let Err(error) = message.encode(out) {
        tracing::error!(%error, "a reply could not be written");
        out.truncate(before);
    }
}

pub(crate) fn complete(out: &mut BytesMut, tag: &str) {
    let message = CommandComplete::new(tag.to_owned());
    put(out, &PgWireBackendMessage::CommandComplete(message));
}

pub(crate) fn empty(out: &mut BytesMut) {
    let message = EmptyQueryResponse::new();
    put(out, &PgWireBackendMessage::EmptyQueryResponse(message));
}

pub(crate) fn ready(out: &mut BytesMut, status: TransactionStatus) {
    let message = ReadyForQuery::new(status);
    put(out, &PgWireBackendMessage::ReadyForQuery(message));
}

pub(crate) fn columns(out: &mut BytesMut, columns: &[ColumnOf], formats: &[Format]) {
    let fields = columns.iter().enumerate().map(|(at, column)| {
        let format = formats.get(at).copied().unwrap_or_default();
        FieldDescription::new(
            // A zero byte would end it early.
            column.name.replace('\0', ""),
            0,
            0,
            column.kind.oid(),
            column.kind.size(),
            column.modifier,
            format.code(),
        )
    });
    let message = RowDescription::new(fields.collect());
    put(out, &PgWireBackendMessage::RowDescription(message));
}

pub(crate) fn parameters(out: &mut BytesMut, kinds: &[u32]) {
    let message = ParameterDescription::new(kinds.to_vec());
    put(out, &PgWireBackendMessage::ParameterDescription(message));
}

pub(crate) fn no_data(out: &mut BytesMut) {
    put(out, &PgWireBackendMessage::NoData(NoData::new()));
}

pub(crate) fn parsed(out: &mut BytesMut) {
    put(
        out,
        &PgWireBackendMessage::ParseComplete(ParseComplete::new()),
    );
}

pub(crate) fn bound(out: &mut BytesMut) {
    put(
        out,
        &PgWireBackendMessage::BindComplete(BindComplete::new()),
    );
}

pub(crate) fn closed(out: &mut BytesMut) {
    put(
        out,
        &PgWireBackendMessage::CloseComplete(CloseComplete::new()),
    );
}

pub(crate) fn suspended(out: &mut BytesMut) {
    put(
        out,
        &PgWireBackendMessage::PortalSuspended(PortalSuspended::new()),
    );
}

pub(crate) fn refused(out: &mut BytesMut, refused: &Refused) {
    let message = ErrorResponse::new(refused.fields("ERROR"));
    put(out, &PgWireBackendMessage::ErrorResponse(message));
}

/// An error after which the connection ends.
pub(crate) fn fatal(out: &mut BytesMut, refused: &Refused) {
    let message = ErrorResponse::new(refused.fields("FATAL"));
    put(out, &PgWireBackendMessage::ErrorResponse(message));
}

pub(crate) fn notice(out: &mut BytesMut, severity: &str, refused: &Refused) {
    let message = NoticeResponse::new(refused.fields(severity));
    put(out, &PgWireBackendMessage::NoticeResponse(message));
}
