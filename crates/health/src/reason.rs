//! A short text from an untrusted source, made safe to store and to print: bounded, valid UTF-8,
//! one line.

use crate::limits::REASON_LEN_MAX;

/// At most [`REASON_LEN_MAX`] bytes of text without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reason {
    text: String,
}

impl Reason {
    /// Creates a reason from these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let mut note = Self::default();
        note.fill(bytes);
        note
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text and returns whether it changed. Invalid UTF-8 becomes U+FFFD, control
    /// characters become spaces, and text beyond [`REASON_LEN_MAX`] is cut off.
    pub(crate) fn set(&mut self, bytes: &[u8]) -> bool {
        // Fast path: the text is unchanged.
        if self.text.as_bytes() == bytes {
            return false;
        }
        let before = self.text.clone();
        self.fill(bytes);
        self.text != before
    }

    fn fill(&mut self, bytes: &[u8]) {
        self.text.clear();
        // Bytes beyond the maximum cannot be stored; the cut is at a character boundary.
        let mut len = bytes.len().min(REASON_LEN_MAX);
        while len > 0 && bytes.get(len).is_some_and(|byte| byte & 0xc0 == 0x80) {
            len -= 1;
        }
        let bytes = &bytes[..len];
        for chunk in bytes.utf8_chunks() {
            let replaced = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            for c in chunk.valid().chars().chain(replaced) {
                if self.text.len() + c.len_utf8() > REASON_LEN_MAX {
                    return;
                }
                self.text.push(if c.is_control() { ' ' } else { c });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_become_one_short_line() {
        assert_eq!(Reason::new(b"refused").as_str(), "refused");
        assert_eq!(Reason::new(b"a\r\n\x00b\x7f").as_str(), "a   b ");
        assert_eq!(Reason::new(b"a\xff\xfeb").as_str(), "a\u{fffd}\u{fffd}b");
        assert_eq!(Reason::new(&[b'x'; 999]).as_str().len(), REASON_LEN_MAX);
        // An invalid byte becomes U+FFFD, which takes three bytes; the limit applies to the result.
        assert!(Reason::new(&[0xff; 999]).as_str().len() <= REASON_LEN_MAX);
        assert_eq!(Reason::new("€".repeat(200).as_bytes()).as_str(), "€".repeat(85));
        assert_eq!(Reason::new(&[0x80; 999]).as_str(), "", "only continuation bytes");
    }

    #[test]
    fn setting_replaces() {
        let mut note = Reason::new(b"a long reason");
        assert!(note.set(b"b"));
        assert_eq!(note.as_str(), "b");
        assert!(!note.set(b"b"));
        assert!(note.set(b""));
        assert!(note.is_empty());
        assert!(note.set(&[b'x'; 999]) && !note.set(&[b'x'; 998]), "equal up to the limit");
    }
}
