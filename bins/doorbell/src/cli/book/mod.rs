//! Reference pages of the operators' book that are generated from the code: keys and commands.
//!
//! Does not know about: the files of the pages. `tests/book` compares the pages with `deploy/book`.

mod commands;
mod keys;

pub use commands::commands;
pub use keys::keys;

/// The whole command line, as `doorbell` parses it.
#[must_use]
pub fn command_line() -> clap::Command {
    super::command::command(&[])
}

/// The first line of every generated page.
pub const GENERATED: &str =
    "<!-- Generated: `DOORBELL_BLESS=1 cargo test -p doorbell-proxy --test book` writes this page. -->\n";

/// Escapes text for a cell of a Markdown table.
#[must_use]
pub fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len());
    let mut in_code = false;
    for letter in text.chars() {
        match letter {
            '`' => {
                in_code = !in_code;
                cell.push('`');
            }
            '\n' => cell.push(' '),
            '|' => cell.push_str("\\|"),
            '<' if !in_code => cell.push_str("&lt;"),
            '*' if !in_code => cell.push_str("\\*"),
            other => cell.push(other),
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn a_cell_keeps_its_text_and_ends_no_table() {
        assert_eq!(cell("a|b <c> `<d>|*` *.e\nf"), "a\\|b &lt;c> `<d>\\|*` \\*.e f");
    }
}
