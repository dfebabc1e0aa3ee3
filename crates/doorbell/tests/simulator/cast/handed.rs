//! Clients whose connections are handed over.

use core::time::Duration;

use doorbell_testkit::sim::PeerStep;

use super::{Cast, Caster, End, HANDED};
use crate::oracle::Reply;
use crate::service::{GREETING, HANDED_AFTER, pattern};

impl Caster<'_> {
    /// Returns a request for the application, and its reply.
    fn app_request(&mut self, last: bool) -> (Vec<u8>, Reply) {
        let (id, len) = (self.id(), self.body_len());
        let close = if last { "Connection: close\r\n" } else { "" };
        let body = if self.rng.hits(400_000) { pattern(id, self.body_len()) } else { Vec::new() };
        let start = if body.is_empty() { "GET" } else { "POST" };
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("{start} /app/{id}/{len} HTTP/1.1\r\nHost: a\r\n{length}{close}\r\n");
        ([head.as_bytes(), &body].concat(), Reply::Pattern { id, len, is_head: false })
    }

    /// A client with some requests for the worker, then some for the application.
    pub(super) fn handed_over(&mut self) -> Cast {
        let (mut script, mut replies, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rng.index(3) {
            let (request, reply) = self.request(false);
            bytes.extend(request);
            replies.push(reply);
        }
        let count = 1 + self.rng.index(3);
        for index in 0..count {
            let (request, reply) = self.app_request(index + 1 == count);
            bytes.extend(request);
            replies.push(reply);
        }
        self.send(&mut script, &bytes);
        Cast::http(script, replies, End::Replied)
    }

    /// A client that sends nothing, or only after the hand-over.
    pub(super) fn handed_silent(&mut self) -> Cast {
        let id = self.id();
        let mut script = Vec::new();
        let replies = vec![Reply::Raw(GREETING.to_vec()), Reply::Raw(pattern(id, 100))];
        let around = HANDED_AFTER.as_micros();
        let around = u64::try_from(around).expect("seconds");
        match self.rng.range(0..3) {
            0 => Self::await_replies(&mut script, &replies[..1]),
            1 => script.push(PeerStep::Wait(Duration::from_micros(self.rng.range(0..around)))),
            _ => script
                .push(PeerStep::Wait(Duration::from_micros(self.rng.range(around - 5_000..around + 15_000)))),
        }
        self.send(&mut script, format!("{id}\n").as_bytes());
        Cast { listener: HANDED, ..Cast::http(script, replies, End::Replied) }
    }
}
