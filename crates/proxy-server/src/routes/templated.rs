//! A reply with parameters: names in its body and header fields stand for parts of the request.
//!
//! Does not know about: the syntax of parameters (see `doorbell_proxy_config::template`). Input of the client is
//! escaped for its context, so that the input cannot end a header field, a string or an element. A
//! reply that would exceed the limits is replaced with 414.

use super::fixed::Fixed;
use doorbell::http::router::Params;
use doorbell::http::{Replied, Request, Responder, Status};
use doorbell_proxy_config::template::{Part, Template};
use std::io::Write;

/// Size of the buffer that is tried first: most replies are short, and a small buffer is cheap to
/// clear.
const LEN_SHORT: usize = 512;

/// Maximum size of an expanded body.
const LEN_MAX: usize = 32 << 10;

/// Maximum size of an expanded header value; proxies commonly accept 8 KiB for all header fields
/// together.
const FIELD_LEN_MAX: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct TemplatedReply {
    status: Status,
    content_type: String,
    body: Template,
    escape: Escape,
    headers: Vec<(String, Template)>,
}

/// Escaping of a part of a request, by its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    /// Escaping of HTML and XML, in addition to the encoding of [`Self::Plain`].
    Html,
    /// Escaping of a JSON string, in addition to the encoding of [`Self::Plain`].
    Json,
    /// Percent-encoding of all bytes except unreserved ones and `/`, `:`, `@`, `%`, `[`, `]`, `+`.
    Percent,
    /// Percent-encoding only of spaces, control characters and non-ASCII bytes.
    Plain,
}

/// The values of parameters.
struct Facts<'f> {
    params: &'f Params<'f, 'f>,
    request: &'f Request<'f>,
}

impl TemplatedReply {
    /// Builds the reply; `None` if it has no parameters.
    pub(super) fn build(
        status: Status,
        content_type: &str,
        body: &str,
        headers: &[(String, String)],
    ) -> Option<Self> {
        let headers: Vec<(String, Template)> =
            headers.iter().map(|(name, value)| (name.clone(), Template::parse(value))).collect();
        let body = Template::parse(body);
        if body.fixed().is_some() && headers.iter().all(|(_, value)| value.fixed().is_some()) {
            return None;
        }
        let escape = Escape::of(content_type);
        Some(Self { status, content_type: content_type.to_owned(), body, escape, headers })
    }

    /// Whether the reply contains the address of the client.
    pub(super) fn wants_client(&self) -> bool {
        self.templates().any(|template| template.parts().contains(&Part::Client))
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        self.headers.iter().map(|(_, value)| value).chain([&self.body])
    }

    pub(super) fn send<'a>(
        &self,
        params: &Params<'_, '_>,
        request: &Request<'_>,
        fixed: &Fixed,
        reply: Responder<'a>,
    ) -> Replied<'a> {
        let facts = Facts { params, request };
        let mut buf = [0; LEN_SHORT];
        match self.fits(&facts, &mut buf) {
            true => self.write(&facts, &mut buf, reply),
            false => self.send_long(&facts, fixed, reply),
        }
    }

    #[cold]
    fn send_long<'a>(&self, facts: &Facts<'_>, fixed: &Fixed, reply: Responder<'a>) -> Replied<'a> {
        let mut buf = [0; LEN_MAX];
        match self.fits(facts, &mut buf) {
            true => self.write(facts, &mut buf, reply),
            false => reply.send(&fixed.too_long),
        }
    }

    fn fits(&self, facts: &Facts<'_>, buf: &mut [u8]) -> bool {
        let field_len = buf.len().min(FIELD_LEN_MAX);
        let mut fields = self.headers.iter().map(|(_, value)| value);
        fields.all(|value| facts.fill(value, Escape::Percent, &mut buf[..field_len]).is_some())
            && facts.fill(&self.body, self.escape, buf).is_some()
    }

    /// Sends the reply. [`Self::fits`] must be true for `buf`.
    fn write<'a>(&self, facts: &Facts<'_>, buf: &mut [u8], reply: Responder<'a>) -> Replied<'a> {
        let mut builder = reply.status(self.status);
        for (name, value) in &self.headers {
            builder = builder.header(name, facts.fill(value, Escape::Percent, buf).unwrap_or_default());
        }
        let body = facts.fill(&self.body, self.escape, buf).unwrap_or_default();
        if self.body.parts().is_empty() {
            return builder.empty();
        }
        builder.body(&self.content_type, body)
    }
}

impl Facts<'_> {
    /// Expands a template into `buf`; `None` if the text does not fit.
    fn fill<'b>(&self, template: &Template, escape: Escape, buf: &'b mut [u8]) -> Option<&'b [u8]> {
        let room = buf.len();
        let mut left = &mut *buf;
        for part in template.parts() {
            match part {
                Part::Client => match self.request.client().addr() {
                    Some(addr) => write!(left, "{addr}").ok()?,
                    None => left.write_all(b"-").ok()?,
                },
                Part::Host => escape.write(self.request.host_bytes().unwrap_or_default(), &mut left)?,
                Part::Method => left.write_all(self.request.method().as_str().as_bytes()).ok()?,
                Part::Param(name) => escape.write(self.params.value(name).unwrap_or_default(), &mut left)?,
                Part::Path => escape.write(self.request.path_bytes(), &mut left)?,
                Part::Text(text) => left.write_all(text.as_bytes()).ok()?,
            }
        }
        let len = room - left.len();
        buf.get(..len)
    }
}

impl Escape {
    /// Returns the escaping for a content type: percent-encoding for a type without a known
    /// escaping.
    fn of(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*essence {
            "text/html" | "text/xml" | "application/xml" => Self::Html,
            "application/json" => Self::Json,
            "text/plain" => Self::Plain,
            other if other.ends_with("+xml") => Self::Html,
            other if other.ends_with("+json") => Self::Json,
            _ => Self::Percent,
        }
    }

    /// Writes escaped bytes; `None` if `out` is too short.
    fn write(self, bytes: &[u8], out: &mut &mut [u8]) -> Option<()> {
        bytes
            .iter()
            .try_for_each(|&byte| match (self, byte) {
                (_, 0..=b' ' | 0x7f..) => write!(out, "%{byte:02X}"),
                (Self::Html, b'&' | b'<' | b'>' | b'"' | b'\'') => write!(out, "&#{byte};"),
                (Self::Json, b'"' | b'\\') => out.write_all(&[b'\\', byte]),
                // `<` would begin a tag if the JSON is embedded in a page.
                (Self::Json, b'<') => out.write_all(b"\\u003c"),
                (Self::Percent, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~') => {
                    out.write_all(&[byte])
                }
                // These bytes separate nothing in a header field, and an address with a port
                // contains a colon.
                (Self::Percent, b'/' | b':' | b'@' | b'%' | b'[' | b']' | b'+') => out.write_all(&[byte]),
                (Self::Percent, _) => write!(out, "%{byte:02X}"),
                (Self::Html | Self::Json | Self::Plain, _) => out.write_all(&[byte]),
            })
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(escape: Escape, bytes: &[u8]) -> String {
        let mut buf = [0; 256];
        let room = buf.len();
        let mut left = &mut buf[..];
        escape.write(bytes, &mut left).unwrap();
        let len = room - left.len();
        String::from_utf8(buf[..len].to_vec()).unwrap()
    }

    #[test]
    fn what_a_client_sends_ends_nothing() {
        for (content_type, escape) in [
            ("text/plain; charset=utf-8", Escape::Plain),
            ("Text/HTML;charset=utf-8", Escape::Html),
            ("image/svg+xml", Escape::Html),
            ("application/json", Escape::Json),
            ("application/problem+json", Escape::Json),
            ("text/javascript", Escape::Percent),
            ("", Escape::Percent),
        ] {
            assert_eq!(Escape::of(content_type), escape, "{content_type}");
        }
        let evil = b"a/<b>\"'\\&;,\r\n\0\x7f\xff {x}%0d";
        for (escape, expected) in [
            (Escape::Plain, "a/<b>\"'\\&;,%0D%0A%00%7F%FF%20{x}%0d"),
            (Escape::Html, "a/&#60;b&#62;&#34;&#39;\\&#38;;,%0D%0A%00%7F%FF%20{x}%0d"),
            (Escape::Json, "a/\\u003cb>\\\"'\\\\&;,%0D%0A%00%7F%FF%20{x}%0d"),
            (Escape::Percent, "a/%3Cb%3E%22%27%5C%26%3B%2C%0D%0A%00%7F%FF%20%7Bx%7D%0d"),
        ] {
            assert_eq!(escaped(escape, evil), expected, "{escape:?}");
        }
    }

    #[test]
    fn every_byte_prints_in_every_place() {
        for byte in 0..=u8::MAX {
            for escape in [Escape::Html, Escape::Json, Escape::Percent, Escape::Plain] {
                let text = escaped(escape, &[byte]);
                assert!(
                    text.bytes().all(|byte| (b'!'..=b'~').contains(&byte)),
                    "{escape:?} {byte}: {text:?}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_none_of_it() {
        let mut buf = [0; 4];
        for (bytes, fits) in [(&b"abcd"[..], true), (b"abcde", false), (b"a\n", true), (b"ab\n", false)] {
            let mut left = &mut buf[..];
            assert_eq!(Escape::Plain.write(bytes, &mut left).is_some(), fits, "{bytes:?}");
        }
    }

    #[test]
    fn a_reply_without_names_is_not_made() {
        let headers = [("X-A".to_owned(), "{{path}".to_owned())];
        let made = |body, headers| TemplatedReply::build(Status::OK, "text/plain", body, headers);
        assert!(made("{\"a\":1}", &headers).is_none());
        assert!(made("{path}", &headers).is_some_and(|made| !made.wants_client()));
        assert!(
            made("", &[("X-A".to_owned(), "{client}".to_owned())]).is_some_and(|made| made.wants_client())
        );
    }
}
