//! The rule that comments and strings of a package are plain technical English: few words of
//! conversation and no persons. It counts lines that contain a word of the list.

use super::complaint::Complaint;
use super::lengths::Ratchet;
use super::source::Source;
use super::words::has_word;

/// Of 1,000 lines of comments and strings of a package, at most this many may contain a mark, which
/// is a word of `MARKS`.
pub const MARKS_MAX: usize = 5;

/// Words for persons, verbs of conversation, and unusual turns of phrase. In lower case, whole
/// words.
const MARKS: [&str; 33] = [
    "anew",
    "anybody",
    "anyone",
    "are told",
    "be told",
    "been told",
    "beside",
    "everybody",
    "everyone",
    "for so long",
    "had been meant",
    "he",
    "hear",
    "heard",
    "hears",
    "her",
    "him",
    "himself",
    "his",
    "is told",
    "nobody",
    "of before",
    "of its own accord",
    "she",
    "somebody",
    "someone",
    "that is meant",
    "there by itself",
    "was told",
    "were told",
    "who",
    "whoever",
    "whom",
];

/// A text in which a mark is allowed, because it is a quotation, a term or a sample.
#[derive(Clone, Copy, Debug)]
pub struct Quoted {
    /// The file or folder.
    pub path: &'static str,
    /// Part of the line, in lower case.
    pub text: &'static str,
    /// Why it is allowed.
    pub reason: &'static str,
}

/// Reports packages with more marks than the limit or than their entry of the ratchet, entries that
/// are not needed, and quotations that no longer occur.
///
/// An entry of the ratchet is a package and its marks in 1,000 lines, rounded up.
pub fn dialect(sources: &[Source], ratchet: Ratchet<'_>, quoted: &[Quoted]) -> Vec<Complaint> {
    let mut packages: Vec<Package<'_>> = Vec::new();
    let mut needed = vec![false; quoted.len()];
    for source in sources.iter().filter(|source| source.is_rust()) {
        let name = package(&source.path);
        let at = packages.iter().position(|known| known.name == name).unwrap_or_else(|| {
            packages.push(Package { name, lines: 0, marked: Vec::new() });
            packages.len() - 1
        });
        packages[at].count(source, quoted, &mut needed);
    }
    let mut complaints = Vec::new();
    for package in &packages {
        package.complain(ratchet, &mut complaints);
    }
    let is_gone = |name: &str| packages.iter().all(|package| package.name != name);
    let gone = ratchet.iter().filter(|(name, _)| is_gone(name));
    complaints.extend(gone.map(|(name, _)| Complaint::new(name, 0, "is listed and does not exist")));
    let stale = quoted.iter().zip(needed).filter(|(_, needed)| !needed);
    complaints.extend(stale.map(|(Quoted { path, text, .. }, _)| {
        Complaint::new(path, 0, format!("no longer contains `{text}`: remove it from the list"))
    }));
    complaints
}

struct Package<'a> {
    name: &'a str,
    /// Lines of comments and strings.
    lines: usize,
    /// Path, line number (from 1) and word of each mark.
    marked: Vec<(&'a str, usize, &'static str)>,
}

impl<'a> Package<'a> {
    fn count(&mut self, source: &'a Source, quoted: &[Quoted], needed: &mut [bool]) {
        let halves = source.masked.comments.lines().zip(source.masked.literals.lines());
        for (index, (comment, literal)) in halves.enumerate() {
            if !is_prose(comment) && !is_prose(literal) {
                continue;
            }
            self.lines += 1;
            let line = format!("{comment} {literal}").to_lowercase();
            let Some(mark) = MARKS.iter().find(|mark| has_word(&line, mark)) else { continue };
            let reason =
                quoted.iter().position(|it| source.path.starts_with(it.path) && line.contains(it.text));
            match reason {
                Some(at) => needed[at] = true,
                None => self.marked.push((&source.path, index + 1, mark)),
            }
        }
    }

    fn complain(&self, ratchet: Ratchet<'_>, complaints: &mut Vec<Complaint>) {
        let (lines, marks) = (self.lines.max(1), self.marked.len());
        let entry = ratchet.iter().find(|(name, _)| *name == self.name).map(|(_, figure)| *figure);
        if marks * 1_000 <= MARKS_MAX * lines {
            if entry.is_some() {
                complaints.push(Complaint::new(
                    self.name,
                    0,
                    "is within the limit: remove it from the ratchet",
                ));
            }
        } else if marks * 1_000 > entry.unwrap_or(MARKS_MAX) * lines {
            let text = format!(
                "{marks} of {lines} lines of comments and strings contain a mark: write plain technical English"
            );
            complaints.push(Complaint::new(self.name, 0, text));
            complaints.extend(
                self.marked
                    .iter()
                    .map(|(path, line, mark)| Complaint::new(path, *line, format!("contains `{mark}`"))),
            );
        }
    }
}

/// The package of a file: `crates/NAME`, `bins/NAME`, or the first folder.
pub fn package(path: &str) -> &str {
    let folders = if path.starts_with("crates/") || path.starts_with("bins/") { 2 } else { 1 };
    path.match_indices('/').nth(folders - 1).map_or(path, |(end, _)| &path[..end])
}

/// Whether the text has two words in a row, so that it is more than a name or a number.
fn is_prose(text: &str) -> bool {
    let mut triples = text.as_bytes().windows(3);
    triples.any(|it| it[0].is_ascii_alphabetic() && it[1] == b' ' && it[2].is_ascii_alphabetic())
}
