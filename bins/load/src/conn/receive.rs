//! The receiving half of a connection: bytes, the end of the stream, errors.

use doorbell_ring::Errno;

use super::{After, Conn, Job, Next, Phase};
use crate::clock::Nanos;
use crate::plan::Flow;
use crate::reply::{Progress, Reply};
use crate::stats::{FailureKind, Stats};

const ENOTCONN: i32 = rustix::io::Errno::NOTCONN.raw_os_error();

impl Conn {
    /// Handles the result of a receive: bytes (at least one), the end of the stream (`None`), or an
    /// error.
    #[inline]
    pub(crate) fn handle_received(
        &mut self,
        now: Nanos,
        result: Result<Option<&[u8]>, Errno>,
        job: &Job,
        stats: &mut Stats,
    ) -> Next {
        self.recv_in_flight = false;
        if let Some(after) = self.ending {
            return self.when_quiet(after);
        }
        match (result, self.phase) {
            (Ok(Some(bytes)), Phase::Active) => self.handle_bytes(now, bytes, job, stats),
            (Ok(Some(bytes)), _) => {
                // These bytes follow a complete reply.
                stats.bytes_in += bytes.len() as u64;
                self.fail(now, FailureKind::WrongBytes, None, stats)
            }
            (Ok(None), Phase::Tail) => self.handle_last_end(now, job, stats),
            (Ok(None), _) => self.handle_end(now, job, stats),
            (Err(errno), _) => self.handle_recv_error(now, errno, stats),
        }
    }

    #[inline]
    fn handle_bytes(&mut self, now: Nanos, bytes: &[u8], job: &Job, stats: &mut Stats) -> Next {
        stats.bytes_in += bytes.len() as u64;
        if !self.first_byte_seen {
            self.first_byte_seen = true;
            self.first_byte_after = Some(now.saturating_sub(self.batch.due()));
        }
        let mut rest = bytes;
        loop {
            let id = job.id(self.batch.next());
            match self.reader.handle(rest, &job.expect, id) {
                Ok(Progress::More) => return Next::Recv,
                Ok(Progress::Done(reply, used)) => {
                    rest = &rest[used..];
                    if let Some(next) = self.handle_reply(now, reply, rest, job, stats) {
                        return next;
                    }
                }
                Err(kind) => return self.fail(now, kind, None, stats),
            }
            if rest.is_empty() {
                return Next::Recv;
            }
        }
    }

    /// Handles a complete reply, followed by `rest`. Returns `None` while further replies of the
    /// batch are missing.
    #[inline]
    fn handle_reply(
        &mut self,
        now: Nanos,
        mut reply: Reply,
        rest: &[u8],
        job: &Job,
        stats: &mut Stats,
    ) -> Option<Next> {
        let is_last = self.batch.left() == 1;
        if is_last && !rest.is_empty() {
            reply.bad = reply.bad.or(Some(FailureKind::WrongBytes));
        }
        if let Flow::New { closer, .. } = job.flow {
            if closer.waits_for_end() {
                self.reply = Some(reply);
                self.phase = Phase::Tail;
                return Some(if rest.is_empty() { Next::Recv } else { self.end_new(now, reply, job, stats) });
            }
            return Some(self.end_new(now, reply, job, stats));
        }
        self.count(now, reply, job, stats);
        self.batch.done += 1;
        let is_over = self.batch.left() == 0;
        if reply.close {
            stats.reconnects += 1;
            return Some(self.settle(if is_over { After::Done } else { After::Again }));
        }
        if !is_over {
            return None;
        }
        // A send still in flight means that the server replied before it had read the whole
        // request. The connection cannot be used for further requests.
        if !rest.is_empty() || self.send_in_flight {
            return Some(self.settle(After::Done));
        }
        self.served = self.served.saturating_add(1);
        self.phase = Phase::Idle;
        self.deadline = crate::clock::NEVER;
        Some(Next::Idle)
    }

    /// Handles a close by the server when no reply is missing.
    fn handle_last_end(&mut self, now: Nanos, job: &Job, stats: &mut Stats) -> Next {
        match self.reply.take() {
            Some(reply) => self.end_new(now, reply, job, stats),
            None => self.fail(now, FailureKind::Short, None, stats),
        }
    }

    /// Handles a close by the server while replies are missing.
    fn handle_end(&mut self, now: Nanos, job: &Job, stats: &mut Stats) -> Next {
        let is_keep = matches!(job.flow, Flow::Keep { .. });
        if is_keep && self.served > 0 && self.batch.done == 0 && self.reader.is_between_replies() {
            // The server closed an idle connection at the moment a request was sent, which is
            // allowed.
            stats.reconnects += 1;
            return self.settle(After::Again);
        }
        match self.reader.handle_end(&job.expect) {
            Ok(reply) if is_keep => self.handle_reply(now, reply, &[], job, stats).unwrap_or(Next::Recv),
            Ok(reply) => self.end_new(now, reply, job, stats),
            Err(kind) => self.fail(now, kind, None, stats),
        }
    }

    #[cold]
    fn handle_recv_error(&mut self, now: Nanos, errno: Errno, stats: &mut Stats) -> Next {
        if errno == Errno::NOBUFS {
            return Next::Recv;
        }
        if self.connected {
            return self.fail(now, FailureKind::Reset, Some(errno), stats);
        }
        // The error of a failed handshake is reported once, to the first operation. If a send is in
        // flight, that send gets the error.
        if errno == Errno(ENOTCONN) && self.send_in_flight {
            return Next::Wait;
        }
        self.fail(now, FailureKind::Connect, Some(errno), stats)
    }

    fn end_new(&mut self, now: Nanos, reply: Reply, job: &Job, stats: &mut Stats) -> Next {
        self.count(now, reply, job, stats);
        self.settle(After::Done)
    }

    #[inline]
    fn count(&mut self, now: Nanos, reply: Reply, job: &Job, stats: &mut Stats) {
        if !self.batch.is_measured {
            return;
        }
        stats.last_done = now;
        stats.count_status(reply.status);
        stats.foreign_bytes += reply.foreign;
        let first_byte_after = self.first_byte_after.take();
        if let Some(kind) = reply.bad {
            stats.failures.count(kind, None);
            return;
        }
        stats.requests += 1;
        stats.requests_in_time += u64::from(now <= job.measured_until);
        if let Some(after) = first_byte_after {
            stats.first_byte.record(after);
        }
        stats.total.record(now.saturating_sub(self.batch.due()));
    }
}
