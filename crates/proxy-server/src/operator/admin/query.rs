//! Parsing of URIs.

use percent_encoding::percent_decode_str;

/// Returns the decoded value of the first parameter with this name.
pub(super) fn value(query: &str, name: &str) -> Option<String> {
    let mut parts = form_urlencoded::parse(query.as_bytes());
    parts.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

/// Decodes a segment of a path; `None` if it is not UTF-8.
pub(super) fn segment(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (query, expect) in [
            ("wait=20s", Some("20s")),
            ("a=b&wait=20s&wait=3s", Some("20s")),
            ("wait", Some("")),
            ("await=1s", None),
            ("", None),
            ("wait=a+b%20c%C3%A9", Some("a b cé")),
            ("wait=%4", Some("%4")),
            ("wait=%ff", Some("\u{fffd}")),
        ] {
            assert_eq!(value(query, "wait").as_deref(), expect, "{query}");
        }
    }
}
