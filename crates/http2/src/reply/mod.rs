//! Converts an HTTP/2 request to HTTP/1.1, so that routes, guards and the log handle it like any
//! other request; converts the reply back.
//!
//! The request is encoded as HTTP/1.1 and parsed by the state machine for HTTP/1.1 clients, so that
//! hyper does not decide whether a request is valid. A body, except that of a gRPC call, is read
//! and dropped within the limits of HTTP/1.1, because no route uses it.
//!
//! # Decision: a fragment in `:path` is not refused
//!
//! *Context.* In HTTP/1, a target with `#` gets 400. In HTTP/2, h2 turns `:path` into a
//! `http::uri::PathAndQuery`, which silently drops everything from the first `#` on; neither h2 nor
//! hyper exposes the original field. *Choice.* Such a request is served as a request without the
//! fragment. Routes, guards and the log see the same path, so a fragment cannot bypass a guard.
//! Refusing the request would require a second HPACK decoder in front of hyper. *Reconsider if:* h2
//! exposes or refuses the fragment.

use super::body::ReplyBody;
use super::counters::{Counters, count};
use super::counting_stream::Account;
use super::grpc::Call;
use bytes::Bytes;
use doorbell::http::parse::is_same_authority;
use doorbell::http::{Client, Date, Later, Limits, Next, Out, RequestError, StaticReply, Status, Time};
use doorbell::protocol::{Awaited, Io, Local, Protocol, caught};
use doorbell::time::{Clock as _, OsClock};
use doorbell::{CloseReason, Http1};
use doorbell_probes::ReplyParts;
use http_body::Body;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;
use tokio::sync::oneshot;

/// State of one request in the state machine.
type Conn = <Http1 as Protocol>::Conn;

/// Buffers of this thread, reused for each request.
struct Scratch {
    head: Vec<u8>,
    input: Vec<u8>,
    out: Out,
    local: Local,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch {
        head: Vec::new(),
        input: Vec::new(),
        out: Out::new(),
        local: Local::new(),
    }) };
}

/// Fields that are specific to a connection, or added by this module (RFC 9113 8.2.2, 8.2.3 and
/// 8.3.1), or that describe the body, which is dropped.
const NOT_COPIED: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::COOKIE,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Maximum number of bytes to read beyond the limit of a body, or in total if the declared length
/// is too large (see `doorbell::Limits`).
const LINGER_LEN: u64 = 64 << 10;

/// Maximum time to read a body whose declared length is too large.
const LINGER: Duration = Duration::from_secs(1);

/// Why reading a body failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyError {
    /// The client disconnected or reset the stream.
    Gone,
    Refused(RequestError),
}

const TOO_LARGE: BodyError = BodyError::Refused(RequestError::BodyTooLarge);
const TOO_SLOW: BodyError = BodyError::Refused(RequestError::Timeout);

/// The context of the requests of a connection.
#[derive(Debug)]
pub(super) struct RequestContext<'a> {
    pub(super) http: &'a Http1,
    pub(super) limits: &'a Limits,
    pub(super) account: &'a Account,
    pub(super) counters: &'a Counters,
    pub(super) client: &'a Client<'a>,
}

/// The result of one step of the state machine.
enum Served {
    /// `None`: no reply, the stream must be reset.
    Reply(Option<Response<ReplyBody>>),
    /// A deferred reply.
    Later(Box<Later>),
}

/// Serves one request. `None`: no reply, the stream must be reset.
pub(super) async fn reply_to<B: Body<Data = Bytes>>(
    context: &RequestContext<'_>,
    parts: &Parts,
    body: B,
) -> Option<Response<ReplyBody>> {
    match drop_body(context.limits, &parts.headers, body).await {
        Ok(()) => {}
        Err(BodyError::Gone) => return None,
        Err(BodyError::Refused(error)) => {
            context.http.report_refused(error, context.client, OsClock.now());
            return error_reply(error.status());
        }
    }
    match dispatch(context, parts).await {
        RequestOutcome::Reply(reply) => reply,
        // A gRPC route serves gRPC requests only.
        RequestOutcome::Call(_) => error_reply(Status::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// The result of a request.
pub(super) enum RequestOutcome {
    /// `None`: no reply, the stream must be reset.
    Reply(Option<Response<ReplyBody>>),
    /// An admitted gRPC request.
    Call(Call),
}

/// Passes a request, without its body, through routes, guards and the log.
pub(super) async fn dispatch(context: &RequestContext<'_>, parts: &Parts) -> RequestOutcome {
    let mut conn = context.http.open(OsClock.now());
    match SCRATCH.with_borrow_mut(|scratch| scratch.dispatch(context, &mut conn, parts)) {
        Served::Reply(reply) => RequestOutcome::Reply(reply),
        Served::Later(later) => wait(context, conn, later).await,
    }
}

/// Returns the gRPC call of a deferred reply; if the reply waits for a job instead, awaits the job
/// and replies with the result.
async fn wait(context: &RequestContext<'_>, mut conn: Conn, mut later: Box<Later>) -> RequestOutcome {
    let _working = Working::begin(context.account);
    loop {
        later = match Call::of(later) {
            Ok(call) => return RequestOutcome::Call(call),
            Err(other) => other,
        };
        let (sender, receiver) = oneshot::channel();
        let answer = match Awaited::begin(later, |outcome| drop(sender.send(outcome))) {
            Err(answer) => {
                if answer.is_busy() {
                    count(&context.counters.jobs_refused);
                }
                answer
            }
            Ok(awaited) => {
                count(&context.counters.jobs);
                let left = awaited.deadline().since(OsClock.now());
                match tokio::time::timeout(left, receiver).await {
                    Ok(Ok(outcome)) => awaited.answer(outcome),
                    _ => return RequestOutcome::Reply(time_out(context, &mut conn, awaited)),
                }
            }
        };
        if answer.is_panic() {
            count(&context.counters.jobs_panicked);
        }
        let served = SCRATCH.with_borrow_mut(|scratch| {
            scratch.step(context, &mut conn, OsClock.now(), |conn, io| {
                context.http.handle_answer(conn, answer, io)
            })
        });
        match served {
            Served::Reply(reply) => return RequestOutcome::Reply(reply),
            Served::Later(another) => later = another,
        }
    }
}

fn time_out(context: &RequestContext<'_>, conn: &mut Conn, awaited: Awaited) -> Option<Response<ReplyBody>> {
    count(&context.counters.jobs_timed_out);
    // The timer may fire slightly before the clock reaches the deadline.
    let now = OsClock.now().max(awaited.deadline());
    let served = SCRATCH.with_borrow_mut(|scratch| {
        scratch.step(context, conn, now, |conn, io| context.http.handle_timeout(conn, io))
    });
    awaited.timed_out();
    match served {
        Served::Reply(reply) => reply,
        Served::Later(_) => None,
    }
}

/// Exempts a request from the timeout for lack of progress while its job runs.
struct Working<'a>(&'a Account);

impl<'a> Working<'a> {
    fn begin(account: &'a Account) -> Self {
        account.lock().limits.set_working(true, OsClock.now());
        Self(account)
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.lock().limits.set_working(false, OsClock.now());
    }
}

/// Reads and drops a body within its limits. If a body is too large, a limited number of further
/// bytes is read before the reply, as in HTTP/1.1: some clients lose a reply that arrives while
/// they send.
async fn drop_body<B: Body<Data = Bytes>>(
    limits: &Limits,
    headers: &HeaderMap,
    body: B,
) -> Result<(), BodyError> {
    let len_max = limits.body_bytes_max as u64;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    let is_declared_too_large = declared.is_some_and(|len: u64| len > len_max);
    let (time, read_max) = match is_declared_too_large {
        true => (LINGER, LINGER_LEN),
        false => (limits.body_total_timeout, len_max + LINGER_LEN),
    };
    let body = pin!(body);
    let read = read_all(body, read_max, limits.body_idle_timeout);
    match tokio::time::timeout(time, read).await.unwrap_or(Err(TOO_SLOW)) {
        Err(BodyError::Gone) => Err(BodyError::Gone),
        _ if is_declared_too_large => Err(TOO_LARGE),
        Ok(len) if len > len_max => Err(TOO_LARGE),
        read => read.map(drop),
    }
}

/// Reads a body until its end or beyond `read_max` bytes, and returns the number of bytes read.
async fn read_all<B: Body<Data = Bytes>>(
    mut body: Pin<&mut B>,
    read_max: u64,
    idle_timeout: Duration,
) -> Result<u64, BodyError> {
    let mut len = 0;
    while len <= read_max && !body.is_end_stream() {
        let frame = poll_fn(|cx| body.as_mut().poll_frame(cx));
        match tokio::time::timeout(idle_timeout, frame).await {
            Err(_) => return Err(TOO_SLOW),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(BodyError::Gone),
            Ok(Some(Ok(frame))) => len += frame.data_ref().map_or(0, Bytes::len) as u64,
        }
    }
    Ok(len)
}

fn error_reply(status: Status) -> Option<Response<ReplyBody>> {
    let mut out = Out::new();
    StaticReply::new(status).put_last(&mut out, &Date::new(OsClock.unix_secs()));
    reply_of(&out.head, Bytes::new())
}

impl Scratch {
    fn dispatch(&mut self, context: &RequestContext<'_>, conn: &mut Conn, parts: &Parts) -> Served {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        write_head(parts, &mut head);
        let served =
            self.step(context, conn, OsClock.now(), |conn, io| context.http.handle_input(conn, &head, io));
        self.head = head;
        served
    }

    /// Runs one step of the state machine of a request, and takes its output. A panic of the service
    /// becomes a 500. A stream cannot be handed over, because the connection stays here: the request
    /// gets a 503, as one inside TLS does on a worker.
    fn step(
        &mut self,
        context: &RequestContext<'_>,
        conn: &mut Conn,
        now: Time,
        run: impl FnOnce(&mut Conn, Io<'_>) -> Next,
    ) -> Served {
        self.input.clear();
        self.out.clear();
        let date = Date::new(OsClock.unix_secs());
        let mut io = Io {
            now,
            date: &date,
            input: &mut self.input,
            out: &mut self.out,
            draining: false,
            local: &mut self.local,
            client: context.client,
        };
        let _next = match caught(|| run(conn, io.reborrow())) {
            Err(_panic) => {
                count(&context.counters.handler_panics);
                context.http.handle_panic(conn, io)
            }
            Ok(Next::HandOver) => {
                count(&context.counters.hand_over_refused);
                context.http.handle_overload(conn, CloseReason::NotTaken, io)
            }
            Ok(next) => next,
        };
        context.counters.count_misuses(self.out.take_misuses());
        if let Some(later) = self.out.take_later() {
            return Served::Later(later);
        }
        let body = core::mem::take(&mut self.out.body);
        Served::Reply(reply_of(&self.out.head, body))
    }
}

/// Encodes the request. `Host` is the value of `:authority`. A `host` field with another value is
/// written as a second `Host`, so that the parser refuses the request.
fn write_head(parts: &Parts, head: &mut Vec<u8>) {
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let target = match parts.uri.path_and_query() {
        Some(target) => target.as_str().as_bytes(),
        // A CONNECT request has no path.
        None => authority.unwrap_or_default(),
    };
    for part in [parts.method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"] {
        head.extend_from_slice(part);
    }
    let is_https = parts.uri.scheme_str() == Some("https");
    let mut put = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    };
    if let Some(authority) = authority {
        put(b"host", authority);
    }
    for host in parts.headers.get_all(header::HOST) {
        let host = host.as_bytes();
        if !authority.is_some_and(|authority| is_same_authority(authority, host, is_https)) {
            put(b"host", host);
        }
    }
    for (name, value) in parts.headers.iter().filter(|(name, _)| !NOT_COPIED.contains(name)) {
        put(name.as_str().as_bytes(), value.as_bytes());
    }
    // Clients split `Cookie`, so that HPACK compresses its parts; in HTTP/1.1 it is one line.
    let cookies: Vec<_> = parts.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if !cookies.is_empty() {
        put(b"cookie", &cookies.join(&b"; "[..]));
    }
    head.extend_from_slice(b"\r\n");
}

/// Converts a reply: `written` has the head and any content after it, `body` the rest of the
/// content. `None` if the head cannot be parsed, which does not happen with heads that the state
/// machine writes.
fn reply_of(written: &[u8], body: Bytes) -> Option<Response<ReplyBody>> {
    let parts = ReplyParts::parse(written)?;
    let mut response = Response::new(ReplyBody::Full([Bytes::copy_from_slice(parts.rest), body]));
    *response.status_mut() = StatusCode::from_u16(parts.status).ok()?;
    for (name, value) in parts.fields() {
        let value = HeaderValue::from_bytes(value).ok()?;
        response.headers_mut().append(HeaderName::from_bytes(name).ok()?, value);
    }
    Some(response)
}

#[cfg(test)]
mod tests;
