//! A server on the runtime itself, for systems other than Linux and for
//! [`Doorbell::on_runtime`](crate::Doorbell::on_runtime): one task accepts, one task per connection
//! serves probes or hands the connection over.

mod conn;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use doorbell::hand_over::HandedCount;
use doorbell::time::{Clock as _, OsClock, Time};
use doorbell::{HandOver, Handler};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::control::{Control, Ended, Started};
use crate::handed::Handed;
use crate::health::Health;
use crate::launch::{Launch, ServerGuard};
use crate::queue::HandedQueue;

/// Maximum number of open connections, without those that were handed over. Further ones wait in
/// the backlog.
const CONNS_MAX: usize = 16_384;

/// Maximum number of connections of the backlog that are accepted before a drain: more than the
/// default of `net.core.somaxconn`, which limits the backlog.
const BACKLOG_MAX: usize = 4_096 + 1;

/// Pause after a failed accept, usually for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Controls a running server.
#[derive(Debug)]
pub(crate) struct Handle {
    /// When all connections are closed; `None` before a drain or a stop.
    deadline: watch::Sender<Option<Time>>,
    shared: Arc<Counters>,
}

/// Counters of a server on the runtime. All are 0 for a server with ring threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeCounters {
    /// Failed accepts, usually for lack of descriptors.
    pub accept_failed: u64,
    /// Accepted connections.
    pub conns_accepted: u64,
    /// Open connections, without those that were handed over.
    pub conns_live: u64,
    /// Requests that were refused, usually at the limit of hand-overs.
    pub refused: u64,
    /// Requests that got a reply, without those that were handed over.
    pub requests: u64,
}

#[derive(Debug, Default)]
struct Counters {
    accept_failed: AtomicU64,
    conns_accepted: AtomicU64,
    conns_live: AtomicU64,
    refused: AtomicU64,
    requests: AtomicU64,
}

/// What all connections share.
struct ServerContext<S> {
    service: S,
    limits: doorbell::HttpLimits,
    queue: HandedQueue,
    places: HandedCount,
    counters: Arc<Counters>,
    /// True during a drain: each connection ends with its current request.
    closing: watch::Receiver<bool>,
}

impl Handle {
    pub(crate) fn drain_within(&self, timeout: Duration) {
        self.end_by(OsClock.now().after(timeout));
    }

    pub(crate) fn stop(&self) {
        self.end_by(Time::ZERO);
    }

    /// Begins a drain, or moves the deadline of a drain to an earlier time.
    fn end_by(&self, new: Time) {
        self.deadline.send_if_modified(|deadline| {
            let is_earlier = deadline.is_none_or(|deadline| new < deadline);
            if is_earlier {
                *deadline = Some(new);
            }
            is_earlier
        });
    }

    pub(crate) fn counters(&self) -> RuntimeCounters {
        let Counters { accept_failed, conns_accepted, conns_live, refused, requests } = &*self.shared;
        RuntimeCounters {
            accept_failed: accept_failed.load(Ordering::Relaxed),
            conns_accepted: conns_accepted.load(Ordering::Relaxed),
            conns_live: conns_live.load(Ordering::Relaxed),
            refused: refused.load(Ordering::Relaxed),
            requests: requests.load(Ordering::Relaxed),
        }
    }
}

/// Binds `addr` and starts a server with this service in the current runtime.
pub(crate) async fn start(
    addr: SocketAddr,
    service: impl Handler + Send + Sync + 'static,
    health: Option<&Health>,
) -> Result<(Control, Handed), Ended> {
    let failed = |error: io::Error| Ended::Bind { addr, source: Arc::new(error) };
    let listener = TcpListener::bind(addr).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    let queue = HandedQueue::default();
    let places = HandOver::new(queue.clone()).places();
    let (launch, guard) = Launch::new(queue.clone(), places.clone(), health.cloned());
    let (end, deadline) = watch::channel(None);
    let (close, closing) = watch::channel(false);
    let counters = Arc::<Counters>::default();
    let limits = doorbell::HttpLimits { answer_before_body: true, ..doorbell::HttpLimits::default() };
    let shared = ServerContext { service, limits, queue, places, counters: Arc::clone(&counters), closing };
    let server = Serving { listener, conns: JoinSet::new(), room: Arc::new(Semaphore::new(CONNS_MAX)) };
    guard.begin(Started::on_runtime(addr, Handle { deadline: end, shared: counters }));
    tokio::spawn(server.run(Arc::new(shared), deadline, close, guard));
    Ok(launch.handles())
}

/// The task that accepts.
struct Serving {
    listener: TcpListener,
    conns: JoinSet<()>,
    room: Arc<Semaphore>,
}

impl Serving {
    async fn run<S: Handler + Send + Sync + 'static>(
        mut self,
        shared: Arc<ServerContext<S>>,
        mut deadline: watch::Receiver<Option<Time>>,
        close: watch::Sender<bool>,
        mut guard: ServerGuard,
    ) {
        loop {
            tokio::select! {
                biased;
                _changed = deadline.changed() => break,
                Some(_ended) = self.conns.join_next() => {}
                accepted = accept(&self.listener, &self.room, &shared.counters) => {
                    let (stream, permit) = accepted;
                    begin(&mut self.conns, stream, permit, &shared);
                }
            }
        }
        let mut left = time_left(&mut deadline);
        let mut conns = self.close(&shared, left);
        close.send_replace(true);
        while !left.is_zero() {
            tokio::select! {
                _ended = conns.join_next() => if conns.is_empty() { break },
                () = tokio::time::sleep(left) => {}
                _earlier = deadline.changed() => {}
            }
            left = time_left(&mut deadline);
        }
        conns.shutdown().await;
        guard.result = Ok(());
    }

    /// Closes the listener. Before a drain, it accepts the connections in the backlog, which the
    /// kernel would otherwise reset. The number is limited, so that a flood of connections cannot
    /// delay the drain.
    fn close<S: Handler + Send + Sync + 'static>(
        self,
        shared: &Arc<ServerContext<S>>,
        timeout: Duration,
    ) -> JoinSet<()> {
        let Self { listener, mut conns, room } = self;
        let Ok(listener) = listener.into_std() else { return conns };
        let backlog_max = if timeout.is_zero() { 0 } else { BACKLOG_MAX };
        for _ in 0..backlog_max {
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { break };
            let Ok((stream, _peer)) = listener.accept() else { break };
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = stream {
                begin(&mut conns, stream, permit, shared);
            }
        }
        conns
    }
}

fn time_left(deadline: &mut watch::Receiver<Option<Time>>) -> Duration {
    deadline.borrow_and_update().map_or(Duration::ZERO, |deadline| deadline.since(OsClock.now()))
}

fn begin<S: Handler + Send + Sync + 'static>(
    conns: &mut JoinSet<()>,
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    shared: &Arc<ServerContext<S>>,
) {
    let live = Live::new(&shared.counters, permit);
    let shared = Arc::clone(shared);
    conns.spawn(async move {
        conn::serve(stream, &shared).await;
        drop(live);
    });
}

/// Counts an open connection and holds its permit, until dropped.
struct Live {
    counters: Arc<Counters>,
    _permit: OwnedSemaphorePermit,
}

impl Live {
    fn new(counters: &Arc<Counters>, permit: OwnedSemaphorePermit) -> Self {
        counters.conns_accepted.fetch_add(1, Ordering::Relaxed);
        counters.conns_live.fetch_add(1, Ordering::Relaxed);
        Self { counters: Arc::clone(counters), _permit: permit }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.counters.conns_live.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The next connection, with its permit.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    counters: &Counters,
) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(room).acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, _peer)) => return (stream, permit),
            // The client has disconnected. The next accept may succeed.
            Err(error) if is_of_client(error.kind()) => {}
            Err(_) => {
                counters.accept_failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

const fn is_of_client(error: io::ErrorKind) -> bool {
    matches!(error, io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_beyond_the_limit_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (room, counters) = (Arc::new(Semaphore::new(1)), Counters::default());
        let _clients = [TcpStream::connect(addr).await.unwrap(), TcpStream::connect(addr).await.unwrap()];
        let (_first, permit) = accept(&listener, &room, &counters).await;
        let second = accept(&listener, &room, &counters);
        tokio::pin!(second);
        tokio::select! {
            biased;
            _accepted = &mut second => panic!("accepted beyond the limit"),
            () = std::future::ready(()) => {}
        }
        drop(permit);
        let _second = second.await;
        assert_eq!(counters.accept_failed.load(Ordering::Relaxed), 0);
    }
}
