//! Bytes of a request that are valid in a `Location`, and a writer that enforces this.
#![expect(
    clippy::indexing_slicing,
    reason = "a u8 is below 256, and the written length is at most that of the buffer"
)]

use super::RedirectError;

/// Writes to a fixed buffer.
#[derive(Debug)]
pub(super) struct Sink<'b> {
    buf: &'b mut [u8],
    len: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Encode,
    Pass,
    Refuse,
}

const PATH: [Class; 256] = classes(b"/");
const QUERY: [Class; 256] = classes(b"/?");

impl<'b> Sink<'b> {
    pub(super) const fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// Appends bytes that are known to be valid.
    pub(super) fn push_clean(&mut self, bytes: &[u8]) -> Result<(), RedirectError> {
        let end = self.len + bytes.len();
        self.buf.get_mut(self.len..end).ok_or(RedirectError::TooLong)?.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    pub(super) fn push_path(&mut self, bytes: &[u8]) -> Result<(), RedirectError> {
        self.push(bytes, &PATH)
    }

    pub(super) fn push_query(&mut self, bytes: &[u8]) -> Result<(), RedirectError> {
        self.push(bytes, &QUERY)
    }

    /// Returns the written bytes. An encoded NUL is detected only here, because two consecutive
    /// parts can form it.
    pub(super) fn finish(self) -> Result<&'b [u8], RedirectError> {
        let written = &self.buf[..self.len];
        match memchr::memmem::find(written, b"%00") {
            Some(_) => Err(RedirectError::BadTarget),
            None => Ok(written),
        }
    }

    fn push(&mut self, bytes: &[u8], classes: &[Class; 256]) -> Result<(), RedirectError> {
        if bytes.iter().all(|&byte| classes[byte as usize] == Class::Pass) {
            return self.push_clean(bytes);
        }
        for &byte in bytes {
            match classes[byte as usize] {
                Class::Encode => {
                    let digit = |nibble: u8| b"0123456789ABCDEF"[nibble as usize];
                    self.push_clean(&[b'%', digit(byte >> 4), digit(byte & 15)])?;
                }
                Class::Pass => self.push_clean(&[byte])?,
                Class::Refuse => return Err(RedirectError::BadTarget),
            }
        }
        Ok(())
    }
}

/// Whether a text needs no escaping in a path. Templates must meet this condition.
pub(super) fn is_clean_path(text: &str) -> bool {
    text.bytes().all(|byte| PATH[byte as usize] == Class::Pass) && !text.contains("%00")
}

/// The classes of bytes: `pchar` of RFC 3986 section 3.3 is kept, including `%`, so that nothing is
/// encoded twice. Brackets are kept as well: the RFC reserves them for hosts, but they are common
/// in queries, and every client keeps them.
const fn classes(more: &[u8]) -> [Class; 256] {
    let mut classes = [Class::Encode; 256];
    let mut byte: u8 = 0;
    loop {
        classes[byte as usize] = match byte {
            b'#' | 0..=b' ' | 0x7f.. => Class::Refuse,
            _ if byte.is_ascii_alphanumeric() => Class::Pass,
            _ if contains(b"-._~!$&'()*+,;=:@%[]", byte) || contains(more, byte) => Class::Pass,
            _ => Class::Encode,
        };
        if byte == u8::MAX {
            return classes;
        }
        byte += 1;
    }
}

const fn contains(bytes: &[u8], byte: u8) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}
