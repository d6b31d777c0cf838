//! One connection: messages in, replies out, until the client goes.
//!
//! Does: hold what a session has from one message to the next (statements, portals, settings, the state of its transaction),
//! skip to the next Sync after an error, let a client cancel. Does not: run a statement (`execution.rs` does).

mod copying;
mod extended;
mod parts;
mod portal;
mod session;
mod simple;
pub(crate) mod startup;
mod transaction;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::BytesMut;
use nilometer_service::{Language, Params, Session};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::startup::ParameterStatus;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::execution::{Job, Piece, Running};
use crate::rows::Encoding;
use crate::settings::Settings;
use crate::shared::{Number, Shared};
use crate::sqlstate::{CANCELLED, PROTOCOL_VIOLATION, Refused, SHUTDOWN, SUCCESS};
use crate::statement::Statement;
use crate::values::moment::Zone;
use crate::wire::frames::{Frames, Message, ReadError, Received, Refusal};
use crate::wire::replies::{self, TransactionStatus};
use portal::Portal;
use startup::Begun;
use transaction::Block;

/// Replies that wait to be sent together.
const OUT_BYTES_MAX: usize = 64 << 10;

/// Statements and portals that one connection keeps.
const KEPT_MAX: usize = 10_000;

/// Why a message is not answered.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The client is told.
    Refused(Box<Refused>),
    /// There is nobody to tell.
    Gone,
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refused(Box::new(refused))
    }
}

impl From<nilometer_service::Error> for Stop {
    fn from(error: nilometer_service::Error) -> Self {
        Refused::from(error).into()
    }
}

/// A statement that was parsed.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) text: String,
    pub(crate) statement: Statement,
    /// The types of its parameters, as far as its sender has said; 0 = not.
    pub(crate) oids: Vec<u32>,
    /// Asked for when it is first needed.
    pub(crate) described: tokio::sync::OnceCell<extended::Described>,
}

pub(crate) struct Connection<R, W> {
    shared: Arc<Shared>,
    frames: Frames<R>,
    socket: W,
    out: BytesMut,
    session: Session,
    settings: Settings,
    zone: Zone,
    language: Arc<dyn Language>,
    number: Number,
    statements: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
    transaction: TransactionStatus,
    block: Option<Block>,
    /// After an error: nothing is done until the next Sync.
    skips: bool,
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(crate) fn new(
        shared: Arc<Shared>,
        begun: Begun,
        number: Number,
        frames: Frames<R>,
        socket: W,
    ) -> Self {
        let Begun {
            session,
            settings,
            language,
        } = begun;
        Self {
            zone: Zone::of(session.zone.as_deref()),
            shared,
            frames,
            socket,
            out: BytesMut::new(),
            session,
            settings,
            language,
            number,
            statements: HashMap::new(),
            portals: HashMap::new(),
            transaction: TransactionStatus::Idle,
            block: None,
            skips: false,
        }
    }

    /// Serves the client until it goes, breaks the protocol, or the server stops.
    pub(crate) async fn serve(mut self) {
        let stop = self.shared.stop.clone();
        loop {
            let received = tokio::select! {
                biased;
                received = self.frames.next() => received,
                () = stop.cancelled() => {
                    let refused = Refused::new(
                        SHUTDOWN,
                        "terminating connection: the server is shutting down",
                    );
                    return self.end(&refused).await;
                }
            };
            let handled = match received {
                Ok(Received::Frame(frame)) => {
                    // Of a large message, until it is done with.
                    let _permit = frame.permit;
                    let Ok(message) = Message::of(frame.kind, frame.body) else {
                        return self
                            .end(&violation("a message is not what its kind says"))
                            .await;
                    };
                    if matches!(message, Message::Terminate) {
                        return;
                    }
                    self.handle(message).await
                }
                Ok(Received::Refused { kind, why }) => self.pass(kind, why).await,
                Err(ReadError::Gone) => return,
                Err(ReadError::Malformed(what)) => return self.end(&violation(what)).await,
            };
            if handled.is_err() {
                return;
            }
        }
    }

    /// Says why the connection ends.
    async fn end(mut self, refused: &Refused) {
        self.note_limit(refused);
        replies::fatal(&mut self.out, refused);
        let _ = self.flush().await;
        let _ = self.socket.shutdown().await;
    }

    /// A message for which there was no room.
    async fn pass(&mut self, kind: u8, why: Refusal) -> Result<(), Gone> {
        let refused = match why {
            Refusal::TooLong { bytes, bytes_max } => Refused::limit(
                "pg-message-bytes-max",
                format!(
                    "a message is limited to {bytes_max} bytes, this one has {bytes} (setting pg-message-bytes-max)"
                ),
            ),
            Refusal::Memory(error) => Refused::from(error),
        };
        match kind {
            b'Q' => {
                self.refuse(&refused);
                replies::ready(&mut self.out, self.transaction);
                self.flush().await
            }
            // Data of a COPY that has ended already.
            b'd' => Ok(()),
            _ if self.skips => Ok(()),
            _ => {
                self.refuse(&refused);
                self.skips = true;
                self.flush().await
            }
        }
    }

    async fn handle(&mut self, message: Message) -> Result<(), Gone> {
        if let Message::Sync = message {
            self.skips = false;
            if self.transaction == TransactionStatus::Idle {
                self.portals.clear();
            }
            replies::ready(&mut self.out, self.transaction);
            return self.flush().await;
        }
        if let Message::Query(text) = message {
            self.skips = false;
            return match self.query(&text).await {
                Ok(()) => {
                    replies::ready(&mut self.out, self.transaction);
                    self.flush().await
                }
                Err(Stop::Gone) => Err(Gone),
                Err(Stop::Refused(refused)) => {
                    self.refuse(&refused);
                    replies::ready(&mut self.out, self.transaction);
                    self.flush().await
                }
            };
        }
        if self.skips {
            return Ok(());
        }
        let done = match message {
            Message::Parse { name, text, oids } => self.parse(name, text, oids),
            Message::Bind(bind) => self.bind(bind).await,
            Message::DescribeStatement(name) => self.describe_statement(&name).await,
            Message::DescribePortal(name) => self.describe_portal(&name).await,
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::CloseStatement(name) => {
                self.statements.remove(&name);
                replies::closed(&mut self.out);
                Ok(())
            }
            Message::ClosePortal(name) => {
                self.portals.remove(&name);
                replies::closed(&mut self.out);
                Ok(())
            }
            Message::Flush => return self.flush().await,
            Message::FunctionCall => Err(Refused::unsupported(
                "function calls by number are not supported; send a SELECT",
            )
            .into()),
            // What is still under way of a COPY that failed is nobody's; the others were answered above.
            Message::CopyData(_)
            | Message::CopyDone
            | Message::CopyFail(_)
            | Message::Query(_)
            | Message::Sync
            | Message::Terminate => Ok(()),
            Message::Password(_) => {
                Err(violation("a password comes where none was asked for").into())
            }
        };
        match done {
            Ok(()) if self.out.len() >= OUT_BYTES_MAX => self.flush().await,
            Ok(()) => Ok(()),
            Err(Stop::Gone) => Err(Gone),
            Err(Stop::Refused(refused)) => {
                self.refuse(&refused);
                self.skips = true;
                self.flush().await
            }
        }
    }

    /// Counts what the client is told, if it is about a limit.
    fn note_limit(&self, refused: &Refused) {
        let counters = self.shared.service.counters();
        counters.limits_hit.note(refused.setting);
    }

    /// Tells the client what is wrong; a transaction that is open has failed.
    fn refuse(&mut self, refused: &Refused) {
        self.note_limit(refused);
        replies::refused(&mut self.out, refused);
        if self.transaction == TransactionStatus::Transaction {
            self.transaction = TransactionStatus::Error;
        }
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        if self.out.is_empty() {
            return Ok(());
        }
        let written = self.socket.write_all(&self.out).await;
        if self.out.capacity() > 2 * OUT_BYTES_MAX {
            self.out = BytesMut::new();
        }
        self.out.clear();
        written.map_err(|_| Gone)?;
        self.socket.flush().await.map_err(|_| Gone)
    }

    /// A statement as it is to run. What ends it is the connection's own.
    fn job(&self, text: &str, characters_before: usize, values: Params, encoding: Encoding) -> Job {
        let session = Session {
            cancelled: self.number.cancel.renew(),
            ..self.session.clone()
        };
        Job {
            session,
            text: text.to_owned(),
            characters_before,
            values,
            encoding,
            zone: self.zone,
            time_max: self.settings.statement_timeout(),
            wanted: None,
        }
    }

    fn start(&self, job: Job) -> Running {
        Running::start(&self.shared.service, Arc::clone(&self.language), job)
    }

    /// The next piece of what runs. A client that goes ends it.
    async fn piece(&mut self, running: &mut Running) -> Result<Piece, Stop> {
        loop {
            tokio::select! {
                biased;
                piece = running.next() => return match piece {
                    Some(Piece::Failed(refused)) => {
                        self.tell_notices();
                        Err(Stop::Refused(Box::new(in_words(*refused))))
                    }
                    Some(piece) => {
                        if matches!(piece, Piece::Done { .. } | Piece::Complete { .. }) {
                            self.tell_notices();
                        }
                        Ok(piece)
                    }
                    None => Err(Refused::from(nilometer_service::Error::Stopping).into()),
                },
                is_there = self.frames.is_there() => if !is_there {
                    return Err(Stop::Gone);
                },
            }
        }
    }

    /// Writes what a statement that has ended, well or not, tells beside its answer.
    fn tell_notices(&mut self) {
        for text in self.settings.notices().take() {
            let notice = Refused::new(SUCCESS, text);
            replies::notice(&mut self.out, "NOTICE", &notice);
        }
    }

    /// Sends rows that are written, before them what waits.
    async fn send_rows(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if self.out.len() + bytes.len() <= OUT_BYTES_MAX {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush().await?;
        self.socket.write_all(bytes).await.map_err(|_| Stop::Gone)
    }

    /// Tells a client of a setting that has changed.
    fn tell(&mut self, told: Option<(String, String)>) {
        if let Some((name, value)) = told {
            let message = ParameterStatus::new(name, value);
            replies::put(
                &mut self.out,
                &PgWireBackendMessage::ParameterStatus(message),
            );
        }
    }
}

/// The client is gone.
#[derive(Debug)]
pub(crate) struct Gone;

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

fn violation(what: &str) -> Refused {
    Refused::new(PROTOCOL_VIOLATION, what)
}

/// What PostgreSQL's clients look for in a cancelled statement.
fn in_words(mut refused: Refused) -> Refused {
    if refused.code == CANCELLED && refused.message.contains("cancelled by its caller") {
        "canceling statement due to user request".clone_into(&mut refused.message);
    }
    refused
}
