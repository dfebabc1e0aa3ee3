//! Room for replies on their way: however many there are and however slowly they are read, all of them take so much memory and no more.
//!
//! Does not know about: what they say.
//!
//! A server with ten thousand checks has pages and metrics of many megabytes, and whoever asks for one need not read it.

use bytes::Bytes;
use hyper::Response;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For all of them together.
const ROOM_KIB: u32 = 64 << 10;

/// What is less than this has room anyway: there are few connections.
const SMALL_LEN: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// Content, and its part of the room until the kernel has the last of it.
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
    /// The reply with its part of the room; `None` when others have that. What is larger than all of it has it alone.
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
    fn what_is_on_its_way_has_room_until_it_is_gone() {
        let room = Room::default();
        let all = ROOM_KIB as usize;
        let first = room.hold(reply(all / 2)).unwrap().into_body();
        assert_eq!(first.len(), all << 9);
        let second = room.hold(reply(all / 2)).unwrap();
        assert!(room.hold(reply(64)).is_none());
        assert!(room.hold(reply(63)).is_some(), "a small one has room");
        drop(second);
        assert!(room.hold(reply(all)).is_none(), "the first is still there");
        drop(first);
        let largest = room.hold(reply(all + 1)).unwrap();
        assert!(room.hold(reply(64)).is_none(), "one that is larger than the room has all of it");
        drop(largest);
        assert_eq!(room.0.available_permits(), all);
    }
}
