//! The admin listener, for browsers, scrapers and hooks.
//!
//! The listener runs on the thread of the control plane, so that scrapes and pages do not delay
//! probes. Connections beyond the limit wait in the backlog.

mod events;
mod guard;
mod html;
mod page;
mod reply;
mod reply_memory;

use super::Operator;
use crate::exit::Failure;
use crate::sockets::{http1, port};
use doorbell_proxy_config::model::{Admin, Config};
pub(crate) use guard::Guard;
use reply::{AdminState, FOLLOWERS_MAX};
use std::future::pending;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Maximum number of connections.
const CONNS_MAX: u32 = 64;

/// Upper bound on descriptors: connections and the listener.
pub(crate) const DESCRIPTORS: u32 = CONNS_MAX + 1;

/// Maximum time to wait for a request head and to read it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);

/// Time after which a connection is closed gracefully; an additional hour for event streams and
/// commands.
const AGE_MAX: Duration = Duration::from_secs(60);
const LONG_AGE_MAX: Duration = Duration::from_secs(3_600);

/// Maximum time to finish a reply after the maximum age.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

const _: () =
    assert!(FOLLOWERS_MAX < CONNS_MAX as usize, "event streams must leave connections for other requests");

/// A bound listener that is not served yet.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: TcpListener,
}

/// Binds the address. A listener that was not configured is skipped if binding fails.
pub(crate) fn bind(admin: &Admin, config: &Config) -> Result<Option<Bound>, Failure> {
    let bound = port::listen(config.bound(admin.bind)).map(|listener| Bound { listener });
    if let (Err(error), true) = (&bound, admin.is_implicit) {
        tracing::info!(
            "admin listener skipped: cannot bind {}: {error}; choose another address with --admin",
            admin.bind
        );
        return Ok(None);
    }
    let addr = admin.bind;
    let what = format!("{addr} of `admin.bind` or --admin");
    bound.map(Some).map_err(|error| port::cannot_bind(&what, &addr.to_string(), &error))
}

impl Bound {
    /// The bound address, with the actual port.
    pub(crate) fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped. Needs a runtime with timers and I/O.
    pub(crate) async fn serve(self, operator: Operator, guard: Arc<Guard>) {
        let listener = match tokio::net::TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!("admin listener failed: {error}"),
        };
        let shared = Arc::new(AdminState::new(operator, guard));
        let serve = |stream, peer| serve_conn(stream, peer, Arc::clone(&shared));
        http1::accept(listener, "admin", CONNS_MAX as usize, pending::<()>(), serve).await;
    }
}

async fn serve_conn(stream: TcpStream, peer: SocketAddr, shared: Arc<AdminState>) {
    // Fails only if the connection is already closed.
    let Ok(local) = stream.local_addr() else { return };
    let is_long = AtomicBool::new(false);
    let reply = async |request| {
        let takes_long = || is_long.store(true, Ordering::Relaxed);
        shared.reply_to(request, (peer, local.ip()), takes_long).await
    };
    let close = async {
        sleep(AGE_MAX).await;
        if is_long.load(Ordering::Relaxed) {
            sleep(LONG_AGE_MAX).await;
        }
    };
    http1::serve(stream, HEADER_TIMEOUT, reply, close, FINISH_TIMEOUT).await;
}
