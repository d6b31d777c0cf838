//! The extended query: statements with parameters, in steps.

use std::sync::Arc;

use arrow::datatypes::DataType;
use nilometer_service::Params;
use tokio::io::{AsyncRead, AsyncWrite};

use super::portal::{Portal, State};
use super::simple::{counted, tag_of_query};
use super::{Connection, KEPT_MAX, Prepared, Stop, violation};
use crate::execution::{Job, Piece};
use crate::rows::{Encoding, columns_of};
use crate::sqlstate::{
    DUPLICATE_CURSOR, DUPLICATE_STATEMENT, LIMIT, Refused, SYNTAX_ERROR, UNKNOWN_CURSOR,
    UNKNOWN_STATEMENT,
};
use crate::statement::{self, Statement};
use crate::values::kind::{Format, Kind, Scalar};
use crate::values::parameter;
use crate::wire::frames::Bind;
use crate::wire::replies::{self, ColumnOf};

/// What the language says of a statement.
#[derive(Debug)]
pub(crate) struct Described {
    pub(super) oids: Vec<u32>,
    /// `None` = it answers no rows.
    pub(super) columns: Option<Vec<ColumnOf>>,
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(super) fn parse(&mut self, name: String, text: String, oids: Vec<u32>) -> Result<(), Stop> {
        self.keep(name, text, oids)?;
        replies::parsed(&mut self.out);
        Ok(())
    }

    /// Keeps a statement under a name; the empty name is free again with each.
    pub(super) fn keep(&mut self, name: String, text: String, oids: Vec<u32>) -> Result<(), Stop> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Refused::new(
                DUPLICATE_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        if self.statements.len() >= KEPT_MAX {
            return Err(Refused::new(
                LIMIT,
                format!("a connection keeps at most {KEPT_MAX} prepared statements; close some"),
            )
            .into());
        }
        let parts = statement::split(&text);
        let statement = match parts.as_slice() {
            [] => Statement::Done(""),
            [part] => statement::classify(part.text)?,
            _ => {
                return Err(Refused::new(
                    SYNTAX_ERROR,
                    "cannot insert multiple commands into a prepared statement",
                )
                .into());
            }
        };
        let prepared = Prepared {
            text,
            statement,
            oids,
            described: tokio::sync::OnceCell::new(),
        };
        self.statements.insert(name, Arc::new(prepared));
        Ok(())
    }

    pub(super) fn prepared(&self, name: &str) -> Result<Arc<Prepared>, Refused> {
        self.statements.get(name).cloned().ok_or_else(|| {
            Refused::new(
                UNKNOWN_STATEMENT,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    /// What the language says of a statement, asked once.
    async fn described<'a>(&self, prepared: &'a Prepared) -> Result<&'a Described, Stop> {
        let ask = async {
            if !matches!(prepared.statement, Statement::Query | Statement::Change(_)) {
                let columns = match &prepared.statement {
                    Statement::Show(name) => self.columns_of_show(name),
                    Statement::SetConfig { .. } => Some(columns_of_set_config()),
                    Statement::Fetch { name, .. } => self.columns_of_cursor(name),
                    _ => None,
                };
                return Ok(Described {
                    oids: Vec::new(),
                    columns,
                });
            }
            let known: Vec<Option<DataType>> = prepared
                .oids
                .iter()
                .map(|oid| Kind::of_oid(*oid).and_then(Kind::arrow))
                .collect();
            let _turn = self.shared.service.turn_for(&prepared.text).await?;
            let described = self
                .language
                .describe(&prepared.text, &known, &self.session)
                .await;
            let described = described.map_err(|error| Refused::of(&error, &prepared.text, 0))?;
            let oids = described.parameters.iter().enumerate().map(|(at, kind)| {
                let said = prepared.oids.get(at).copied().filter(|oid| is_known(*oid));
                said.unwrap_or_else(|| match kind {
                    DataType::Null => Kind::TEXT.oid(),
                    kind => Kind::of_arrow(kind).oid(),
                })
            });
            Ok::<_, Stop>(Described {
                oids: oids.collect(),
                columns: described.columns.map(|schema| columns_of(&schema)),
            })
        };
        prepared.described.get_or_try_init(|| ask).await
    }

    pub(super) async fn describe_statement(&mut self, name: &str) -> Result<(), Stop> {
        let prepared = self.prepared(name)?;
        let described = self.described(&prepared).await?;
        replies::parameters(&mut self.out, &described.oids);
        match &described.columns {
            // In which formats they come is said when values are bound.
            Some(columns) => replies::columns(&mut self.out, columns, &[]),
            None => replies::no_data(&mut self.out),
        }
        Ok(())
    }

    pub(super) async fn bind(&mut self, bind: Bind) -> Result<(), Stop> {
        let prepared = self.prepared(&bind.statement)?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            return Err(Refused::new(
                DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", bind.portal),
            )
            .into());
        }
        if self.portals.len() >= KEPT_MAX {
            return Err(Refused::new(
                LIMIT,
                format!("a connection keeps at most {KEPT_MAX} portals; close some"),
            )
            .into());
        }
        let Some(formats) = Format::each(&bind.formats, bind.values.len()) else {
            return Err(violation("the message Bind has other formats than parameters").into());
        };
        let is_untyped = |at: usize| !prepared.oids.get(at).is_some_and(|oid| is_known(*oid));
        let described = if (0..bind.values.len()).any(is_untyped) {
            Some(self.described(&prepared).await?)
        } else {
            None
        };
        if let Some(described) = described
            && described.oids.len() != bind.values.len()
        {
            return Err(violation(&format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.values.len(),
                bind.statement,
                described.oids.len()
            ))
            .into());
        }
        let mut values = Params::new();
        for (at, value) in bind.values.iter().enumerate() {
            let said = prepared.oids.get(at).copied().filter(|oid| is_known(*oid));
            let oid = said
                .or_else(|| described.and_then(|it| it.oids.get(at).copied()))
                .unwrap_or(Kind::TEXT.oid());
            let format = formats.get(at).copied().unwrap_or_default();
            let kind = Kind::of_oid(oid).unwrap_or(Kind::TEXT);
            let value = parameter::read(value.as_ref(), kind, format).map_err(|mut refused| {
                refused.place = Some(format!("unnamed portal parameter ${}", at + 1));
                refused
            })?;
            values.push(value);
        }
        if Format::each(&bind.result_formats, bind.result_formats.len()).is_none() {
            return Err(violation("there are the formats 0 (text) and 1 (binary)").into());
        }
        let portal = Portal {
            prepared,
            values,
            formats: bind.result_formats,
            state: State::New,
            is_cursor: false,
        };
        self.portals.insert(bind.portal, portal);
        replies::bound(&mut self.out);
        Ok(())
    }

    fn portal(&mut self, name: &str) -> Result<Portal, Refused> {
        self.portals.remove(name).ok_or_else(|| {
            Refused::new(UNKNOWN_CURSOR, format!("portal \"{name}\" does not exist"))
        })
    }

    /// Starts what a portal reads, as far as its columns, or as far as rows are `wanted`.
    pub(super) async fn open(
        &mut self,
        portal: &mut Portal,
        wanted: Option<usize>,
    ) -> Result<(), Stop> {
        if !matches!(portal.state, State::New) {
            return Ok(());
        }
        let encoding = Encoding::Rows(portal.formats.clone());
        let job = self.job(&portal.prepared.text, 0, portal.values.clone(), encoding);
        let mut running = self.start(Job { wanted, ..job });
        match self.piece(&mut running).await? {
            Piece::Columns(columns, formats) => {
                portal.state = State::Open {
                    running,
                    columns,
                    formats,
                    asked: wanted,
                };
                Ok(())
            }
            Piece::Failed(refused) => Err(Stop::Refused(refused)),
            _ => Err(violation("a query answered no rows").into()),
        }
    }

    pub(super) async fn describe_portal(&mut self, name: &str) -> Result<(), Stop> {
        let mut portal = self.portal(name)?;
        if portal.prepared.statement == Statement::Query {
            self.check_transaction(&portal.prepared.statement, &portal.prepared.text)?;
            // What the next message asks for is read at once, if it has come.
            let wanted = self.frames.asks_next(name).map(rows_wanted);
            self.open(&mut portal, wanted).await?;
        }
        match (&portal.state, &portal.prepared.statement) {
            (
                State::Open {
                    columns, formats, ..
                },
                _,
            ) => {
                replies::columns(&mut self.out, columns, formats);
            }
            // It is not run before it is executed.
            (_, Statement::Change(_)) if returns(&portal.prepared.text) => {
                let prepared = Arc::clone(&portal.prepared);
                let described = self.described(&prepared).await?;
                match &described.columns {
                    Some(columns) => {
                        let formats = Format::each(&portal.formats, columns.len());
                        replies::columns(&mut self.out, columns, &formats.unwrap_or_default());
                    }
                    None => replies::no_data(&mut self.out),
                }
            }
            (_, Statement::Show(name)) => match self.columns_of_show(name) {
                Some(columns) => replies::columns(&mut self.out, &columns, &[]),
                None => replies::no_data(&mut self.out),
            },
            (_, Statement::SetConfig { .. }) => {
                replies::columns(&mut self.out, &columns_of_set_config(), &[]);
            }
            (_, Statement::Fetch { name, .. }) => match self.columns_of_cursor(name) {
                Some(columns) => replies::columns(&mut self.out, &columns, &[]),
                None => replies::no_data(&mut self.out),
            },
            _ => replies::no_data(&mut self.out),
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    pub(super) async fn execute(&mut self, name: &str, rows_max: usize) -> Result<(), Stop> {
        let mut portal = self.portal(name)?;
        let prepared = Arc::clone(&portal.prepared);
        self.check_transaction(&prepared.statement, &prepared.text)?;
        if matches!(portal.state, State::Done) && prepared.statement != Statement::Query {
            self.portals.insert(name.to_owned(), portal);
            let message = format!("portal \"{name}\" cannot be run");
            return Err(Refused::new("55000", message).into());
        }
        match &prepared.statement {
            Statement::Query => {
                let rows_max = rows_wanted(rows_max);
                self.open(&mut portal, Some(rows_max)).await?;
                let tag = tag_of_query(&prepared.text);
                let is_asked =
                    matches!(portal.state, State::Open { asked, .. } if asked == Some(rows_max));
                let wanted = (!is_asked).then_some(rows_max);
                self.fetch(&mut portal, wanted, &tag, true).await?;
            }
            Statement::Change(tag) => {
                // What it returns of its rows is told by the message Describe.
                let encoding = Encoding::Rows(portal.formats.clone());
                let job = self.job(&prepared.text, 0, portal.values.clone(), encoding);
                let wanted = Some(usize::MAX);
                let mut running = self.start(Job { wanted, ..job });
                loop {
                    match self.piece(&mut running).await? {
                        Piece::Columns(..) => {}
                        Piece::Rows { bytes, .. } => self.send_rows(&bytes).await?,
                        Piece::Done { rows }
                        | Piece::Complete { rows }
                        | Piece::Suspended { rows } => {
                            replies::complete(&mut self.out, &counted(tag, rows));
                            break;
                        }
                        Piece::Failed(refused) => return Err(Stop::Refused(refused)),
                    }
                }
                portal.state = State::Done;
            }
            Statement::Copy => {
                self.copy(&prepared.text, 0).await?;
                portal.state = State::Done;
            }
            Statement::Done("") => replies::empty(&mut self.out),
            other => {
                self.session_statement(other.clone(), &prepared.text, false)
                    .await?;
                portal.state = State::Done;
            }
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Sends so many rows of a portal, and how it ended; `None` = they were asked for when it was opened. `suspends` = the
    /// protocol says that there may be more, and not the statement.
    pub(super) async fn fetch(
        &mut self,
        portal: &mut Portal,
        rows_max: Option<usize>,
        tag: &str,
        suspends: bool,
    ) -> Result<(), Stop> {
        let State::Open { mut running, .. } = std::mem::replace(&mut portal.state, State::Done)
        else {
            replies::complete(&mut self.out, &counted(tag, 0));
            return Ok(());
        };
        if let Some(rows_max) = rows_max {
            running.want(rows_max).await;
        }
        loop {
            match self.piece(&mut running).await? {
                Piece::Rows { bytes, .. } => self.send_rows(&bytes).await?,
                Piece::Suspended { rows } => {
                    if suspends {
                        replies::suspended(&mut self.out);
                    } else {
                        replies::complete(&mut self.out, &counted(tag, rows));
                    }
                    // The columns were told already.
                    portal.state = State::Open {
                        running,
                        columns: Vec::new(),
                        formats: Vec::new(),
                        asked: None,
                    };
                    return Ok(());
                }
                Piece::Complete { rows } => {
                    replies::complete(&mut self.out, &counted(tag, rows));
                    return Ok(());
                }
                Piece::Failed(refused) => return Err(Stop::Refused(refused)),
                Piece::Columns(..) | Piece::Done { .. } => {
                    return Err(violation("a statement answers twice").into());
                }
            }
        }
    }
}

/// How many rows a message Execute asks for: 0 means all.
fn rows_wanted(rows_max: usize) -> usize {
    if rows_max == 0 { usize::MAX } else { rows_max }
}

/// Whether a statement that writes answers its rows.
fn returns(text: &str) -> bool {
    crate::statement::tokens::tokens(text).any(|token| token.token.is_word("returning"))
}

fn columns_of_set_config() -> Vec<ColumnOf> {
    vec![ColumnOf {
        name: "set_config".to_owned(),
        kind: Kind::TEXT,
        modifier: -1,
    }]
}

/// Whether a type's number says something.
fn is_known(oid: u32) -> bool {
    oid != 0 && oid != Scalar::Unknown.oid()
}
