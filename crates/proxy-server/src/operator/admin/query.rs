//! Parsing of URI queries.

/// Returns the decoded value of the first parameter with this name; `None` if the parameter is
/// missing or its value is invalid.
pub(super) fn value(query: &str, name: &str) -> Option<String> {
    let mut parts = query.split('&').map(|part| part.split_once('=').unwrap_or((part, "")));
    parts.find(|(found, _)| *found == name).and_then(|(_, value)| decoded(value))
}

/// Decodes percent encoding; `+` is a space.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let hex =
                    |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                hex(rest.next()?)? << 4 | hex(rest.next()?)?
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
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
            ("wait=%", None),
            ("wait=%4", None),
            ("wait=%zz", None),
            ("wait=%ff", None),
        ] {
            assert_eq!(value(query, "wait").as_deref(), expect, "{query}");
        }
    }
}
