//! Tags of a table that has rows: its rows are written anew into another table, which takes its place.
//!
//! Does: copy the rows while readers and writers go on, make up for what was written meanwhile, and put the copy in the place of
//! the table as one record of definitions, so that a crash leaves the one or the other. Does not: change what a row says: a value
//! that no tag can have is refused, and the table stays as it is.
//!
//! The copy has an id of its own, because an id means one form of rows for ever. What others keep of the table they keep under the
//! id that it had at first ([`TableSchema::kept_id`]), so it is still theirs.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::catalogue::{Catalogue, UNFINISHED, is_unfinished};
use crate::declared::DeclaredTime;
use crate::definition::Definition;
use crate::engine::change::ddl::{find_schema, find_table};
use crate::engine::change::empty::tags_of;
use crate::engine::rewrites::{RewriteReport, Rewriting};
use crate::engine::{DeleteRequest, Engine};
use crate::error::Error;
use crate::ingest::{Moved, Session};
use crate::logical::LogicalType;
use crate::scan::{Narrowing, Scan, ScanRequest};
use crate::schema::{
    ColumnDef, ColumnId, ColumnKind, ColumnSource, Duplicates, TableId, TableSchema,
};
use crate::snapshot::Snapshot;

/// Rows that are read at once, about: some tens of megabytes.
const SLICE_ROWS: u64 = 100_000;
/// Bytes of large values that are read at once, about.
const SLICE_BYTES: u64 = 64 << 20;
/// Rows that a step may have copied for writers to be held up for the next: some milliseconds.
const HELD_ROWS: u64 = 20_000;
/// Steps in which a copy makes up for what is written meanwhile before it holds writers up, however much that is.
const STEPS_MAX: usize = 8;
/// Rows from which on it is looked at how many of them a series has.
const FEW_ROWS: u64 = 1_000;
/// Rows that a series has at least, on average, where nobody has named the tag.
const ROWS_OF_SERIES_MIN: u64 = 4;
/// Copies that are begun because the table changed otherwise meanwhile, which is rare.
const TRIES_MAX: usize = 5;

/// Copies that an earlier process has not finished.
#[derive(Debug)]
pub(crate) struct Unfinished {
    ids: Vec<TableId>,
    /// They were dropped.
    is_done: AtomicBool,
}

impl Unfinished {
    /// Those of a store that is opened.
    pub(crate) fn of(catalogue: &Catalogue) -> Self {
        let all = catalogue.live_tables();
        let ids = all.filter(|it| is_unfinished(&it.name)).map(|it| it.id);
        Self {
            ids: ids.collect(),
            is_done: AtomicBool::new(false),
        }
    }
}

impl Engine {
    /// Makes tags of fields of text or integers of a table with rows, named as [`TableSchema::arrow_schema`] shows them: as
    /// [`Self::make_tags`] does for one without. Readers and writers go on meanwhile; writers of the table wait for the last step.
    /// Durable on return. The table has another [`TableSchema::id`] then, and the same [`TableSchema::kept_id`]. With `few` columns
    /// that have nearly as many values as there are rows are refused.
    pub fn rewrite_tags(
        self: &Arc<Self>,
        database: &str,
        schema: &str,
        table: &str,
        columns: &[String],
        few: bool,
    ) -> Result<(), Error> {
        let name = [database, schema, table].map(str::to_owned);
        let rewrites = self.sequencer.rewrites();
        let Some(rewriting) = rewrites.begin(name.clone()) else {
            let table = table.to_owned();
            return Err(Error::RewriteRunning { table });
        };
        for _ in 0..TRIES_MAX {
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
                return Ok(());
            }
            let tags = (from.tags.len() + made.len()) as u64;
            self.site.check_table_tags(tags)?;
            let to = self.make_copy(&from, &name, &made)?;
            let done = self.fill_and_swap(&rewriting, (&from, &to), &name, few);
            rewriting.release();
            if let Ok(true) = done {
                return Ok(());
            }
            // What went wrong is said, and not that the copy stays until the next start.
            let dropped = self.drop_copy(to.id);
            done?;
            dropped?;
        }
        Err(Error::RewriteOvertaken {
            table: table.to_owned(),
        })
    }

    /// How far the rewrites of tables are that are under way.
    pub fn rewrites(&self) -> Vec<RewriteReport> {
        self.sequencer.rewrites().report()
    }

    /// Drops copies that an earlier process has not finished, as they were found when the store was opened.
    pub(in crate::engine) fn drop_unfinished(&self) -> Result<(), Error> {
        if self.unfinished.is_done.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut ids = self.unfinished.ids.iter();
        ids.try_for_each(|id| self.drop_copy(*id))
    }

    fn drop_copy(&self, id: TableId) -> Result<(), Error> {
        self.alter(|catalogue| {
            let known = catalogue.table(id).filter(|it| is_unfinished(&it.name));
            Ok(known
                .map(|_| Definition::DropTable { id })
                .into_iter()
                .collect())
        })
        .map(drop)
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

    /// False = the table changed otherwise meanwhile, and the copy has not taken its place.
    fn fill_and_swap(
        self: &Arc<Self>,
        rewriting: &Rewriting<'_>,
        (from, to): (&Arc<TableSchema>, &Arc<TableSchema>),
        name: &[String; 3],
        few: bool,
    ) -> Result<bool, Error> {
        let mut copying = Copying {
            session: Session::in_schema(Arc::clone(self), &name[0], Some(&name[1]))?,
            moved: Moved::of(from, to),
            rewriting,
            from,
            to,
            few,
        };
        // What is sequenced before is in the snapshot; what comes after is noted.
        let before = {
            let order = self.sequencer.lock();
            rewriting.watch(from.id);
            order.next_lsn - 1
        };
        self.sequencer.wait_for(before)?;
        self.jobs.wait_for_staged();
        copying.copy(self, &self.snapshot(), (&(i64::MIN..=i64::MAX), true))?;
        for _ in 0..STEPS_MAX {
            if copying.make_up(self, false)? <= HELD_ROWS {
                break;
            }
        }
        copying.make_up(self, true)?;
        self.swap(from, to)
    }

    /// Puts a copy in the place of its table, as one record. Writers of the table are held up, so the copy has all rows.
    fn swap(&self, from: &Arc<TableSchema>, to: &TableSchema) -> Result<bool, Error> {
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
}

/// A copy while it is filled.
struct Copying<'a> {
    session: Session,
    moved: Moved,
    rewriting: &'a Rewriting<'a>,
    from: &'a Arc<TableSchema>,
    to: &'a Arc<TableSchema>,
    few: bool,
}

impl Copying<'_> {
    /// Copies again what lies in times that were written to since the last step; returns how many rows that were. `hold` = writers
    /// wait from here on, so nothing comes after.
    fn make_up(&mut self, engine: &Arc<Engine>, hold: bool) -> Result<u64, Error> {
        let (touched, before) = {
            let order = engine.sequencer.lock();
            if hold {
                self.rewriting.hold();
            }
            (self.rewriting.take_touched(), order.next_lsn - 1)
        };
        if touched.is_empty() {
            return Ok(0);
        }
        engine.sequencer.wait_for(before)?;
        // What a transaction has staged is touched when it gets its LSN, and there when its files are listed.
        engine.jobs.wait_for_staged();
        let snapshot = engine.snapshot();
        let mut rows = 0;
        for (first, last) in touched {
            let time = first..=last;
            let request = DeleteRequest {
                table: Arc::clone(self.to),
                time: time.clone(),
                tags: Vec::new(),
            };
            engine.delete_old(&request)?;
            rows += self.copy(engine, &snapshot, (&time, false))?;
        }
        Ok(rows)
    }

    /// Copies the rows of a range of time, slice by slice; returns how many they are.
    fn copy(
        &mut self,
        engine: &Engine,
        snapshot: &Snapshot,
        (time, is_first): (&RangeInclusive<i64>, bool),
    ) -> Result<u64, Error> {
        let layers = &snapshot.moment().layers;
        let series = crate::scan::find_series(layers, self.from, &[])?;
        let weights = crate::read::slices::weights(snapshot.moment(), self.from, &series, time)?;
        if is_first {
            self.rewriting.expect(weights.rows());
        }
        let mut copied = 0;
        let mut start = *time.start();
        let cuts = weights.cuts_within(SLICE_ROWS, SLICE_BYTES);
        let cuts = cuts.into_iter().filter(|cut| cut < time.end());
        for end in cuts.chain([*time.end()]) {
            if end >= start {
                copied += self.copy_slice(snapshot, start..=end)?;
            }
            if is_first && self.few {
                self.check_series(engine, copied)?;
            }
            start = end.saturating_add(1);
        }
        Ok(copied)
    }

    /// Refuses tags that tell nearly every row from all others.
    fn check_series(&self, engine: &Engine, rows: u64) -> Result<(), Error> {
        if rows < FEW_ROWS {
            return Ok(());
        }
        let now = Arc::clone(engine.sequencer.catalogue().layers());
        let series = crate::scan::find_series(&now, self.to, &[])?.len() as u64;
        let most = rows / ROWS_OF_SERIES_MIN;
        if series <= most {
            return Ok(());
        }
        Err(Error::Limit {
            what: "the series of a table that gets a tag by an index",
            limit: most,
            needed: series,
            remedy: "name the column with segmentby if it is to be a tag in any case",
        })
    }

    fn copy_slice(&mut self, snapshot: &Snapshot, time: RangeInclusive<i64>) -> Result<u64, Error> {
        let fields = 1 + self.from.tags.len()..1 + self.from.tags.len() + self.from.fields.len();
        let request = ScanRequest {
            table: Arc::clone(self.from),
            projection: fields.collect(),
            time,
            tags: Vec::new(),
            limit: None,
        };
        let scan = Scan::plan(snapshot.moment(), &request, &Narrowing::None)?;
        let mut parts = Vec::new();
        scan.read_rows(self.from.id, |rows| parts.push(rows))?;
        let mut copied = 0;
        for rows in parts {
            let layers = &snapshot.moment().layers;
            let written = self
                .session
                .write_moved(&self.moved, self.to, layers, &rows)?;
            self.rewriting.count(written);
            copied += written;
        }
        Ok(copied)
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
