//! Accepts connections to the control socket, limits their number and checks their permissions.

use super::conn;
use crate::log::Throttle;
use crate::operator::Operator;
use doorbell_control::{Refusal, RefusalKind};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Maximum number of connections; further connections are refused with an explanation.
const CONNS_MAX: usize = 32;

/// Maximum number of connections that are being refused.
const REFUSED_MAX: usize = 8;

/// Upper bound on descriptors: connections, the listener and its lock file.
pub(crate) const DESCRIPTORS: u32 = 32 + 8 + 2;

/// Pause after a failed accept, because another attempt would probably fail immediately.
const PAUSE: Duration = Duration::from_millis(100);

/// The users that may connect, besides root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The user of this process.
    uid: u32,
    /// Whether the mode of the socket file grants access to a group. The kernel has checked the
    /// mode on connect.
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

/// Serves connections until the future is dropped.
pub(crate) async fn serve(listener: UnixListener, operator: Operator, access: Access) {
    let listener = match tokio::net::UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("control socket failed: {error}"),
    };
    let places = Arc::new(Semaphore::new(CONNS_MAX));
    let refused_places = Arc::new(Semaphore::new(REFUSED_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("accept on the control socket failed: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let refused = check_peer(&stream, access).err();
        if let (None, Ok(place)) = (&refused, Arc::clone(&places).try_acquire_owned()) {
            let operator = operator.clone();
            tokio::spawn(async move {
                conn::serve(stream, operator).await;
                drop(place);
            });
        } else if let Ok(place) = Arc::clone(&refused_places).try_acquire_owned() {
            let refusal = refused.unwrap_or_else(|| {
                let text = format!(
                    "too many connections to the control socket: the maximum is {CONNS_MAX}; end another command"
                );
                Refusal::new(RefusalKind::Busy, text)
            });
            tokio::spawn(async move {
                conn::refuse(stream, refusal).await;
                drop(place);
            });
        }
    }
}

fn check_peer(stream: &UnixStream, access: Access) -> Result<(), Refusal> {
    let text = match stream.peer_cred() {
        Ok(peer) if access.permits(peer.uid()) => return Ok(()),
        Ok(peer) => format!(
            "permission denied: user {} is not user {} of this process; use sudo, or allow a group with `control.group`",
            peer.uid(),
            access.uid
        ),
        Err(error) => format!("cannot identify the user of the connection: {error}"),
    };
    static REFUSED: Throttle = Throttle::new();
    if let Some(suppressed) = REFUSED.turn() {
        tracing::warn!(suppressed, "{text}");
    }
    Err(Refusal::new(RefusalKind::NotPermitted, text))
}
