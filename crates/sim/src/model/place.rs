//! Model of databases and schemas.

use std::collections::BTreeSet;

use super::names::{Mentioned, Name};
use super::state::{Expected, State};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Op;
    use crate::plan::Shape;

    fn state(changes: &[PlaceChange]) -> State {
        let mut state = State::default();
        for change in changes {
            state.apply(&Op::Place(change.clone()));
        }
        state
    }

    fn create(place: &str) -> PlaceChange {
        PlaceChange::Create(place.to_owned())
    }

    #[test]
    fn what_is_in_a_database_goes_with_it_and_follows_its_name() {
        let mut there = state(&[create("a"), create("a/s"), create("ab")]);
        let name = |place: &str| (place.to_owned(), "r".to_owned());
        there.apply(&Op::CreateRelation(name("a/s"), Shape(0)));
        let mut renamed = there.clone();
        renamed.apply(&Op::Place(PlaceChange::Rename(
            "a".to_owned(),
            "c".to_owned(),
        )));
        assert!(renamed.relation(&name("c/s")).is_some());
        let places: Vec<&String> = renamed.places().iter().collect();
        assert_eq!(places, ["ab", "c", "c/s"]);
        there.apply(&Op::Place(PlaceChange::Drop("a".to_owned())));
        assert!(there.relation(&name("a/s")).is_none());
        assert_eq!(there.places(), state(&[create("ab")]).places());
        there.apply(&Op::Place(create("a")));
        assert!(there.relation(&name("a/s")).is_none());
    }

    #[test]
    fn a_place_is_made_once_and_in_what_there_is() {
        let there = state(&[create("a"), create("a/s"), create("b")]);
        let expect = |change| there.expect_place(&change);
        let rename = |from: &str, to: &str| PlaceChange::Rename(from.to_owned(), to.to_owned());
        assert_eq!(expect(create("a/s")), Expected::Nothing);
        assert_eq!(expect(create("c/s")), Expected::NotFound);
        assert_eq!(expect(create("c")), Expected::Done);
        assert_eq!(
            expect(PlaceChange::Drop("c".to_owned())),
            Expected::NotFound
        );
        assert_eq!(expect(rename("a", "b")), Expected::ExistsAlready);
        assert_eq!(expect(rename("a/s", "a/t")), Expected::Done);
    }
}
