//! HTTP clients that violate rules, stall, leave, or provoke errors.

use core::time::Duration;

use doorbell_testkit::sim::{PeerStep, Reading};

use super::{Cast, Caster, End};
use crate::oracle::Reply;
use crate::service::pattern;

impl Caster<'_> {
    /// A client that sends more after its last request. The excess is discarded (RFC 9112 9.6), and
    /// the reply to the last request arrives.
    ///
    /// The length of the request is a multiple of the length of a receive, so that a receive may
    /// end with the last byte of the request.
    pub(super) fn beyond_close(&mut self) -> Cast {
        let (id, len) = (self.id(), self.body_len());
        let start = format!("GET /echo/{id}/{len} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Filler: ");
        let whole_len = *self.rng.pick(&[512, 2_048, 4_096]);
        let filler = "f".repeat(whole_len - start.len() - 4);
        let behind = "GET /echo/1/1 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1 + self.rng.index(20));
        let script = vec![PeerStep::Send(format!("{start}{filler}\r\n\r\n{behind}").into_bytes())];
        Cast::http(script, vec![Reply::Pattern { id, len, is_head: false }], End::Replied)
    }

    pub(super) fn early_error(&mut self) -> Cast {
        let long_field =
            format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {}", "y".repeat(self.limits.head_bytes_max + 100));
        let long_target = format!("GET /{}", "z".repeat(self.limits.request_line_bytes_max + 100));
        let table: [(&[u8], &'static [u16]); 9] = [
            (b"GET / HTTP/1.1\r\n\r\n", &[400]),
            (b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", &[400]),
            (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", &[501]),
            (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", &[505]),
            (b"GET / HTTP/1.1\nHost: a\n\n", &[400]),
            (b"POST /body/1/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n", &[413]),
            (
                b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                &[400],
            ),
            (long_field.as_bytes(), &[431]),
            (long_target.as_bytes(), &[414]),
        ];
        let (bad, statuses) = *self.rng.pick(&table);
        let (mut script, mut replies) = (Vec::new(), Vec::new());
        if self.rng.hits(300_000) {
            replies = self.conversation(&mut script, false);
        }
        // Input after the error must not turn the reply into a reset.
        let behind = vec![b'b'; self.rng.index(8_000)];
        let mut bytes = bad.to_vec();
        bytes.extend(behind);
        for piece in self.rng.split(&bytes, 6) {
            script.push(PeerStep::Send(piece));
            script.push(PeerStep::Wait(Duration::from_micros(self.rng.range(1..90_000))));
        }
        replies.push(Reply::Error(statuses));
        Cast::http(script, replies, End::Replied)
    }

    pub(super) fn slow_header(&mut self) -> Cast {
        let mut script = vec![PeerStep::Send(b"G".to_vec())];
        for byte in b"ET /echo/1/1 HTTP/1.1\r\nHost: a\r\nX-Very: ".iter().chain(&[b'x'; 200]) {
            script.push(PeerStep::Wait(Duration::from_millis(self.rng.range(500..1_500))));
            script.push(PeerStep::Send(vec![*byte]));
        }
        Cast::http(script, vec![Reply::Error(&[408])], End::CutAfterAccept(self.limits.header_timeout))
    }

    pub(super) fn silent(&self) -> Cast {
        Cast::http(Vec::new(), Vec::new(), End::CutAfterAccept(self.limits.header_timeout))
    }

    pub(super) fn body_stalled(&mut self) -> Cast {
        let id = self.id();
        let sent = 1 + self.rng.index(900);
        let mut bytes =
            format!("POST /body/{id}/10 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n").into_bytes();
        bytes.extend(&pattern(id, 1_000)[..sent]);
        // The connection is closed if the body is slower than 1 KiB/s after the grace period, or
        // earlier if it makes no progress.
        let earliest = self.limits.body_rate_grace.min(self.limits.body_idle_timeout);
        let latest =
            (self.limits.body_rate_grace + Duration::from_secs(1)).min(self.limits.body_idle_timeout);
        Cast::http(
            vec![PeerStep::Send(bytes)],
            vec![Reply::Error(&[408])],
            End::CutAfterSend(earliest, latest),
        )
    }

    pub(super) fn tcp_only(&mut self) -> Cast {
        let mut script = Vec::new();
        if self.rng.hits(500_000) {
            script.push(PeerStep::Wait(Duration::from_micros(self.rng.range(1..3_000_000))));
        }
        script.push(match self.rng.range(0..3) {
            0 => PeerStep::HalfClose,
            1 => PeerStep::Leave,
            _ => PeerStep::Reset,
        });
        Cast::http(script, Vec::new(), End::Left)
    }

    pub(super) fn leaves_midway(&mut self) -> Cast {
        let (mut bytes, mut replies) = (Vec::new(), Vec::new());
        for _ in 0..=self.rng.index(3) {
            let (request, reply) = self.request(false);
            bytes.extend(request);
            replies.push(reply);
        }
        bytes.truncate(1 + self.rng.index(bytes.len()));
        let mut script = Vec::new();
        self.send(&mut script, &bytes);
        if self.rng.hits(500_000) {
            script.push(PeerStep::Wait(Duration::from_micros(self.rng.range(1..2_000))));
        }
        script.push(match self.rng.range(0..3) {
            0 => PeerStep::HalfClose,
            1 => PeerStep::Leave,
            _ => PeerStep::Reset,
        });
        Cast::http(script, replies, End::Left)
    }

    pub(super) fn handler_closes(&mut self) -> Cast {
        let (mut script, mut replies) = (Vec::new(), Vec::new());
        if self.rng.hits(500_000) {
            replies = self.conversation(&mut script, false);
        }
        self.send(&mut script, b"GET /close HTTP/1.1\r\nHost: a\r\n\r\n");
        Cast::http(script, replies, End::Replied)
    }

    pub(super) fn handler_panics(&mut self) -> Cast {
        let mut script = Vec::new();
        self.send(&mut script, b"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n");
        Cast::http(script, vec![Reply::Error(&[500])], End::Replied)
    }

    pub(super) fn job_faults(&mut self) -> Cast {
        let mut script = Vec::new();
        self.send(&mut script, b"GET /fault HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        Cast::http(script, vec![Reply::Error(&[500, 503])], End::Replied)
    }

    /// A client that requests jobs and leaves without waiting for them.
    pub(super) fn job_leaves(&mut self) -> Cast {
        let (mut bytes, mut replies) = (Vec::new(), Vec::new());
        for _ in 0..=self.rng.index(2) {
            let (id, len) = (self.id(), self.body_len());
            bytes.extend(format!("GET /job/{id}/{len} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes());
            replies.push(Reply::Job { id, len, is_head: false, may_be_late: false });
        }
        let mut script = Vec::new();
        self.send(&mut script, &bytes);
        if self.rng.hits(700_000) {
            script.push(PeerStep::Wait(Duration::from_micros(self.rng.range(1..20_000))));
        }
        script.push(if self.rng.hits(500_000) { PeerStep::Leave } else { PeerStep::Reset });
        Cast::http(script, replies, End::Left)
    }

    pub(super) fn never_reads(&mut self) -> Cast {
        let (id, len) = (self.id(), 40_000);
        let way = *self.rng.pick(&["echo", "bytes"]);
        let request = format!("GET /{way}/{id}/{len} HTTP/1.0\r\n\r\n").into_bytes();
        let replies = vec![Reply::Pattern { id, len, is_head: false }];
        let mut cast = Cast::http(vec![PeerStep::Send(request)], replies, End::Stalled(self.write_timeout));
        cast.reading = Reading::Never;
        cast.window_len = 1 + self.rng.index(20_000);
        cast
    }
}
