//! Secrets of a configuration file: read from their source, and masked wherever the file is shown.
//!
//! Does not know about: the use of a secret.

use crate::expand::is_only_references;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::DeValue;

/// Maximum length of a secret in bytes, far above the usual length of tokens and keys.
const SECRET_LEN_MAX: u64 = 64 << 10;

/// A text that is neither shown nor dumped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Replaces a secret wherever a configuration is shown.
    pub const MASK: &str = "***";

    /// Creates a secret from its text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for a comparison or verification.
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

/// Adds the places of all secrets in clear text in a value and in the values below it, except under
/// the keys in `open`, which never contain a secret.
pub(crate) fn hide(value: &Spanned<DeValue<'_>>, open: &[&str], spans: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Array(list) => list.iter().for_each(|value| hide(value, open, spans)),
        DeValue::String(text) if !is_only_references(text) => spans.push(value.span()),
        DeValue::Table(table) => {
            let hidden = table.iter().filter(|(key, _)| !open.contains(&key.get_ref().as_ref()));
            hidden.for_each(|(_, value)| hide(value, open, spans));
        }
        DeValue::Boolean(_) | DeValue::String(_) => {}
        // A secret of a wrong type is still a secret.
        DeValue::Datetime(_) | DeValue::Float(_) | DeValue::Integer(_) => spans.push(value.span()),
    }
}

/// Adds the place of user name and password in a URL; reports show the remaining URL.
pub(crate) fn hide_user(url: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
    let DeValue::String(text) = url.get_ref() else { return };
    let Some(start) = text.find("://").map(|at| at + 3) else { return };
    let authority = text[start..].split(['/', '?', '#']).next().unwrap_or_default();
    let Some(len) = authority.rfind('@') else { return };
    let (span, quotes_len) = (url.span(), 2);
    // If the string contains escapes or has triple quotes, the position of the secret is unknown.
    let is_plain = span.len() == text.len() + quotes_len;
    spans.push(if is_plain { span.start + 1 + start..span.start + 1 + start + len } else { span });
}

/// Whether a text may contain a URL with a user name or password.
pub(crate) fn may_have_user(text: &str) -> bool {
    text.find("://").is_some_and(|at| text[at..].contains('@'))
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
