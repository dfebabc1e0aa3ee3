//! TCP gates: ports that refuse or end connections while an endpoint does not serve, for load
//! balancers whose checks only connect.
//!
//! No data is exchanged on a connection.
//!
//! Gates run on their own thread, because workers cannot open and close listeners.

use super::port::{self, Listening, Port, cannot_listen};
use crate::exit::Failure;
use crate::prepared_thread::PreparedThread;
use crate::registry::HealthRegistry;
use crate::stats::process::{OpenGate, ProcessStats};
use crate::stats::server::{Item, ItemKind};
use doorbell::http::prober::Prober;
use doorbell::time::{Clock as _, OsClock};
use doorbell_health::Audience;
use doorbell_probes::{ProbeCounters, Published, RunTrigger};
use doorbell_proxy_config::BoundAddr;
use doorbell_proxy_config::model::{Config, TcpGate, WhenDown};
use parking_lot::Mutex;
use rustix::net::sockopt::set_socket_linger;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Maximum number of open connections to an address of a gate; further ones are accepted and
/// closed. Also the maximum number of connections that are being closed.
const CONNS_MAX: usize = 64;

/// Maximum time for which a connection is kept open.
const HOLD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for the peer to close its end.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause after a failed listen or accept, for example because of a lack of descriptors.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Interval at which gates request runs of on-demand checks, because connections to gates request
/// none. A check with a fresh result does not run again.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// The TCP gates of a generation, with their running thread.
#[derive(Debug)]
pub(crate) struct Gates {
    /// The state of each gate, in the order of the configuration.
    up: Vec<Up>,
    /// The configured addresses.
    addrs: Vec<SocketAddr>,
    triggers: watch::Sender<Vec<RunTrigger>>,
    /// The thread, which returns its open listeners.
    thread: PreparedThread<Vec<Gate>, Vec<Listening>>,
}

/// Gates that are not open yet. Their addresses are already bound.
#[derive(Debug)]
pub(crate) struct Unopened {
    waiting: Vec<Gate>,
    gates: Gates,
}

/// Whether the endpoint of a gate serves, according to the current registry. Earlier registries may
/// still exist, and are ignored.
#[derive(Clone, Debug)]
struct Up {
    /// The state; a change wakes the gate.
    state: Arc<watch::Sender<bool>>,
    /// Number of the current registry.
    term: Arc<Mutex<u64>>,
    following: Following,
}

/// The endpoint of a gate in the current registry; `None` before the first registry is followed.
type Following = Arc<Mutex<Option<Followed>>>;

#[derive(Debug)]
struct Followed {
    published: Arc<Published>,
    endpoint: usize,
    /// Counts connections.
    probe_counters: Option<Arc<ProbeCounters>>,
}

/// One address of a gate.
#[derive(Debug)]
struct Gate {
    name: String,
    addr: BoundAddr,
    when_down: WhenDown,
    is_up: watch::Receiver<bool>,
    following: Following,
    /// The address, opened before the gate, so that an address in use makes the start or reload
    /// fail. Bound without listening if the gate may be closed at first.
    port: Option<Port>,
    process_stats: Arc<ProcessStats>,
}

/// An open address.
#[derive(Debug)]
struct OpenPort {
    listener: TcpListener,
    _open: OpenGate,
}

impl Gates {
    /// Binds the addresses that are not in `held`, and starts the thread; `None` without gates.
    ///
    /// # Errors
    /// If an address cannot be bound, or the thread cannot start.
    pub(crate) fn prepare(
        config: &Config,
        held: &[SocketAddr],
        process_stats: &Arc<ProcessStats>,
    ) -> Result<Option<Unopened>, Failure> {
        if config.tcp_gates.is_empty() {
            return Ok(None);
        }
        let (mut waiting, mut up) = (Vec::new(), Vec::new());
        let mut held = held.to_vec();
        for gate in &config.tcp_gates {
            let (state, is_up) = watch::channel(false);
            let following = Following::default();
            up.push(Up { state: Arc::new(state), term: Arc::default(), following: Arc::clone(&following) });
            let table = format!("tcp_gate.{}", gate.name);
            for addr in gate.binds.iter().map(|bind| config.bound(bind.value)) {
                let port = match held.iter().position(|held| *held == addr.addr) {
                    Some(at) => {
                        held.remove(at);
                        None
                    }
                    None => {
                        let port = match gate.when_down {
                            WhenDown::Close => Port::bind(addr),
                            WhenDown::AcceptAndFin | WhenDown::Reset => {
                                port::listen(addr).map(Port::Listening)
                            }
                        };
                        Some(port.map_err(|error| cannot_listen(&table, addr.addr, &error))?)
                    }
                };
                let (is_up, following) = (is_up.clone(), Arc::clone(&following));
                let (name, when_down) = (gate.name.clone(), gate.when_down);
                let process_stats = Arc::clone(process_stats);
                waiting.push(Gate { name, addr, when_down, is_up, following, port, process_stats });
            }
        }
        let (triggers, trigger_receiver) = watch::channel(Vec::new());
        let run = async move |gates: Vec<Gate>, left: watch::Receiver<bool>| {
            // The task ends with the runtime.
            tokio::spawn(request_runs(trigger_receiver));
            let all: JoinSet<_> = gates.into_iter().map(|gate| gate.run(left.clone())).collect();
            all.join_all().await.into_iter().flatten().collect()
        };
        let thread = PreparedThread::new("gates", 1, run).map_err(Failure::no_thread)?;
        let addrs = waiting.iter().map(|gate: &Gate| gate.addr.addr).collect();
        Ok(Some(Unopened { waiting, gates: Self { up, addrs, triggers, thread } }))
    }

    /// Makes the gates follow endpoints of this registry.
    pub(crate) fn follow(&self, config: &Config, registry: &HealthRegistry) {
        config.tcp_gates.iter().zip(&self.up).for_each(|(gate, up)| up.follow(gate, registry));
        self.triggers.send_replace(gate_triggers(config, registry));
    }

    /// The configured addresses.
    pub(crate) fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Ends the thread, and returns the open listeners with the clients in their backlogs.
    pub(crate) fn into_listeners(mut self) -> Vec<Listening> {
        self.thread.join().unwrap_or_default()
    }

    /// Upper bound on open descriptors.
    pub(crate) fn descriptors(config: &Config) -> u32 {
        let addrs: usize = config.tcp_gates.iter().map(|gate| gate.binds.len()).sum();
        u32::try_from(addrs * (2 * CONNS_MAX + 2)).unwrap_or(u32::MAX)
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        self.thread.leave();
    }
}

/// The on-demand checks of endpoints with a gate.
fn gate_triggers(config: &Config, registry: &HealthRegistry) -> Vec<RunTrigger> {
    config.tcp_gates.iter().flat_map(|gate| registry.triggers_of(gate.health.position)).collect()
}

/// Requests runs of on-demand checks until the thread ends.
async fn request_runs(mut triggers: watch::Receiver<Vec<RunTrigger>>) {
    loop {
        let is_idle = {
            let triggers = triggers.borrow_and_update();
            triggers.iter().for_each(RunTrigger::request);
            triggers.is_empty()
        };
        let changed = triggers.changed();
        let gone = match is_idle {
            true => changed.await.is_err(),
            false => timeout(REQUEST_INTERVAL, changed).await.is_ok_and(|changed| changed.is_err()),
        };
        if gone {
            return;
        }
    }
}

impl Unopened {
    /// Starts the gates, which follow endpoints of this registry. `held` contains the listeners of
    /// unchanged addresses.
    pub(crate) fn open(self, config: &Config, registry: &HealthRegistry, mut held: Vec<Listening>) -> Gates {
        let Self { mut waiting, gates } = self;
        gates.follow(config, registry);
        for gate in waiting.iter_mut().filter(|gate| gate.port.is_none()) {
            if let Some(at) = held.iter().position(|(addr, _)| *addr == gate.addr.addr) {
                gate.port = Some(Port::Listening(held.remove(at).1));
            }
        }
        gates.thread.start(waiting);
        gates
    }
}

impl Up {
    /// Follows the state that this registry reports to load balancers for the endpoint of the gate.
    fn follow(&self, gate: &TcpGate, registry: &HealthRegistry) {
        let (endpoint, up) = (gate.health.position, self.clone());
        let current_term = {
            let mut term = self.term.lock();
            *term += 1;
            *term
        };
        let probe_counters = registry.prober_stats().probe_counters(endpoint).cloned();
        let published = Arc::clone(registry.published());
        *self.following.lock() = Some(Followed { published, endpoint, probe_counters });
        registry.follow(move |serving| {
            let (_, now) = serving.state(endpoint, Audience::LoadBalancer);
            // The lock is held until the state is sent, so that an earlier registry cannot
            // overwrite the state.
            let term = up.term.lock();
            if *term == current_term {
                up.state.send_if_modified(|up| std::mem::replace(up, now) != now);
            }
        });
    }
}

impl Gate {
    /// Runs the gate until it is stopped. Returns the listener if the gate is then open.
    async fn run(mut self, mut left: watch::Receiver<bool>) -> Option<Listening> {
        let mut conns = Conns::default();
        let is_closed = self.when_down == WhenDown::Close && !*self.is_up.borrow();
        let port = self.port.take().filter(|_| !is_closed);
        let listener = port.map(|port| port.listen().and_then(TcpListener::from_std));
        let mut port = listener.and_then(|listener| self.opened(listener));
        loop {
            let is_up = *self.is_up.borrow_and_update();
            if *left.borrow_and_update() {
                let listener = port?.listener.into_std().ok()?;
                return Some((self.addr.addr, listener));
            }
            if !is_up {
                conns.held.abort_all();
                if self.when_down == WhenDown::Close {
                    port = None;
                    tokio::select! {
                        changed = self.is_up.changed() => changed.ok()?,
                        changed = left.changed() => changed.ok()?,
                    }
                    continue;
                }
            }
            let Some(open) = &port else {
                port = self.listen(&mut left).await;
                continue;
            };
            tokio::select! {
                accepted = open.listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream, self.count(), &mut conns),
                    // There is a lack of descriptors, or the client has disconnected.
                    Err(_) => {
                        self.count_error("accept");
                        sleep(RETRY_AFTER).await;
                    }
                },
                changed = self.is_up.changed() => changed.ok()?,
                changed = left.changed() => changed.ok()?,
                Some(_ended) = conns.held.join_next() => {}
                Some(_ended) = conns.ending.join_next() => {}
            }
        }
    }

    async fn listen(&mut self, left: &mut watch::Receiver<bool>) -> Option<OpenPort> {
        let port = self.opened(port::listen(self.addr).and_then(TcpListener::from_std));
        if port.is_none() {
            tokio::select! {
                () = sleep(RETRY_AFTER) => {}
                _changed = self.is_up.changed() => {}
                _changed = left.changed() => {}
            }
        }
        port
    }

    /// Returns the open port, or counts and logs the error.
    fn opened(&self, listener: io::Result<TcpListener>) -> Option<OpenPort> {
        match listener {
            Ok(listener) => Some(OpenPort { listener, _open: self.process_stats.opened(&self.name) }),
            Err(error) => {
                self.count_error("listen");
                tracing::error!(gate = self.name, address = %self.addr.addr, %error, "cannot open the TCP gate: trying again");
                None
            }
        }
    }

    /// Counts a connection, and returns whether the endpoint serves. Reads the published state,
    /// because `is_up` changes with a delay.
    fn count(&self) -> bool {
        let following = self.following.lock();
        let Some(Followed { published, endpoint, probe_counters }) = &*following else { return false };
        let (state, serves) = published.load().states(*endpoint)[Audience::LoadBalancer as usize];
        if let Some(probe_counters) = probe_counters {
            probe_counters.own().count(Some(Prober::Tcp), state, OsClock.now());
        }
        serves
    }

    fn count_error(&self, call: &'static str) {
        self.process_stats.count_one(&Item::new(ItemKind::GateError, &self.name, [call]));
    }

    fn admit(&self, stream: TcpStream, is_up: bool, conns: &mut Conns) {
        let result = match (is_up, self.when_down) {
            (true, _) if conns.held.len() < CONNS_MAX => "held",
            (true, _) => "full",
            (false, WhenDown::Reset) => "reset",
            (false, _) => "ended",
        };
        self.process_stats.count_one(&Item::new(ItemKind::Gated, &self.name, [result]));
        if result == "held" {
            conns.held.spawn(hold(stream));
        } else if !is_up && self.when_down == WhenDown::Reset {
            // On failure, the socket is closed normally.
            let _closed = set_socket_linger(&stream, Some(Duration::ZERO));
        } else {
            conns.end(stream);
        }
    }
}

/// The connections to one address of a gate.
#[derive(Debug, Default)]
struct Conns {
    /// Connections that are open while the endpoint serves.
    held: JoinSet<()>,
    /// Connections on which the sending side is closed.
    ending: JoinSet<()>,
    /// Handles of the connections in `ending`, oldest first.
    oldest: VecDeque<AbortHandle>,
}

impl Conns {
    /// Ends a connection with FIN. If too many connections are ending, the oldest one is dropped.
    fn end(&mut self, stream: TcpStream) {
        self.oldest.retain(|ending| !ending.is_finished());
        if self.oldest.len() >= CONNS_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            oldest.abort();
        }
        self.oldest.push_back(self.ending.spawn(end(stream)));
    }
}

async fn hold(mut stream: TcpStream) {
    discard_input(&mut stream, HOLD_TIMEOUT).await;
    end(stream).await;
}

/// Sends FIN, and reads until the peer closes, because closing a socket with unread data sends a
/// reset.
async fn end(mut stream: TcpStream) {
    if stream.shutdown().await.is_ok() {
        discard_input(&mut stream, END_TIMEOUT).await;
    }
}

async fn discard_input(stream: &mut TcpStream, time: Duration) {
    let mut some = [0; 512];
    let read = async { while stream.read(&mut some).await.is_ok_and(|len| len > 0) {} };
    let _ended = timeout(time, read).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_checks::{Finding, ResultSink as _};
    use doorbell_health::Outcome;
    use doorbell_proxy_config::{Source, parse};

    #[test]
    fn only_the_current_registry_counts() {
        let text = "version = 1\n[check.db]\ntype = \"ttl\"\nttl = \"1m\"\n[health.readyz]\nrequire = [\"db\"]\n\
                    [tcp_gate.lb]\nbind = \"127.0.0.1:1\"\n";
        let config = parse(&Source { name: "f".into(), text: text.into() }, &|_| None).config.unwrap();
        let before = HealthRegistry::build(&config).unwrap();
        let (state, is_up) = watch::channel(false);
        let up = Up { state: Arc::new(state), term: Arc::default(), following: Following::default() };
        let tell = |registry: &HealthRegistry, outcome: Outcome| {
            let finding = Finding { outcome, latency: Duration::ZERO, reason: String::new() };
            let _next = registry.found(0, &finding);
        };
        up.follow(&config.tcp_gates[0], &before);
        tell(&before, Outcome::Success);
        assert!(*is_up.borrow());
        let after = HealthRegistry::build_after(&config, &before).unwrap();
        tell(&after, Outcome::Success);
        up.follow(&config.tcp_gates[0], &after);
        for _ in 0..5 {
            tell(&before, Outcome::Failure);
        }
        assert!(*is_up.borrow(), "the earlier registry is ignored");
        for _ in 0..5 {
            tell(&after, Outcome::Failure);
        }
        assert!(!*is_up.borrow());
        tell(&before, Outcome::Success);
        assert!(!*is_up.borrow());
    }
}
