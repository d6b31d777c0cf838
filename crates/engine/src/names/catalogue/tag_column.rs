//! A tag of many series from several layers, each with codes of its own, under codes of one dictionary.

use std::sync::Arc;

use arrow_array::{Array, StringArray};

use super::codes::CodeColumn;
use super::id_table::IdTable;
use super::selection::FEW;
use crate::index::Texts;
use crate::text_hash::TextHash;

/// A tag of some series, as Arrow shows it.
#[derive(Debug)]
pub(crate) struct TagColumn {
    /// By position of the series: the position of its value.
    codes: CodeColumn,
    /// Each once, and only those that the series have.
    pub(crate) values: Arc<StringArray>,
}

impl TagColumn {
    /// The position of the value that the series at a position has, `None` = it has none.
    pub(crate) fn code(&self, at: usize) -> Option<u32> {
        self.codes.get(at)
    }

    /// The value of the series at a position.
    pub(crate) fn value(&self, at: usize) -> Option<&str> {
        let code = self.code(at)? as usize;
        (code < self.values.len()).then(|| self.values.value(code))
    }
}

/// In place of a code that no series has.
const UNUSED: u32 = u32::MAX;

/// Codes of a layer that series have, and what becomes of each.
pub(super) enum Renamed {
    /// Pairs, by code.
    Few(Vec<(u32, u32)>),
    /// By code.
    Many(Vec<u32>),
}

impl Renamed {
    /// The codes that are used of so many, each behind whose it is.
    pub(super) fn new(codes: &[(u32, u32)], known: usize) -> Self {
        if codes.len() as u64 <= FEW {
            let mut few: Vec<(u32, u32)> = codes.iter().map(|&(_, code)| (code, 0)).collect();
            few.sort_unstable();
            few.dedup();
            return Self::Few(few);
        }
        let mut many = vec![UNUSED; known];
        for &(_, code) in codes {
            if let Some(slot) = many.get_mut(code as usize) {
                *slot = 0;
            }
        }
        Self::Many(many)
    }

    /// The codes, ascending.
    pub(super) fn codes(&self) -> Vec<u32> {
        match self {
            Self::Few(few) => few.iter().map(|(code, _)| *code).collect(),
            Self::Many(many) => {
                let used = (0..).zip(many).filter(|(_, to)| **to != UNUSED);
                used.map(|(code, _)| code).collect()
            }
        }
    }

    pub(super) fn set(&mut self, code: u32, to: u32) {
        let slot = match self {
            Self::Few(few) => few
                .binary_search_by_key(&code, |(code, _)| *code)
                .ok()
                .and_then(|at| few.get_mut(at))
                .map(|(_, slot)| slot),
            Self::Many(many) => many.get_mut(code as usize),
        };
        if let Some(slot) = slot {
            *slot = to;
        }
    }

    pub(super) fn get(&self, code: u32) -> u32 {
        let to = match self {
            Self::Few(few) => {
                let at = few.binary_search_by_key(&code, |(code, _)| *code).ok();
                at.and_then(|at| few.get(at)).map(|(_, to)| *to)
            }
            Self::Many(many) => many.get(code as usize).copied(),
        };
        to.unwrap_or(UNUSED)
    }
}

/// Values of several layers, each once. Within a layer they differ anyway, so the values of a single one are never
/// compared.
#[derive(Debug, Default)]
pub(super) struct Names {
    texts: Texts,
    found: IdTable,
    /// So many texts can be found.
    indexed: usize,
    /// So many texts are of former layers.
    former: usize,
}

impl Names {
    pub(super) fn next_layer(&mut self) {
        self.former = self.texts.len();
    }

    /// The position of a value, added if it is new.
    pub(super) fn add(&mut self, hash: &TextHash, value: &str) -> u32 {
        while self.indexed < self.former {
            let text = self.texts.get(self.indexed).unwrap_or_default();
            self.found
                .insert(hash.short(text.as_bytes()), short(self.indexed));
            self.indexed += 1;
        }
        if self.former > 0 {
            let texts = &self.texts;
            let is = |at: u32| texts.get(at as usize) == Some(value);
            if let Some(found) = self.found.find(hash.short(value.as_bytes()), is) {
                return found;
            }
        }
        self.texts.push(value);
        short(self.texts.len() - 1)
    }

    pub(super) fn finish(self, codes: Vec<(u32, u32)>) -> TagColumn {
        TagColumn {
            codes: CodeColumn::from_pairs(codes),
            values: Arc::new(StringArray::from_iter_values(self.texts.iter())),
        }
    }
}

fn short(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(UNUSED)
}
