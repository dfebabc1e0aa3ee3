//! `/probe?target=&module=` as in Prometheus' blackbox_exporter, on its own port and thread.
//!
//! Identical requests share a result: a request during a probe waits for the probe, and a request
//! within the cache time gets the cached result.

mod module;
mod probe;
mod probe_cache;
mod query;
mod request;

use crate::exit::Failure;
use crate::prepared_thread::PreparedThread;
use crate::sockets::http1;
use crate::sockets::port::{self, Listening};
use crate::stats::process::ProcessStats;
use doorbell_checks::{Connector, FDS_PER_LOOKUP, Runner, SharedResources};
use doorbell_proxy_config::model::Config;
use module::Module;
use probe_cache::{PROBES_MAX, ProbeCache};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Name of the configuration table.
const TABLE: &str = "blackbox";

/// Maximum number of connections to one bound address; further ones wait in the backlog.
const CONNS_MAX: usize = 64;

/// Maximum number of concurrent name lookups of all generations together, because a lookup may
/// outlive the generation that started it.
const LOOKUPS_MAX: usize = 16;

/// Maximum time for a request head, and between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time after which a connection is closed gracefully.
const AGE_MAX: Duration = Duration::from_secs(600);

/// The thread that serves `/probe` after [`Probes::open`].
#[derive(Debug)]
pub(crate) struct Probes {
    /// The configured addresses with their sockets. A successor copies the sockets.
    listeners: Vec<Listening>,
    thread: PreparedThread<Vec<std::net::TcpListener>>,
}

impl Probes {
    /// Binds the addresses, or takes them over from the predecessor.
    ///
    /// # Errors
    /// If an address cannot be bound, a module's file cannot be used, or the thread cannot start.
    pub(crate) fn prepare(
        config: &Config,
        before: Option<&Self>,
        process_stats: &Arc<ProcessStats>,
    ) -> Result<Option<Self>, Failure> {
        let Some(blackbox) = &config.blackbox else { return Ok(None) };
        let connector = Connector::open(&config.check_defaults.egress).map_err(Failure::bad_config)?;
        let held = before.map_or(&[][..], |before| &before.listeners);
        let listeners = port::listen_all(config, TABLE, &blackbox.binds, held)?;
        let mut shared = SharedResources::new(Arc::new(connector));
        // Files of the operator's modules, which come first, must be usable.
        for module in Module::all(blackbox).iter().take(blackbox.own_modules.len()) {
            Runner::build(&module.sample(), &mut shared).map_err(Failure::bad_config)?;
        }
        let cache = Arc::new(ProbeCache::new(blackbox, shared, Arc::clone(process_stats)));
        // Time for the last connection to send its request and get its reply.
        let leave_timeout = HEAD_TIMEOUT + cache.timeout;
        let serve = move |listeners, left| serve(listeners, cache, left, leave_timeout);
        let thread = PreparedThread::new("probes", LOOKUPS_MAX, serve).map_err(Failure::no_thread)?;
        Ok(Some(Self { listeners, thread }))
    }

    /// Starts to serve.
    pub(crate) fn open(&self) {
        self.thread.start(port::copies(TABLE, &self.listeners));
        tracing::info!(addresses = self.addrs().join(" "), "blackbox listener is open");
    }

    /// Stops accepting. Requests in progress finish in the background.
    pub(crate) fn leave(self) {
        self.thread.leave();
        self.thread.detach();
    }

    /// The bound addresses.
    pub(crate) fn addrs(&self) -> Vec<String> {
        port::bound_addrs(&self.listeners)
    }

    /// Upper bound on open descriptors.
    pub(crate) fn descriptors(config: &Config) -> u32 {
        let listeners = config.blackbox.as_ref().map_or(0, |blackbox| blackbox.binds.len());
        let all = if listeners == 0 {
            0
        } else {
            listeners * (CONNS_MAX + 1) + PROBES_MAX + FDS_PER_LOOKUP * LOOKUPS_MAX + 8
        };
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}

async fn serve(
    listeners: Vec<std::net::TcpListener>,
    cache: Arc<ProbeCache>,
    mut left: watch::Receiver<bool>,
    leave_timeout: Duration,
) {
    let listeners = listeners.into_iter().filter_map(|listener| TcpListener::from_std(listener).ok());
    let accept = |listener| {
        let (cache, leaving) = (Arc::clone(&cache), left.clone());
        let serve = move |stream, peer| serve_conn(stream, peer, Arc::clone(&cache), leaving.clone());
        let mut left = left.clone();
        async move { http1::accept(listener, TABLE, CONNS_MAX, after_serving(&mut left), serve).await }
    };
    let all: JoinSet<()> = listeners.map(accept).collect();
    let ends = async {
        if after_serving(&mut left).await {
            sleep(leave_timeout).await;
        }
    };
    tokio::select! {
        _ended = all.join_all() => {}
        () = ends => {}
    }
}

/// Waits until the thread stops (false), or finishes requests but accepts no connections (true).
async fn after_serving(left: &mut watch::Receiver<bool>) -> bool {
    left.wait_for(|left| *left).await.is_ok()
}

/// Serves one connection.
async fn serve_conn(
    stream: TcpStream,
    peer: SocketAddr,
    cache: Arc<ProbeCache>,
    mut left: watch::Receiver<bool>,
) {
    let is_local = peer.ip().to_canonical().is_loopback()
        || stream.local_addr().is_ok_and(|local| local.ip() == peer.ip());
    let (request_sender, mut has_request) = watch::channel(false);
    let reply = async |request| {
        request_sender.send_replace(true);
        cache.reply_to(&request, is_local).await
    };
    // When the thread leaves, a connection without a request stays open until its first request.
    let ready_to_close = async {
        after_serving(&mut left).await;
        has_request.wait_for(|has_request| *has_request).await.is_ok()
    };
    let close = timeout(AGE_MAX, ready_to_close);
    http1::serve(stream, HEAD_TIMEOUT, reply, close, HEAD_TIMEOUT + cache.timeout).await;
}
