//! Limits the memory of replies in progress, regardless of the number and speed of their readers.
//!
//! With ten thousand checks, pages and metrics have many megabytes, and a client may request them
//! without reading the replies.

use bytes::Bytes;
use hyper::Response;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory for all replies in progress.
const MEMORY_KIB: u32 = 64 << 10;

/// Minimum size of a counted reply. Smaller replies need no limit, because the number of
/// connections is limited.
const SMALL_LEN: usize = 64 << 10;

/// Limit of the memory of replies in progress.
#[derive(Debug)]
pub(super) struct ReplyMemory(Arc<Semaphore>);

/// Content of a reply with a permit.
struct ReservedContent {
    content: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl Default for ReplyMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MEMORY_KIB as usize)))
    }
}

impl ReplyMemory {
    /// Reserves memory for a reply; `None` if there is not enough. A reply larger than the limit
    /// reserves all of the memory.
    pub(super) fn reserve(&self, reply: Response<Bytes>) -> Option<Response<Bytes>> {
        let len = reply.body().len();
        if len < SMALL_LEN {
            return Some(reply);
        }
        let kib = u32::try_from(len >> 10).unwrap_or(u32::MAX).min(MEMORY_KIB);
        let part = Arc::clone(&self.0).try_acquire_many_owned(kib).ok()?;
        Some(with_permit(reply, part))
    }
}

/// Returns a reply that releases this permit when all content is in the send buffer of the kernel.
pub(super) fn with_permit(reply: Response<Bytes>, permit: OwnedSemaphorePermit) -> Response<Bytes> {
    reply.map(|content| Bytes::from_owner(ReservedContent { content, _permit: permit }))
}

impl AsRef<[u8]> for ReservedContent {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn reply(kib: usize) -> Response<Bytes> {
        Response::new(Bytes::from(vec![b'x'; kib << 10]))
    }

    #[test]
    fn a_reply_holds_memory_until_it_is_sent() {
        let room = ReplyMemory::default();
        let all = MEMORY_KIB as usize;
        let first = room.reserve(reply(all / 2)).unwrap().into_body();
        assert_eq!(first.len(), all << 9);
        let second = room.reserve(reply(all / 2)).unwrap();
        assert!(room.reserve(reply(64)).is_none());
        assert!(room.reserve(reply(63)).is_some(), "a small reply is not counted");
        drop(second);
        assert!(room.reserve(reply(all)).is_none(), "the first reply reserves all memory");
        drop(first);
        let largest = room.reserve(reply(all + 1)).unwrap();
        assert!(room.reserve(reply(64)).is_none(), "a larger reply reserved all memory");
        drop(largest);
        assert_eq!(room.0.available_permits(), all);
    }
}
