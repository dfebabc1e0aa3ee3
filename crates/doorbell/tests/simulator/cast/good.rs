//! HTTP clients that follow the rules and must get every reply.

use core::time::Duration;

use doorbell_testkit::sim::{PeerStep, Reading};

use super::{Cast, Caster, End};
use crate::oracle::Reply;
use crate::service::pattern;

impl Caster<'_> {
    /// Returns a complete request without a body, and its reply.
    pub(super) fn request(&mut self, last: bool) -> (Vec<u8>, Reply) {
        let (id, len) = (self.id(), self.body_len());
        let way = *self.rng.pick(&["echo", "echo", "bytes", "job"]);
        let is_head = self.rng.hits(100_000);
        let method = if is_head { "HEAD" } else { "GET" };
        let close = if last { "Connection: close\r\n" } else { "" };
        let filler = "x".repeat(self.rng.index(60));
        let head = match self.rng.range(0..4) {
            0 => format!("{method} http://a/{way}/{id}/{len} HTTP/1.1\r\nHost: a\r\n{close}\r\n"),
            1 => format!(
                "\r\n{method} /{way}/{id}/{len}?q HTTP/1.1\r\nhost:a\r\nX-Filler: {filler}\r\n{close}\r\n"
            ),
            _ => format!(
                "{method} /{way}/{id}/{len} HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.35\r\n{close}\r\n"
            ),
        };
        let reply = match way {
            "job" => Reply::Job { id, len, is_head, may_be_late: last },
            _ => Reply::Pattern { id, len, is_head },
        };
        (head.into_bytes(), reply)
    }

    /// A client that requests a job with a short timeout. It gets the reply, or a refusal and a
    /// close.
    pub(super) fn job_hasty(&mut self) -> Cast {
        let (id, len) = (self.id(), self.body_len());
        let bytes = format!("GET /hasty/{id}/{len} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut script = Vec::new();
        self.send(&mut script, bytes.as_bytes());
        Cast::http(script, vec![Reply::Job { id, len, is_head: false, may_be_late: true }], End::Replied)
    }

    pub(super) fn probe(&mut self) -> Cast {
        let (bytes, reply) = if self.rng.hits(400_000) {
            let (id, len) = (self.id(), self.body_len());
            let bytes = format!("GET /echo/{id}/{len} HTTP/1.0\r\n\r\n").into_bytes();
            (bytes, Reply::Pattern { id, len, is_head: false })
        } else {
            self.request(true)
        };
        let mut script = Vec::new();
        self.send(&mut script, &bytes);
        Cast::http(script, vec![reply], End::Replied)
    }

    pub(super) fn data_and_fin(&mut self) -> Cast {
        let (bytes, reply) = self.request(false);
        Cast::http(vec![PeerStep::SendAndFin(bytes)], vec![reply], End::Replied)
    }

    /// Adds a few requests, each after the reply to the previous one, and returns their replies.
    pub(super) fn conversation(&mut self, script: &mut Vec<PeerStep>, last_closes: bool) -> Vec<Reply> {
        let mut replies = Vec::new();
        let count = 1 + self.rng.index(6);
        for index in 0..count {
            let (bytes, reply) = self.request(last_closes && index + 1 == count);
            self.send(script, &bytes);
            replies.push(reply);
            Self::await_replies(script, &replies);
        }
        replies
    }

    pub(super) fn keep_alive(&mut self) -> Cast {
        let mut script = Vec::new();
        let closes = self.rng.hits(500_000);
        let replies = self.conversation(&mut script, closes);
        if !closes {
            script.push(PeerStep::HalfClose);
        }
        Cast::http(script, replies, End::Replied)
    }

    pub(super) fn idle_keep_alive(&mut self) -> Cast {
        let mut script = Vec::new();
        let replies = self.conversation(&mut script, false);
        Cast::http(script, replies, End::CutAfterReply(self.limits.idle_timeout))
    }

    pub(super) fn pipelined(&mut self) -> Cast {
        let count = 2 + self.rng.index(12);
        let (mut bytes, mut replies) = (Vec::new(), Vec::new());
        let closes = self.rng.hits(600_000);
        for index in 0..count {
            let (request, reply) = self.request(closes && index + 1 == count);
            bytes.extend(request);
            replies.push(reply);
        }
        let mut script = Vec::new();
        self.send(&mut script, &bytes);
        if !closes {
            script.push(PeerStep::HalfClose);
        }
        Cast::http(script, replies, End::Replied)
    }

    pub(super) fn shared(&mut self) -> Cast {
        let mut cast = Cast::http(
            vec![PeerStep::Send(b"GET /shared HTTP/1.0\r\n\r\n".to_vec())],
            vec![Reply::Shared],
            End::Replied,
        );
        cast.window_len = *self.rng.pick(&[1_000, 30_000, 256 * 1024]);
        cast
    }

    pub(super) fn slow_reader(&mut self) -> Cast {
        let (id, len) = (self.id(), 5_000 + self.rng.index(60_000));
        let way = *self.rng.pick(&["echo", "bytes"]);
        let request = format!("GET /{way}/{id}/{len} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let mut script = Vec::new();
        self.send(&mut script, request.as_bytes());
        let mut cast = Cast::http(script, vec![Reply::Pattern { id, len, is_head: false }], End::Replied);
        let every = Duration::from_millis(self.rng.range(1..400));
        cast.reading = Reading::Slow { len: 500 + self.rng.index(3_000), every };
        cast.window_len = 2_000 + self.rng.index(10_000);
        cast
    }

    pub(super) fn post(
        &mut self,
        id: u64,
        body_len: usize,
        expect: &str,
        last: bool,
    ) -> (Vec<u8>, Vec<u8>, Reply) {
        let len = self.body_len();
        let close = if last { "Connection: close\r\n" } else { "" };
        let start = format!("POST /body/{id}/{len} HTTP/1.1\r\nHost: a\r\n{expect}{close}");
        let content = pattern(id, body_len);
        let reply = Reply::Pattern { id, len, is_head: false };
        if self.rng.hits(500_000) {
            let head = format!("{start}Content-Length: {body_len}\r\n\r\n").into_bytes();
            return (head, content, reply);
        }
        let mut chunked = Vec::new();
        for piece in self.rng.split(&content, 5) {
            if !piece.is_empty() {
                chunked.extend(format!("{:x}\r\n", piece.len()).into_bytes());
                chunked.extend(piece);
                chunked.extend(b"\r\n");
            }
        }
        chunked.extend(b"0\r\n\r\n");
        (format!("{start}Transfer-Encoding: chunked\r\n\r\n").into_bytes(), chunked, reply)
    }

    pub(super) fn body_whole(&mut self) -> Cast {
        let (mut script, mut replies, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let count = 1 + self.rng.index(3);
        for index in 0..count {
            let (id, body_len) = (self.id(), self.rng.index(9_000));
            let (head, body, reply) = self.post(id, body_len, "", index + 1 == count);
            bytes.extend(head);
            bytes.extend(body);
            replies.push(reply);
        }
        self.send(&mut script, &bytes);
        Cast::http(script, replies, End::Replied)
    }

    pub(super) fn expect_continue(&mut self) -> Cast {
        let (id, body_len) = (self.id(), 1 + self.rng.index(3_000));
        let (head, body, reply) = self.post(id, body_len, "Expect: 100-continue\r\n", true);
        let mut script = Vec::new();
        self.send(&mut script, &head);
        Self::await_replies(&mut script, &[Reply::Continue]);
        self.send(&mut script, &body);
        Cast::http(script, vec![Reply::Continue, reply], End::Replied)
    }
}
