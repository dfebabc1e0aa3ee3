//! The admin listener, for browsers, scrapers and hooks.
//!
//! The listener runs on the thread of the control plane, so that scrapes and pages do not delay
//! probes. Connections beyond the limit wait in the backlog.

mod events;
mod guard;
mod html;
mod page;
mod query;
mod reply;
mod reply_memory;

use super::Operator;
use crate::exit::Failure;
use crate::sockets::port::{self, set_user_timeout};
use doorbell_proxy_config::model::{Admin, Config};
pub(crate) use guard::Guard;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reply::{AdminState, FOLLOWERS_MAX};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Maximum number of connections.
const CONNS_MAX: u32 = 64;

/// Upper bound on descriptors: connections and the listener.
pub(crate) const DESCRIPTORS: u32 = CONNS_MAX + 1;

/// Maximum time to wait for a request head and to read it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum size of a request head, and maximum number of its fields.
const HEADER_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// Time after which a connection is closed gracefully; an additional hour for event streams and
/// commands.
const AGE_MAX: Duration = Duration::from_secs(60);
const LONG_AGE_MAX: Duration = Duration::from_secs(3_600);

/// Maximum time to finish a reply after the maximum age.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a failed accept, because another attempt would probably fail immediately.
const PAUSE: Duration = Duration::from_millis(100);

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
        let places = Arc::new(Semaphore::new(CONNS_MAX as usize));
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        serve_conn(stream, peer, &shared).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!("accept on the admin listener failed: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn serve_conn(stream: TcpStream, peer: SocketAddr, shared: &Arc<AdminState>) {
    let _small_replies = stream.set_nodelay(true);
    set_user_timeout(&stream);
    // Fails only if the connection is already closed.
    let Ok(local) = stream.local_addr() else { return };
    let is_long = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        let (shared, is_long) = (Arc::clone(shared), Arc::clone(&is_long));
        async move {
            let takes_long = || is_long.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(shared.reply_to(request, (peer, local.ip()), takes_long).await)
        }
    });
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    let mut conn = pin!(builder.serve_connection(TokioIo::new(stream), service));
    for age in [AGE_MAX, LONG_AGE_MAX] {
        // An error only affects this client, whose connection is closed.
        if timeout(age, conn.as_mut()).await.is_ok() {
            return;
        }
        if !is_long.load(Ordering::Relaxed) {
            break;
        }
    }
    conn.as_mut().graceful_shutdown();
    let _in_time = timeout(FINISH_TIMEOUT, conn).await;
}
