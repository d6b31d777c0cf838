//! Checked reads of a message's body: what is not there is an error, never a panic and never a large allocation.

use bytes::{Buf, Bytes};

/// A message that is not what its kind says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The rest of a body.
#[derive(Debug)]
pub(crate) struct Cursor(pub(crate) Bytes);

impl Cursor {
    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.0.try_get_u8().map_err(|_| Malformed)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        self.0.try_get_i16().map_err(|_| Malformed)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.0.try_get_i32().map_err(|_| Malformed)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.0.try_get_u32().map_err(|_| Malformed)
    }

    /// A number of things that follow, which is not negative.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        // Counts are unsigned on the wire: 65,535 parameters are allowed.
        Ok(usize::from(self.0.try_get_u16().map_err(|_| Malformed)?))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.0.len() {
            return Err(Malformed);
        }
        Ok(self.0.split_to(length))
    }

    /// A value with its length before it; `None` = NULL.
    pub(crate) fn value(&mut self) -> Result<Option<Bytes>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => self
                .bytes(usize::try_from(length).map_err(|_| Malformed)?)
                .map(Some),
        }
    }

    /// A text that ends with a zero byte.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let end = memchr::memchr(0, &self.0).ok_or(Malformed)?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        String::from_utf8(text.into()).map_err(|_| Malformed)
    }

    /// What is left, all of it.
    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.0)
    }

    /// Refuses a body that goes on.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}
