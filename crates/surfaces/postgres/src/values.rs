//! Values on the wire: types by number, text and binary forms, of results and of parameters.

pub(crate) mod binary;
pub(crate) mod column;
pub(crate) mod kind;
pub(crate) mod moment;
pub(crate) mod parameter;
pub(crate) mod text;
