//! Figures of the suite: what operations cost in programs, erases, reads and instructions.
//!
//! Does: read the suite's text, model times. Does not: say what is good.

use std::collections::BTreeMap;

use serde::Serialize;

use super::MEGAHERTZ;
use crate::{Error, Result};

/// A figure, the order in which its numbers stand in a line, and the line above them: one list for all.
macro_rules! figure {
    ($($(#[$doc:meta])* $number:ident,)*) => {
        /// One figure: the sum of some operations.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        pub struct Figure {
            $($(#[$doc])* pub $number: u64,)*
        }

        const HEAD: &str = concat!("figure", $("\t", stringify!($number)),*);

        impl Figure {
            /// The figure of these numbers, if they are as many as it has.
            fn of(numbers: Vec<u64>) -> Option<Self> {
                let [$($number),*] = numbers.try_into().ok()?;
                Some(Self { $($number),* })
            }
        }
    };
}

figure! {
    /// Values or rows that the operations were about.
    points,
    /// Calls of the library.
    operations,
    /// Programs of the flash.
    programs,
    /// Pages of 256 bytes that programs touched.
    pages,
    /// Bytes programmed.
    bytes,
    /// Erases of 4 KiB.
    erases,
    /// Reads of the flash.
    reads,
    /// Bytes read.
    read_bytes,
    /// Modelled time of the flash.
    flash_us,
    /// The same of the slowest operation.
    worst_flash_us,
    /// Instructions of the library, without those of the flash's driver.
    instructions,
    /// The most of one operation.
    worst_instructions,
    /// What the figure is about besides: bytes, sectors.
    value,
}

impl Figure {
    /// Modelled time: that of the flash, and of the instructions.
    pub fn ms(&self) -> f64 {
        self.flash_us as f64 / 1e3 + self.instructions as f64 / (MEGAHERTZ * 1e3)
    }

    /// The slowest operation takes no longer.
    pub fn worst_ms(&self) -> f64 {
        self.worst_flash_us as f64 / 1e3 + self.worst_instructions as f64 / (MEGAHERTZ * 1e3)
    }

    /// Points in a second.
    pub fn per_second(&self) -> f64 {
        self.points as f64 / self.ms() * 1e3
    }

    /// A number for each point.
    pub fn per_point(&self, number: u64) -> f64 {
        number as f64 / self.points as f64
    }
}

/// Figures by name.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Figures(BTreeMap<String, Figure>);

impl Figures {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = |line: &str| Error::Edge {
            what: format!("it answered with a line that is none of figures: {line:?}"),
        };
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        if head != HEAD {
            return Err(wrong(head));
        }
        let figure = |line: &str| {
            let (name, rest) = line.split_once('\t')?;
            let numbers: Vec<u64> = rest.split('\t').map_while(|it| it.parse().ok()).collect();
            Some((name.to_owned(), Figure::of(numbers)?))
        };
        let figures = lines.map(|line| figure(line).ok_or_else(|| wrong(line)));
        figures.collect::<Result<_>>().map(Self)
    }

    /// The same figures with the instructions of others.
    pub(super) fn with_instructions(mut self, counted: &Self) -> Result<Self> {
        for (name, figure) in &mut self.0 {
            let other = counted.get(name)?;
            figure.instructions = other.instructions;
            figure.worst_instructions = other.worst_instructions;
        }
        Ok(self)
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Result<&Figure> {
        self.0.get(name).ok_or_else(|| Error::Edge {
            what: format!("it has no figure {name:?}"),
        })
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Figure)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_none_is_refused() {
        let right = format!("{HEAD}\na\t1\t2\t3\t4\t5\t6\t7\t8\t160\t80\t16000\t8000\t9\n");
        let figures = Figures::parse(&right).unwrap();
        let figure = figures.get("a").unwrap();
        // 160 us of flash; 16,000 instructions are 100 us.
        assert!((figure.ms() - 0.26).abs() < 1e-9 && (figure.worst_ms() - 0.13).abs() < 1e-9);
        assert!(figures.get("b").is_err());
        for (from, to) in [
            ("\t9\n", "\n"),
            ("\t9\n", "\t9\t9\n"),
            ("\t8\t", "\t-8\t"),
            ("figure", ""),
        ] {
            assert!(
                Figures::parse(&right.replacen(from, to, 1)).is_err(),
                "{from} {to}"
            );
        }
    }
}
