//! Tables for a terminal, with colors.

use std::fmt::Write as _;

/// Whether colors are used.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Paint {
    pub(in crate::cli) on: bool,
}

/// Style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    Bad,
    Good,
    Head,
    Plain,
    Quiet,
    Warn,
}

impl Paint {
    pub(in crate::cli) fn text(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Bad => "1;31",
            Tone::Good => "32",
            Tone::Head => "1",
            Tone::Plain => "",
            Tone::Quiet => "2",
            Tone::Warn => "33",
        };
        match self.on && tone != Tone::Plain && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// A table cell: its style and its text.
pub(in crate::cli) type Cell = (Tone, String);

/// A cell without a color.
pub(in crate::cli) fn plain(text: impl Into<String>) -> Cell {
    (Tone::Plain, text.into())
}

/// A table with a header; columns are two spaces apart, and lines are not padded at the end.
pub(in crate::cli) fn table(heads: &[&str], rows: &[Vec<Cell>], paint: Paint) -> String {
    // Some texts come from other programs, such as names in the shared store, and may contain
    // control characters.
    let shown = |(tone, text): &Cell| (*tone, text.replace(char::is_control, " "));
    let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
    for row in &rows {
        for (width, (_, text)) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    let mut out = String::new();
    let heads = heads.iter().map(|head| (Tone::Head, (*head).to_owned())).collect::<Vec<_>>();
    for row in std::iter::once(&heads).chain(&rows) {
        let last = row.iter().rposition(|(_, text)| !text.is_empty()).unwrap_or(0);
        for (at, ((tone, text), width)) in row.iter().zip(&widths).enumerate().take(last + 1) {
            out.push_str(&paint.text(*tone, text));
            if at < last {
                let _ = write!(out, "{:pad$}  ", "", pad = width - text.chars().count());
            }
        }
        out.push('\n');
    }
    out
}
