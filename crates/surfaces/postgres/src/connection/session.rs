//! Statements that are the session's own: transactions, settings, prepared statements by name, cursors.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use nilometer_service::{Param, Params};
use tokio::io::{AsyncRead, AsyncWrite};

use super::portal::{Portal, State};
use super::{Connection, Stop};
use crate::sqlstate::{
    DUPLICATE_CURSOR, NO_ACTIVE_TRANSACTION, Refused, UNKNOWN_CURSOR, UNKNOWN_SETTING,
    UNKNOWN_STATEMENT,
};
use crate::statement::{Set, Statement};
use crate::values::kind::{Format, Kind, Scalar};
use crate::values::moment::Zone;
use crate::values::parameter;
use crate::wire::replies::{self, ColumnOf, TransactionStatus};

fn texts(names: &[&str]) -> Vec<ColumnOf> {
    let columns = names.iter().map(|name| ColumnOf {
        name: (*name).to_owned(),
        kind: Kind::TEXT,
        modifier: -1,
    });
    columns.collect()
}

/// A row of texts.
fn put_row(out: &mut BytesMut, values: &[&str]) {
    let bytes: usize = values.iter().map(|value| 4 + value.len()).sum();
    out.put_u8(b'D');
    out.put_i32(i32::try_from(6 + bytes).unwrap_or(i32::MAX));
    out.put_u16(u16::try_from(values.len()).unwrap_or(0));
    for value in values {
        out.put_i32(i32::try_from(value.len()).unwrap_or(0));
        out.extend_from_slice(value.as_bytes());
    }
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    /// Carries out what the language never sees. `tells` = the columns of an answer are told with it.
    pub(super) async fn session_statement(
        &mut self,
        statement: Statement,
        text: &str,
        tells: bool,
    ) -> Result<(), Stop> {
        let tag = match statement {
            Statement::Begin(mode) => {
                self.begin(mode)?;
                "BEGIN"
            }
            Statement::Commit => self.end_transaction(true).await?,
            Statement::Rollback => self.end_transaction(false).await?,
            Statement::Savepoint(name) => {
                self.savepoint(name)?;
                "SAVEPOINT"
            }
            Statement::Release(name) => {
                self.release(&name)?;
                "RELEASE"
            }
            Statement::RollbackTo(name) => {
                self.rollback_to(&name)?;
                "ROLLBACK"
            }
            Statement::Set(Set::Language) => return self.set_zone(text),
            Statement::Set(set) => return self.set(set),
            Statement::Show(name) => return self.show(&name, tells).await,
            Statement::SetConfig { name, value } => {
                return self.set_config(&name, &value, tells);
            }
            Statement::Discard => {
                self.statements.clear();
                self.portals.clear();
                self.reset();
                self.settings.locks().free_all(false);
                "DISCARD ALL"
            }
            Statement::Prepare { name, types, text } => {
                let oids: Result<Vec<u32>, Refused> =
                    types.iter().map(|name| oid_of(name)).collect();
                self.keep(name, text, oids?)?;
                "PREPARE"
            }
            Statement::Execute { name, values } => return self.execute_named(&name, &values).await,
            Statement::Deallocate(None) => {
                self.statements.clear();
                "DEALLOCATE ALL"
            }
            Statement::Deallocate(Some(name)) => {
                if self.statements.remove(&name).is_none() {
                    return Err(Refused::new(
                        UNKNOWN_STATEMENT,
                        format!("prepared statement \"{name}\" does not exist"),
                    )
                    .into());
                }
                "DEALLOCATE"
            }
            Statement::Declare { name, text } => return self.declare(name, text).await,
            Statement::Fetch {
                name,
                rows,
                is_move,
            } => return self.fetch_cursor(&name, rows, is_move, tells).await,
            Statement::Close(None) => {
                self.portals.retain(|_, portal| !portal.is_cursor);
                "CLOSE CURSOR ALL"
            }
            Statement::Close(Some(name)) => {
                if self.portals.remove(&name).is_none() {
                    return Err(unknown_cursor(&name).into());
                }
                "CLOSE CURSOR"
            }
            Statement::Done(tag) => tag,
            Statement::Unsupported(what) => {
                return Err(Refused::unsupported(format!("{what} is not supported")).into());
            }
            Statement::Query | Statement::Change(_) | Statement::Copy => {
                return Err(super::violation("a statement is nobody's").into());
            }
        };
        replies::complete(&mut self.out, tag);
        Ok(())
    }

    fn reset(&mut self) {
        self.settings.reset();
        self.session.zone = None;
        self.zone = Zone::Utc;
        self.take_settings_over();
    }

    fn take_settings_over(&mut self) {
        self.session.schema = self.settings.schema();
        self.session.is_read_only = self.settings.is_read_only();
        self.note_client();
    }

    /// Keeps what statements are told of the connection.
    fn note_client(&mut self) {
        let zone = self.session.zone.as_deref();
        let client = self.settings.client(self.number.of, zone);
        self.session.client = Some(Arc::new(client));
    }

    fn set(&mut self, set: Set) -> Result<(), Stop> {
        let tag = match &set {
            Set::To(_, None) | Set::All => "RESET",
            _ => "SET",
        };
        match set {
            Set::All => self.reset(),
            // What a zone is called the language knows.
            Set::Language => {}
            Set::Transaction(mode) => self.set_mode(mode),
            Set::Characteristics(mode) => {
                self.settings.set_mode(mode)?;
                self.take_settings_over();
            }
            Set::To(name, None) if name == "timezone" => {
                self.session.zone = None;
                self.zone = Zone::Utc;
                self.note_client();
                self.tell(Some(("TimeZone".to_owned(), "UTC".to_owned())));
            }
            Set::To(name, value) => {
                let told = self.settings.set(&name, value.as_deref())?;
                self.tell(told);
                self.take_settings_over();
            }
        }
        replies::complete(&mut self.out, tag);
        Ok(())
    }

    fn set_config(&mut self, name: &str, value: &str, tells: bool) -> Result<(), Stop> {
        if name == "timezone" {
            let zone = self.language.time_zone(value)?;
            self.session.zone = Some(zone).filter(|zone| zone != "UTC");
            self.zone = Zone::of(self.session.zone.as_deref());
        } else {
            let told = self.settings.set(name, Some(value))?;
            self.tell(told);
            self.take_settings_over();
        }
        self.note_client();
        if tells {
            replies::columns(&mut self.out, &texts(&["set_config"]), &[]);
        }
        put_row(&mut self.out, &[value]);
        replies::complete(&mut self.out, "SELECT 1");
        Ok(())
    }

    /// `SET TIME ZONE` in all its forms.
    fn set_zone(&mut self, text: &str) -> Result<(), Stop> {
        let refused = |error: nilometer_service::Error| {
            let mut refused = Refused::of(&error, text, 0);
            if refused.code == "42000" {
                refused.code = crate::sqlstate::INVALID_PARAMETER_VALUE;
            }
            refused
        };
        let language = Arc::clone(&self.language);
        self.session.set(&*language, text).map_err(refused)?;
        self.zone = Zone::of(self.session.zone.as_deref());
        self.note_client();
        let zone = self
            .session
            .zone
            .clone()
            .unwrap_or_else(|| "UTC".to_owned());
        self.tell(Some(("TimeZone".to_owned(), zone)));
        replies::complete(&mut self.out, "SET");
        Ok(())
    }

    /// The value of a setting that clients of PostgreSQL know.
    fn shown(&self, name: &str) -> Option<String> {
        match name {
            "timezone" => Some(
                self.session
                    .zone
                    .clone()
                    .unwrap_or_else(|| "UTC".to_owned()),
            ),
            name => self.settings.get(name),
        }
    }

    /// The columns of SHOW, as far as it is the session's; `None` = the language knows.
    pub(super) fn columns_of_show(&self, name: &str) -> Option<Vec<ColumnOf>> {
        if name == "all" {
            return Some(texts(&["name", "setting", "description"]));
        }
        self.shown(name).map(|_| texts(&[name]))
    }

    async fn show(&mut self, name: &str, tells: bool) -> Result<(), Stop> {
        let Some(columns) = self.columns_of_show(name) else {
            return self.show_by_language(name).await;
        };
        if tells {
            replies::columns(&mut self.out, &columns, &[]);
        }
        if name == "all" {
            let mut all = self.settings.all();
            all.push((
                "timezone".to_owned(),
                self.shown("timezone").unwrap_or_default(),
            ));
            all.sort();
            for (name, value) in all {
                put_row(&mut self.out, &[&name, &value, ""]);
            }
        } else {
            let value = self.shown(name).unwrap_or_default();
            put_row(&mut self.out, &[&value]);
        }
        replies::complete(&mut self.out, "SHOW");
        Ok(())
    }

    /// What the language shows in a word, such as SHOW TABLES.
    async fn show_by_language(&mut self, name: &str) -> Result<(), Stop> {
        let encoding = crate::rows::Encoding::Rows(Vec::new());
        let job = self.job(&format!("SHOW {name}"), 0, Params::new(), encoding);
        match self.run(job, "SHOW").await {
            Err(Stop::Refused(refused)) if refused.code.starts_with("42") => Err(Refused::new(
                UNKNOWN_SETTING,
                format!("unrecognized configuration parameter \"{name}\""),
            )
            .into()),
            other => other,
        }
    }

    /// EXECUTE: a prepared statement with literals.
    async fn execute_named(&mut self, name: &str, values: &[Option<String>]) -> Result<(), Stop> {
        let prepared = self.prepared(name)?;
        let mut bound = Params::new();
        for (at, value) in values.iter().enumerate() {
            let kind = prepared.oids.get(at).and_then(|oid| Kind::of_oid(*oid));
            let value = match (value, kind) {
                (None, _) => Param::Null,
                (Some(text), Some(kind)) => {
                    let bytes = bytes::Bytes::copy_from_slice(text.as_bytes());
                    parameter::read(Some(&bytes), kind, Format::Text)?
                }
                (Some(text), None) => literal(text),
            };
            bound.push(value);
        }
        let encoding = crate::rows::Encoding::Rows(Vec::new());
        self.check_transaction(&prepared.statement, &prepared.text)?;
        let tag = match &prepared.statement {
            Statement::Change(tag) => tag.clone(),
            Statement::Query => super::simple::tag_of_query(&prepared.text),
            _ => {
                return Err(Refused::unsupported(
                    "only queries and INSERT, UPDATE and DELETE can be prepared",
                )
                .into());
            }
        };
        let job = self.job(&prepared.text, 0, bound, encoding);
        self.run(job, &tag).await
    }

    /// DECLARE: a query whose rows are fetched in parts.
    async fn declare(&mut self, name: String, text: String) -> Result<(), Stop> {
        if self.transaction == TransactionStatus::Idle {
            return Err(Refused::new(
                NO_ACTIVE_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            )
            .into());
        }
        if self.portals.contains_key(&name) {
            return Err(Refused::new(
                DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            )
            .into());
        }
        let prepared = super::Prepared {
            text,
            statement: Statement::Query,
            oids: Vec::new(),
            described: tokio::sync::OnceCell::new(),
        };
        let mut portal = Portal {
            prepared: Arc::new(prepared),
            values: Params::new(),
            formats: Vec::new(),
            state: State::New,
            is_cursor: true,
        };
        self.open(&mut portal, None).await?;
        self.portals.insert(name, portal);
        replies::complete(&mut self.out, "DECLARE CURSOR");
        Ok(())
    }

    /// The columns of a cursor's rows.
    pub(super) fn columns_of_cursor(&self, name: &str) -> Option<Vec<ColumnOf>> {
        match &self.portals.get(name)?.state {
            State::Open { columns, .. } => Some(columns.clone()),
            _ => None,
        }
    }

    async fn fetch_cursor(
        &mut self,
        name: &str,
        rows: Option<usize>,
        is_move: bool,
        tells: bool,
    ) -> Result<(), Stop> {
        let Some(mut portal) = self.portals.remove(name) else {
            return Err(unknown_cursor(name).into());
        };
        if is_move {
            self.portals.insert(name.to_owned(), portal);
            return Err(Refused::unsupported("MOVE is not supported; FETCH the rows").into());
        }
        let kept = match &portal.state {
            State::Open {
                columns, formats, ..
            } => {
                if tells {
                    replies::columns(&mut self.out, columns, formats);
                }
                Some((columns.clone(), formats.clone()))
            }
            _ => None,
        };
        let rows = rows.unwrap_or(usize::MAX);
        self.fetch(&mut portal, Some(rows), "FETCH", false).await?;
        if let (
            State::Open {
                columns, formats, ..
            },
            Some((of, with)),
        ) = (&mut portal.state, kept)
        {
            (*columns, *formats) = (of, with);
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }
}

fn unknown_cursor(name: &str) -> Refused {
    Refused::new(UNKNOWN_CURSOR, format!("cursor \"{name}\" does not exist"))
}

/// A literal whose type nothing says.
fn literal(text: &str) -> Param {
    if let Ok(value) = text.parse::<i64>() {
        return Param::I64(value);
    }
    match text {
        "true" => Param::Bool(true),
        "false" => Param::Bool(false),
        _ => Param::Text(text.to_owned()),
    }
}

/// The number of a type by its name in PREPARE.
fn oid_of(name: &str) -> Result<u32, Refused> {
    let (bare, is_array) = match name.strip_suffix("[]") {
        Some(bare) => (bare, true),
        None => (name, false),
    };
    match Scalar::named(bare) {
        Some(scalar) if is_array => Ok(Kind::Array(scalar).oid()),
        Some(scalar) => Ok(scalar.oid()),
        None => Err(Refused::new(
            UNKNOWN_SETTING,
            format!("type \"{name}\" does not exist"),
        )),
    }
}
