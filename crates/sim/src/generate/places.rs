//! Databases and schemas that come, go and change their names.

use rand::RngExt;

use super::{DATABASES, Draw, pick};
use crate::plan::places::split;
use crate::plan::{Act, PlaceChange};

/// Schemas beside the default one.
const PLACES: [&str; 4] = ["d0/s1", "d1/s1", "d0/s2", "d1/s2"];

impl Draw {
    pub(super) fn place_change(&mut self) -> Act {
        let is_schema = self.random.random_bool(0.6);
        let place = if is_schema {
            *pick(&mut self.random, &PLACES)
        } else {
            *pick(&mut self.random, &DATABASES)
        };
        let other = if is_schema {
            format!("{}/s2", split(place).0)
        } else {
            DATABASES[1].to_owned()
        };
        let place = place.to_owned();
        let change = match self.random.random_range(0..10) {
            0..6 => PlaceChange::Create(place),
            6..9 => PlaceChange::Drop(place),
            _ => PlaceChange::Rename(place, other),
        };
        // What was dropped is soon wanted again: there must be nothing of it then.
        if matches!(change, PlaceChange::Drop(_)) && self.random.random_bool(0.7) {
            let again = Act::Place(PlaceChange::Create(change.place().to_owned()));
            self.soon = Some(again);
        }
        Act::Place(change)
    }
}
