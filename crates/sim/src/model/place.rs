//! What becomes of databases and schemas.

use std::collections::BTreeSet;

use super::state::{Expected, State};
use super::{Mentioned, Name};
use crate::plan::PlaceChange;
use crate::plan::places::{is_in, renamed, split};

impl State {
    /// Databases and schemas that there are.
    pub fn places(&self) -> &BTreeSet<String> {
        &self.places
    }

    /// What the store must answer.
    pub fn expect_place(&self, change: &PlaceChange) -> Expected {
        let has = |place: &String| self.places.contains(place);
        match change {
            PlaceChange::Create(place) if has(place) => Expected::Nothing,
            PlaceChange::Create(place) => {
                let (database, _) = split(place);
                if place.contains('/') && !has(&database.to_owned()) {
                    Expected::NotFound
                } else {
                    Expected::Done
                }
            }
            PlaceChange::Drop(place) | PlaceChange::Rename(place, _) if !has(place) => {
                Expected::NotFound
            }
            PlaceChange::Rename(_, to) if has(to) => Expected::ExistsAlready,
            PlaceChange::Drop(_) | PlaceChange::Rename(..) => Expected::Done,
        }
    }

    pub(super) fn change_place(&mut self, change: &PlaceChange) {
        match change {
            PlaceChange::Create(place) => drop(self.places.insert(place.clone())),
            PlaceChange::Drop(gone) => {
                self.places.retain(|place| !is_in(place, gone));
                self.tables.retain(|name, _| !is_in(&name.0, gone));
                self.relations.retain(|name, _| !is_in(&name.0, gone));
            }
            PlaceChange::Rename(from, to) => {
                let place = |place: String| renamed(&place, from, to).unwrap_or(place);
                let name = |(of, own): Name| (place(of), own);
                let places = std::mem::take(&mut self.places).into_iter();
                self.places = places.map(place).collect();
                let tables = std::mem::take(&mut self.tables).into_iter();
                self.tables = tables.map(|(it, kept)| (name(it), kept)).collect();
                let relations = std::mem::take(&mut self.relations).into_iter();
                self.relations = relations.map(|(it, kept)| (name(it), kept)).collect();
            }
        }
    }
}

impl Mentioned {
    /// Follows a change that was acknowledged.
    pub(super) fn follow_place(&mut self, change: &PlaceChange) {
        match change {
            PlaceChange::Create(_) => {}
            PlaceChange::Drop(gone) => {
                self.tables.retain(|name| !is_in(&name.0, gone));
                self.columns.retain(|(name, _, _)| !is_in(&name.0, gone));
            }
            PlaceChange::Rename(from, _) => {
                self.copy_place(change);
                self.follow_place(&PlaceChange::Drop(from.clone()));
            }
        }
    }

    /// Allows what a rename in doubt may have moved.
    pub(super) fn copy_place(&mut self, change: &PlaceChange) {
        let PlaceChange::Rename(from, to) = change else {
            return;
        };
        let moved = |name: &Name| Some((renamed(&name.0, from, to)?, name.1.clone()));
        let tables: Vec<Name> = self.tables.iter().filter_map(moved).collect();
        self.tables.extend(tables);
        let columns = self.columns.iter();
        let columns: Vec<_> = columns
            .filter_map(|(name, is_tag, column)| Some((moved(name)?, *is_tag, column.clone())))
            .collect();
        self.columns.extend(columns);
    }
}
