//! Streams events as server-sent events.

use crate::operator::{Followed, Follower};
use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use http_body::Frame;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// Maximum time between two frames, so that a lost client is detected.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The frames of a stream, until the last event or until the client disconnects.
pub(super) fn frames(
    follower: Follower,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let hello = Bytes::from_static(b"retry: 2000\n\n");
    unfold((follower, place, Some(hello)), |(mut follower, place, hello)| async move {
        let text = match hello {
            Some(hello) => hello,
            None => match timeout(SILENCE_MAX, follower.next()).await {
                Ok(followed) => Bytes::from(frame_of(&followed?)),
                Err(_) => Bytes::from_static(b":\n\n"),
            },
        };
        Some((Ok(Frame::data(text)), (follower, place, None)))
    })
}

/// The text of one server-sent event. The JSON contains no line breaks.
fn frame_of(followed: &Followed) -> String {
    match followed {
        Followed::Event(event) => {
            let json = serde_json::to_string(&**event).unwrap_or_default();
            format!("id: {}\ndata: {json}\n\n", event.number)
        }
        Followed::Missed(count) => format!("event: missed\ndata: {{\"missed\":{count}}}\n\n"),
    }
}
