//! The thread that serves the connections of all listeners, and the settings it starts with.

use super::addresses::Addresses;
use super::common::Common;
use super::config::{Http2Config, ListenerOptions};
use super::conn::{self, ConnContext};
use super::counters::{Counters, count};
use super::grpc::{GrpcOptions, GrpcService};
use super::inbox::Inbox;
use super::phase::Phase;
use doorbell::http::limit::client_net;
use doorbell::http::{Peer, Time};
use doorbell::time::{Clock as _, OsClock};
use doorbell::tls::Acceptor;
use doorbell::{HandOver, HandedConn, Http1, ServerBuilder};
use doorbell_probes::Registry;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Interval at which the shutdown of the thread checks whether its deadline was shortened.
const END_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The settings of the thread, collected while listeners are built.
#[derive(Debug)]
pub struct Plan {
    grpc_service: Option<GrpcService>,
    /// Settings by listener, in the order of the listeners of the server.
    configs: Vec<Option<Arc<Http2Config>>>,
    inbox: Inbox,
    common: Arc<Common>,
    conns_max: u32,
    phase: watch::Sender<Phase>,
    ends: watch::Sender<bool>,
}

/// The running thread.
#[derive(Debug)]
pub struct Http2 {
    inbox: Inbox,
    phase: watch::Sender<Phase>,
    ends: watch::Sender<bool>,
    /// Deadline of [`Self::end`], if set.
    deadline: Mutex<Option<Time>>,
    /// Channel that closes when the thread ends.
    ended: Mutex<Receiver<()>>,
}

impl Plan {
    /// Creates settings for at most `conns_max` connections on all listeners together; `grpc`
    /// serves health by gRPC with the states of a registry. The counters in `common` are shared with
    /// other generations.
    #[must_use]
    pub fn new(conns_max: u32, grpc: Option<(GrpcOptions, &Registry)>, common: Arc<Common>) -> Self {
        let (ends, ended) = watch::channel(false);
        let grpc_service =
            grpc.map(|(options, registry)| GrpcService::new(options, registry, &common, ended));
        Self {
            grpc_service,
            configs: Vec::new(),
            inbox: Inbox::default(),
            common,
            conns_max,
            phase: watch::Sender::new(Phase::Serving),
            ends,
        }
    }

    /// Adds the server's next listener, without HTTP/2.
    pub fn add_none(&mut self) {
        self.configs.push(None);
    }

    /// Adds the server's next listener, whose HTTP/2 requests are served by `http`. With an
    /// acceptor, the replies have its [`Http1::hsts`].
    pub fn add(&mut self, options: ListenerOptions, http: Http1, acceptor: Option<Acceptor>) {
        let config = Http2Config::new(options, http, acceptor, self.grpc_service.clone());
        self.configs.push(Some(Arc::new(config)));
    }

    /// Lets a server hand connections over to the thread.
    pub fn attach(&self, builder: ServerBuilder) -> ServerBuilder {
        let to = HandOver::new(self.inbox.clone()).conns_max(self.conns_max);
        builder.hand_over(self.common.count_together(to))
    }

    /// Opens the queue. The first connection starts the thread.
    pub fn start(self) -> Http2 {
        let (alive, ended) = sync_channel(0);
        let Self { configs, inbox, common, phase, ends, .. } = self;
        let (addresses, counters) = (common.addresses().clone(), Arc::clone(common.counters()));
        let work = Work { configs, addresses, counters, phase: phase.subscribe() };
        let thread_inbox = inbox.clone();
        inbox.open(Box::new(move || work.clone().spawn(thread_inbox.clone(), alive.clone())));
        Http2 { inbox, phase, ends, deadline: Mutex::default(), ended: Mutex::new(ended) }
    }
}

impl Http2 {
    /// Starts to shut every connection down gracefully, within `timeout`. Watch streams end now;
    /// during a stop, their clients have already received NOT_SERVING.
    pub fn drain(&self, timeout: Duration) {
        self.set_deadline(timeout);
        self.ends.send_replace(true);
        self.advance_to(Phase::Draining);
    }

    /// Sets the deadline of [`Self::end`] to `timeout` from now, unless an earlier deadline is set.
    pub fn set_deadline(&self, timeout: Duration) {
        let over = OsClock.now().after(timeout);
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        // A deadline is never extended.
        *deadline = Some(deadline.map_or(over, |deadline| deadline.min(over)));
    }

    /// Closes every connection.
    pub fn stop(&self) {
        self.advance_to(Phase::Stopped);
    }

    /// Waits for the end of the remaining connections until the deadline; without a deadline, does
    /// not wait. No new connections arrive any more.
    pub fn end(&self) {
        self.advance_to(Phase::Ending);
        self.inbox.close_idle();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // Waits in short steps, because the deadline may be shortened meanwhile.
        loop {
            let deadline = *self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
            let left = deadline.map_or(Duration::ZERO, |deadline| deadline.since(OsClock.now()));
            if left.is_zero() {
                break;
            }
            if ended.recv_timeout(left.min(END_POLL_INTERVAL)) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
        if ended.try_recv() != Err(TryRecvError::Disconnected) && self.has_deadline() {
            tracing::warn!("HTTP/2 connections closed: they did not end in time");
        }
    }

    fn has_deadline(&self) -> bool {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Enters a phase, unless a later one was reached.
    fn advance_to(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.advance_to(Phase::Stopped);
        if let Some(thread) = self.inbox.close() {
            let _panicked = thread.join();
        }
    }
}

/// State of the thread.
#[derive(Clone, Debug)]
struct Work {
    configs: Vec<Option<Arc<Http2Config>>>,
    addresses: Addresses,
    counters: Arc<Counters>,
    phase: watch::Receiver<Phase>,
}

impl Work {
    /// Starts the thread with its runtime. `alive` is dropped when the thread ends.
    fn spawn(self, inbox: Inbox, alive: SyncSender<()>) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        std::thread::Builder::new().name("http2".into()).spawn(move || {
            let _alive = alive;
            runtime.block_on(self.accept(&inbox));
            drop(runtime);
            // Drops the handle of this thread, which is not needed any more.
            drop(inbox.close());
        })
    }

    async fn accept(mut self, inbox: &Inbox) {
        let mut conns = JoinSet::new();
        loop {
            tokio::select! {
                batch = inbox.take() => batch.into_iter().for_each(|handed| self.begin(handed, &mut conns)),
                Some(_over) = conns.join_next() => {}
                _changed = self.phase.changed() => {}
            }
            match *self.phase.borrow_and_update() {
                // Remaining tasks are dropped with the runtime.
                Phase::Stopped => return,
                Phase::Ending if conns.is_empty() && inbox.is_empty() => return,
                Phase::Draining | Phase::Ending | Phase::Serving => {}
            }
        }
    }

    fn begin(&self, handed: HandedConn, conns: &mut JoinSet<()>) {
        count(&self.counters.connections);
        let config = self.configs.get(handed.listener.index()).and_then(Option::as_ref);
        let Some(config) = config else { return count(&self.counters.unregistered) };
        let peer = handed.peer();
        let client = match peer {
            Peer::Addr(addr) => Some(client_net(addr, config.client_v6_len)),
            Peer::Unix => None,
            // The client reset the connection before the thread received it: the client's address is
            // unknown, so the connection cannot be counted by address.
            Peer::Unknown => return,
        };
        let Some(place) = self.addresses.enter(client, config.conns_per_ip_max) else {
            count(&self.counters.per_ip);
            conns.spawn(conn::refuse(handed, Arc::clone(config)));
            return;
        };
        let (config, counters) = (Arc::clone(config), Arc::clone(&self.counters));
        let context = ConnContext { config, counters, phase: self.phase.clone() };
        conns.spawn(async move {
            conn::serve(handed, peer, context).await;
            drop(place);
        });
    }
}
