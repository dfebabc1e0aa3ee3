//! TCP gates: ports that are open only while an endpoint is up, for load balancers that can do no more than connect.
//!
//! Does not know about: what makes a state, what is said on a connection; nothing ever is.
//!
//! On a thread of its own, because the rings have no listener that comes and goes.

use super::board::Keeper;
use crate::checks::Demand;
use crate::config::model::{Config, TcpGate, WhenDown};
use crate::exit::{Exit, Failure};
use doorbell_health::{Audience, EndpointState};
use rustix::net::sockopt::set_socket_linger;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections that one address keeps open. Whoever comes beyond that finds the port open, and his connection ended.
const CONNS_MAX: usize = 64;

/// How long somebody may keep a connection on which nothing is said.
const HOLD_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two attempts to listen, or to accept where descriptors are short.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How often gates ask for what runs only when somebody asks, as nobody asks them; what is new enough does not run for that.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The running thread.
#[derive(Debug)]
pub(super) struct Gates {
    /// Whether each is up, in the order of the configuration.
    up: Vec<Arc<Up>>,
    demands: watch::Sender<Vec<Demand>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// Whether a gate is up, and who says so.
#[derive(Debug)]
struct Up {
    sender: watch::Sender<bool>,
    /// How many boards have been followed. Only the last one is heard: those before it may live for as long as somebody is connected.
    follows: Mutex<u64>,
}

/// One address of a gate.
struct Gate {
    name: String,
    addr: SocketAddr,
    when_down: WhenDown,
    is_up: watch::Receiver<bool>,
    /// From the start, so that an address that cannot be had is no surprise later.
    listener: Option<TcpListener>,
}

impl Gates {
    /// Opens what is up. Without gates there is no thread.
    ///
    /// # Errors
    /// When somebody else listens there, or nobody may.
    pub(super) fn open(config: &Config, keeper: &Keeper) -> Result<Option<Self>, Failure> {
        if config.tcp_gates.is_empty() {
            return Ok(None);
        }
        let no_thread = |error: io::Error| {
            Failure::new(Exit::Failure, format!("no thread could be started for TCP gates: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(no_thread)?;
        let (mut gates, mut up) = (Vec::new(), Vec::new());
        for gate in &config.tcp_gates {
            let (sender, is_up) = watch::channel(false);
            let said = Arc::new(Up { sender, follows: Mutex::new(0) });
            follow(gate, keeper, &said);
            up.push(said);
            for &addr in &gate.binds {
                let bound = runtime.block_on(TcpListener::bind(addr));
                let listener = bound.map_err(|error| cannot_listen(gate, addr, &error))?;
                gates.push(Gate {
                    name: gate.name.clone(),
                    addr,
                    when_down: gate.when_down,
                    is_up: is_up.clone(),
                    listener: Some(listener),
                });
            }
        }
        let (demands, asks) = watch::channel(demands_of(config, keeper));
        let (stop, mut stopped) = watch::channel(false);
        let run = move || {
            runtime.block_on(async {
                let mut all: JoinSet<()> = gates.into_iter().map(Gate::keep).collect();
                tokio::select! {
                    _never = all.join_next() => {}
                    () = ask(asks) => {}
                    _stopped = stopped.wait_for(|stopped| *stopped) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("gates".into()).spawn(run).map_err(no_thread)?;
        Ok(Some(Self { up, demands, stop, thread: Some(thread) }))
    }

    /// The same gates mean endpoints of this board from now on.
    pub(super) fn follow(&self, config: &Config, keeper: &Keeper) {
        for (gate, up) in config.tcp_gates.iter().zip(&self.up) {
            follow(gate, keeper, up);
        }
        self.demands.send_replace(demands_of(config, keeper));
    }

    /// Descriptors that gates may have open at once.
    pub(super) fn descriptors(config: &Config) -> u32 {
        let addrs: usize = config.tcp_gates.iter().map(|gate| gate.binds.len()).sum();
        u32::try_from(addrs * (CONNS_MAX + 2)).unwrap_or(u32::MAX)
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// What runs only when somebody asks for an endpoint that has a gate.
fn demands_of(config: &Config, keeper: &Keeper) -> Vec<Demand> {
    config.tcp_gates.iter().flat_map(|gate| keeper.demands_of(gate.endpoint)).collect()
}

/// Asks, until the thread ends.
async fn ask(mut demands: watch::Receiver<Vec<Demand>>) {
    loop {
        let is_idle = {
            let demands = demands.borrow_and_update();
            demands.iter().for_each(Demand::ask);
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

/// Tells `up` whether the endpoint of a gate serves, as a load balancer is told. Whom it followed before is not heard any more.
fn follow(gate: &TcpGate, keeper: &Keeper, up: &Arc<Up>) {
    let endpoint = gate.endpoint;
    let turn = {
        let mut follows = up.follows.lock().unwrap_or_else(PoisonError::into_inner);
        *follows += 1;
        *follows
    };
    let up = Arc::clone(up);
    keeper.follow(move |serving| {
        let now = serving.endpoint(endpoint).is_some_and(|endpoint| {
            let (verdict, code) = endpoint.answer(Audience::LoadBalancer);
            code < 400 && matches!(verdict.state, EndpointState::Degraded | EndpointState::Up)
        });
        let follows = up.follows.lock().unwrap_or_else(PoisonError::into_inner);
        if *follows == turn {
            up.sender.send_if_modified(|up| std::mem::replace(up, now) != now);
        }
    });
}

fn cannot_listen(gate: &TcpGate, addr: SocketAddr, error: &io::Error) -> Failure {
    let name = &gate.name;
    match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(
            Exit::AddressInUse,
            format!(
                "{addr} of [tcp_gate.{name}] is in use: stop the process that listens there (ss -ltnp), or choose another address"
            ),
        ),
        io::ErrorKind::PermissionDenied => Failure::new(
            Exit::NoPermission,
            format!(
                "no permission to listen on {addr} of [tcp_gate.{name}]: a port below 1024 needs CAP_NET_BIND_SERVICE or root"
            ),
        ),
        _ => {
            Failure::new(Exit::Failure, format!("{addr} of [tcp_gate.{name}] cannot be listened on: {error}"))
        }
    }
}

impl Gate {
    /// Until the thread ends.
    async fn keep(mut self) {
        let mut held = JoinSet::new();
        loop {
            let is_up = *self.is_up.borrow_and_update();
            if !is_up {
                held.abort_all();
                if self.when_down == WhenDown::Close {
                    self.listener = None;
                    if self.is_up.changed().await.is_err() {
                        return;
                    }
                    continue;
                }
            }
            let Some(listener) = &self.listener else {
                self.listen().await;
                continue;
            };
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.take(stream, is_up, &mut held),
                    // Too few descriptors, or somebody who was gone before he was there.
                    Err(_) => sleep(RETRY_AFTER).await,
                },
                changed = self.is_up.changed() => if changed.is_err() { return },
                Some(_ended) = held.join_next() => {}
            }
        }
    }

    async fn listen(&mut self) {
        match TcpListener::bind(self.addr).await {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                tracing::error!(gate = self.name, address = %self.addr, %error, "a TCP gate cannot be opened; trying again");
                let _changed = timeout(RETRY_AFTER, self.is_up.changed()).await;
            }
        }
    }

    fn take(&self, mut stream: TcpStream, is_up: bool, held: &mut JoinSet<()>) {
        if !is_up {
            if self.when_down == WhenDown::Reset {
                // A socket that does not take it is closed in the ordinary way.
                let _closed = set_socket_linger(&stream, Some(Duration::ZERO));
            }
            return;
        }
        if held.len() < CONNS_MAX {
            held.spawn(async move {
                let mut some = [0; 512];
                let read = async { while stream.read(&mut some).await.is_ok_and(|len| len > 0) {} };
                let _ended = timeout(HOLD_TIMEOUT, read).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Desk as _, Finding};
    use crate::config::{Source, parse};
    use doorbell_health::Outcome;

    #[test]
    fn only_the_board_that_was_followed_last_is_heard() {
        let text = "version = 1\n[check.db]\ntype = \"ttl\"\nttl = \"1m\"\n[health.readyz]\nrequire = [\"db\"]\n\
                    [tcp_gate.lb]\nbind = \"127.0.0.1:1\"\n";
        let config = parse(&Source { name: "f".into(), text: text.into() }, &|_| None).config.unwrap();
        let before = Keeper::build(&config).unwrap();
        let (sender, is_up) = watch::channel(false);
        let up = Arc::new(Up { sender, follows: Mutex::new(0) });
        let tell = |keeper: &Keeper, outcome: Outcome| {
            let finding = Finding { outcome, latency: Duration::ZERO, reason: String::new() };
            let _next = keeper.found(0, &finding);
        };
        follow(&config.tcp_gates[0], &before, &up);
        tell(&before, Outcome::Success);
        assert!(*is_up.borrow());
        let after = Keeper::build_after(&config, &before).unwrap();
        tell(&after, Outcome::Success);
        follow(&config.tcp_gates[0], &after, &up);
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
