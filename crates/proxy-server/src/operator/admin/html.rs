//! Formatting of values as HTML text, always escaped.

use std::fmt::{self, Display, Write};

/// Escapes a value for the text of an element or a quoted attribute.
pub(super) struct Esc<T>(pub(super) T);

struct Escaper<'f, 'a>(&'f mut fmt::Formatter<'a>);

impl<T: Display> Display for Esc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaper(f), "{}", self.0)
    }
}

impl Write for Escaper<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            match char {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                // Control characters that change the direction of text.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => self.0.write_char('\u{fffd}')?,
                other if other.is_control() && other != '\n' => self.0.write_char('\u{fffd}')?,
                other => self.0.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A duration in milliseconds, shown in one suitable unit.
pub(super) struct Ago(pub(super) u64);

impl Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms @ ..1_000 => write!(f, "{ms} ms"),
            ms @ ..10_000 => write!(f, "{}.{} s", ms / 1_000, ms % 1_000 / 100),
            ms @ ..120_000 => write!(f, "{} s", ms / 1_000),
            ms @ ..7_200_000 => write!(f, "{} min", ms / 60_000),
            ms @ ..172_800_000 => write!(f, "{} h", ms / 3_600_000),
            ms => write!(f, "{} d", ms / 86_400_000),
        }
    }
}

/// A duration in microseconds, shown in one suitable unit.
pub(super) struct Took(pub(super) u64);

impl Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us @ ..1_000 => write!(f, "{us} µs"),
            us @ ..10_000 => write!(f, "{}.{} ms", us / 1_000, us % 1_000 / 100),
            us @ ..10_000_000 => write!(f, "{} ms", us / 1_000),
            us => write!(f, "{} s", us / 1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_the_text() {
        for (text, expect) in [
            ("", ""),
            ("plain é – 漢", "plain é – 漢"),
            ("<script>alert('x')</script>", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"),
            ("\" onload=\"x & y", "&quot; onload=&quot;x &amp; y"),
            ("&lt;", "&amp;lt;"),
            ("a\u{202e}b\u{0}c\u{1b}[31m", "a\u{fffd}b\u{fffd}c\u{fffd}[31m"),
        ] {
            assert_eq!(Esc(text).to_string(), expect);
        }
    }

    #[test]
    fn lengths_of_time() {
        for (ms, expect) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (9_999, "9.9 s"),
            (10_000, "10 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
            (172_800_000, "2 d"),
        ] {
            assert_eq!(Ago(ms).to_string(), expect);
        }
        for (us, expect) in
            [(999, "999 µs"), (1_000, "1.0 ms"), (12_345, "12 ms"), (999_999, "999 ms"), (12_000_000, "12 s")]
        {
            assert_eq!(Took(us).to_string(), expect);
        }
    }
}
