//! Who may ask: the token of a request, the page that it comes from, the name that it asks for.

pub(crate) mod cors;
pub(crate) mod hosts;
pub(crate) mod token;
