//! Limits the memory of replies that are being sent, however many and however slow their readers are.
//!
//! Does not know about: the content of replies.
//!
//! A server with ten thousand checks has pages and metrics of many megabytes, and a client may request them without reading.

use bytes::Bytes;
use hyper::Response;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory for all replies.
const ROOM_KIB: u32 = 64 << 10;

/// Smaller replies are not counted, because there are few connections.
const SMALL_LEN: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// Content with its share of the memory, which is released when the kernel has taken all of it.
struct Held {
    content: Bytes,
    _part: OwnedSemaphorePermit,
}

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_KIB as usize)))
    }
}

impl Room {
    /// The reply with its share of the memory; `None` if there is not enough. A reply that is larger than all the memory takes all of it.
    pub(super) fn hold(&self, reply: Response<Bytes>) -> Option<Response<Bytes>> {
        let len = reply.body().len();
        if len < SMALL_LEN {
            return Some(reply);
        }
        let kib = u32::try_from(len >> 10).unwrap_or(u32::MAX).min(ROOM_KIB);
        let part = Arc::clone(&self.0).try_acquire_many_owned(kib).ok()?;
        Some(reply.map(|content| Bytes::from_owner(Held { content, _part: part })))
    }
}

impl AsRef<[u8]> for Held {
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
        let room = Room::default();
        let all = ROOM_KIB as usize;
        let first = room.hold(reply(all / 2)).unwrap().into_body();
        assert_eq!(first.len(), all << 9);
        let second = room.hold(reply(all / 2)).unwrap();
        assert!(room.hold(reply(64)).is_none());
        assert!(room.hold(reply(63)).is_some(), "a small reply is not counted");
        drop(second);
        assert!(room.hold(reply(all)).is_none(), "the first reply holds it all");
        drop(first);
        let largest = room.hold(reply(all + 1)).unwrap();
        assert!(room.hold(reply(64)).is_none(), "a larger one held all of it");
        drop(largest);
        assert_eq!(room.0.available_permits(), all);
    }
}
