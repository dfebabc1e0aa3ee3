//! The thread of the links to other instances. It keeps running across reloads that change neither
//! the tables nor the files of the links.
//!
//! Links read states and results on their own thread, so checks and probes never wait for them.

mod decide;
mod feed;
mod peers;
mod rules;
mod view;

use crate::exit::Failure;
use crate::operator::Operator;
use crate::prepared_thread::PreparedThread;
use crate::reload::watch::Stamps;
use crate::sockets::port::{self, Listening};
use doorbell_config::Named;
use doorbell_link::net::{Acceptor, Dial, HANDSHAKES_MAX, LinkTls};
use doorbell_proxy_config::model::{Config, Links as Settings, Peer};
pub(crate) use peers::LinkPeers;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Name of the configuration table.
const TABLE: &str = "links";

/// Maximum number of concurrent name lookups.
const LOOKUPS_MAX: usize = 16;

/// Maximum time to send the last transitions at shutdown.
const LAST_TRANSITIONS: Duration = Duration::from_secs(1);

/// The thread of the links, which run after [`Links::open`]. Dropping it sends the last transitions
/// first.
#[derive(Debug)]
pub(crate) struct Links {
    /// The configured addresses with their sockets. The links of the next configuration duplicate
    /// the sockets.
    listeners: Vec<Listening>,
    made_of: MadeOf,
    thread: PreparedThread<Vec<std::net::TcpListener>>,
}

/// The tables and file [stamps](Stamps) from which the links were built.
type MadeOf = (Option<Settings>, Named<Peer>, Stamps);

impl Links {
    /// Binds the addresses, or takes them over from the previous links `before`, and reads the
    /// certificates.
    ///
    /// # Errors
    /// If an address cannot be bound, a file cannot be used, or the thread cannot be started.
    pub(crate) fn prepare(
        config: &Config,
        before: Option<&Self>,
        peers: &Arc<LinkPeers>,
        operator: &Operator,
    ) -> Result<Option<Self>, Failure> {
        let Some(settings) = config.links.as_ref().filter(|_| !config.peers.is_empty()) else {
            return Ok(None);
        };
        // The stamps are taken before the files are read, so that a change during reading is
        // detected.
        let made_of = made_of(config);
        let tls = LinkTls::from_files(&settings.ca, &settings.cert, &settings.key)
            .map_err(|why| Failure::bad_config(format!("[links]: {why}")))?;
        let held = before.map_or(&[][..], |before| &before.listeners);
        let listeners = port::listen_all(config, TABLE, &settings.binds, held)?;
        let (wanted, peers, operator) = (config.peers.to_vec(), Arc::clone(peers), operator.clone());
        let run = async move |listeners, mut left: watch::Receiver<bool>| {
            let _all = start(&wanted, listeners, &tls, &peers, &operator);
            let leaves = left.wait_for(|left| *left).await.is_ok();
            if !leaves {
                let _late = timeout(LAST_TRANSITIONS, all_sent(&peers)).await;
            }
        };
        let thread = PreparedThread::new(TABLE, LOOKUPS_MAX, run).map_err(Failure::no_thread)?;
        Ok(Some(Self { listeners, made_of, thread }))
    }

    /// Starts the links.
    pub(crate) fn open(&self) {
        self.thread.start(port::copies(TABLE, &self.listeners));
    }

    /// Whether this configuration has the same links, so that they stay open.
    pub(crate) fn is_same(&self, config: &Config) -> bool {
        self.made_of == made_of(config)
    }

    /// Ends all connections at once, because the links of the next configuration open them again.
    pub(crate) fn leave(self) {
        self.thread.leave();
    }

    /// The bound addresses.
    pub(crate) fn addrs(&self) -> Vec<String> {
        port::bound_addrs(&self.listeners)
    }

    /// Upper bound on open descriptors.
    pub(crate) fn descriptors(config: &Config) -> u32 {
        let listeners = config.links.as_ref().map_or(0, |links| links.binds.len());
        let all = match config.peers.len() {
            0 => 0,
            links => 2 * links + (2 + HANDSHAKES_MAX) * listeners + 2 * LOOKUPS_MAX + 8,
        };
        u32::try_from(all).unwrap_or(u32::MAX)
    }
}

/// The files that links read only when they are prepared.
pub(crate) fn files(config: &Config) -> impl Iterator<Item = &Path> {
    let files = config.links.iter().flat_map(|links| [&links.ca, &links.cert, &links.key]);
    files.map(|file| file.value.as_path())
}

fn made_of(config: &Config) -> MadeOf {
    (config.links.clone(), config.peers.clone(), Stamps::of(files(config)))
}

/// Starts the tasks of all links, which end when the returned set is dropped.
fn start(
    wanted: &[Peer],
    listeners: Vec<std::net::TcpListener>,
    tls: &LinkTls,
    peers: &Arc<LinkPeers>,
    operator: &Operator,
) -> JoinSet<()> {
    let mut all = JoinSet::new();
    let mut accepted = Vec::new();
    for (peer, known) in wanted.iter().zip(peers.replace(wanted)) {
        let certificate_name = peer.certificate_name().to_owned();
        match &peer.peer {
            None => accepted.push((certificate_name, known.handle.clone())),
            Some(at) => {
                let (host, port, tls, seed) = (at.host.clone(), at.port, tls.clone(), peers.seed());
                let dial = Dial { host, port, certificate_name, tls, seed };
                all.spawn(dial.run(known.handle.clone()));
            }
        }
    }
    let refused = Arc::new(|addr: SocketAddr, why: &str| {
        static REFUSED: crate::log::Throttle = crate::log::Throttle::new();
        if let Some(suppressed) = REFUSED.turn() {
            tracing::warn!(%addr, suppressed, "link connection refused: {why}");
        }
    });
    let acceptor = Acceptor { tls: tls.clone(), peers: accepted.into(), refused };
    for listener in listeners.into_iter().filter_map(|listener| TcpListener::from_std(listener).ok()) {
        all.spawn(acceptor.clone().run(listener));
    }
    all.spawn(feed::run(wanted.to_vec(), Arc::clone(peers), operator.clone()));
    all.spawn(decide::run(Arc::clone(peers), operator.clone()));
    all
}

async fn all_sent(peers: &LinkPeers) {
    while !peers.is_flushed() {
        sleep(Duration::from_millis(10)).await;
    }
}
