//! A raw listener's fixed reply.

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
    fn greet(&self, reply: &mut Vec<u8>) -> Option<RawNext> {
        if !self.speaks_first {
            return None;
        }
        reply.extend_from_slice(&self.reply);
        Some(RawNext::Close)
    }

    fn handle(&self, _received: &[u8], reply: &mut Vec<u8>) -> RawNext {
        reply.extend_from_slice(&self.reply);
        RawNext::Close
    }
}
