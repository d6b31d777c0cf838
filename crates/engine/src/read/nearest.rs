//! The name somebody meant, for "did you mean".
//!
//! Does: choose among names. Does not: know what they name; whoever looked one up in vain asks here.

/// Longest name that is compared; a longer one was no slip of the finger, and the comparison is quadratic.
const NAME_CHARS_MAX: usize = 64;

/// The candidate closest to `name`, if it is close enough to be what was meant: a third of the letters may be wrong,
/// missing, too many or have changed places with their neighbours, and their case does not matter.
pub fn nearest<T: AsRef<str> + Ord>(
    name: &str,
    candidates: impl IntoIterator<Item = T>,
) -> Option<T> {
    let letters = name.chars().count();
    if letters > NAME_CHARS_MAX {
        return None;
    }
    let edits_max = letters.div_ceil(3);
    let wanted = name.to_lowercase();
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let lower = candidate.as_ref().to_lowercase();
            let near = lower.chars().count().abs_diff(letters) <= edits_max;
            let edits = near.then(|| strsim::damerau_levenshtein(&wanted, &lower))?;
            (edits <= edits_max).then_some((edits, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_name_and_another_word_does_not() {
        let tables = ["cpu", "diskio", "net"];
        assert_eq!(nearest("cpus", tables), Some("cpu"));
        assert_eq!(nearest("diksio", tables), Some("diskio"));
        assert_eq!(nearest("CPU", tables), Some("cpu"));
        assert_eq!(nearest("kernel", tables), None);
        assert_eq!(nearest::<&str>("anything", []), None);
        assert_eq!(nearest(&"x".repeat(65), ["x"]), None);
    }

    #[test]
    fn of_two_names_that_are_as_close_the_first_in_the_alphabet_is_meant() {
        assert_eq!(nearest("cpx", ["cpu", "cpa"]), Some("cpa"));
    }
}
