//! An ICMP or ICMPv6 echo on an unprivileged socket (`IPPROTO_ICMP` in icmp(7)).

use crate::connect::datagrams::Received;
use crate::connect::dialer::Dialer;
use crate::finding::Verdict;
use crate::kinds::expectations::in_time;
use crate::kinds::impl_kind_runner;
use crate::kinds::materials::Materials;
use crate::options::{Address, IcmpCheck};
use crate::progress::{Progress, Stage};
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;
use tokio::time::Instant;

/// Length of type, code, checksum, identifier and sequence number (RFC 792, RFC 4443). The
/// sequence number is always zero: each run has a socket, and thus an identifier, of its own.
const HEADER_LEN: usize = 8;

/// Checks one address.
#[derive(Debug)]
pub(crate) struct IcmpRunner {
    check: IcmpCheck,
    dialer: Dialer,
    resend_every: Duration,
    tokens: RandomState,
}

impl IcmpRunner {
    pub(crate) fn new(check: &IcmpCheck, with: &Materials<'_>) -> Self {
        let dialer = with.dialer(&Address::Tcp(check.host.clone()), check.resolve);
        let resend_every = with.pace.timeout / check.sends.max(1);
        Self { check: check.clone(), dialer, resend_every, tokens: RandomState::new() }
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let (socket, peer) = self.dialer.begin_echo(progress, self.check.max_hops).await?;
        progress.enter(Stage::Response);
        let (request, reply) = if peer.is_ipv4() { (8, 0) } else { (128, 129) };
        let message = self.message(request, start);
        let read = |received: Received| Ok(Some(received).filter(|it| is_reply(&it.bytes, reply, &message)));
        let reply = socket.ask(&message, (self.check.sends, self.resend_every), read).await?;
        progress.see(|seen| seen.hop_limit = reply.hop_limit);
        in_time(start.elapsed(), self.check.latency)
    }

    /// A request. Its content repeats a token that the peer cannot guess.
    fn message(&self, kind: u8, start: Instant) -> Vec<u8> {
        let token = self.tokens.hash_one(start).to_be_bytes();
        let mut message = vec![0; HEADER_LEN];
        message[0] = kind;
        message.extend(token.into_iter().cycle().take(self.check.size as usize));
        message
    }
}

/// Whether the message is of this type and repeats the content of the request.
fn is_reply(received: &[u8], kind: u8, request: &[u8]) -> bool {
    received.first() == Some(&kind) && received.get(HEADER_LEN..) == request.get(HEADER_LEN..)
}

impl_kind_runner!(IcmpRunner, is_connectionless: |_any| true);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_repeats_the_content() {
        let request = b"\x08\0\0\0\0\0\0\0doorbell";
        for (received, expected) in [
            (&b"\0\0\x12\x34\x56\x78\0\0doorbell"[..], true),
            // The request itself, half of a reply, another content, another type, nothing.
            (request, false),
            (b"\0\0\x12\x34\x56\x78\0\0door", false),
            (b"\0\0\x12\x34\x56\x78\0\0doorbel1", false),
            (b"\x03\0\x12\x34\x56\x78\0\0doorbell", false),
            (b"\0\0", false),
            (b"", false),
        ] {
            assert_eq!(is_reply(received, 0, request), expected, "{}", received.escape_ascii());
        }
    }
}
