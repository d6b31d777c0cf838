//! Copies of tables in another form, as definitions: made, watched while they are filled, put in the place of their tables, dropped.
//!
//! Does: say which columns the copy has, tell who fills it which times were written to meanwhile, and swap it in as one record.
//! Does not: copy rows (`write/rewrite.rs` does).

use std::sync::Arc;

use crate::catalogue::{Catalogue, UNFINISHED, is_unfinished};
use crate::declared::DeclaredTime;
use crate::definition::Definition;
use crate::engine::Engine;
use crate::engine::change::ddl::{find_schema, find_table};
use crate::engine::change::empty::tags_of;
use crate::engine::rewrites::{RewriteReport, Rewriting};
use crate::error::Error;
use crate::logical::LogicalType;
use crate::schema::{
    ColumnDef, ColumnId, ColumnKind, ColumnSource, Duplicates, Lsn, TableId, TableSchema,
};

impl Engine {
    /// Begins a rewrite of a table; `None` = there is one.
    pub(crate) fn begin_rewrite(&self, name: [String; 3]) -> Option<Rewriting<'_>> {
        self.sequencer.rewrites().begin(name)
    }

    /// From here on the times that are written to are noted. What was sequenced before is in the next snapshot.
    pub(crate) fn watch_rewrite(
        &self,
        rewriting: &Rewriting<'_>,
        from: TableId,
    ) -> Result<(), Error> {
        let before = {
            let order = self.sequencer.lock();
            rewriting.watch(from);
            order.next_lsn - 1
        };
        self.wait_for_all(before)
    }

    /// The ranges of time that were written to since the last call; the next snapshot has what was written. `hold` = writers wait
    /// from here on, so nothing comes after.
    pub(crate) fn touched_since(
        &self,
        rewriting: &Rewriting<'_>,
        hold: bool,
    ) -> Result<Vec<(i64, i64)>, Error> {
        let (touched, before) = {
            let order = self.sequencer.lock();
            if hold {
                rewriting.hold();
            }
            (rewriting.take_touched(), order.next_lsn - 1)
        };
        if !touched.is_empty() {
            self.wait_for_all(before)?;
        }
        Ok(touched)
    }

    fn wait_for_all(&self, before: Lsn) -> Result<(), Error> {
        self.sequencer.wait_for(before)?;
        // What a transaction has staged is touched when it gets its LSN, and there when its files are listed.
        self.jobs.wait_for_staged();
        Ok(())
    }

    /// A table whose rows are to be written anew with these columns as tags, and the copy that they go to; `None` = these are its
    /// tags already.
    pub(crate) fn begin_copy(
        &self,
        name: &[String; 3],
        columns: &[String],
    ) -> Result<Option<[Arc<TableSchema>; 2]>, Error> {
        let [database, schema, table] = name;
        let from = find_table(&self.sequencer.catalogue(), database, schema, table)?;
        let is_stored = self.sequencer.noted().has_stored_answers(from.id);
        if from.settings.duplicates == Duplicates::Unique || is_stored {
            return Err(Error::HasRows {
                table: from.name.clone(),
            });
        }
        let has_hidden = self.sequencer.catalogue().has_dropped_tag(from.id);
        if has_hidden && from.settings.duplicates == Duplicates::Last {
            return Err(Error::HiddenTag {
                table: from.name.clone(),
            });
        }
        let made = tags_of(&from, columns)?;
        if made.is_empty() {
            return Ok(None);
        }
        let tags = (from.tags.len() + made.len()) as u64;
        self.site.check_table_tags(tags)?;
        let to = self.make_copy(&from, name, &made)?;
        Ok(Some([from, to]))
    }

    /// Makes the table that the rows are copied to.
    fn make_copy(
        &self,
        from: &Arc<TableSchema>,
        name: &[String; 3],
        made: &[(ColumnId, Option<LogicalType>)],
    ) -> Result<Arc<TableSchema>, Error> {
        let [database, schema, _] = name;
        let copy = format!("{UNFINISHED}{}", from.id.0);
        self.alter(|catalogue| {
            let (_, owner) = find_schema(catalogue, database, schema)?;
            // One that an earlier try, or an earlier process, has left.
            let left = catalogue.table_id(owner, &copy);
            let left = left.map(|id| Definition::DropTable { id });
            let planned = plan_copy(catalogue, from, &copy, made);
            Ok(left.into_iter().chain(planned).collect())
        })?;
        find_table(&self.sequencer.catalogue(), database, schema, &copy)
    }

    /// Puts a copy in the place of its table, as one record. Writers of the table are held up, so the copy has all rows.
    pub(crate) fn put_in_place(
        &self,
        from: &Arc<TableSchema>,
        to: &TableSchema,
    ) -> Result<bool, Error> {
        let mut order = self.sequencer.lock();
        {
            let catalogue = self.sequencer.catalogue();
            let now = catalogue.table(from.id);
            if !now.is_some_and(|now| Arc::ptr_eq(now, from)) || catalogue.table(to.id).is_none() {
                return Ok(false);
            }
        }
        let mut declared = to.declared.as_deref().cloned().unwrap_or_default();
        declared.kept_as = Some(from.kept_id());
        let planned = [
            Definition::DropTable { id: from.id },
            Definition::RenameTable {
                id: to.id,
                name: from.name.clone(),
            },
            Definition::DeclareTable {
                id: to.id,
                declared: Box::new(declared),
            },
        ];
        self.commit(&mut order, &planned)?;
        Ok(true)
    }

    /// How far the rewrites of tables are that are under way.
    pub fn rewrites(&self) -> Vec<RewriteReport> {
        self.sequencer.rewrites().report()
    }

    /// Drops copies that an earlier process has not finished, as they were found when the store was opened.
    pub(in crate::engine) fn drop_unfinished(&self) -> Result<(), Error> {
        let mut ids = self.unfinished.take().iter();
        ids.try_for_each(|id| self.drop_copy(*id))
    }

    /// Drops a copy that has not taken the place of its table.
    pub(crate) fn drop_copy(&self, id: TableId) -> Result<(), Error> {
        self.alter(|catalogue| {
            let known = catalogue.table(id).filter(|it| is_unfinished(&it.name));
            Ok(known
                .map(|_| Definition::DropTable { id })
                .into_iter()
                .collect())
        })
        .map(drop)
    }
}

/// The definitions of the copy: each column of the table in its place, some of them as tags.
fn plan_copy(
    catalogue: &Catalogue,
    from: &TableSchema,
    name: &str,
    made: &[(ColumnId, Option<LogicalType>)],
) -> Vec<Definition> {
    let table = catalogue.plan_table(from.schema, name);
    let Definition::Table { id, .. } = table else {
        return Vec::new();
    };
    let settings = from.settings;
    let mut planned = vec![table, Definition::SetTable { id, settings }];
    let mut nth = 0;
    let mut declared = from.declared.as_deref().cloned().unwrap_or_default();
    declared.kept_as = None;
    let shown = from.shown_columns();
    let mut columns = Vec::new();
    for at in 0..shown.len() {
        let place = Some(u32::try_from(at).unwrap_or(u32::MAX));
        let source = shown.position(at).and_then(|it| from.source(it));
        let column: Option<&ColumnDef> = match source {
            Some(ColumnSource::Time) => {
                let (name, kind) = from.time();
                let time = declared.time.get_or_insert_with(|| DeclaredTime {
                    name: name.to_owned(),
                    kind,
                    ..DeclaredTime::default()
                });
                time.column.position = place;
                None
            }
            Some(ColumnSource::Tag(at)) => from.tags.get(at),
            Some(ColumnSource::Field(at)) => from.fields.get(at),
            None => None,
        };
        columns.extend(column.map(|column| (column, place)));
    }
    planned.push(Definition::DeclareTable {
        id,
        declared: Box::new(declared),
    });
    for (column, place) in columns {
        let tag = made.iter().find(|(made, _)| *made == column.id);
        let kind = tag.map_or(column.kind, |_| ColumnKind::Tag);
        let new = catalogue.plan_nth_column(nth, id, kind, &column.name);
        nth += 1;
        let mut said = column.declared.as_deref().cloned().unwrap_or_default();
        said.position = place;
        if let Some((_, of)) = tag {
            said.of = *of;
        }
        let declaration = match &new {
            Definition::Column { id: column, .. } => Some(Definition::DeclareColumn {
                id: *column,
                table: id,
                declared: Box::new(said),
            }),
            _ => None,
        };
        planned.push(new);
        planned.extend(declaration);
    }
    planned
}
