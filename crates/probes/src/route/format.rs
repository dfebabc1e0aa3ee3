//! Selects the format of a reply by the query or by the `Accept` field.

use doorbell_health::Format;

/// The format selected by a query: `?format=NAME`, or `?verbose` as in the Kubernetes API server.
pub(super) fn asked_for(query: &[u8]) -> Option<Format> {
    query.split(|&byte| byte == b'&').find_map(|part| match part {
        b"verbose" | b"verbose=true" | b"verbose=1" | b"format=kube-verbose" => Some(Format::Kube),
        b"format=json" | b"format=health+json" | b"format=health%2Bjson" | b"format=health%2bjson" => {
            Some(Format::HealthJson)
        }
        b"format=spring" => Some(Format::Spring),
        b"format=text" => Some(Format::Text),
        _ => None,
    })
}

/// The first supported format in `Accept`; text if there is none. Quality values are ignored.
pub(super) fn accepted(accept: &[u8]) -> Format {
    let named = accept.split(|&byte| byte == b',').find_map(|range| {
        let name = range.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("application/health+json") || is("application/json") {
            Some(Format::HealthJson)
        } else if name.to_ascii_lowercase().starts_with(b"application/vnd.spring-boot.actuator") {
            Some(Format::Spring)
        } else if is("text/plain") || is("text/*") || is("*/*") {
            Some(Format::Text)
        } else {
            None
        }
    });
    named.unwrap_or(Format::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        for (query, expected) in [
            ("", None),
            ("verbose", Some(Format::Kube)),
            ("a=1&verbose", Some(Format::Kube)),
            ("verbose=false", None),
            ("format=json", Some(Format::HealthJson)),
            ("format=health+json&verbose", Some(Format::HealthJson)),
            ("format=health%2Bjson", Some(Format::HealthJson)),
            ("format=spring", Some(Format::Spring)),
            ("format=text", Some(Format::Text)),
            ("format=xml", None),
            ("&&=", None),
        ] {
            assert_eq!(asked_for(query.as_bytes()), expected, "{query:?}");
        }
    }

    #[test]
    fn accept() {
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("application/json", Format::HealthJson),
            ("application/health+json;q=0.9, */*", Format::HealthJson),
            ("Application/Health+JSON", Format::HealthJson),
            ("text/plain, application/json", Format::Text),
            ("text/html, application/json", Format::HealthJson),
            ("application/vnd.spring-boot.actuator.v3+json", Format::Spring),
            ("text/html", Format::Text),
            (",;,", Format::Text),
        ] {
            assert_eq!(accepted(accept.as_bytes()), expected, "{accept:?}");
        }
    }
}
