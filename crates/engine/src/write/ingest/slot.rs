//! A session's cache of one table: tags and fields by their spelling in bodies.

use nilometer_codec::PhysicalType;
use rustc_hash::FxHashMap;

use super::declared::Rules;
use super::planned::{Planned, is_planned_table};
use crate::catalogue::Catalogue;
use crate::engine::Engine;
use crate::error::Error;
use crate::logical::LogicalType;
use crate::schema::{ColumnId, ColumnKind, TableId, TableSchema, column_bytes};

/// So few fields are looked through as fast as they are looked up.
const SCANNED_FIELDS_MAX: usize = 8;
/// What a new tag costs beside its name: a dictionary, codes, a place in a file's footer.
const NEW_TAG_BYTES: usize = 512;

/// What a session knows of a table.
#[derive(Debug)]
pub(super) struct TableSlot {
    pub(super) id: TableId,
    pub(super) name: String,
    /// It has the stored answers of a continuous aggregate.
    pub(super) has_stored_answers: bool,
    /// What was declared that lines have to meet.
    pub(super) rules: Option<Box<Rules>>,
    pub(super) tags: Vec<(String, ColumnId)>,
    /// How many of these the body at hand brings.
    pub(super) planned_tags: u64,
    pub(super) fields: Vec<KnownField>,
    /// Empty while there are at most [`SCANNED_FIELDS_MAX`].
    pub(super) by_key: FxHashMap<Box<[u8]>, usize>,
}

/// A field by the text of its key.
#[derive(Debug)]
pub(super) struct KnownField {
    pub(super) key: Box<[u8]>,
    pub(super) id: ColumnId,
    pub(super) kind: PhysicalType,
    /// What it was declared as.
    pub(super) of: Option<LogicalType>,
}

impl TableSlot {
    /// One of a table as the catalogue has it now.
    pub(super) fn new(id: TableId, known: Option<&TableSchema>, has_stored_answers: bool) -> Self {
        Self {
            id,
            has_stored_answers,
            rules: known.and_then(Rules::of),
            name: known.map_or_else(String::new, |known| known.name.clone()),
            tags: Vec::new(),
            planned_tags: 0,
            fields: Vec::new(),
            by_key: FxHashMap::default(),
        }
    }

    /// Why no line is written to it; `None` = lines are.
    pub(super) fn refusal(&self) -> Option<String> {
        self.has_stored_answers.then(|| {
            format!(
                "\"{}\" has the stored answers of a continuous aggregate, and only its refresh writes them; write to the tables that it reads",
                self.name
            )
        })
    }

    /// The id of a tag that was met before. The tags of a table tend to stand at the same positions.
    pub(super) fn known_tag(&self, position: usize, name: &str) -> Option<ColumnId> {
        let guess = self.tags.get(position).filter(|(known, _)| known == name);
        let known = guess.or_else(|| self.tags.iter().find(|(known, _)| known == name));
        known.map(|(_, id)| *id)
    }

    /// The id of a tag, defined if it is new; `None` = the table was dropped.
    pub(super) fn define_tag(
        &mut self,
        engine: &Engine,
        name: &str,
        new_names: &mut u64,
        planned: &mut Planned,
    ) -> Result<Option<ColumnId>, Error> {
        let (table, planned_tags) = (self.id, self.planned_tags);
        let bytes = *new_names + (NEW_TAG_BYTES + column_bytes(name)) as u64;
        let mut is_planned = false;
        let plan = |catalogue: &Catalogue| {
            let tags = match catalogue.table(table) {
                Some(known) => {
                    if let Some(tag) = known.tag(name) {
                        return Ok(Ok(Some(tag.id)));
                    }
                    known.tags.len() as u64
                }
                None if is_planned_table(table) => 0,
                None => return Ok(Ok(None)),
            };
            let checked = engine
                .site()
                .check_table_tags(tags + planned_tags + 1)
                .and_then(|()| engine.sequencer().check_names(bytes));
            match checked {
                Ok(()) => Err(catalogue.plan_column(table, ColumnKind::Tag, name)),
                Err(refused) => Ok(Err(refused)),
            }
        };
        let stand_in = |planned: &mut Planned| {
            is_planned = true;
            Ok(Some(planned.column()))
        };
        let id = planned.define(engine, plan, stand_in)?;
        self.planned_tags += u64::from(is_planned);
        if let Some(id) = id {
            *new_names = bytes;
            self.tags.push((name.to_owned(), id));
        }
        Ok(id)
    }

    /// The place of a field by its key. Few are looked through; most tables have few, and there may be very many tables.
    pub(super) fn known_field(&self, key: &[u8]) -> Option<usize> {
        if self.fields.len() <= SCANNED_FIELDS_MAX {
            return self.fields.iter().position(|field| &*field.key == key);
        }
        self.by_key.get(key).copied()
    }

    pub(super) fn add_field(&mut self, field: KnownField) -> usize {
        let at = self.fields.len();
        if at == 0 {
            self.fields.reserve_exact(1);
        }
        self.fields.push(field);
        let new = match self.fields.len() {
            0..=SCANNED_FIELDS_MAX => at..at,
            n if n == SCANNED_FIELDS_MAX + 1 => 0..n,
            n => at..n,
        };
        for at in new {
            let field = self.fields.get(at).map(|field| field.key.clone());
            self.by_key.extend(field.map(|key| (key, at)));
        }
        at
    }
}
