//! Keys of time-series tables that a transaction relies on.
//!
//! Does: remember of each what was found and when, and ask at the end whether that still holds. Does not: lock; whoever writes
//! such a key first wins, and the other hears of it.

use std::collections::BTreeMap;

use crate::catalogue::is_own_series;
use crate::engine::{Key, Keys, Presence, Sequencer, Since};
use crate::error::Error;
use crate::schema::{Lsn, TableId};

/// What the store had of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Everything up to here was looked at.
    pub(super) lsn: Lsn,
    pub(super) is_there: bool,
}

/// Memory of a key.
pub(super) const KEY_BYTES: usize = 48;

#[derive(Debug, Default)]
pub(super) struct Watched {
    keys: BTreeMap<TableId, BTreeMap<Key, Known>>,
    count: usize,
}

/// Keys of one table that were looked at again, all at one LSN.
pub(super) struct LookedAgain {
    table: TableId,
    keys: Vec<Key>,
    lsn: Lsn,
}

impl LookedAgain {
    pub(super) fn keys(&self) -> (Keys<'_>, Lsn) {
        let keys = Keys {
            table: self.table,
            keys: &self.keys,
        };
        (keys, self.lsn)
    }
}

impl Watched {
    pub(super) fn bytes(&self) -> usize {
        self.count * KEY_BYTES
    }

    /// What was found first counts: everything after it is the transaction's own, or somebody else's.
    pub(super) fn add(&mut self, table: TableId, keys: impl Iterator<Item = (Key, Known)>) {
        let own = self.keys.entry(table).or_default();
        for (key, known) in keys {
            if let std::collections::btree_map::Entry::Vacant(new) = own.entry(key) {
                new.insert(known);
                self.count += 1;
            }
        }
    }

    /// Follows series to other ids.
    pub(super) fn with_series(&mut self, id_of: impl Fn(u32) -> u32) {
        for own in self.keys.values_mut() {
            let keys = std::mem::take(own).into_iter();
            *own = keys
                .map(|((id, time), known)| ((id_of(id), time), known))
                .collect();
        }
    }

    /// Looks again at the keys, those of the store's series or, with their ids of now, those that were the transaction's own. The
    /// error says that one is not what it was.
    pub(super) fn look_again(
        &self,
        sequencer: &Sequencer,
        id_of: Option<&dyn Fn(u32) -> u32>,
        name_of: impl Fn(TableId) -> String,
    ) -> Result<Vec<LookedAgain>, Error> {
        let mut looked = Vec::new();
        for (&table, own) in &self.keys {
            let mut by_lsn: BTreeMap<Lsn, Vec<(Key, bool)>> = BTreeMap::new();
            for (&(id, time), known) in own {
                if is_own_series(id) != id_of.is_some() {
                    continue;
                }
                let id = id_of.map_or(id, |id_of| id_of(id));
                let keys = by_lsn.entry(known.lsn).or_default();
                keys.push(((id, time), known.is_there));
            }
            for (since, mut keys) in by_lsn {
                keys.sort_unstable();
                let expected: Vec<bool> = keys.iter().map(|(_, is_there)| *is_there).collect();
                let keys: Vec<Key> = keys.into_iter().map(|(key, _)| key).collect();
                let asked = Keys { table, keys: &keys };
                let look = sequencer.look_up(asked, Since::lsn_of(since))?;
                let holds = |(found, is_there): (&Presence, bool)| match found {
                    Presence::Absent => !is_there,
                    Presence::Old => is_there,
                    Presence::New => false,
                };
                if !look.found.iter().zip(expected).all(holds) {
                    sequencer.wait_for(look.lsn)?;
                    return Err(Error::TransactionOvertaken {
                        table: name_of(table),
                    });
                }
                looked.push(LookedAgain {
                    table,
                    keys,
                    lsn: look.lsn,
                });
            }
        }
        Ok(looked)
    }
}
