//! TCP gates: ports that are open only while an endpoint is up, for load balancers that can do no more than connect.
//!
//! Does not know about: what makes a state, what is said on a connection; nothing ever is.
//!
//! On a thread of its own, because the rings have no listener that comes and goes.

use super::port::{Listening, Port, cannot_listen};
use crate::config::model::{Config, TcpGate, WhenDown};
use crate::exit::{Exit, Failure};
use crate::http::prober::Prober;
use crate::registry::HealthRegistry;
use crate::stats::process::{OpenGate, ProcessStats};
use crate::stats::server::Item;
use doorbell::time::{Clock as _, OsClock};
use doorbell_health::Audience;
use doorbell_probes::{ProbeCounters, Published, RunTrigger};
use rustix::net::sockopt::set_socket_linger;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Connections that one address keeps open. Whoever comes beyond that finds the port open, and his connection ended; so many end at once.
const CONNS_MAX: usize = 64;

/// How long somebody may keep a connection on which nothing is said.
const HOLD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long somebody who was told that his connection is over may take to end it, too.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Between two attempts to listen, or to accept where descriptors are short.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How often gates ask for what runs only when somebody asks, as nobody asks them; what is new enough does not run for that.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The running thread.
#[derive(Debug)]
pub(crate) struct Gates {
    /// Whether each is up, in the order of the configuration.
    up: Vec<Up>,
    /// As they are written down.
    addrs: Vec<SocketAddr>,
    demands: watch::Sender<Vec<RunTrigger>>,
    stop: watch::Sender<bool>,
    /// Gives back what still listens.
    thread: Option<JoinHandle<Vec<Listening>>>,
}

/// Gates that may come to be: every address is ours, and nobody gets in.
#[derive(Debug)]
pub(crate) struct Unopened {
    gates: Vec<Gate>,
    up: Vec<Up>,
    demands: watch::Sender<Vec<RunTrigger>>,
    /// Without the word the thread ends.
    go: SyncSender<Vec<Gate>>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<Vec<Listening>>,
}

/// Whether a gate is up, as one board says. Boards before it have nothing to say any more, though they live on.
#[derive(Clone, Debug)]
struct Up {
    /// Wakes the gate.
    told: Arc<watch::Sender<bool>>,
    /// Which board it is.
    term: Arc<Mutex<u64>>,
    following: Following,
}

/// The endpoint of a gate on the board that it follows. `None` before there is a board.
type Following = Arc<Mutex<Option<Followed>>>;

#[derive(Debug)]
struct Followed {
    published: Arc<Published>,
    endpoint: usize,
    /// Where connections are counted.
    probe_counters: Option<Arc<ProbeCounters>>,
}

/// One address of a gate.
#[derive(Debug)]
struct Gate {
    name: String,
    addr: SocketAddr,
    when_down: WhenDown,
    is_up: watch::Receiver<bool>,
    following: Following,
    stopped: watch::Receiver<bool>,
    /// From the start, so that an address that cannot be had is no surprise later.
    port: Option<Port>,
    process_stats: Arc<ProcessStats>,
}

/// An address where somebody may come.
#[derive(Debug)]
struct OpenPort {
    listener: TcpListener,
    _open: OpenGate,
}

impl Gates {
    /// Takes the addresses that are not `held` already. Without gates there is no thread.
    ///
    /// # Errors
    /// When somebody else listens there, or nobody may.
    pub(crate) fn prepare(
        config: &Config,
        held: &[SocketAddr],
        process_stats: &Arc<ProcessStats>,
    ) -> Result<Option<Unopened>, Failure> {
        if config.tcp_gates.is_empty() {
            return Ok(None);
        }
        let no_thread = |error: io::Error| {
            Failure::new(Exit::Failure, format!("no thread could be started for TCP gates: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(no_thread)?;
        let (stop, stopped) = watch::channel(false);
        let (mut gates, mut up) = (Vec::new(), Vec::new());
        let mut held = held.to_vec();
        for gate in &config.tcp_gates {
            let (told, is_up) = watch::channel(false);
            let following = Following::default();
            up.push(Up { told: Arc::new(told), term: Arc::default(), following: Arc::clone(&following) });
            let table = format!("tcp_gate.{}", gate.name);
            for addr in gate.binds.iter().map(|bind| bind.value) {
                let port = match held.iter().position(|held| *held == addr) {
                    Some(at) => {
                        held.remove(at);
                        None
                    }
                    None => Some(Port::bind(addr).map_err(|error| cannot_listen(&table, addr, &error))?),
                };
                let (is_up, following, stopped) = (is_up.clone(), Arc::clone(&following), stopped.clone());
                let (name, when_down) = (gate.name.clone(), gate.when_down);
                let process_stats = Arc::clone(process_stats);
                gates.push(Gate { name, addr, when_down, is_up, following, stopped, port, process_stats });
            }
        }
        let (demands, asks) = watch::channel(Vec::new());
        let (go, goes) = sync_channel::<Vec<Gate>>(1);
        let run = move || {
            let Ok(gates) = goes.recv() else { return Vec::new() };
            runtime.block_on(async {
                let all: JoinSet<Option<Listening>> = gates.into_iter().map(Gate::keep).collect();
                let asking = tokio::spawn(ask(asks));
                let listening = all.join_all().await.into_iter().flatten().collect();
                asking.abort();
                listening
            })
        };
        let thread = std::thread::Builder::new().name("gates".into()).spawn(run).map_err(no_thread)?;
        Ok(Some(Unopened { gates, up, demands, go, stop, thread }))
    }

    /// The same gates mean endpoints of this board from now on.
    pub(crate) fn follow(&self, config: &Config, registry: &HealthRegistry) {
        config.tcp_gates.iter().zip(&self.up).for_each(|(gate, up)| up.follow(gate, registry));
        self.demands.send_replace(demands_of(config, registry));
    }

    /// The addresses that it has.
    pub(crate) fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Ends, and gives back what listens. Whoever waits there goes on waiting.
    pub(crate) fn give_up(mut self) -> Vec<Listening> {
        self.end()
    }

    fn end(&mut self) -> Vec<Listening> {
        self.stop.send_replace(true);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    /// Descriptors that gates may have open at once.
    pub(crate) fn descriptors(config: &Config) -> u32 {
        let addrs: usize = config.tcp_gates.iter().map(|gate| gate.binds.len()).sum();
        u32::try_from(addrs * (2 * CONNS_MAX + 2)).unwrap_or(u32::MAX)
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        let _closed = self.end();
    }
}

/// What runs only when somebody asks for an endpoint that has a gate.
fn demands_of(config: &Config, registry: &HealthRegistry) -> Vec<RunTrigger> {
    config.tcp_gates.iter().flat_map(|gate| registry.triggers_of(gate.health.position)).collect()
}

/// Asks, until the thread ends.
async fn ask(mut demands: watch::Receiver<Vec<RunTrigger>>) {
    loop {
        let is_idle = {
            let demands = demands.borrow_and_update();
            demands.iter().for_each(RunTrigger::request);
            demands.is_empty()
        };
        let changed = demands.changed();
        let gone = match is_idle {
            true => changed.await.is_err(),
            false => timeout(ASK_EVERY, changed).await.is_ok_and(|changed| changed.is_err()),
        };
        if gone {
            return;
        }
    }
}

impl Unopened {
    /// Opens what is up by this board. `held` are those of the addresses that were held, as far as anybody listened there.
    pub(crate) fn open(
        mut self,
        config: &Config,
        registry: &HealthRegistry,
        mut held: Vec<Listening>,
    ) -> Gates {
        for (gate, up) in config.tcp_gates.iter().zip(&self.up) {
            up.follow(gate, registry);
        }
        for gate in self.gates.iter_mut().filter(|gate| gate.port.is_none()) {
            if let Some(at) = held.iter().position(|(addr, _)| *addr == gate.addr) {
                gate.port = Some(Port::Listening(held.remove(at).1));
            }
        }
        self.demands.send_replace(demands_of(config, registry));
        let addrs = self.gates.iter().map(|gate| gate.addr).collect();
        let _begins = self.go.send(self.gates);
        Gates { up: self.up, addrs, demands: self.demands, stop: self.stop, thread: Some(self.thread) }
    }
}

impl Up {
    /// From now on it is as this board says that the endpoint of the gate serves, to a load balancer.
    fn follow(&self, gate: &TcpGate, registry: &HealthRegistry) {
        let (endpoint, up) = (gate.health.position, self.clone());
        let mine = {
            let mut term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
            *term += 1;
            *term
        };
        let probe_counters = registry.prober_stats().probe_counters(endpoint).cloned();
        let published = Arc::clone(registry.published());
        *self.following.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Followed { published, endpoint, probe_counters });
        registry.follow(move |serving| {
            let (_, now) = serving.state(endpoint, Audience::LoadBalancer);
            // Held until it is told, so that nobody before is later.
            let term = up.term.lock().unwrap_or_else(PoisonError::into_inner);
            if *term == mine {
                up.told.send_if_modified(|up| std::mem::replace(up, now) != now);
            }
        });
    }
}

impl Gate {
    /// Until the thread ends. Gives back what listens.
    async fn keep(mut self) -> Option<Listening> {
        let mut conns = Conns::default();
        let mut stopped = self.stopped.clone();
        let listener = self.port.take().map(|port| port.listen().and_then(TcpListener::from_std));
        let mut port = listener.and_then(|listener| self.opened(listener));
        loop {
            let is_up = *self.is_up.borrow_and_update();
            if *stopped.borrow_and_update() {
                let listener = port?.listener.into_std().ok()?;
                return Some((self.addr, listener));
            }
            if !is_up {
                conns.held.abort_all();
                if self.when_down == WhenDown::Close {
                    port = None;
                    tokio::select! {
                        changed = self.is_up.changed() => changed.ok()?,
                        changed = stopped.changed() => changed.ok()?,
                    }
                    continue;
                }
            }
            let Some(open) = &port else {
                port = self.listen(&mut stopped).await;
                continue;
            };
            tokio::select! {
                accepted = open.listener.accept() => match accepted {
                    Ok((stream, _)) => self.take(stream, self.count(), &mut conns),
                    // Too few descriptors, or somebody who was gone before he was there.
                    Err(_) => {
                        self.count_error("accept");
                        sleep(RETRY_AFTER).await;
                    }
                },
                changed = self.is_up.changed() => changed.ok()?,
                changed = stopped.changed() => changed.ok()?,
                Some(_ended) = conns.held.join_next() => {}
                Some(_ended) = conns.ending.join_next() => {}
            }
        }
    }

    async fn listen(&mut self, stopped: &mut watch::Receiver<bool>) -> Option<OpenPort> {
        let bound = TcpListener::bind(self.addr).await;
        let port = self.opened(bound);
        if port.is_none() {
            tokio::select! {
                () = sleep(RETRY_AFTER) => {}
                _changed = self.is_up.changed() => {}
                _changed = stopped.changed() => {}
            }
        }
        port
    }

    /// Says so where it is not.
    fn opened(&self, listener: io::Result<TcpListener>) -> Option<OpenPort> {
        match listener {
            Ok(listener) => Some(OpenPort { listener, _open: self.process_stats.opened(&self.name) }),
            Err(error) => {
                self.count_error("listen");
                tracing::error!(gate = self.name, address = %self.addr, %error, "a TCP gate cannot be opened; trying again");
                None
            }
        }
    }

    /// Counts a connection. Whether the endpoint serves at this moment: what wakes the gate may come a little later.
    fn count(&self) -> bool {
        let following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Followed { published, endpoint, probe_counters }) = &*following else { return false };
        let (state, serves) = published.load().states(*endpoint)[Audience::LoadBalancer as usize];
        if let Some(probe_counters) = probe_counters {
            probe_counters.own().count(Some(Prober::Tcp), state, OsClock.now());
        }
        serves
    }

    fn count_error(&self, call: &'static str) {
        self.process_stats.count_one(&Item::GateError { gate: self.name.as_str().into(), call });
    }

    fn take(&self, stream: TcpStream, is_up: bool, conns: &mut Conns) {
        let result = match (is_up, self.when_down) {
            (true, _) if conns.held.len() < CONNS_MAX => "held",
            (true, _) => "full",
            (false, WhenDown::Reset) => "reset",
            (false, _) => "ended",
        };
        self.process_stats.count_one(&Item::Gated { gate: self.name.as_str().into(), result });
        if result == "held" {
            conns.held.spawn(hold(stream));
        } else if !is_up && self.when_down == WhenDown::Reset {
            // A socket that does not take it is closed in the ordinary way.
            let _closed = set_socket_linger(&stream, Some(Duration::ZERO));
        } else {
            conns.end(stream);
        }
    }
}

/// Those of one address.
#[derive(Debug, Default)]
struct Conns {
    /// Open as long as it is up.
    held: JoinSet<()>,
    /// On which our end was told.
    ending: JoinSet<()>,
    /// Of those, the oldest first.
    oldest: VecDeque<AbortHandle>,
}

impl Conns {
    /// Where too many end at once, the one that had most time has no more.
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
    read_out(&mut stream, HOLD_TIMEOUT).await;
    end(stream).await;
}

/// What was sent and not read would make the close a reset.
async fn end(mut stream: TcpStream) {
    if stream.shutdown().await.is_ok() {
        read_out(&mut stream, END_TIMEOUT).await;
    }
}

async fn read_out(stream: &mut TcpStream, time: Duration) {
    let mut some = [0; 512];
    let read = async { while stream.read(&mut some).await.is_ok_and(|len| len > 0) {} };
    let _ended = timeout(time, read).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Source, parse};
    use doorbell_checks::{Finding, ResultSink as _};
    use doorbell_health::Outcome;

    #[test]
    fn only_the_board_that_was_followed_last_is_heard() {
        let text = "version = 1\n[check.db]\ntype = \"ttl\"\nttl = \"1m\"\n[health.readyz]\nrequire = [\"db\"]\n\
                    [tcp_gate.lb]\nbind = \"127.0.0.1:1\"\n";
        let config = parse(&Source { name: "f".into(), text: text.into() }, &|_| None).config.unwrap();
        let before = HealthRegistry::build(&config).unwrap();
        let (told, is_up) = watch::channel(false);
        let up = Up { told: Arc::new(told), term: Arc::default(), following: Following::default() };
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
        assert!(*is_up.borrow(), "the elder board is not heard");
        for _ in 0..5 {
            tell(&after, Outcome::Failure);
        }
        assert!(!*is_up.borrow());
        tell(&before, Outcome::Success);
        assert!(!*is_up.borrow());
    }
}
