//! TCP gates: ports that are open only while an endpoint is up, for load balancers that can do no more than connect.
//!
//! Does not know about: what makes a state, what is said on a connection; nothing ever is.
//!
//! On a thread of its own, because the rings have no listener that comes and goes.

use super::board::Keeper;
use crate::config::model::{Config, TcpGate, WhenDown};
use crate::exit::{Exit, Failure};
use doorbell_health::{Audience, EndpointState};
use rustix::net::sockopt::set_socket_linger;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
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

/// The running thread.
#[derive(Debug)]
pub(super) struct Gates {
    /// Whether each is up, in the order of the configuration.
    up: Vec<Arc<watch::Sender<bool>>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
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
            let sender = Arc::new(sender);
            follow(gate, keeper, Arc::clone(&sender));
            up.push(sender);
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
        let (stop, mut stopped) = watch::channel(false);
        let run = move || {
            runtime.block_on(async {
                let mut all: JoinSet<()> = gates.into_iter().map(Gate::keep).collect();
                tokio::select! {
                    _never = all.join_next() => {}
                    _stopped = stopped.wait_for(|stopped| *stopped) => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("gates".into()).spawn(run).map_err(no_thread)?;
        Ok(Some(Self { up, stop, thread: Some(thread) }))
    }

    /// The same gates mean endpoints of this board from now on.
    pub(super) fn follow(&self, config: &Config, keeper: &Keeper) {
        for (gate, up) in config.tcp_gates.iter().zip(&self.up) {
            follow(gate, keeper, Arc::clone(up));
        }
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

/// Tells `up` whether the endpoint of a gate serves, as a load balancer is told.
fn follow(gate: &TcpGate, keeper: &Keeper, up: Arc<watch::Sender<bool>>) {
    let endpoint = gate.endpoint;
    keeper.follow(move |serving| {
        let now = serving.endpoint(endpoint).is_some_and(|endpoint| {
            let (verdict, code) = endpoint.answer(Audience::LoadBalancer);
            code < 400 && matches!(verdict.state, EndpointState::Degraded | EndpointState::Up)
        });
        up.send_if_modified(|up| std::mem::replace(up, now) != now);
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
