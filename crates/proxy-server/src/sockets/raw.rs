//! A raw listener's fixed reply.

use doorbell::http::Time;
use doorbell::{RawHandler, RawNext};

#[derive(Debug)]
pub(crate) struct FixedReply {
    reply: Box<[u8]>,
    speaks_first: bool,
}

impl FixedReply {
    pub(crate) fn new(reply: &str, speaks_first: bool) -> Self {
        Self { reply: reply.as_bytes().into(), speaks_first }
    }
}

impl RawHandler for FixedReply {
    fn speaks_first(&self) -> bool {
        self.speaks_first
    }

    fn greet(&self, _now: Time, reply: &mut Vec<u8>) -> RawNext {
        reply.extend_from_slice(&self.reply);
        RawNext::Close
    }

    fn handle(&self, _now: Time, _received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        reply.extend_from_slice(&self.reply);
        RawNext::Close
    }
}
