//! x
use super::{Engine, Maintained};
use crate::error::Error;
impl Engine {
    pub(super) fn compact_one(&self) -> Result<Maintained, Error> { Ok(Maintained::Idle) }
}
