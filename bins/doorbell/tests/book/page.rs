//! Pages of the book as files: text, code blocks and headings.

use std::path::{Path, PathBuf};

/// One Markdown file.
pub(crate) struct Page {
    /// Path relative to the source folder, with slashes.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
    /// Lines outside of code blocks and comments, with their number.
    pub(crate) prose: Vec<(usize, String)>,
}

/// One fenced code block.
pub(crate) struct Block {
    /// Info string after the fence, such as `toml,fragment`.
    pub(crate) info: String,
    pub(crate) text: String,
    /// Line number of the opening fence; the first line is 1.
    pub(crate) line: usize,
    /// Whether an HTML comment stands directly above the block.
    pub(crate) has_comment: bool,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.split([',', ' ']).next().unwrap_or_default()
    }
}

pub(crate) fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/book/src")
}

/// All pages, including `SUMMARY.md`.
pub(crate) fn pages() -> Vec<Page> {
    let folder = source_folder();
    let mut files = Vec::new();
    files_below(&folder, "md", &mut files);
    files.sort();
    assert!(files.len() > 3, "{files:?}");
    files
        .into_iter()
        .map(|file| {
            let name = file.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
            Page::parse(name, std::fs::read_to_string(&file).unwrap())
        })
        .collect()
}

/// Collects the files with this extension in a folder and its subfolders.
pub(crate) fn files_below(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, extension, files);
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
}

impl Page {
    fn parse(name: String, text: String) -> Self {
        let (mut blocks, mut prose) = (Vec::<Block>::new(), Vec::new());
        let mut fence: Option<(String, usize)> = None;
        let (mut in_comment, mut has_comment) = (false, false);
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim_start();
            let indent = line.len() - trimmed.len();
            if let Some((mark, indent)) = &fence {
                if trimmed.trim_end() == mark {
                    fence = None;
                } else {
                    let block = blocks.last_mut().unwrap();
                    block.text.push_str(line.get(*indent..).unwrap_or(trimmed));
                    block.text.push('\n');
                }
                continue;
            }
            if trimmed.starts_with("```") {
                let ticks = trimmed.chars().take_while(|letter| *letter == '`').count();
                let info = trimmed[ticks..].trim().to_owned();
                blocks.push(Block { info, text: String::new(), line: number, has_comment });
                fence = Some(("`".repeat(ticks), indent));
                continue;
            }
            if in_comment || trimmed.starts_with("<!--") {
                in_comment = !trimmed.contains("-->");
                has_comment = true;
                continue;
            }
            if !trimmed.is_empty() {
                has_comment = false;
            }
            prose.push((number, line.to_owned()));
        }
        assert!(fence.is_none() && !in_comment, "{name}: unterminated block or comment");
        Self { name, text, blocks, prose }
    }

    /// Anchors that a link to this page may name after `#`, as mdBook generates them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for (_, line) in &self.prose {
            if let Some(heading) = line.strip_prefix('#') {
                let id = anchor(heading.trim_start_matches('#'));
                let same = anchors.iter().filter(|known| **known == id).count();
                anchors.push(if same == 0 { id } else { format!("{id}-{same}") });
            }
            for part in line.split("id=\"").skip(1) {
                anchors.push(part.split('"').next().unwrap_or_default().to_owned());
            }
        }
        anchors
    }
}

/// The anchor of a heading: letters, digits, `_` and `-` in lower case, and `-` for each space. A
/// link in the heading is replaced by its text.
fn anchor(heading: &str) -> String {
    let mut text = heading.trim().to_owned();
    while let Some((before, behind)) = text.split_once("](") {
        let rest = behind.split_once(')').map_or("", |(_, rest)| rest);
        text = format!("{before}{rest}");
    }
    let letters = text.chars().filter_map(|letter| match letter {
        letter if letter.is_alphanumeric() || letter == '_' || letter == '-' => Some(letter),
        letter if letter.is_whitespace() => Some('-'),
        _ => None,
    });
    letters.collect::<String>().to_lowercase()
}

#[test]
fn a_page_is_taken_apart() {
    let text = "# A `[b.NAME]`, c\n<!-- why -->\n```toml,ignore\nx = 1\n```\n\n- d\n  ```text\n  e\n  ```\n## A b.NAME c\n";
    let page = Page::parse("p.md".into(), text.into());
    assert_eq!(page.anchors(), ["a-bname-c", "a-bname-c-1"]);
    let blocks: Vec<_> =
        page.blocks.iter().map(|block| (block.language(), &*block.text, block.has_comment)).collect();
    assert_eq!(blocks, [("toml", "x = 1\n", true), ("text", "e\n", false)]);
    assert_eq!(anchor(" See [this one](x.md) now"), "see-this-one-now");
}

/// The first line of every generated page.
pub(crate) const GENERATED: &str =
    "<!-- Generated: `DOORBELL_BLESS=1 cargo test -p doorbell-proxy --test book` writes this page. -->\n";

/// Escapes text for a cell of a Markdown table.
pub(crate) fn cell(text: &str) -> String {
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
