//! A datagram to a UDP port or a Unix socket, and optionally a reply.
//!
//! Without an expected reply, a datagram that causes no ICMP error is a success.

use crate::connect::datagrams::Datagrams;
use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict};
use crate::kinds::expectations::{contains, in_time, lacking, text_of};
use crate::kinds::impl_kind_runner;
use crate::kinds::lines::shown;
use crate::kinds::materials::Materials;
use crate::options::UdpCheck;
use crate::progress::{Progress, Stage};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The default wait for an ICMP error is the timeout of a run divided by this number.
const WAIT_PART: u32 = 10;

/// Checks one address.
#[derive(Debug)]
pub(crate) struct UdpRunner {
    check: UdpCheck,
    dialer: Dialer,
    /// Wait for an ICMP error, if no reply is expected.
    wait: Duration,
    resend_every: Duration,
}

impl UdpRunner {
    pub(crate) fn new(check: &UdpCheck, with: &Materials<'_>) -> Self {
        let (dialer, timeout) = (with.dialer(&check.address, check.resolve), with.pace.timeout);
        let wait = check.wait.unwrap_or(timeout / WAIT_PART);
        let resend_every = if check.payload.expects_response() { timeout } else { wait } / check.sends.max(1);
        Self { check: check.clone(), dialer, wait, resend_every }
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let socket = self.dialer.begin_datagrams(progress).await?;
        progress.enter(Stage::Response);
        if !self.check.payload.expects_response() {
            return self.unanswered(&socket).await;
        }
        let reply = self.reply(&socket).await?;
        let latency = start.elapsed();
        self.evaluate(&reply).inspect_err(|_| progress.see(|seen| seen.fails_pattern = true))?;
        in_time(latency, self.check.latency)
    }

    /// Sends the datagram; success unless an ICMP error arrives in time. A Unix socket reports
    /// every error when the datagram is sent.
    async fn unanswered(&self, socket: &Datagrams) -> Verdict {
        if self.dialer.is_unix() {
            let sent = timeout(self.wait, socket.send(&self.check.payload.send)).await;
            return sent.unwrap_or_else(|_full| Err(Issue::failure("the receive queue is full")));
        }
        match timeout(self.wait, self.reply(socket)).await {
            Ok(reply) => reply.map(drop),
            Err(_no_error) => Ok(()),
        }
    }

    /// Sends the datagram up to `sends` times, and returns the first reply.
    async fn reply(&self, socket: &Datagrams) -> Result<Vec<u8>, Issue> {
        let sends = (self.check.sends, self.resend_every);
        socket.ask(&self.check.payload.send, sends, |any| Ok(Some(any.bytes))).await
    }

    fn evaluate(&self, reply: &[u8]) -> Verdict {
        let payload = &self.check.payload;
        let has_wanted = contains(reply, &payload.contains);
        if has_wanted && payload.matches.as_ref().is_none_or(|pattern| pattern.matches(&text_of(reply))) {
            return Ok(());
        }
        let lacking = lacking(payload, has_wanted);
        Err(Issue::failure(format!("the reply is {}, without {lacking}", shown(reply))))
    }
}

impl_kind_runner!(UdpRunner, is_connectionless: |_any| true);
