//! Rows that come from flash pages of a device, with the pages.
//!
//! Does: write the rows within a transaction as any others, and note which table, series and columns each block of a page became.
//! Does not: read a page, or promise that it is kept as it is: a flush keeps those whose rows are still what they say.

use arrow_array::RecordBatch;

use super::{OnConflict, Session, Target};
use crate::error::Error;
use crate::kept_page::{BlockPlace, KeptPage};
use crate::schema::{ColumnId, Duplicates, TableSchema};

/// Flash pages of a device, as it sent them.
#[derive(Debug, Clone, Default)]
pub struct FlashPages {
    pages: Vec<KeptPage>,
}

/// Where the rows of a block of a page stand in a record batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageBlock {
    /// Which of the [`FlashPages`], from 0 on.
    pub page: usize,
    /// Which block of it.
    pub block: usize,
    /// Its first row.
    pub first_row: usize,
    /// The names of its fields, in their order.
    pub fields: Vec<String>,
}

impl FlashPages {
    /// Adds a page of so many blocks; `start_ns` is the time of the device's tick 0.
    pub fn push(&mut self, bytes: &[u8], start_ns: i64, blocks: usize) {
        self.pages.push(KeptPage {
            bytes: bytes.into(),
            start_ns,
            blocks: vec![None; blocks],
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    fn place(&mut self, at: &PageBlock, place: Option<BlockPlace>) {
        let page = self.pages.get_mut(at.page);
        if let Some(slot) = page.and_then(|page| page.blocks.get_mut(at.block)) {
            *slot = place;
        }
    }
}

impl Session {
    /// As [`Session::write_arrow`] within a transaction, of rows that come from pages: `blocks` says where the rows of each block are,
    /// and `pages` learns what became of them. [`Session::keep_pages`] follows when all rows were written.
    pub fn write_arrow_of_pages(
        &mut self,
        target: Target<'_>,
        rows: &RecordBatch,
        blocks: &[PageBlock],
        pages: &mut FlashPages,
    ) -> Result<(), Error> {
        loop {
            self.follow_changes()?;
            let table = self.target(&target)?;
            let own = self.transaction.clone();
            let Some(own) = own.filter(|_| table.settings.duplicates == Duplicates::Last) else {
                // Rows whose keys are looked up, or of which each counts, are only rows.
                return self
                    .write_arrow(target, rows, OnConflict::Replace)
                    .map(drop);
            };
            let Some(typed) = self.typed_rows(&table, rows)? else {
                continue;
            };
            for block in blocks {
                let series = typed.series.get(block.first_row).copied();
                pages.place(block, series.and_then(|it| place_of(&table, it, block)));
            }
            return own.add_rows(&table, typed, std::iter::empty(), 0);
        }
    }

    /// Gives the transaction of the session the pages that its rows came from.
    pub fn keep_pages(&mut self, pages: FlashPages) -> Result<(), Error> {
        match &self.transaction {
            Some(own) => own.keep_pages(pages.pages),
            None => Ok(()),
        }
    }
}

fn place_of(table: &TableSchema, series: u32, block: &PageBlock) -> Option<BlockPlace> {
    let id_of = |name: &String| {
        let mut fields = table.fields.iter();
        fields.find(|field| field.name == *name).map(|it| it.id)
    };
    let columns: Option<Vec<ColumnId>> = block.fields.iter().map(id_of).collect();
    Some(BlockPlace {
        table: table.id,
        series,
        columns: columns?,
    })
}
