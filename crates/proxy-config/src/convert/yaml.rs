//! YAML documents as trees with line numbers.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of values of a document, including those that aliases repeat.
const NODES_MAX: usize = 100_000;
/// Maximum depth of a value, because reading recurses.
const DEPTH_MAX: usize = 32;

/// A value and its first line.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// A scalar; empty for null.
    Text(String),
}

/// A key of a table and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) value: Node,
}

/// Reason why a document cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    pub(super) line: usize,
    pub(super) why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl From<ScanError> for Unreadable {
    fn from(error: ScanError) -> Self {
        Self { line: error.marker().line(), why: error.info().to_owned() }
    }
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    anchors: BTreeMap<usize, Node>,
    nodes_left: usize,
}

/// Parses the first document of a text.
pub(super) fn parse(text: &str) -> Result<Node, Unreadable> {
    let events = Parser::new_from_str(text);
    let mut reader = Reader { events, anchors: BTreeMap::new(), nodes_left: NODES_MAX };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (Event::StreamEnd, span) => {
                return Err(Unreadable { line: span.start.line(), why: "the file is empty".to_owned() });
            }
            (event, span) => return reader.node(event, span, 0),
        }
    }
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Unreadable> {
        let ended = || Unreadable { line: 1, why: "the file ends within a value".to_owned() };
        Ok(self.events.next().ok_or_else(ended)??)
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Unreadable> {
        let line = span.start.line();
        let too_large = |what: &str| Unreadable { line, why: what.to_owned() };
        if depth > DEPTH_MAX {
            return Err(too_large("values are nested too deeply"));
        }
        let (anchor, value) = match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| too_large("an alias refers to itself"))?;
                self.count(size(&node)).ok_or_else(|| too_large("aliases make the file too large"))?;
                return Ok(Node { line, ..node });
            }
            Event::Scalar(text, style, anchor, _) => {
                let is_null = style == ScalarStyle::Plain && matches!(&*text, "~" | "null" | "Null" | "NULL");
                (anchor, Value::Text(if is_null { String::new() } else { text.into_owned() }))
            }
            Event::SequenceStart(anchor, _) => (anchor, Value::List(self.list(depth)?)),
            Event::MappingStart(anchor, _) => (anchor, Value::Table(self.table(depth)?)),
            _ => return Err(too_large("a value was expected")),
        };
        self.count(1).ok_or_else(|| too_large("the file has too many values"))?;
        let node = Node { line, value };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Unreadable> {
        let mut list = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(list),
                (event, span) => list.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn table(&mut self, depth: usize) -> Result<Vec<Entry>, Unreadable> {
        let (mut table, mut merged) = (Vec::<Entry>::new(), Vec::new());
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => break,
                (event, span) => self.node(event, span, depth + 1)?,
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            match (key.value, value) {
                (Value::Text(name), Node { value: Value::Table(more), .. }) if name == "<<" => {
                    merged.extend(more);
                }
                (Value::Text(name), value) => {
                    if let Some(first) = table.iter().find(|entry| entry.name == name) {
                        let why = format!("the key {name:?} is already on line {}", first.line);
                        return Err(Unreadable { line: key.line, why });
                    }
                    table.push(Entry { line: key.line, name, value });
                }
                _ => return Err(Unreadable { line: key.line, why: "a key is not text".to_owned() }),
            }
        }
        merged.retain(|entry: &Entry| !table.iter().any(|own| own.name == entry.name));
        table.extend(merged);
        Ok(table)
    }

    fn count(&mut self, nodes: usize) -> Option<()> {
        self.nodes_left = self.nodes_left.checked_sub(nodes)?;
        Some(())
    }
}

/// Number of nodes of a tree.
fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(list) => list.iter().map(size).sum(),
        Value::Table(table) => table.iter().map(|entry| size(&entry.value)).sum(),
        Value::Text(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree as one line, with the line of each key.
    fn shown(node: &Node) -> String {
        match &node.value {
            Value::List(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(" ")),
            Value::Table(table) => {
                let entry = |entry: &Entry| format!("{}@{}={}", entry.name, entry.line, shown(&entry.value));
                format!("{{{}}}", table.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
            Value::Text(text) => format!("{text:?}"),
        }
    }

    #[test]
    fn trees_have_lines() {
        for (text, expected) in [
            ("a: 1\nb: [x, 'y']\n", r#"{a@1="1" b@2=["x" "y"]}"#),
            ("---\n# c\na:\n  b: true\n  c:\n", r#"{a@3={b@4="true" c@5=""}}"#),
            ("a: null\nb: 'null'", r#"{a@1="" b@2="null"}"#),
            (
                "a: &x { b: 1 }\nc: *x\nd:\n  <<: *x\n  e: 2\n",
                r#"{a@1={b@1="1"} c@2={b@1="1"} d@3={e@5="2" b@1="1"}}"#,
            ),
            ("a: |\n  x\n  y\n", r#"{a@1="x\ny\n"}"#),
        ] {
            assert_eq!(parse(text).map(|node| shown(&node)).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn documents_that_cannot_be_read() {
        let deep = "[".repeat(100);
        let bomb = (1..20).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
            let before = n - 1;
            format!("{text}a{n}: &a{n} [*a{before}, *a{before}, *a{before}]\n")
        });
        for (text, line, why) in [
            ("", 1, "the file is empty"),
            ("a: 1\na: 2\n", 2, "already on line 1"),
            ("a:\n  - b\n c: d\n", 3, ""),
            ("a: \"x\n", 1, ""),
            ("? [a]\n: b\n", 1, "a key is not text"),
            ("a: &x [*x]\n", 1, ""),
            (&deep, 1, "nested too deeply"),
            (&bomb, 10, "aliases make the file too large"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line == line && error.why.contains(why), "{text}: {error}");
        }
    }
}
