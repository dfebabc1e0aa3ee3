//! Everything between a received datagram and its reply: size, limit, handler, length of the reply.

use core::fmt;
use core::hash::BuildHasher as _;
use core::num::NonZeroU16;
use std::hash::RandomState;
use std::sync::Arc;

use doorbell_http::limit::{Limiter, Quota};

use super::handler::{DatagramHandler, DatagramReply, DatagramRequest, TooLong};
use crate::driver::{Datagram, Replies};
use crate::panics::{caught, dispose};
use crate::time::Time;

/// Longest payload of a datagram over IPv4 (RFC 768, RFC 791).
pub(super) const PAYLOAD_MAX: usize = 65_507;

/// A handler with the settings of its listener.
pub(crate) struct Service {
    /// `None` only while the service is dropped.
    handler: Option<Arc<dyn DatagramHandler>>,
    name: Arc<str>,
    amplification: usize,
    reply_max: usize,
    limiter: Option<Limiter>,
    client_v6_len: u8,
}

/// Settings of a [`Service`].
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) name: Arc<str>,
    pub(super) size_max: usize,
    pub(super) amplification: NonZeroU16,
    /// The limit per client address, and the number of addresses to remember.
    pub(super) limit: Option<(Quota, usize)>,
    pub(super) client_v6_len: u8,
}

/// What happened to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply was too long for its request.
    Guarded,
    /// The client exceeded its limit.
    Limited,
    /// The handler panicked.
    Panicked,
    /// A reply was added to the batch.
    Replied,
    /// The handler did not reply.
    Silent,
    /// The datagram exceeded the maximum size.
    Truncated,
}

impl Service {
    pub(super) fn new(settings: Settings, handler: Arc<dyn DatagramHandler>) -> Self {
        let Settings { name, size_max, amplification, limit, client_v6_len } = settings;
        let amplification = usize::from(amplification.get());
        let seed = RandomState::new();
        let limiter = limit
            .map(|(quota, keys_max)| Limiter::new(quota, keys_max, [seed.hash_one(0), seed.hash_one(1)]));
        Self {
            handler: Some(handler),
            name,
            amplification,
            reply_max: size_max.saturating_mul(amplification).min(PAYLOAD_MAX),
            limiter,
            client_v6_len,
        }
    }

    /// The length of the longest reply.
    #[inline]
    pub(crate) const fn reply_max(&self) -> usize {
        self.reply_max
    }

    /// Passes a datagram to the handler and adds its reply to `replies`, which have room for
    /// [`Self::reply_max`] bytes.
    #[inline]
    pub(crate) fn serve(&self, datagram: &Datagram<'_>, now: Time, replies: &mut Replies) -> Outcome {
        let Datagram { payload, peer, local, is_truncated } = *datagram;
        if is_truncated {
            return Outcome::Truncated;
        }
        let limiter = self.limiter.as_ref();
        if limiter.is_some_and(|limiter| !limiter.check_ip(peer.ip(), self.client_v6_len, now).is_allowed()) {
            return Outcome::Limited;
        }
        let request = DatagramRequest { payload, peer, local, listener: &self.name, now };
        let len_max = (payload.len() * self.amplification).min(self.reply_max);
        match self.ask(&request, replies.room(len_max)) {
            Some(Ok(Some(len))) => {
                replies.push(peer, local, len);
                Outcome::Replied
            }
            Some(Ok(None)) => Outcome::Silent,
            Some(Err(TooLong)) => Outcome::Guarded,
            None => Outcome::Panicked,
        }
    }

    /// Calls the handler; `None` after a panic.
    #[inline]
    fn ask(&self, request: &DatagramRequest<'_>, room: &mut [u8]) -> Option<Result<Option<usize>, TooLong>> {
        let handler = self.handler.as_ref()?;
        let mut reply = DatagramReply::new(room);
        caught(|| handler.handle(request, &mut reply)).ok()?;
        Some(reply.finish())
    }
}

impl Drop for Service {
    /// The destructor of the handler may panic, which must not count as a failure of the worker.
    fn drop(&mut self) {
        dispose(self.handler.take());
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("name", &self.name)
            .field("reply_max", &self.reply_max)
            .finish_non_exhaustive()
    }
}
