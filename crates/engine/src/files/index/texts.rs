//! Many texts in one piece of memory.

/// Texts by position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    text: String,
    /// By position: where the text ends.
    ends: Vec<usize>,
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&str> {
        let end = *self.ends.get(at)?;
        let start = match at {
            0 => 0,
            _ => *self.ends.get(at - 1)?,
        };
        self.text.get(start..end)
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// The texts, in the order of their positions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// The position of a text among texts that ascend.
    pub(crate) fn search(&self, text: &str) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle)?.cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

impl<'a> FromIterator<&'a str> for Texts {
    fn from_iter<I: IntoIterator<Item = &'a str>>(texts: I) -> Self {
        let mut all = Self::default();
        for text in texts {
            all.push(text);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_position_and_by_content() {
        let texts: Texts = ["", "a", "ab", "b"].into_iter().collect();
        assert_eq!(texts.iter().collect::<Vec<_>>(), ["", "a", "ab", "b"]);
        assert_eq!(texts.get(4), None);
        for (at, text) in texts.iter().enumerate() {
            assert_eq!(texts.search(text), Some(at));
        }
        assert_eq!(texts.search("aa"), None);
        assert_eq!(Texts::default().search(""), None);
    }
}
