//! Damage to files: the mutations of a disk that goes bad.
//!
//! Does: change the bytes of a file in one of the ways that disks and people have, and say in words which.
//! Does not: touch files; the trial writes what comes back.

use crate::random::Random;

const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// What was done, for the one who reads a failure.
    pub what: String,
    /// What the file holds now; `None` = it is gone.
    pub bytes: Option<Vec<u8>>,
}

/// Changes a file. `sibling` is another file of its kind, whose bytes may get mixed in. `None` if the change that was
/// drawn changes nothing.
pub fn mutate(random: &mut Random, bytes: &[u8], sibling: Option<&[u8]>) -> Option<Mutation> {
    let mut changed = bytes.to_vec();
    let len = bytes.len();
    let kind = random.below(12);
    let what = match kind {
        0..=3 => {
            let at = place(random, len)?;
            let bit = random.below(8);
            *changed.get_mut(at)? ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        4 => {
            let at = place(random, len)?;
            let value = random.byte();
            *changed.get_mut(at)? = value;
            format!("byte {at} set to {value}")
        }
        5 => {
            let to = place(random, len)?;
            changed.truncate(to);
            format!("cut to {to} bytes of {len}")
        }
        6 => {
            let (from, to) = range(random, len)?;
            changed.get_mut(from..to)?.fill(0);
            format!("bytes {from} to {to} zeroed")
        }
        7 => {
            let (from, to) = range(random, len)?;
            for byte in changed.get_mut(from..to)? {
                *byte = random.byte();
            }
            format!("bytes {from} to {to} overwritten")
        }
        8 => swap(random, &mut changed)?,
        9 => {
            let extra = 1 + random.index(2 * PAGE);
            let is_zero = random.one_in(2);
            changed.extend((0..extra).map(|_| if is_zero { 0 } else { random.byte() }));
            format!("{extra} bytes added")
        }
        10 => {
            let sibling = sibling?;
            if random.one_in(2) {
                changed = sibling.to_vec();
                "replaced by another of its kind".to_owned()
            } else {
                // A write that went to the wrong place.
                let (from, to) = range(random, len.min(sibling.len()))?;
                changed
                    .get_mut(from..to)?
                    .copy_from_slice(sibling.get(from..to)?);
                format!("bytes {from} to {to} are another file's")
            }
        }
        _ if random.one_in(4) => {
            return Some(Mutation {
                what: "removed".to_owned(),
                bytes: None,
            });
        }
        _ => {
            let at = place(random, len)?;
            let to = (at + 1 + random.index(64)).min(len);
            changed.drain(at..to);
            format!("bytes {at} to {to} missing, the rest moved up")
        }
    };
    (changed != bytes).then_some(Mutation {
        what,
        bytes: Some(changed),
    })
}

/// A place in a file: often in its first or last sector, where headers and footers are.
fn place(random: &mut Random, len: usize) -> Option<usize> {
    let near = SECTOR.min(len);
    let at = match random.below(4) {
        0 => random.index(near),
        1 => len.checked_sub(1 + random.index(near))?,
        _ => random.index(len),
    };
    (at < len).then_some(at)
}

/// A range of a file: some bytes, a sector or a page at its border, or everything to the end.
fn range(random: &mut Random, len: usize) -> Option<(usize, usize)> {
    let at = place(random, len)?;
    let (from, to) = match random.below(4) {
        0 => (at, at + 1 + random.index(64)),
        1 => (at / SECTOR * SECTOR, (at / SECTOR + 1) * SECTOR),
        2 => (at / PAGE * PAGE, (at / PAGE + 1) * PAGE),
        _ => (at, len),
    };
    Some((from, to.min(len)))
}

/// Swaps two pages, or sectors where there are no two pages.
fn swap(random: &mut Random, bytes: &mut [u8]) -> Option<String> {
    let unit = if bytes.len() >= 2 * PAGE {
        PAGE
    } else {
        SECTOR
    };
    let units = bytes.len() / unit;
    let (a, b) = (random.index(units), random.index(units));
    let (a, b) = (a.min(b), a.max(b));
    if a == b {
        return None;
    }
    let (left, right) = bytes.split_at_mut(b * unit);
    left.get_mut(a * unit..(a + 1) * unit)?
        .swap_with_slice(right.get_mut(..unit)?);
    Some(format!("blocks {a} and {b} of {unit} bytes swapped"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_changes_the_file_and_every_kind_comes_up() {
        let bytes: Vec<u8> = (0..20_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        let sibling = vec![9; 15_000];
        let mut words = std::collections::BTreeSet::new();
        for seed in 0..2000 {
            let mut random = Random::of(&[seed]);
            let Some(mutation) = mutate(&mut random, &bytes, Some(&sibling)) else {
                continue;
            };
            assert_ne!(mutation.bytes.as_ref(), Some(&bytes), "{}", mutation.what);
            words.insert(mutation.what.split(' ').next_back().unwrap().to_owned());
        }
        for word in [
            "flipped",
            "bytes",
            "zeroed",
            "overwritten",
            "swapped",
            "added",
            "kind",
            "file's",
            "removed",
            "up",
        ] {
            assert!(words.contains(word) || word == "bytes", "{word}: {words:?}");
        }
    }

    #[test]
    fn small_files_and_empty_ones_are_no_trouble() {
        for len in 0..40 {
            for seed in 0..300 {
                let bytes = vec![1; len];
                let _ = mutate(&mut Random::of(&[seed]), &bytes, Some(&[2, 3]));
                let _ = mutate(&mut Random::of(&[seed]), &bytes, None);
            }
        }
    }
}
