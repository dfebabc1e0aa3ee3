//! The bytes of a request, and the positions of the unique id in them.

use crate::exit::Failure;
use crate::reply::Id;

/// Text that is replaced with the id of a request.
const PLACEHOLDER: &str = "{id}";
/// Maximum length of a request.
const REQUEST_LEN_MAX: usize = 256 * 1_024;

/// The parts of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestParts {
    /// The method.
    pub method: String,
    /// Path and query, starting with the slash.
    pub path: String,
    /// Value of `Host`, unless a header sets it.
    pub host: String,
    /// Additional headers, as `Name: value`.
    pub headers: Vec<String>,
    /// The body. Empty means no body.
    pub body: String,
    /// Whether to send `Connection: close`.
    pub close: bool,
    /// Whether to add `X-Request-Id` with a unique id.
    pub id_header: bool,
}

/// The bytes of a request.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    bytes: Vec<u8>,
    ids: Vec<usize>,
}

impl RequestTemplate {
    /// Combines the parts into the bytes of a request.
    ///
    /// # Errors
    /// When a part is not valid in a request.
    pub fn new(parts: &RequestParts) -> Result<Self, Failure> {
        check(parts)?;
        let named = |name: &str| {
            parts
                .headers
                .iter()
                .any(|header| header.split(':').next().is_some_and(|n| n.eq_ignore_ascii_case(name)))
        };
        let mut text = format!("{} {} HTTP/1.1\r\n", parts.method, parts.path);
        if !named("host") {
            text += &format!("Host: {}\r\n", parts.host);
        }
        for header in &parts.headers {
            text += &format!("{}\r\n", header.trim());
        }
        if parts.id_header {
            text += "X-Request-Id: {id}\r\n";
        }
        if !parts.body.is_empty() && !named("content-length") {
            let ids = parts.body.matches(PLACEHOLDER).count();
            let len = parts.body.len() - ids * PLACEHOLDER.len() + ids * Id::LEN;
            text += &format!("Content-Length: {len}\r\n");
        }
        if parts.close && !named("connection") {
            text += "Connection: close\r\n";
        }
        text += "\r\n";
        text += &parts.body;

        let (bytes, ids) = fill_placeholders(&text);
        if bytes.len() > REQUEST_LEN_MAX {
            return Err(Failure::usage(format!("the request is more than {REQUEST_LEN_MAX} bytes")));
        }
        Ok(Self { bytes, ids })
    }

    /// Length of one request in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Always false, because a request has at least its first line.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes, with zeros in place of ids.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the request contains an id.
    #[must_use]
    pub const fn has_id(&self) -> bool {
        !self.ids.is_empty()
    }

    /// Writes `id` into `request`, which is a copy of these bytes.
    pub fn set_id(&self, request: &mut [u8], id: Id) {
        for at in &self.ids {
            request[*at..*at + Id::LEN].copy_from_slice(id.as_bytes());
        }
    }
}

/// Replaces each `{id}` with an id of zeros, and returns the bytes and the positions.
pub(crate) fn fill_placeholders(text: &str) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::with_capacity(text.len());
    let mut ids = Vec::new();
    for (index, piece) in text.split(PLACEHOLDER).enumerate() {
        if index > 0 {
            ids.push(bytes.len());
            bytes.extend([b'0'; Id::LEN]);
        }
        bytes.extend(piece.as_bytes());
    }
    (bytes, ids)
}

fn check(parts: &RequestParts) -> Result<(), Failure> {
    if parts.method.is_empty() || !parts.method.bytes().all(is_token) {
        return Err(Failure::usage(format!("{:?} is not a method", parts.method)));
    }
    if let Some(bad) = parts.path.bytes().find(|byte| !byte.is_ascii_graphic()) {
        return Err(Failure::usage(format!(
            "the path contains {:?}, which must be percent-encoded (%{bad:02X})",
            char::from(bad)
        )));
    }
    for header in &parts.headers {
        let name = header.split_once(':').map(|(name, _)| name).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(is_token) || header.chars().any(char::is_control) {
            return Err(Failure::usage(format!("{header:?} is not a header; write \"Name: value\"")));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Failure::usage("Transfer-Encoding is not supported; give the body with --body"));
        }
    }
    Ok(())
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> RequestParts {
        RequestParts { method: "GET".into(), path: "/".into(), host: "a:1".into(), ..RequestParts::default() }
    }

    fn text(parts: &RequestParts) -> String {
        String::from_utf8(RequestTemplate::new(parts).unwrap().as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn requests_are_what_was_asked() {
        assert_eq!(text(&parts()), "GET / HTTP/1.1\r\nHost: a:1\r\n\r\n");
        let parts = RequestParts {
            method: "POST".into(),
            headers: vec!["host: b".into(), "X: {id}".into()],
            body: "{id}!".into(),
            close: true,
            ..parts()
        };
        let id = "0".repeat(16);
        assert_eq!(
            text(&parts),
            format!(
                "POST / HTTP/1.1\r\nhost: b\r\nX: {id}\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{id}!"
            )
        );
    }

    #[test]
    fn ids_go_to_every_place() {
        let template =
            RequestTemplate::new(&RequestParts { path: "/{id}".into(), id_header: true, ..parts() }).unwrap();
        assert!(template.has_id());
        let id = Id::new(1, 2);
        let mut request = template.as_bytes().to_vec();
        template.set_id(&mut request, id);
        assert_eq!(memchr::memmem::find_iter(&request, id.as_bytes()).count(), 2);
        assert_eq!(request.len(), template.len());
        assert!(!RequestTemplate::new(&parts()).unwrap().has_id());
    }

    #[test]
    fn what_would_break_a_request_is_refused() {
        let bad = [
            RequestParts { method: "GE T".into(), ..parts() },
            RequestParts { method: String::new(), ..parts() },
            RequestParts { path: "/a b".into(), ..parts() },
            RequestParts { path: "/a\r\nX: y".into(), ..parts() },
            RequestParts { headers: vec!["no colon".into()], ..parts() },
            RequestParts { headers: vec![": x".into()], ..parts() },
            RequestParts { headers: vec!["X: a\r\nY: b".into()], ..parts() },
            RequestParts { headers: vec!["Transfer-Encoding: chunked".into()], ..parts() },
            RequestParts { body: "x".repeat(REQUEST_LEN_MAX), ..parts() },
        ];
        for parts in bad {
            assert!(RequestTemplate::new(&parts).is_err(), "{parts:?}");
        }
    }
}
