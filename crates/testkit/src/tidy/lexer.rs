//! Splits Rust text into code, comments and literals, so that a rule about one of them ignores the
//! others.
//!
//! Every part keeps every newline, so line numbers agree.

/// The same text three times: only its code, only its comments, only its literals; the rest is
/// spaces.
#[derive(Clone, Debug)]
pub struct Masked {
    /// Code only; comments and literals are spaces.
    pub code: String,
    /// Comments only, with their markers; the rest is spaces.
    pub comments: String,
    /// Literals only, with their quotes; the rest is spaces.
    pub literals: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Splits `text`.
///
/// An unterminated comment or literal extends to the end.
pub fn mask(text: &str) -> Masked {
    let bytes = text.as_bytes();
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (end, kind) = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => (line_end(bytes, at), Kind::Comment),
            b'/' if bytes.get(at + 1) == Some(&b'*') => (block_comment_end(bytes, at), Kind::Comment),
            b'"' => (string_end(bytes, at), Kind::Literal),
            b'\'' => match char_end(bytes, at) {
                Some(end) => (end, Kind::Literal),
                None => (at + 1, Kind::Code),
            },
            byte if is_word(byte) => word_or_prefixed(bytes, at),
            _ => (at + 1, Kind::Code),
        };
        kinds[at..end].fill(kind);
        at = end;
    }
    let only = |wanted| keep(bytes, &kinds, wanted);
    Masked { code: only(Kind::Code), comments: only(Kind::Comment), literals: only(Kind::Literal) }
}

fn keep(bytes: &[u8], kinds: &[Kind], wanted: Kind) -> String {
    let kept: Vec<u8> = bytes
        .iter()
        .zip(kinds)
        .map(|(&byte, &kind)| if byte == b'\n' || kind == wanted { byte } else { b' ' })
        .collect();
    String::from_utf8_lossy(&kept).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The end and kind of a word, or of a literal with a prefix such as `r#"`, `br"`, `b'`.
fn word_or_prefixed(bytes: &[u8], at: usize) -> (usize, Kind) {
    let mut end = at;
    while end < bytes.len() && is_word(bytes[end]) {
        end += 1;
    }
    let word = &bytes[at..end];
    if matches!(word, b"r" | b"br" | b"cr") {
        let mut quote = end;
        while bytes.get(quote) == Some(&b'#') {
            quote += 1;
        }
        if bytes.get(quote) == Some(&b'"') {
            return (raw_string_end(bytes, quote, quote - end), Kind::Literal);
        }
    }
    if matches!(word, b"b" | b"c") && bytes.get(end) == Some(&b'"') {
        return (string_end(bytes, end), Kind::Literal);
    }
    if word == b"b" && bytes.get(end) == Some(&b'\'') {
        return (char_end(bytes, end).unwrap_or(end), Kind::Literal);
    }
    (end, Kind::Code)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut end) = (0_usize, at);
    while end < bytes.len() {
        if bytes[end..].starts_with(b"/*") {
            depth += 1;
            end += 2;
        } else if bytes[end..].starts_with(b"*/") {
            depth -= 1;
            end += 2;
            if depth == 0 {
                return end;
            }
        } else {
            end += 1;
        }
    }
    bytes.len()
}

/// The end of a string literal. `at` is the position of the opening quote.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 2,
            b'"' => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// The end of a raw string literal. `at` is the position of the opening quote, `hashes` the number
/// of `#` before it.
fn raw_string_end(bytes: &[u8], at: usize, hashes: usize) -> usize {
    let mut closing = vec![b'"'];
    closing.resize(hashes + 1, b'#');
    let body = &bytes[at + 1..];
    body.windows(closing.len())
        .position(|window| window == closing)
        .map_or(bytes.len(), |n| at + 1 + n + closing.len())
}

/// The end of a char literal that starts at `at`; `None` for a lifetime.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at + 1) == Some(&b'\\') {
        let closing = bytes.get(at + 3..)?.iter().position(|&byte| byte == b'\'')?;
        return Some(at + 3 + closing + 1);
    }
    let rest = bytes.get(at + 1..(at + 6).min(bytes.len()))?;
    let text = rest.utf8_chunks().next()?.valid();
    let first = text.chars().next()?;
    (text[first.len_utf8()..].starts_with('\'')).then(|| at + 1 + first.len_utf8() + 1)
}
