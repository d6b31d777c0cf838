//! The name somebody meant, for "did you mean".

/// Longest name that is compared; a longer one was no slip of the finger, and the comparison is quadratic.
const NAME_CHARS_MAX: usize = 64;

/// The candidate closest to `name`, if it is close enough to be what was meant: a third of the letters may differ.
pub(crate) fn nearest(name: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    if wanted.len() > NAME_CHARS_MAX {
        return None;
    }
    let edits_max = wanted.len().div_ceil(3);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let letters: Vec<char> = candidate.to_lowercase().chars().collect();
            let near = letters.len().abs_diff(wanted.len()) <= edits_max;
            let edits = near.then(|| distance(&wanted, &letters))?;
            (edits <= edits_max).then_some((edits, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements that make `b` of `a`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (to, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            *cell = (diagonal + usize::from(from != to))
                .min(above + 1)
                .min(left + 1);
            diagonal = above;
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(name: &str, candidates: &[&str]) -> Option<String> {
        nearest(
            name,
            candidates.iter().map(|&candidate| candidate.to_owned()),
        )
    }

    #[test]
    fn a_slip_of_the_finger_finds_the_name_and_another_word_does_not() {
        let tables = ["cpu", "diskio", "net"];
        assert_eq!(among("cpus", &tables).as_deref(), Some("cpu"));
        assert_eq!(among("diksio", &tables).as_deref(), Some("diskio"));
        assert_eq!(among("CPU", &tables).as_deref(), Some("cpu"));
        assert_eq!(among("kernel", &tables), None);
        assert_eq!(among("anything", &[]), None);
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let between = |a: &str, b: &str| {
            distance(
                &a.chars().collect::<Vec<_>>(),
                &b.chars().collect::<Vec<_>>(),
            )
        };
        assert_eq!(between("kitten", "sitting"), 3);
        assert_eq!(between("", "abc"), 3);
        assert_eq!(between("abc", ""), 3);
        assert_eq!(between("same", "same"), 0);
    }
}
