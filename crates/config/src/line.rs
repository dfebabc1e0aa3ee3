//! Words, strings and the comment of one line.
//!
//! A string that is not closed ends with the line.

use std::ops::Range;

/// Characters that separate words, in addition to whitespace.
pub(crate) const PUNCTUATION: [char; 8] = ['=', ':', ',', '#', '[', ']', '{', '}'];

/// The next word or string.
pub(crate) fn next_word(line: &str, at: usize) -> Option<Range<usize>> {
    let is_outside = |c: char| c.is_whitespace() || PUNCTUATION.contains(&c);
    let text = line[at..].trim_start_matches(is_outside);
    let quote = text.chars().next()?;
    let len = if ['"', '\''].contains(&quote) {
        let mut is_escaped = false;
        let end = text[1..].find(|c: char| {
            let is_end = c == quote && !is_escaped;
            is_escaped = c == '\\' && quote == '"' && !is_escaped;
            is_end
        });
        end.map_or_else(|| text.trim_end().len(), |end| end + 2)
    } else {
        text.find(|c: char| is_outside(c) || c == '"' || c == '\'').unwrap_or(text.len())
    };
    let start = line.len() - text.len();
    Some(start..start + len)
}

/// The words of the comment at the end of a line.
pub(crate) fn comment(line: &str) -> Option<Range<usize>> {
    let mut at = 0;
    while let Some(word) = next_word(line, at) {
        if line[at..word.start].contains('#') {
            return Some(word.start..line.len());
        }
        at = word.end;
    }
    None
}
