//! The field lines of a head that is known to be valid.
//!
//! Does not know about: the meaning of any name.

/// Field lines, found by looking through the head; nothing was stored for them.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    lines: &'a [u8],
}

impl<'a> Fields<'a> {
    /// `lines`: zero or more valid field lines, each with its CRLF.
    pub(super) const fn new(lines: &'a [u8]) -> Self {
        Self { lines }
    }

    /// The value of the first field with this name, in any case.
    pub fn find(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// Names as sent and values without white space around them, in order.
    pub const fn iter(&self) -> FieldsIter<'a> {
        FieldsIter { rest: self.lines }
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = FieldsIter<'a>;

    fn into_iter(self) -> FieldsIter<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name.escape_ascii(), value.escape_ascii())))
            .finish()
    }
}

/// Iterator over field lines.
#[derive(Clone, Debug)]
pub struct FieldsIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for FieldsIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr::memchr(b'\r', self.rest)?;
        let line = self.rest.get(..end)?;
        self.rest = self.rest.get(end + 2..)?;
        let colon = memchr::memchr(b':', line)?;
        Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii()))
    }
}
