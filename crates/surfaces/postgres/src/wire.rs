//! The protocol's messages: frames off a socket, replies onto it.

pub(crate) mod cursor;
pub(crate) mod frames;
pub(crate) mod replies;
