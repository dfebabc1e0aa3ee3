//! Accepts operators on the control socket: as many at once as is sensible, and only those who may.
//!
//! Does not know about: what they ask, the file of the socket.

use super::conn;
use crate::log::Throttle;
use crate::operator::Operator;
use crate::wire::{Refusal, RefusalKind};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Operators at once. One more is told so.
const CONNS_MAX: usize = 32;

/// Operators at once who are only told that there are too many.
const TURNED_AWAY_MAX: usize = 8;

/// All of them, the listener and the lock of its file.
pub(crate) const DESCRIPTORS: u32 = 32 + 8 + 2;

/// A pause when the kernel cannot give us a connection: it would only say so again.
const PAUSE: Duration = Duration::from_millis(100);

/// Who may ask, beside root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Whom we run as.
    uid: u32,
    /// Whether the file of the socket says who else may; the kernel then looked at that.
    by_file: bool,
}

impl Access {
    pub(crate) fn new(has_group: bool) -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), by_file: has_group }
    }

    pub(super) fn permits(self, uid: u32) -> bool {
        uid == 0 || uid == self.uid || self.by_file
    }
}

/// Serves operators for as long as it is polled.
pub(crate) async fn serve(listener: UnixListener, operator: Operator, access: Access) {
    let listener = match tokio::net::UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("no commands are taken: {error}"),
    };
    let places = Arc::new(Semaphore::new(CONNS_MAX));
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("an operator could not be accepted: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let refused = may(&stream, access).err();
        if let (None, Ok(place)) = (&refused, Arc::clone(&places).try_acquire_owned()) {
            let operator = operator.clone();
            tokio::spawn(async move {
                conn::serve(stream, operator).await;
                drop(place);
            });
        } else if let Ok(place) = Arc::clone(&turned_away).try_acquire_owned() {
            let refusal = refused.unwrap_or_else(|| {
                let text = format!("{CONNS_MAX} operators are connected already: end one of them");
                Refusal::new(RefusalKind::Busy, text)
            });
            tokio::spawn(async move {
                conn::turn_away(stream, refusal).await;
                drop(place);
            });
        }
    }
}

fn may(stream: &UnixStream, access: Access) -> Result<(), Refusal> {
    let text = match stream.peer_cred() {
        Ok(peer) if access.permits(peer.uid()) => return Ok(()),
        Ok(peer) => format!(
            "user {} may not steer this doorbell, which runs as user {}: use sudo, or allow a group with `control.group`",
            peer.uid(),
            access.uid
        ),
        Err(error) => format!("who asks is not known: {error}"),
    };
    static REFUSED: Throttle = Throttle::new();
    if let Some(suppressed) = REFUSED.turn() {
        tracing::warn!(suppressed, "{text}");
    }
    Err(Refusal::new(RefusalKind::NotPermitted, text))
}
