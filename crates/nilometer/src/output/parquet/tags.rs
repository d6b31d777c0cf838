//! Columns of tags as chunks of a Parquet file.
//!
//! The general writer looks every text up by its bytes. Tags come as dictionaries with long runs of one value, so a
//! lookup for each different value of a batch is enough; the rows are then numbers.
//!
//! Does: one chunk of a row group, as a dictionary page and a data page. Does not: compress; runs and bits leave little to
//! gain. Next: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use std::collections::HashMap;

use arrow::array::{Array, DictionaryArray, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Whether a column is written here.
pub(super) fn is_tag(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(keys, values) => {
            **keys == DataType::Int32 && **values == DataType::Utf8
        }
        _ => false,
    }
}

/// The rows of one column of one group.
#[derive(Debug, Default)]
pub(super) struct TagColumn {
    /// Different values, in the order of their appearance.
    known: HashMap<String, u32>,
    /// The same, as the dictionary page has them.
    dictionary: Vec<u8>,
    /// Of rows with a value.
    values: Runs,
    /// Of all rows: whether there is a value.
    validity: Runs,
}

impl TagColumn {
    pub(super) fn add(&mut self, array: &DictionaryArray<Int32Type>) -> Result<()> {
        let texts = array.values().as_any().downcast_ref::<StringArray>();
        let texts = texts.ok_or_else(|| wrong("a tag is text"))?;
        let mut numbers: Vec<Option<u32>> = vec![None; texts.len()];
        for key in array.keys() {
            let key = key.and_then(|key| usize::try_from(key).ok());
            let Some(key) = key.filter(|key| texts.is_valid(*key)) else {
                self.validity.push(0);
                continue;
            };
            let known = numbers.get(key).copied().flatten();
            let number = match known {
                Some(number) => number,
                None => self.number_of(texts.value(key))?,
            };
            if let Some(slot) = numbers.get_mut(key) {
                *slot = Some(number);
            }
            self.validity.push(1);
            self.values.push(number);
        }
        Ok(())
    }

    fn number_of(&mut self, text: &str) -> Result<u32> {
        if let Some(number) = self.known.get(text) {
            return Ok(*number);
        }
        let number = u32::try_from(self.known.len()).map_err(|_| wrong("too many values"))?;
        let bytes = u32::try_from(text.len()).map_err(|_| wrong("a text is too long"))?;
        self.dictionary.extend_from_slice(&bytes.to_le_bytes());
        self.dictionary.extend_from_slice(text.as_bytes());
        self.known.insert(text.to_owned(), number);
        Ok(number)
    }

    /// The chunk, and what the file's footer says of it.
    pub(super) fn close(self, column: ColumnDescPtr) -> Result<(Bytes, ColumnCloseResult)> {
        let rows = self.validity.count;
        let rows_u32 = u32::try_from(rows).map_err(|_| wrong("too many rows"))?;
        let mut data = Vec::new();
        if column.max_def_level() > 0 {
            let levels = self.validity.encode(1);
            let bytes = u32::try_from(levels.len()).map_err(|_| wrong("too many rows"))?;
            data.extend_from_slice(&bytes.to_le_bytes());
            data.extend_from_slice(&levels);
        }
        let number_max = u32::try_from(self.known.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let width = (u32::BITS - number_max.leading_zeros()).max(1);
        data.push(u8::try_from(width).unwrap_or(u8::MAX));
        data.extend_from_slice(&self.values.encode(width));

        let dictionary_page = page(Page::DictionaryPage {
            buf: self.dictionary.into(),
            num_values: u32::try_from(self.known.len()).unwrap_or(u32::MAX),
            encoding: Encoding::PLAIN,
            is_sorted: false,
        });
        let data_page = page(Page::DataPage {
            buf: data.into(),
            num_values: rows_u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        });
        let mut chunk = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut chunk);
        pages.write_page(dictionary_page)?;
        let data_page = pages.write_page(data_page)?;
        let chunk = chunk.into_inner()?;

        let bytes = i64::try_from(chunk.len()).map_err(|_| wrong("too many bytes"))?;
        let nulls = (rows - self.values.count) as u64;
        let bound = |text: Option<&String>| text.map(|text| ByteArray::from(text.as_str()));
        let (min, max) = (
            bound(self.known.keys().min()),
            bound(self.known.keys().max()),
        );
        let statistics = ValueStatistics::new(min, max, None, Some(nulls), false);
        let metadata = ColumnChunkMetaData::builder(column)
            .set_encodings(vec![
                Encoding::PLAIN,
                Encoding::RLE,
                Encoding::RLE_DICTIONARY,
            ])
            .set_num_values(i64::from(rows_u32))
            .set_compression(Compression::UNCOMPRESSED)
            .set_total_compressed_size(bytes)
            .set_total_uncompressed_size(bytes)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(i64::try_from(data_page.offset).unwrap_or(i64::MAX))
            .set_statistics(Statistics::ByteArray(statistics))
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: chunk.len() as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((chunk.into(), close))
    }
}

fn wrong(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

fn page(page: Page) -> CompressedPage {
    let bytes = page.buffer().len();
    CompressedPage::new(page, bytes)
}

/// Numbers as runs of the same one.
#[derive(Debug, Default)]
struct Runs {
    runs: Vec<(u32, usize)>,
    count: usize,
}

impl Runs {
    fn push(&mut self, number: u32) {
        self.count += 1;
        match self.runs.last_mut() {
            Some((last, length)) if *last == number => *length += 1,
            _ => self.runs.push((number, 1)),
        }
    }

    /// Parquet's hybrid of runs and packed bits, whichever of the two is shorter for all of the numbers.
    fn encode(&self, width: u32) -> Vec<u8> {
        let value_bytes = width.div_ceil(8) as usize;
        let headers = self
            .runs
            .iter()
            .map(|(_, length)| varint_bytes(length << 1));
        let as_runs = headers.sum::<usize>() + self.runs.len() * value_bytes;
        let groups = self.count.div_ceil(8);
        let as_bits = varint_bytes(groups << 1) + groups * width as usize;
        let mut out = Vec::with_capacity(as_runs.min(as_bits));
        if as_runs <= as_bits {
            for (number, length) in &self.runs {
                put_varint(length << 1, &mut out);
                out.extend(number.to_le_bytes().iter().take(value_bytes));
            }
            return out;
        }
        put_varint(groups << 1 | 1, &mut out);
        let begin = out.len();
        // Never more than 7 bits are left over, so 39 are in use at most.
        let (mut bits, mut filled) = (0u64, 0);
        for (number, length) in &self.runs {
            for _ in 0..*length {
                bits |= u64::from(*number) << filled;
                filled += width;
                while filled >= 8 {
                    out.extend(bits.to_le_bytes().first());
                    bits >>= 8;
                    filled -= 8;
                }
            }
        }
        out.extend(bits.to_le_bytes().first().filter(|_| filled > 0));
        out.resize(begin + groups * width as usize, 0);
        out
    }
}

fn varint_bytes(number: usize) -> usize {
    let bits = usize::BITS - number.leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

fn put_varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.extend((number as u64 | 0x80).to_le_bytes().first());
        number >>= 7;
    }
    out.extend((number as u64).to_le_bytes().first());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use proptest::prelude::*;

    use super::super::{Compression as Choice, GROUP_ROWS, write};
    use super::*;

    #[test]
    fn runs_and_bits_are_encoded_as_the_format_says() {
        // The format's own example: the numbers 0 to 7 in three bits each.
        let mut runs = Runs::default();
        (0..8).for_each(|number| runs.push(number));
        assert_eq!(
            runs.encode(3),
            [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]
        );
        // A run of a hundred fives: its length twice, then the value in as many bytes as its width needs.
        let mut runs = Runs::default();
        (0..100).for_each(|_| runs.push(5));
        assert_eq!(runs.encode(3), [0xc8, 0x01, 5]);
        assert_eq!(runs.encode(9), [0xc8, 0x01, 5, 0]);
        assert!(Runs::default().encode(1).is_empty());
    }

    /// Batches to a file and back: the texts of both columns, and what stands beside them.
    fn read_back(batches: &[RecordBatch]) -> Vec<(Option<String>, Option<String>, i64)> {
        let mut bytes = Vec::new();
        let mut each = batches.iter().cloned().map(Ok);
        let schema = batches[0].schema();
        write(&schema, &mut each, Choice::Zstd, &mut bytes).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
        assert_eq!(
            reader.schema().field(0).data_type(),
            schema.field(0).data_type()
        );
        reader
            .build()
            .unwrap()
            .flat_map(|batch| rows(&batch.unwrap()))
            .collect()
    }

    fn rows(batch: &RecordBatch) -> Vec<(Option<String>, Option<String>, i64)> {
        let text = |column: usize, row: usize| {
            let array = batch.column(column).as_dictionary::<Int32Type>();
            let key = usize::try_from(
                array
                    .keys()
                    .is_valid(row)
                    .then(|| array.keys().value(row))?,
            );
            let texts = array.values().as_string::<i32>();
            Some(texts.value(key.unwrap()).to_owned())
        };
        let numbers = batch
            .column(2)
            .as_primitive::<arrow::datatypes::Int64Type>();
        (0..batch.num_rows())
            .map(|row| (text(0, row), text(1, row), numbers.value(row)))
            .collect()
    }

    fn batch(tags: &[(Option<&str>, Option<&str>)], first: i64) -> RecordBatch {
        let a: DictionaryArray<Int32Type> = tags.iter().map(|(a, _)| *a).collect();
        let b: DictionaryArray<Int32Type> = tags.iter().map(|(_, b)| *b).collect();
        let numbers = Int64Array::from_iter_values((first..).take(tags.len()));
        let columns: [(&str, ArrayRef); 3] = [
            ("a", Arc::new(a)),
            ("b", Arc::new(b)),
            ("n", Arc::new(numbers)),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, it)| (name, it, true)))
            .unwrap()
    }

    #[test]
    fn groups_have_dictionaries_of_their_own_and_batches_may_cross_them() {
        let texts: Vec<String> = (0..300).map(|n| format!("host_{n}")).collect();
        let batches: Vec<RecordBatch> = (0..70)
            .map(|nth| {
                let tags: Vec<_> = (0..8_000usize)
                    .map(|row| {
                        let text = texts.get((row / 100 + nth) % 300).map(String::as_str);
                        (text, text.filter(|_| row % 7 == 0))
                    })
                    .collect();
                batch(&tags, i64::try_from(nth).unwrap() * 8_000)
            })
            .collect();
        let all: Vec<_> = batches.iter().flat_map(rows).collect();
        assert!(all.len() > 2 * GROUP_ROWS);
        assert!(read_back(&batches) == all);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            picks in prop::collection::vec(
                prop::collection::vec((0..6usize, 0..6usize, 1..40usize), 1..20), 1..4
            ),
        ) {
            // Empty is not absent.
            let texts = [None, Some(""), Some("a"), Some("\u{fc}ber"), Some("a b,c=d"), Some("z")];
            let batches: Vec<RecordBatch> = picks.iter().map(|picks| {
                let tags: Vec<_> = picks
                    .iter()
                    .flat_map(|(a, b, times)| vec![(texts[*a], texts[*b]); *times])
                    .collect();
                batch(&tags, 0)
            }).collect();
            let all: Vec<_> = batches.iter().flat_map(rows).collect();
            prop_assert_eq!(read_back(&batches), all);
        }
    }
}
