//! Admission of a request: its credentials, the page that it comes from, the name that it asks for.

pub(crate) mod cors;
pub(crate) mod credentials;
pub(crate) mod hosts;
