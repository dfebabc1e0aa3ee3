//! Replies of a service to requests that another HTTP implementation has parsed. The request is
//! written as HTTP/1.1 and passed to the state machine that serves connections, so that replies do
//! not differ between protocols and frameworks.

use bytes::Bytes;
use doorbell_http::{Client, Conn, Date, Io, Limits, Out, Service, Time};
use std::cell::Cell;

/// A request that another implementation has parsed.
#[derive(Clone, Copy, Debug)]
pub struct PortableRequest<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// Path and query, as sent.
    pub target: &'a str,
}

/// A reply, split into status, header fields and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortableReply {
    /// The status code.
    pub status: u16,
    /// Names and values of the header fields, in their order, without connection-specific fields.
    pub fields: Vec<(String, String)>,
    /// The content; empty for HEAD.
    pub body: Bytes,
}

/// The parts of a reply in HTTP/1.1: status code, header fields, and the bytes after the head.
#[derive(Clone, Copy, Debug)]
pub struct ReplyParts<'a> {
    /// The status code.
    pub status: u16,
    fields: &'a [u8],
    /// The bytes after the head.
    pub rest: &'a [u8],
}

/// The buffers of this thread, reused for each request.
#[derive(Default)]
struct Buffers {
    head: Vec<u8>,
    carry: Vec<u8>,
    out: Out,
}

thread_local! {
    static BUFFERS: Cell<Buffers> =
        const { Cell::new(Buffers { head: Vec::new(), carry: Vec::new(), out: Out::new() }) };
}

impl PortableReply {
    /// The reply of `service` at this time. `fields` are the header fields of the request; `Host`
    /// and the fields that describe the connection or the body are not passed on. `None` if the
    /// service defers the reply or hands the request over.
    pub fn of<'f>(
        service: &impl Service,
        request: PortableRequest<'_>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        now: Time,
        unix_secs: i64,
    ) -> Option<Self> {
        // Taken, because the service may call this function for another service. A panic of the
        // service drops the buffers with its partial output.
        let mut buffers = BUFFERS.take();
        let reply = buffers.reply_of(service, request, fields, (now, unix_secs));
        BUFFERS.set(buffers);
        reply
    }
}

impl Buffers {
    fn reply_of<'f>(
        &mut self,
        service: &impl Service,
        request: PortableRequest<'_>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        (now, unix_secs): (Time, i64),
    ) -> Option<PortableReply> {
        let Self { head, carry, out } = self;
        write_head(head, request, fields);
        carry.clear();
        out.clear();
        let (limits, date) = (Limits::default(), Date::new(unix_secs));
        let (limits, date, client) = (&limits, &date, &Client::UNKNOWN);
        let io = Io { now, date, limits, carry, out, closing: false, client };
        let _whatever_becomes_of_the_connection = Conn::new(now, limits).handle_input(head, io, service);
        if out.take_later().is_some() {
            return None;
        }
        let body = core::mem::take(&mut out.body);
        let parts = ReplyParts::parse(&out.head)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = parts.fields().map(|(name, value)| (text(name), text(value))).collect();
        let body = if body.is_empty() { Bytes::copy_from_slice(parts.rest) } else { body };
        Some(PortableReply { status: parts.status, fields, body })
    }
}

/// Writes a request without the fields that describe its connection (RFC 9110 7.6.1) or its body.
fn write_head<'f>(
    head: &mut Vec<u8>,
    request: PortableRequest<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) {
    const NOT_COPIED: [&[u8]; 10] = [
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"proxy-connection",
    ];
    head.clear();
    for part in [request.method, " ", request.target, " HTTP/1.1\r\nhost: localhost\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    for (name, value) in
        fields.filter(|(name, _)| !NOT_COPIED.iter().any(|one| name.eq_ignore_ascii_case(one)))
    {
        for part in [name, b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    head.extend_from_slice(b"\r\n");
}

impl<'a> ReplyParts<'a> {
    /// Splits a reply that the state machine has written. `None` for other bytes.
    #[must_use]
    pub fn parse(written: &'a [u8]) -> Option<Self> {
        let end = written.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, rest) = (written.get(..end + 2)?, written.get(end + 4..)?);
        let line_end = head.windows(2).position(|two| two == b"\r\n")?;
        let (line, fields) = (head.get(..line_end)?, head.get(line_end + 2..)?);
        let code = line.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
        let status = core::str::from_utf8(code).ok()?.parse().ok()?;
        Some(Self { status, fields, rest })
    }

    /// Names and values of the header fields, without connection-specific fields, which HTTP/2
    /// forbids.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let lines = self.fields.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let fields = lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((line.get(..colon)?, line.get(colon + 1..)?.trim_ascii_start()))
        });
        fields.filter(|(name, _)| !name.eq_ignore_ascii_case(b"connection"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_http::{StaticReply, Status, service_fn};

    #[test]
    fn a_reply_in_parts() {
        let service = service_fn(|request, reply| match request.path() {
            "/static" => reply.send(&StaticReply::text(Status::OK, "ok\n")),
            "/echo" => {
                reply.status(Status::ACCEPTED).header("X-Of", request.header("x-a").unwrap()).content("b")
            }
            _ => reply.hand_over(),
        });
        let ask = |method, target| {
            let fields: [(&[u8], &[u8]); 3] =
                [(b"X-A", b"1"), (b"Connection", b"close"), (b"Content-Length", b"9")];
            let request = PortableRequest { method, target };
            PortableReply::of(&service, request, fields.into_iter(), Time::ZERO, 784_111_777)
        };
        let reply = ask("GET", "/static").unwrap();
        let field = |reply: &PortableReply, name: &str| {
            let mut fields = reply.fields.iter();
            fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        assert_eq!((reply.status, &*reply.body), (200, &b"ok\n"[..]));
        assert_eq!(field(&reply, "content-type").as_deref(), Some("text/plain; charset=utf-8"));
        assert_eq!(
            (field(&reply, "content-length").as_deref(), field(&reply, "connection")),
            (Some("3"), None)
        );
        let head = ask("HEAD", "/static").unwrap();
        assert_eq!((head.body.len(), field(&head, "content-length").as_deref()), (0, Some("3")));
        let echo = ask("GET", "/echo?q").unwrap();
        assert_eq!((echo.status, &*echo.body, field(&echo, "x-of").as_deref()), (202, &b"b"[..], Some("1")));
        assert_eq!(ask("GET", "/other"), None);
        assert_eq!(ask("BREW", "/static").unwrap().status, 501);
        assert_eq!(ask("GET", "/a b").unwrap().status, 400);
    }
    #[test]
    fn a_service_asks_another_one() {
        fn ask(service: &impl Service) -> PortableReply {
            let request = PortableRequest { method: "GET", target: "/" };
            PortableReply::of(service, request, std::iter::empty(), Time::ZERO, 784_111_777).unwrap()
        }
        let inner = service_fn(|_, reply| reply.status(Status::OK).text("inner"));
        let outer = service_fn(|_, reply| {
            let inner = ask(&inner);
            reply.status(Status::ACCEPTED).content(&inner.body)
        });
        let reply = ask(&outer);
        assert_eq!((reply.status, &*reply.body), (202, &b"inner"[..]));
    }
}
