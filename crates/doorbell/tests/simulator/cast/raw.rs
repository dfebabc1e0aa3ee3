//! Clients of the raw listeners.

use doorbell::id::ListenerIndex;
use doorbell_testkit::sim::PeerStep;

use super::{Cast, Caster, End, GREETER, RAW, STREAMED};
use crate::oracle::Reply;
use crate::service::{GREETING, pattern};

impl Caster<'_> {
    pub(super) fn raw_line(&mut self, suffix: &str) -> (Vec<u8>, Reply) {
        let (id, len) = (self.id(), self.body_len());
        // The length is at least 1, because the end of an empty reply cannot be detected.
        let len = len.max(1);
        (format!("{id} {len}{suffix}\n").into_bytes(), Reply::Raw(pattern(id, len)))
    }

    /// One of the listeners that reply to a line.
    fn line_listener(&mut self) -> ListenerIndex {
        if self.rng.index(2) == 0 { RAW } else { STREAMED }
    }

    pub(super) fn raw_once(&mut self) -> Cast {
        let (bytes, reply) = self.raw_line("");
        let mut script = Vec::new();
        self.send(&mut script, &bytes);
        Cast { listener: self.line_listener(), ..Cast::http(script, vec![reply], End::Replied) }
    }

    pub(super) fn raw_kept(&mut self) -> Cast {
        let (mut script, mut replies) = (Vec::new(), Vec::new());
        for _ in 0..=self.rng.index(4) {
            let (bytes, reply) = self.raw_line(" keep");
            self.send(&mut script, &bytes);
            replies.push(reply);
            Self::await_replies(&mut script, &replies);
        }
        script.push(PeerStep::HalfClose);
        Cast { listener: self.line_listener(), ..Cast::http(script, replies, End::Replied) }
    }

    pub(super) fn greeted(&mut self) -> Cast {
        let id = self.id();
        let mut script = Vec::new();
        let mut replies = vec![Reply::Raw(GREETING.to_vec())];
        Self::await_replies(&mut script, &replies);
        self.send(&mut script, format!("{id}\n").as_bytes());
        replies.push(Reply::Raw(pattern(id, 100)));
        Cast { listener: GREETER, ..Cast::http(script, replies, End::Replied) }
    }
}
