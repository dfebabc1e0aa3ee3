//! A field that is added to the replies of a connection.

use std::sync::Arc;

/// A field line for replies without a field of this name.
///
/// See [`super::Out::set_default_field`].
#[derive(Clone, Debug)]
pub struct DefaultField(Arc<Line>);

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    name_len: usize,
}

impl DefaultField {
    /// Creates a field from `bytes`, a valid line whose name has the length `name_len`.
    pub(super) fn of(bytes: Vec<u8>, name_len: usize) -> Self {
        Self(Arc::new(Line { bytes, name_len }))
    }

    pub(super) fn name(&self) -> &[u8] {
        self.0.bytes.get(..self.0.name_len).unwrap_or_default()
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        let line = self.0.bytes.strip_suffix(b"\r\n").unwrap_or_default();
        line.get(self.0.name_len + b": ".len()..).unwrap_or_default()
    }

    pub(super) fn line(&self) -> &[u8] {
        &self.0.bytes
    }
}
