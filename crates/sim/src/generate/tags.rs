//! Series that a probe or a delete means.

use rand::RngExt;

use super::points::TAG_VALUES;
use super::{Draw, pick};
use crate::plan::{Pattern, TagFilter, Wanted};

impl Draw {
    /// None, one or two filters, of which series must pass all.
    pub(super) fn tag_filters(&mut self) -> Vec<TagFilter> {
        let count = *pick(&mut self.random, &[0, 1, 1, 1, 2]);
        (0..count).map(|_| self.tag_filter()).collect()
    }

    pub(super) fn tag_filter(&mut self) -> TagFilter {
        let name = if self.random.random_bool(0.8) {
            "host"
        } else {
            "dc"
        };
        let wanted = if self.random.random_bool(0.4) {
            Wanted::Pattern(self.pattern())
        } else {
            let count = self.random.random_range(1..4);
            Wanted::OneOf((0..count).map(|_| self.tag_value()).collect())
        };
        TagFilter {
            name: name.to_owned(),
            wanted,
            negated: self.random.random_bool(0.3),
        }
    }

    fn tag_value(&mut self) -> Option<String> {
        match self.random.random_range(0..6) {
            0 => None,
            1 => Some((*pick(&mut self.random, &TAG_VALUES)).to_owned()),
            n => Some(format!("h{n}")),
        }
    }

    fn pattern(&mut self) -> Pattern {
        let text = match self.tag_value() {
            None => "h".to_owned(),
            Some(value) => value,
        };
        let part = |text: String, at: usize| text.chars().skip(at).take(2).collect::<String>();
        match self.random.random_range(0..9) {
            0 => Pattern::Anything,
            1 => Pattern::Something,
            2 => Pattern::Contains(part(text, 1)),
            3 => Pattern::ContainsAnyCase(text.to_ascii_uppercase()),
            4 | 5 => Pattern::Starts(part(text, 0)),
            6 => Pattern::Ends(part(text, 1)),
            7 => Pattern::Is(vec![text, String::new(), "h1".to_owned()]),
            _ => Pattern::Digit('1', '3'),
        }
    }
}
