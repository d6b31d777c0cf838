//! Changes of names, carried out.
//!
//! Does: have what a change brings along looked at by the planner, with the rows that it concerns, and hand it to the service where
//! blocking is allowed; give rows of a table over time the default of a column that is new. Does not: know what a change is
//! (`statement/change.rs` reads it, `nilometer_service::define` carries it out).

use std::sync::Arc;

use nilometer_service::Running;
use nilometer_service::define::{self, Change, Numbered, TableChange};

use super::Sql;
use crate::Params;
use crate::error::Error;
use crate::execution::{blocking, changing};
use crate::statement::name::{NameScope, TableName, always_quoted, quoted};
use crate::statement::{Bounds, Statement, WrittenChange, parse};
use crate::tables::catalogue::ReadContext;
use crate::tables::describe;
use crate::write::{self, TRIES_MAX, Writing, is_overtaken};

impl Sql {
    pub(super) async fn change(
        &self,
        reading: ReadContext,
        place: NameScope,
        written: WrittenChange,
        running: Running,
    ) -> Result<Running, Error> {
        if let Some((name, query)) = write::change::new_view(&place, &written)? {
            describe::check_view(&reading, &name, query).await?;
        }
        write::check_new(&reading, &place, &written.change).await?;
        self.check_routine(&place, &written).await?;
        if let Change::AlterTable { path, .. } = &written.change {
            let name = path.clone().table(&place.database, &place.schema);
            // A name of too many parts is said by who looks it up.
            if let Ok(name) = name {
                let writing = self.writing(reading, place, running, None);
                return Box::pin(self.alter_table(writing, TableName::at(None, name), written))
                    .await;
            }
        }
        self.carried_out(place, written, &running).await?;
        Ok(running)
    }

    /// Hands a change to the service, for a statement.
    async fn carried_out(
        &self,
        place: NameScope,
        written: WrittenChange,
        running: &Running,
    ) -> Result<(), Error> {
        let by = (&self.shared().executor, running);
        let change = self.handed_over(place, written);
        changing(by, self.client.as_ref(), change).await
    }

    /// What hands a change to the service where blocking is allowed.
    fn handed_over(
        &self,
        place: NameScope,
        written: WrittenChange,
    ) -> impl FnOnce() -> Result<(), Error> + Send + use<> {
        let engine = Arc::clone(&self.shared().engine);
        let principal = self.principal.clone();
        let sequences = Arc::clone(&self.shared().sequences);
        let altered = match &written.change {
            Change::AlterSequence { path, .. } => {
                let path = path.clone();
                path.table(&place.database, &place.schema).ok()
            }
            _ => None,
        };
        move || {
            if let Some(name) = altered {
                let given_back = sequences.give_back(&engine, &name);
                given_back.map_err(Error::of_service)?;
            }
            write::change::run(&engine, &principal, place, written)
        }
    }

    /// Changes a table with the rows that are there; begins again where somebody has written some meanwhile.
    async fn alter_table(
        &self,
        mut writing: Writing<'_>,
        name: TableName,
        written: WrittenChange,
    ) -> Result<Running, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut written = written.clone();
            let added = new_column(&writing, &name, &mut written.change);
            writing = write::look_at_rows(writing, &name, &mut written.change).await?;
            let place = writing.place.clone();
            match self.carried_out(place, written, &writing.running).await {
                Err(error) if is_overtaken(&error) && tries < TRIES_MAX => {
                    writing = writing.again();
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    let running = writing.running;
                    return match added {
                        Some(added) => self.complete_column(&name, added, running).await,
                        None => Ok(running),
                    };
                }
            }
        }
    }

    /// Gives the rows that are there the default of a column that is new, and the column its conditions, or takes it away again.
    async fn complete_column(
        &self,
        name: &TableName,
        added: NewColumn,
        running: Running,
    ) -> Result<Running, Error> {
        let column = added.name.clone();
        let done = Box::pin(self.completed_column(name, added, running)).await;
        if done.is_err() {
            let drop = TableChange::Drop {
                column,
                if_exists: true,
            };
            // Also of a statement that has to end: a column without its values is nobody's wish.
            let drop = self.handed_over(scope(name), of_table(name, drop));
            blocking(&self.shared().executor, drop).await?;
        }
        done
    }

    async fn completed_column(
        &self,
        name: &TableName,
        added: NewColumn,
        mut running: Running,
    ) -> Result<Running, Error> {
        if let Some(default) = &added.default {
            let path = [&name.database, &name.schema, &name.table].map(|it| quoted(it));
            let text = format!(
                "UPDATE {} SET {} = {default}",
                path.join("."),
                always_quoted(&added.name)
            );
            let bounds = Bounds::of(&self.shared().options);
            let Statement::Update(update) = parse(&text, bounds, &Params::new())? else {
                return Err(Error::internal("an UPDATE of ours that is none"));
            };
            let mut reading = self.reading();
            reading.asks_names = true;
            let writing = self.writing(reading, scope(name), running, None);
            running = Box::pin(write::update(writing, *update)).await?.1.running;
        }
        let mut more = added.with;
        if added.is_not_null {
            more.push(TableChange::NotNull {
                column: added.name,
                is_not_null: true,
            });
        }
        for change in more {
            let mut written = of_table(name, change);
            let writing = self.writing(self.reading(), scope(name), running, None);
            let writing = write::look_at_rows(writing, name, &mut written.change).await?;
            running = writing.running;
            self.carried_out(scope(name), written, &running).await?;
        }
        Ok(running)
    }
}

fn scope(name: &TableName) -> NameScope {
    NameScope {
        database: name.database.clone(),
        schema: name.schema.clone(),
    }
}

/// A change of ours of a table.
fn of_table(name: &TableName, change: TableChange) -> WrittenChange {
    WrittenChange::of_change(Change::AlterTable {
        path: define::Path::from(name.table.as_str()),
        if_exists: false,
        change,
        seen: None,
    })
}

/// A column of a table over time that rows which are there have to get something of.
struct NewColumn {
    name: String,
    default: Option<String>,
    is_not_null: bool,
    with: Vec<TableChange>,
}

/// The column that a change adds to a table over time. It may be NULL until its rows have their values.
fn new_column(writing: &Writing<'_>, name: &TableName, change: &mut Change) -> Option<NewColumn> {
    let snapshot = &writing.reading.snapshot;
    let table = snapshot.table(&name.database, &name.schema, &name.table)?;
    let Change::AlterTable {
        change: TableChange::Add { column, with, .. },
        ..
    } = change
    else {
        return None;
    };
    let default = column.declared.default.clone();
    let default = default.filter(|default| Numbered::of(default).is_none());
    let is_there = table.shown(&column.name).is_some() || table.time().0 == column.name;
    let is_plain = default.is_none() && with.is_empty() && !column.declared.not_null;
    if is_there || is_plain {
        return None;
    }
    Some(NewColumn {
        name: column.name.clone(),
        default,
        is_not_null: std::mem::take(&mut column.declared.not_null),
        with: std::mem::take(with),
    })
}
