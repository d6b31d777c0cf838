//! Room that decoding takes, kept from page to page.
//!
//! Does: hold it. Does not: know what is in it; the library that decodes does.

/// Room that decoding in pco needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    #[cfg(feature = "pco")]
    pub(super) scratch: Option<super::numbers::Scratch>,
}
