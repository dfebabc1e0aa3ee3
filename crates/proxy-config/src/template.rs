//! Text with parameters: `{path}`, `{host}`, `{method}`, `{client}` and the parameters of a path.
//!
//! Braces without a name are literal, so JSON needs no escaping. `{{` is a literal `{`: `{{path}`
//! stands for the text `{path}`.

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The address of the client.
    Client,
    /// The host of the request.
    Host,
    /// The method.
    Method,
    /// A parameter of the path, verbatim.
    Param(String),
    /// The whole path, verbatim.
    Path,
    /// Literal text.
    Text(String),
}

/// Parameters that every request provides, and that take precedence over path parameters of the
/// same name.
pub(crate) const NAMES: [&str; 4] = ["client", "host", "method", "path"];

/// Maximum size of a template with parameters, which is expanded for every request.
pub(crate) const TEMPLATE_LEN_MAX: usize = 16 << 10;

impl Template {
    /// Parses any text: braces that enclose no name are literal.
    pub fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut left = text;
        while let Some(at) = left.find('{') {
            let (before, rest) = left.split_at(at);
            plain.push_str(before);
            let inner = &rest[1..];
            if let Some(after) = inner.strip_prefix('{') {
                plain.push('{');
                left = after;
            } else if let Some((name, after)) = inner.split_once('}').filter(|(name, _)| is_name(name)) {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::named(name));
                left = after;
            } else {
                plain.push('{');
                left = inner;
            }
        }
        plain.push_str(left);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self(parts)
    }

    /// The pieces, in the order of the text.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Names of the path parameters that the template uses.
    pub(crate) fn params(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Param(name) => Some(&**name),
            Part::Client | Part::Host | Part::Method | Part::Path | Part::Text(_) => None,
        })
    }

    /// Returns the text of a template without parameters.
    pub fn fixed(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl Part {
    fn named(name: &str) -> Self {
        match name {
            "client" => Self::Client,
            "host" => Self::Host,
            "method" => Self::Method,
            "path" => Self::Path,
            _ => Self::Param(name.to_owned()),
        }
    }
}

/// Whether this is a valid name of a path parameter and does not begin with a digit.
fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    #[test]
    fn names_are_found_and_other_braces_stay() {
        let param = |name: &str| Part::Param(name.to_owned());
        for (written, parts) in [
            ("", vec![]),
            ("plain", vec![text("plain")]),
            ("{path}", vec![Part::Path]),
            ("{client} {host}{method}", vec![Part::Client, text(" "), Part::Host, Part::Method]),
            ("a{id}b{_x9}", vec![text("a"), param("id"), text("b"), param("_x9")]),
            ("{{path}", vec![text("{path}")]),
            ("{{path}}", vec![text("{path}}")]),
            ("{{{path}", vec![text("{"), Part::Path]),
            ("{\"a\":{\"b\":1}}", vec![text("{\"a\":{\"b\":1}}")]),
            ("{\"id\":\"{id}\"}", vec![text("{\"id\":\""), param("id"), text("\"}")]),
            ("{} { x } {9} {a-b} {a.b} {*rest} }{", vec![text("{} { x } {9} {a-b} {a.b} {*rest} }{")]),
            ("{a{b}", vec![text("{a"), param("b")]),
            ("{a", vec![text("{a")]),
            ("é{é}", vec![text("é{é}")]),
        ] {
            assert_eq!(Template::parse(written).parts(), parts, "{written}");
        }
    }

    #[test]
    fn what_is_fixed_is_told() {
        assert_eq!(Template::parse("").fixed(), Some(""));
        assert_eq!(Template::parse("a {{path} b").fixed(), Some("a {path} b"));
        assert_eq!(Template::parse("{path}").fixed(), None);
        assert_eq!(Template::parse("{a}{path}{b}").params().collect::<Vec<_>>(), ["a", "b"]);
    }
}
