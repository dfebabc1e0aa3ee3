//! The Tokio lane: HTTP/2 connections, on hyper, with the routes of their listener, and gRPC health.
//!
//! Does not know about: HTTP/1.1 connections, which stay on workers; replies.
//!
//! A thread with its own runtime, which exists only if a listener has HTTP/2. Workers hand connections over with every byte read so far
//! (see [`doorbell::hand_over`]): after the beginning of a preface, or with a ClientHello that offers `h2` first.

mod addresses;
mod body;
mod common;
mod config;
mod conn;
mod counters;
mod counting_stream;
mod flood_limits;
mod grpc;
mod inbox;
mod reply;

use crate::config::model::Config;
use crate::exit::{Exit, Failure};
use crate::http::limit::client_net;
use crate::http::{Limits, Peer, Time};
use crate::registry::HealthRegistry;
use addresses::Addresses;
pub(crate) use common::Common;
use config::Http2Config;
use conn::Around;
pub(crate) use counters::Counters;
use counters::count;
use doorbell::time::{Clock as _, OsClock};
use doorbell::tls::Acceptor;
use doorbell::{HandOver, HandedConn, Http1, ServerBuilder};
use grpc::{Answers, Statuses};
pub(crate) use grpc::{GoOn, is_grpc};
use inbox::Inbox;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Interval at which the end of the lane checks whether its deadline was shortened.
const END_LOOK_EVERY: Duration = Duration::from_millis(200);

/// Phase of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    /// Every connection is shut down gracefully.
    Draining,
    /// No more connections: the lane ends with the last one.
    Ending,
    /// Ends immediately.
    Stopped,
}

/// The settings of the lane, collected while listeners are built.
#[derive(Debug)]
pub(crate) struct Plan {
    answers: Option<Answers>,
    /// Settings by listener, in the order of the server.
    configs: Vec<Option<Arc<Http2Config>>>,
    inbox: Inbox,
    common: Arc<Common>,
    conns_max: u32,
    phase: watch::Sender<Phase>,
    ends: watch::Sender<bool>,
}

/// The running lane.
#[derive(Debug)]
pub(crate) struct Http2 {
    inbox: Inbox,
    phase: watch::Sender<Phase>,
    ends: watch::Sender<bool>,
    /// Deadline of a drain, once it has begun.
    until: Mutex<Option<Time>>,
    /// Closed by the end of the thread.
    ended: Mutex<Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Plan {
    /// `None` if no listener has HTTP/2. Counts in `common`, together with other generations.
    pub(crate) fn new(config: &Config, registry: &HealthRegistry, common: Arc<Common>) -> Option<Self> {
        (0..config.listeners.len()).find(|&listener| config.has_http2(listener))?;
        let (ends, ended) = watch::channel(false);
        let answers = config
            .grpc
            .enabled
            .then(|| Answers::new(Statuses::follow(config, registry), &common, ended, &config.grpc));
        Some(Self {
            answers,
            configs: Vec::new(),
            inbox: Inbox::default(),
            common,
            conns_max: config.http2.max_connections,
            phase: watch::Sender::new(Phase::Serving),
            ends,
        })
    }

    /// Adds the server's next listener, without HTTP/2.
    pub(crate) fn add_none(&mut self) {
        self.configs.push(None);
    }

    /// Adds the server's next listener, whose HTTP/2 requests are served by `http`.
    pub(crate) fn add(
        &mut self,
        config: &Config,
        position: usize,
        http: (Http1, Limits),
        acceptor: Option<Acceptor>,
    ) {
        let config = Http2Config::new(config, position, http, acceptor, self.answers.clone());
        self.configs.push(Some(Arc::new(config)));
    }

    /// Lets a server hand connections over to the lane.
    pub(crate) fn attach(&self, builder: ServerBuilder) -> ServerBuilder {
        let to = HandOver::new(self.inbox.clone()).conns_max(self.conns_max);
        builder.hand_over(self.common.count_together(to))
    }

    /// Starts the thread.
    pub(crate) fn start(self) -> Result<Http2, Failure> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Failure, format!("cannot start the HTTP/2 thread: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed)?;
        let (keeps, ended) = sync_channel(0);
        let Self { configs, inbox, common, phase, ends, .. } = self;
        let (addresses, counters) = (common.addresses().clone(), Arc::clone(common.counters()));
        let work = Work { configs, addresses, counters, phase: phase.subscribe() };
        let taken = inbox.clone();
        let run = move || {
            let _keeps = keeps;
            runtime.block_on(work.accept(&taken));
            taken.close();
        };
        let thread = std::thread::Builder::new().name("http2".into()).spawn(run).map_err(failed)?;
        Ok(Http2 {
            inbox,
            phase,
            ends,
            until: Mutex::default(),
            ended: Mutex::new(ended),
            thread: Some(thread),
        })
    }
}

impl Http2 {
    /// Shuts every connection down gracefully within `timeout`. Watch streams have received NOT_SERVING before and end now.
    pub(crate) fn drain(&self, timeout: Duration) {
        self.allow(timeout);
        self.ends.send_replace(true);
        self.go_to(Phase::Draining);
    }

    /// Sets the time that connections may take after the server has ended.
    pub(crate) fn allow(&self, timeout: Duration) {
        let over = OsClock.now().after(timeout);
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        // An earlier, longer deadline is shortened.
        *until = Some(until.map_or(over, |until| until.min(over)));
    }

    /// Closes every connection.
    pub(crate) fn stop(&self) {
        self.go_to(Phase::Stopped);
    }

    /// Waits for the remaining connections until the deadline. No new ones arrive.
    pub(crate) fn end(&self) {
        self.go_to(Phase::Ending);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // In short waits, because the deadline may be shortened meanwhile.
        loop {
            let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
            let left = until.map_or(Duration::ZERO, |until| until.since(OsClock.now()));
            if left.is_zero() {
                break;
            }
            if ended.recv_timeout(left.min(END_LOOK_EVERY)) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
        if ended.try_recv() != Err(TryRecvError::Disconnected) && self.until_was_set() {
            tracing::warn!("HTTP/2 connections closed: they did not end in time");
        }
    }

    fn until_was_set(&self) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Enters a phase; phases only advance.
    fn go_to(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.go_to(Phase::Stopped);
        self.inbox.close();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// The work of the thread.
#[derive(Debug)]
struct Work {
    configs: Vec<Option<Arc<Http2Config>>>,
    addresses: Addresses,
    counters: Arc<Counters>,
    phase: watch::Receiver<Phase>,
}

impl Work {
    async fn accept(mut self, inbox: &Inbox) {
        let mut conns = JoinSet::new();
        loop {
            tokio::select! {
                batch = inbox.take() => batch.into_iter().for_each(|handed| self.begin(handed, &mut conns)),
                Some(_over) = conns.join_next() => {}
                _changed = self.phase.changed() => {}
            }
            match *self.phase.borrow_and_update() {
                // Remaining tasks end with the runtime.
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
            // The connection was reset before it arrived, so its address is unknown and cannot be counted.
            Peer::Unknown => return,
        };
        let Some(place) = self.addresses.enter(client, config.conns_per_ip_max) else {
            return count(&self.counters.per_ip);
        };
        let (config, counters) = (Arc::clone(config), Arc::clone(&self.counters));
        let around = Around { config, counters, phase: self.phase.clone() };
        conns.spawn(async move {
            conn::serve(handed, peer, around).await;
            drop(place);
        });
    }
}
