//! The admin listener: where people, scrapers and hooks ask a running doorbell.
//!
//! Does not know about: what is answered, what is counted.
//!
//! It runs on the thread for operators, so that no scrape and no page holds up a probe. Whoever comes too late finds all places taken, and
//! waits in the backlog.

mod events;
mod guard;
mod html;
mod page;
mod query;
mod reply;
mod room;

use super::Operator;
use crate::config::model::Admin;
use crate::exit::{Exit, Failure};
use crate::sockets::activation;
use crate::sockets::port::leave_silent;
pub(crate) use guard::Guard;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reply::{FOLLOWERS_MAX, Shared};
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

/// Connections at once.
const CONNS_MAX: u32 = 64;

/// All of them and the listener.
pub(crate) const DESCRIPTORS: u32 = CONNS_MAX + 1;

/// For the head of a request, from the end of the one before.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);

/// Of a request's head, all of its fields together.
const HEADER_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// A connection is asked to end after this, and after an hour where somebody follows events or waits for a drain.
const AGE_MAX: Duration = Duration::from_secs(60);
const LONG_AGE_MAX: Duration = Duration::from_secs(3_600);

/// For the rest of an answer then.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A pause when the kernel cannot give us a connection: it would only say so again.
const PAUSE: Duration = Duration::from_millis(100);

const _: () = assert!(FOLLOWERS_MAX < CONNS_MAX as usize, "followers leave places for others");

/// A listener that is bound and not yet served.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: TcpListener,
}

/// Binds the address, or says why not and what to do. Where nobody asked for it there is none without its address.
pub(crate) fn bind(admin: &Admin) -> Result<Option<Bound>, Failure> {
    let bound = Bound::bind(admin);
    if let (Err(error), true) = (&bound, admin.by_itself) {
        tracing::info!("no metrics are served: {}: {error}; --admin names another address", admin.bind);
        return Ok(None);
    }
    bound.map(Some).map_err(|error| {
        let addr = admin.bind;
        let (exit, fix) = match error.kind() {
            io::ErrorKind::AddrInUse => (
                Exit::AddressInUse,
                activation::holder_of(addr)
                    .unwrap_or_else(|| "choose another port as `admin.bind` or with --admin".to_owned()),
            ),
            io::ErrorKind::PermissionDenied => {
                (Exit::NoPermission, "choose a port above 1023 as `admin.bind` or with --admin".to_owned())
            }
            _ => (
                Exit::Failure,
                "choose an address of this machine as `admin.bind` or with --admin".to_owned(),
            ),
        };
        Failure::new(exit, format!("the admin address {addr} cannot be listened on: {error}; {fix}"))
    })
}

impl Bound {
    fn bind(admin: &Admin) -> io::Result<Self> {
        let listener = TcpListener::bind(admin.bind)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// The address, with the port that a port of 0 became.
    pub(crate) fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for as long as it is polled, on a runtime with a clock and with sockets.
    pub(crate) async fn serve(self, operator: Operator, guard: Arc<Guard>) {
        let listener = match tokio::net::TcpListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!("nobody is answered on the admin address: {error}"),
        };
        let shared = Arc::new(Shared::new(operator, guard));
        let places = Arc::new(Semaphore::new(CONNS_MAX as usize));
        // Never closed.
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
                    tracing::debug!("a client of the admin address could not be accepted: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

async fn serve_conn(stream: TcpStream, peer: SocketAddr, shared: &Arc<Shared>) {
    let _small_replies = stream.set_nodelay(true);
    leave_silent(&stream);
    // A connection without one is gone already.
    let Ok(local) = stream.local_addr() else { return };
    let is_long = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| {
        let (shared, is_long) = (Arc::clone(shared), Arc::clone(&is_long));
        async move {
            let takes_long = || is_long.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(shared.answer(request, (peer, local.ip()), takes_long).await)
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
        // Whatever went wrong was the client's, and it is gone.
        if timeout(age, conn.as_mut()).await.is_ok() {
            return;
        }
        if !is_long.load(Ordering::Relaxed) {
            break;
        }
    }
    conn.as_mut().graceful_shutdown();
    let _in_time = timeout(LAST_WORDS, conn).await;
}
