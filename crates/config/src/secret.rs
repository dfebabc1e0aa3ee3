//! Secrets of a configuration file: read from their source, and masked wherever the file is shown.

use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// Maximum length of a secret in bytes, far above the usual length of tokens and keys.
const SECRET_LEN_MAX: u64 = 64 << 10;

/// A text that is shown only as [`Self::MASK`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Replaces a secret in messages and dumps.
    pub const MASK: &str = "***";

    /// Creates a secret from its text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, which must not be shown.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::MASK)
    }
}

/// Reads a secret from a file, without the final line end.
///
/// # Errors
/// The reason why the file cannot be read, as text.
pub fn read_file(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    // Reading a pipe would block, and a device may be endless.
    if !metadata.is_file() {
        return Err("it is not a file".into());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(SECRET_LEN_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > SECRET_LEN_MAX {
        return Err("it is longer than 64 KiB".into());
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// Sorts places, and combines those that overlap.
pub(crate) fn merged(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_unstable_by_key(|span| span.start);
    spans.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        last.end = if overlaps { last.end.max(next.end) } else { last.end };
        overlaps
    });
    spans
}

/// Replaces these bytes, except quotes and line ends, by stars; no byte changes its position.
#[must_use]
pub fn mask(text: &str, spans: &[Range<usize>]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut spans = spans.iter().peekable();
    for (at, char) in text.char_indices() {
        while spans.next_if(|span| span.end <= at).is_some() {}
        let inside = spans.peek().is_some_and(|span| span.contains(&at));
        match char {
            '"' | '\'' | '\r' | '\n' => masked.push(char),
            _ if inside => masked.extend(std::iter::repeat_n('*', char.len_utf8())),
            _ => masked.push(char),
        }
    }
    masked
}
