//! The simple query: a text of statements, each answered by itself.

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Stop};
use crate::execution::{Job, Piece};
use crate::rows::Encoding;
use crate::sqlstate::Refused;
use crate::statement::{self, Part, Statement};
use crate::wire::replies::{self, TransactionStatus};

/// Statements of a message, as far as they are any.
type Read<'a> = Vec<(Part<'a>, Result<Statement, Refused>)>;

/// Whether one of them defines something.
fn defines(statements: &Read<'_>) -> bool {
    let mut statements = statements.iter();
    statements.any(|(_, statement)| statement.as_ref().is_ok_and(Statement::defines))
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    /// Answers the statements of a text. The first that fails ends it.
    pub(super) async fn query(&mut self, text: &str) -> Result<(), Stop> {
        self.portals.remove("");
        self.statements.remove("");
        if text.contains('\0') {
            return Err(super::violation("a query has a zero byte").into());
        }
        let parts = statement::split(text);
        if parts.is_empty() {
            replies::empty(&mut self.out);
            return Ok(());
        }
        let mut statements = Vec::with_capacity(parts.len());
        for part in parts {
            let statement =
                statement::classify(part.text).map_err(|refused| placed(refused, &part));
            statements.push((part, statement));
        }
        self.check_together(&statements)?;
        let is_one = statements.len() > 1 && !defines(&statements);
        let done = self.statements(statements, is_one).await;
        self.end_implicit(done).await
    }

    /// The statements of a message. `is_one` = what stands outside of a transaction is one.
    async fn statements(&mut self, statements: Read<'_>, is_one: bool) -> Result<(), Stop> {
        for (part, statement) in statements {
            if is_one {
                self.begin_implicit()?;
            }
            self.statement(&part, statement?).await?;
        }
        Ok(())
    }

    /// A message of several statements is one transaction. A definition is part of none, so it is the only one of its message that
    /// changes something, and the last: then nothing comes before it that could be left, and nothing after it that could fail.
    fn check_together(&self, statements: &Read<'_>) -> Result<(), Refused> {
        let changes = |(part, statement): &&(Part<'_>, Result<Statement, Refused>)| {
            statement.as_ref().is_ok_and(|it| it.changes(part.text))
        };
        let is_alone = statements.iter().filter(changes).count() == 1;
        let is_last = statements.last().is_some_and(|last| changes(&last));
        if self.transaction != TransactionStatus::Idle
            || !defines(statements)
            || (is_alone && is_last)
        {
            return Ok(());
        }
        let mut refused = Refused::unsupported(
            "a message of several statements is one transaction, and a definition (CREATE, ALTER, DROP and the like) is not part of one",
        )
        .hint("Send each definition in a message of its own.");
        let first = statements.iter().find(changes);
        refused.position = first.map(|(part, _)| part.characters_before + 1);
        Err(refused)
    }

    async fn statement(&mut self, part: &Part<'_>, statement: Statement) -> Result<(), Stop> {
        self.check_transaction(&statement, part.text)
            .map_err(|refused| placed(refused, part))?;
        match statement {
            Statement::Query | Statement::Change(_) => {
                let values = nilometer_service::Params::new();
                let encoding = Encoding::Rows(Vec::new());
                let job = self.job(part.text, part.characters_before, values, encoding);
                let tag = match statement {
                    Statement::Change(tag) => tag,
                    _ => tag_of_query(part.text),
                };
                self.run(job, &tag).await
            }
            Statement::Copy => self.copy(part.text, part.characters_before).await,
            other => self
                .session_statement(other, part.text, true)
                .await
                .map_err(|stop| match stop {
                    Stop::Refused(refused) => placed(*refused, part).into(),
                    Stop::Gone => Stop::Gone,
                }),
        }
    }

    /// Runs a statement to its end, columns and all rows.
    pub(super) async fn run(&mut self, job: Job, tag: &str) -> Result<(), Stop> {
        let mut running = self.start(Job {
            wanted: Some(usize::MAX),
            ..job
        });
        loop {
            match self.piece(&mut running).await? {
                Piece::Columns(columns, formats) => {
                    replies::columns(&mut self.out, &columns, &formats);
                }
                Piece::Rows { bytes, .. } => self.send_rows(&bytes).await?,
                Piece::Complete { rows } | Piece::Suspended { rows } | Piece::Done { rows } => {
                    replies::complete(&mut self.out, &counted(tag, rows));
                    return Ok(());
                }
                Piece::Failed(refused) => return Err(Stop::Refused(refused)),
            }
        }
    }
}

/// A place in a statement as one in the text that it is part of.
fn placed(mut refused: Refused, part: &Part<'_>) -> Refused {
    refused.position = refused.position.map(|at| at + part.characters_before);
    refused
}

/// What a completed statement is told by, with the rows where clients expect them.
pub(super) fn counted(tag: &str, rows: u64) -> String {
    match tag {
        "SELECT" | "INSERT 0" | "UPDATE" | "DELETE" | "MERGE" | "FETCH" | "MOVE" | "COPY" => {
            format!("{tag} {rows}")
        }
        _ => tag.to_owned(),
    }
}

/// What an answered query is told by.
pub(super) fn tag_of_query(text: &str) -> String {
    let first = crate::statement::tokens::tokens(text).next();
    let is = |word: &str| {
        first
            .as_ref()
            .is_some_and(|first| first.token.is_word(word))
    };
    let tag = if is("explain") {
        "EXPLAIN"
    } else if is("show") || is("describe") || is("desc") {
        "SHOW"
    } else {
        "SELECT"
    };
    tag.to_owned()
}
