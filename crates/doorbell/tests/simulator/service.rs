//! The simulated server's replies. Their bytes identify the request, so that a misplaced byte is
//! detected.

use core::time::Duration;

use bytes::Bytes;
use doorbell::stream::{Context, Stream, StreamHandler};
use doorbell::time::Time;
use doorbell::{
    Handler, Http1, HttpLimits, MessageStart, Offload, Raw, RawHandler, RawNext, Replied, Reply, Request,
    Responder, StaticReply, Status,
};
use doorbell_testkit::sim::splitmix;

/// The name of the response field that contains the id of the request.
pub(super) const ID_FIELD: &str = "X-Id";

/// The greeting of a raw listener whose server sends first.
pub(super) const GREETING: &[u8] = b"220 doorbell says hello\r\n";

/// How long a client of [`handed`] may be silent.
pub(super) const HANDED_AFTER: Duration = Duration::from_secs(2);

/// Length of the reply that all connections share.
pub(super) const SHARED_LEN: usize = 70_000;

/// The id of the pattern in the shared reply.
pub(super) const SHARED_ID: u64 = 0;

/// Returns `len` bytes that identify `id`: no part of them occurs in the bytes of another id.
pub(super) fn pattern(id: u64, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).flat_map(|word| splitmix(splitmix(id) ^ word).to_le_bytes());
    words.take(len).collect()
}

/// The service. `/echo/ID/LEN` replies with LEN bytes of ID, rendered for this request.
/// `/bytes/ID/LEN` replies with the same bytes as a separate shared payload. `/body/ID/LEN` replies
/// with the same bytes, if the body of the request is the pattern of ID. `/shared` has one reply
/// for all requests; `/close` closes without a reply; `/panic` panics in the handler. `/job/ID/LEN`
/// replies like `/echo`, in a job; `/hasty/ID/LEN` in a job with a short timeout; `/fault` panics
/// in a job.
struct Echo {
    shared: StaticReply,
    jobs: Offload,
}

impl Handler for Echo {
    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        matches!(begun, MessageStart::Body(head) if head.path().starts_with("/app/"))
    }

    fn wants_body(&self, head: &Request<'_>) -> bool {
        head.path().starts_with("/body/")
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        let mut parts = request.path().split('/').skip(1);
        let kind = parts.next().unwrap_or_default();
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok()).unwrap_or_default();
        let (id, len) = (number(), usize::try_from(number()).unwrap_or_default());
        match kind {
            "app" => reply.hand_over(),
            "body" if request.body() != pattern(id, request.body().len()) => {
                reply.status(Status::CONFLICT).header(ID_FIELD, id.to_string()).empty()
            }
            "body" | "echo" => {
                reply.status(Status::OK).header(ID_FIELD, id.to_string()).content(pattern(id, len))
            }
            "bytes" => reply
                .status(Status::OK)
                .header(ID_FIELD, id.to_string())
                .content_bytes(Bytes::from(pattern(id, len))),
            "close" => reply.close(),
            "job" => self.jobs.run(request, reply, move || job(id, len)),
            "hasty" => {
                let hasty = self.jobs.clone().timeout(Duration::from_nanos(1));
                hasty.run(request, reply, move || job(id, len))
            }
            "fault" => self
                .jobs
                .run(request, reply, || -> Reply { std::panic::resume_unwind(Box::new("a job's fault")) }),
            // `panic!` would print a message to standard error.
            "panic" => std::panic::resume_unwind(Box::new("a handler's fault")),
            "shared" => reply.send(&self.shared),
            _ => reply.status(Status::NOT_FOUND).empty(),
        }
    }
}

fn job(id: u64, len: usize) -> Reply {
    Reply::new(Status::OK).header(ID_FIELD, id.to_string()).body("application/octet-stream", pattern(id, len))
}

pub(super) fn http(limits: HttpLimits, jobs: Offload) -> Http1 {
    let shared = StaticReply::new(Status::OK)
        .body("application/octet-stream", pattern(SHARED_ID, SHARED_LEN))
        .expect("a valid content type");
    Http1::new(Echo { shared, jobs }).limits(limits)
}

/// Replies to a line `ID LEN` or `ID LEN keep` with LEN bytes of ID, then closes, or with `keep`
/// waits for the next line.
pub(super) fn raw() -> Raw {
    Raw::new(|received: &[u8], reply: &mut Vec<u8>| {
        let Some(line) = received.strip_suffix(b"\n") else { return RawNext::NeedMore };
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        let (id, len) = (number(), usize::try_from(number()).unwrap_or_default());
        reply.extend_from_slice(&pattern(id, len));
        if words.next() == Some("keep") { RawNext::Continue } else { RawNext::Close }
    })
}

/// Replies like [`raw`], but each reply is a message that the connection pushes to itself, and is
/// written in parts.
pub(super) fn streamed() -> Stream<Parts> {
    let limit = Duration::from_secs(10);
    Stream::new(Parts).first_timeout(limit).frame_timeout(limit).idle_timeout(limit).frame_bytes_max(4096)
}

/// The length of a part.
const PART_LEN: usize = 1_000;

pub(super) struct Parts;

/// Replies of a connection of [`Parts`].
#[derive(Default)]
pub(super) struct Replies {
    /// Number of replies that were pushed and not yet written.
    pending: u32,
    /// The rest of the current reply.
    rest: Vec<u8>,
    closes: bool,
}

impl Parts {
    fn write_part(replies: &mut Replies, cx: &mut Context<'_, Self>) {
        let part = replies.rest.len().min(PART_LEN);
        cx.write(&replies.rest[..part]);
        replies.rest.drain(..part);
        if !replies.rest.is_empty() {
            return cx.notify_writable();
        }
        replies.pending -= 1;
        if replies.pending == 0 && replies.closes {
            cx.close();
        }
    }
}

impl StreamHandler for Parts {
    type Conn = Replies;
    type Message = (u64, usize);

    fn open(&self, _cx: &mut Context<'_, Self>) -> Replies {
        Replies::default()
    }

    fn data(&self, replies: &mut Replies, input: &[u8], cx: &mut Context<'_, Self>) -> usize {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return 0 };
        if replies.closes {
            return input.len();
        }
        let line = String::from_utf8_lossy(&input[..end]);
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        let (id, len) = (number(), usize::try_from(number()).unwrap_or_default());
        cx.handle().push((id, len)).expect("a peer waits for its reply");
        replies.pending += 1;
        replies.closes = words.next() != Some("keep");
        end + 1
    }

    fn end(&self, replies: &mut Replies, _rest: &[u8], cx: &mut Context<'_, Self>) {
        replies.closes = true;
        if replies.pending == 0 {
            cx.close();
        }
    }

    fn message(&self, replies: &mut Replies, (id, len): (u64, usize), cx: &mut Context<'_, Self>) {
        replies.rest = pattern(id, len);
        Self::write_part(replies, cx);
    }

    fn writable(&self, replies: &mut Replies, cx: &mut Context<'_, Self>) {
        Self::write_part(replies, cx);
    }
}

/// A handler that sends a greeting, then replies to one line as [`raw`] does.
struct Greeter;

impl RawHandler for Greeter {
    fn speaks_first(&self) -> bool {
        true
    }

    fn greet(&self, _now: Time, reply: &mut Vec<u8>) -> RawNext {
        reply.extend_from_slice(GREETING);
        RawNext::Continue
    }

    fn handle(&self, _now: Time, received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        let Some(line) = received.strip_suffix(b"\n") else { return RawNext::NeedMore };
        let id = String::from_utf8_lossy(line).parse::<u64>().unwrap_or_default();
        reply.extend_from_slice(&pattern(id, 100));
        RawNext::Close
    }
}

pub(super) fn greeter() -> Raw {
    Raw::new(Greeter)
}

/// Hands a connection over with its first bytes, or after [`HANDED_AFTER`] without bytes.
pub(super) fn handed() -> Raw {
    let handler = |_: &[u8], _: &mut Vec<u8>| RawNext::HandOver;
    Raw::new(handler).timeout(HANDED_AFTER).hand_over_silent(true)
}
