//! The numbers of a column in pco, where that is smaller.
//!
//! Does: gather the present values of all blocks, choose what pco sees of floats, write header and pages. Does not: read
//! them back; `shared/numbers.rs` does, and says how header and page are laid out.

use pco::data_types::Number;
use pco::metadata::Mode;
use pco::wrapped::{ChunkCompressor, FileCompressor};
use pco::{ChunkConfig, DeltaSpec, PagingSpec};

use super::ColdColumn;
use crate::column::is_set;
use crate::float::{Exceptions, Scale};
use crate::page::body_start;
use crate::shared::is_near;
use crate::{BLOCK_ROWS_MAX, ColumnRef, Encoding, PageSet, ValuesRef};

/// Fewest values of a column for which a header can pay.
const VALUES_MIN: usize = 128;

/// Of at most this many exceptions in a hundred values floats are integers.
const EXCEPTIONS_PERCENT_MAX: usize = 5;

/// Rewrites in pco the pages that become smaller, if all of them together save more than the header takes.
pub(super) fn shrink(blocks: &[ColumnRef<'_>], set: PageSet, out: &mut ColdColumn) {
    let shrunk = match blocks.first().map(|block| block.values) {
        Some(ValuesRef::I64(_)) => {
            let gathered = gathered(blocks, |values| match values {
                ValuesRef::I64(values) => values,
                _ => &[],
            });
            gathered.choose_narrowest(set, vec![0], &[], out)
        }
        Some(ValuesRef::U64(_)) => {
            let gathered = gathered(blocks, |values| match values {
                ValuesRef::U64(values) => values,
                _ => &[],
            });
            let signed = gathered.map(|value| i64::try_from(value).ok());
            let narrow = signed.and_then(|it| it.choose_narrow(set, vec![0], &[], out));
            narrow.unwrap_or_else(|| gathered.choose(vec![0], &[], out))
        }
        Some(ValuesRef::F64(_)) => shrink_floats(blocks, set, out),
        _ => None,
    };
    if let Some(shrunk) = shrunk {
        *out = shrunk;
    }
}

fn gathered<'a, T: Number>(
    blocks: &[ColumnRef<'a>],
    values: impl Fn(ValuesRef<'a>) -> &'a [T],
) -> Gathered<T> {
    let mut gathered = Gathered::default();
    for block in blocks {
        gathered.add(present(*block, values(block.values)));
    }
    gathered
}

fn shrink_floats(blocks: &[ColumnRef<'_>], set: PageSet, plain: &ColdColumn) -> Option<ColdColumn> {
    let floats: Vec<Vec<f64>> = blocks
        .iter()
        .map(|block| match block.values {
            ValuesRef::F64(values) => present(*block, values).collect(),
            _ => Vec::new(),
        })
        .collect();
    let total: usize = floats.iter().map(Vec::len).sum();
    if let Some(scale) = Scale::choose(floats.iter().flatten().copied()) {
        let mut gathered = Gathered::default();
        let mut prefixes = Vec::new();
        let mut count = 0;
        for values in &floats {
            let mut integers = [0; BLOCK_ROWS_MAX];
            let integers = &mut integers[..values.len()];
            let exceptions: Exceptions = scale.to_integers(values, integers);
            count += exceptions.count;
            let mut prefix = Vec::new();
            exceptions.encode(values, &mut prefix);
            prefixes.push(prefix);
            gathered.add(integers.iter().copied());
        }
        if 100 * count <= EXCEPTIONS_PERCENT_MAX * total {
            let header = match scale {
                Scale::Decimal(scale) => vec![1, scale.cast_unsigned()],
                Scale::Dyadic(scale) => vec![2, scale.cast_unsigned()],
            };
            return gathered.choose_narrowest(set, header, &prefixes, plain);
        }
    }
    let mut gathered = Gathered::default();
    for values in floats {
        gathered.add(values.into_iter());
    }
    gathered.choose(vec![0], &[], plain)
}

/// The values of the rows that have one.
fn present<'a, T: Copy>(
    block: ColumnRef<'a>,
    values: &'a [T],
) -> impl Iterator<Item = T> + use<'a, T> {
    let is_there = move |row| block.validity.is_none_or(|bitmap| is_set(bitmap, row));
    let rows = values.iter().enumerate();
    rows.filter(move |(row, _)| is_there(*row))
        .map(|(_, value)| *value)
}

/// The present values of all blocks, as pco takes them.
struct Gathered<T> {
    values: Vec<T>,
    counts: Vec<usize>,
}

impl<T> Default for Gathered<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            counts: Vec::new(),
        }
    }
}

/// Added to the form of a header whose integers all fit 32 bits, or 16.
const HALF: u8 = 4;
const QUARTER: u8 = 8;

impl Gathered<i64> {
    /// As [`Self::choose`], of integers that are as narrow as all of them allow, if the set has such: what a page begins with is shorter.
    fn choose_narrowest(
        &self,
        set: PageSet,
        header: Vec<u8>,
        prefixes: &[Vec<u8>],
        plain: &ColdColumn,
    ) -> Option<ColdColumn> {
        let narrow = self.choose_narrow(set, header.clone(), prefixes, plain);
        narrow.unwrap_or_else(|| self.choose(header, prefixes, plain))
    }

    /// `None` = they are not narrow, or the set has no such.
    #[expect(
        clippy::option_option,
        reason = "the inner one is what is chosen, if anything is"
    )]
    fn choose_narrow(
        &self,
        set: PageSet,
        mut header: Vec<u8>,
        prefixes: &[Vec<u8>],
        plain: &ColdColumn,
    ) -> Option<Option<ColdColumn>> {
        if set < PageSet::Third {
            return None;
        }
        if let Some(quarter) = self.map(|value| i16::try_from(value).ok()) {
            header[0] |= QUARTER;
            return Some(quarter.choose(header, prefixes, plain));
        }
        let half = self.map(|value| i32::try_from(value).ok())?;
        header[0] |= HALF;
        Some(half.choose(header, prefixes, plain))
    }
}

impl<T: Number> Gathered<T> {
    /// The same numbers in another type; `None` = one of them does not fit it.
    fn map<U>(&self, to: impl Fn(T) -> Option<U>) -> Option<Gathered<U>> {
        let values = self.values.iter().map(|value| to(*value));
        Some(Gathered {
            values: values.collect::<Option<_>>()?,
            counts: self.counts.clone(),
        })
    }

    fn add(&mut self, values: impl Iterator<Item = T>) {
        let start = self.values.len();
        self.values.extend(values);
        self.counts.push(self.values.len() - start);
    }

    /// The column with each page in its smaller form, or `None` if pco does not pay.
    ///
    /// `prefixes` come before the page of pco, one a block or none at all.
    fn choose(
        &self,
        mut header: Vec<u8>,
        prefixes: &[Vec<u8>],
        plain: &ColdColumn,
    ) -> Option<ColdColumn> {
        if self.values.len() < VALUES_MIN {
            return None;
        }
        let mut chunk = self.compress()?;
        FileCompressor::default().write_header(&mut header).ok()?;
        chunk.write_meta(&mut header).ok()?;
        let mut out = ColdColumn {
            header,
            ..ColdColumn::default()
        };
        let mut page = 0;
        for (index, count) in self.counts.iter().enumerate() {
            let before = plain.page(index);
            let start = out.pages.len();
            if *count > 0 {
                // Header and null bitmap are those of the page that it replaces.
                out.pages.extend_from_slice(&before[..body_start(before)]);
                out.pages[start] = Encoding::Pco as u8;
                out.pages.extend(prefixes.get(index).into_iter().flatten());
                chunk.write_page(page, &mut out.pages).ok()?;
                page += 1;
            }
            if *count == 0 || out.pages.len() - start >= before.len() {
                out.pages.truncate(start);
                out.pages.extend_from_slice(before);
            }
            out.ends.push(out.pages.len());
        }
        let is_smaller = out.header.len() + out.pages.len() < plain.pages.len();
        is_smaller.then_some(out)
    }

    fn compress(&self) -> Option<ChunkCompressor> {
        let counts: Vec<usize> = self.counts.iter().copied().filter(|it| *it > 0).collect();
        let config = ChunkConfig::default().with_paging_spec(PagingSpec::Exact(counts));
        let file = FileCompressor::default();
        let chunk = file.chunk_compressor(&self.values, &config).ok()?;
        let meta = chunk.meta();
        if is_near(&meta.delta_encoding) && !matches!(meta.mode, Mode::Dict(_)) {
            return Some(chunk);
        }
        let config = config.with_delta_spec(DeltaSpec::TryConsecutive(1));
        let chunk = file.chunk_compressor(&self.values, &config).ok()?;
        let is_readable =
            is_near(&chunk.meta().delta_encoding) && !matches!(chunk.meta().mode, Mode::Dict(_));
        is_readable.then_some(chunk)
    }
}
