//! Builds and starts a server: all settings are checked and all sockets are open before the first
//! client is accepted.

use core::num::NonZeroU16;
use core::sync::atomic::{AtomicBool, AtomicU8};
use core::time::Duration;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::bindings::{Bindings, transpose};
use super::sockets::{Sockets, TakenListeners};
use super::succession::Predecessor;
use super::thread::WorkerThread;
use super::{Core, Event, Handle, Observer, Server, StartError, WorkerFailure};
use crate::config::{Limits, OnWorkerFailure};
use crate::control::WorkerShared;
use crate::datagram::{DatagramHandler, DatagramListen};
use crate::driver::select::{Descriptors, DriverReport, Engine, Plan, plan};
use crate::driver::{Fault, WakeSource, Waker};
use crate::hand_over::HandOver;
use crate::id::WorkerIndex;
use crate::net::{Balance, Bound, Listen, ListenError, allowed_cpus};
use crate::protocol::{ListenerProtocol, Protocol, ServerSize};
use crate::tuning::Tuning;
use crate::worker::{Balancer, IpTable, ServerShared, accept_margin};

/// Maximum number of listeners.
pub(super) const LISTENERS_MAX: usize = 256;

/// Descriptors reserved for other purposes: standard streams, files, and a margin.
const FDS_RESERVED: u64 = 64;

/// Descriptors per worker in addition to its listeners: ring or epoll, eventfd, timer, two spare.
const FDS_A_WORKER: u64 = 5;

/// Descriptors per listening socket: the socket and its duplicate for a successor.
const FDS_A_SOCKET: u64 = 2;

/// The start fails if the descriptor limit allows fewer connections than this.
const CONNS_MIN: u64 = 16;

/// The number of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// One worker per CPU that this process may use, by CPU affinity and cgroup quota.
    #[default]
    Auto,
    /// This number of workers.
    Count(NonZeroU16),
}

/// A builder of a [`Server`]. The documentation of each method names the default.
#[must_use = "a builder does nothing until it is started"]
pub struct ServerBuilder {
    workers: Workers,
    pin_cpus: bool,
    engine: Engine,
    descriptors: Descriptors,
    tuning: Tuning,
    limits: Limits,
    /// Limits that were set by their own methods.
    single: SingleLimits,
    raises_nofile: bool,
    on_worker_failure: OnWorkerFailure,
    listeners: Vec<(Listen, ListenerProtocol)>,
    datagrams: Vec<(DatagramListen, Arc<dyn DatagramHandler>)>,
    observer: Option<Observer>,
    hand_over: Option<HandOver>,
    /// Number of descriptors reserved for other parts of the program.
    fds_kept: u32,
    /// The predecessor of this server.
    predecessor: Option<Handle>,
}

/// Limits with their own methods, which [`ServerBuilder::limits`] does not override.
#[derive(Clone, Copy, Debug, Default)]
struct SingleLimits {
    conns_max: Option<u32>,
    conns_per_ip_max: Option<u32>,
    client_v6_len: Option<u8>,
    write_timeout: Option<Duration>,
    linger_timeout: Option<Duration>,
    drain_timeout: Option<Duration>,
}

impl SingleLimits {
    fn apply(&self, limits: &mut Limits) {
        let set = |limit: &mut Duration, single: Option<Duration>| *limit = single.unwrap_or(*limit);
        limits.conns_max = self.conns_max.unwrap_or(limits.conns_max);
        limits.conns_per_ip_max = self.conns_per_ip_max.unwrap_or(limits.conns_per_ip_max);
        limits.client_v6_len = self.client_v6_len.unwrap_or(limits.client_v6_len);
        set(&mut limits.write_timeout, self.write_timeout);
        set(&mut limits.linger_timeout, self.linger_timeout);
        set(&mut limits.drain_timeout, self.drain_timeout);
    }
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            workers: Workers::default(),
            pin_cpus: false,
            engine: Engine::default(),
            descriptors: Descriptors::default(),
            tuning: Tuning::default(),
            limits: Limits::default(),
            single: SingleLimits::default(),
            raises_nofile: true,
            on_worker_failure: OnWorkerFailure::default(),
            listeners: Vec::new(),
            datagrams: Vec::new(),
            observer: None,
            hand_over: None,
            fds_kept: 0,
            predecessor: None,
        }
    }
}

impl ServerBuilder {
    /// Adds a listener and its protocol. A server needs 1 to 256 listeners, datagram listeners
    /// included.
    pub fn listen(mut self, listen: Listen, protocol: impl Into<ListenerProtocol>) -> Self {
        self.listeners.push((listen, protocol.into()));
        self
    }

    /// Adds a [datagram](crate::datagram) listener and its handler.
    pub fn listen_datagrams(
        mut self,
        listen: DatagramListen,
        handler: impl DatagramHandler + 'static,
    ) -> Self {
        self.datagrams.push((listen, Arc::new(handler)));
        self
    }

    /// Sets the number of workers. Default [`Workers::Auto`].
    pub const fn workers(mut self, workers: Workers) -> Self {
        self.workers = workers;
        self
    }

    /// Binds worker i to the i-th CPU this process may use. Default false.
    pub const fn pin_cpus(mut self, on: bool) -> Self {
        self.pin_cpus = on;
        self
    }

    /// Sets the driver to use. Default [`Engine::Auto`].
    pub const fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Sets the kind of descriptors that io_uring uses for connections. Default
    /// [`Descriptors::Auto`].
    ///
    /// With [`Descriptors::Direct`] the peer's address is not available. The start fails if a TCP
    /// listener needs the address: for the cap on connections per address, which is on by default
    /// ([`Self::conns_per_ip_max`]), for the PROXY protocol, or for its service
    /// ([`wants_client`](crate::Handler::wants_client)). The write progress is first checked after
    /// the write timeout, so a client that reads nothing can stay for twice that time. Before Linux
    /// 6.8 the progress cannot be checked.
    pub const fn descriptors(mut self, descriptors: Descriptors) -> Self {
        self.descriptors = descriptors;
        self
    }

    /// Sets the techniques that the drivers use. Default [`Tuning::default`].
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Sets limits and timeouts. Default [`Limits::default`]. The value of a limit's own method has
    /// precedence, regardless of the order of the calls. [`Limits::conns_max`] is lowered to what
    /// `RLIMIT_NOFILE` allows: see [`Self::conns_max`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum number of open connections of the server.
    ///
    /// The default, 65,536 or the value in [`Self::limits`], is lowered to what `RLIMIT_NOFILE`
    /// allows, with a [note](Server::notes). A number set here is not lowered: if `RLIMIT_NOFILE`
    /// does not allow it, the start fails.
    pub const fn conns_max(mut self, conns: u32) -> Self {
        self.single.conns_max = Some(conns);
        self
    }

    /// Sets whether the start raises the soft limit of `RLIMIT_NOFILE` to what the server may need,
    /// up to the hard limit. Default true.
    ///
    /// The limit applies to the whole process and is not lowered when the server ends. Pass false
    /// if the program sets the limit itself, or calls `select(2)`, which supports only descriptors
    /// below 1,024. The number of connections is then lowered to what the soft limit allows.
    pub const fn raise_descriptor_limit(mut self, on: bool) -> Self {
        self.raises_nofile = on;
        self
    }

    /// Sets the number of descriptors reserved for other parts of the program, in addition to a
    /// small fixed reserve. Connections never use them. Default 0.
    pub const fn keep_descriptors(mut self, count: u32) -> Self {
        self.fds_kept = count;
        self
    }

    /// Sets the maximum number of open connections per client address
    /// ([`Limits::conns_per_ip_max`]). Default 1,024; 0 disables the cap.
    pub const fn conns_per_ip_max(mut self, conns: u32) -> Self {
        self.single.conns_per_ip_max = Some(conns);
        self
    }

    /// Sets the prefix length of an IPv6 address that counts as one client
    /// ([`Limits::client_v6_len`]). Default 64.
    pub const fn client_v6_len(mut self, bits: u8) -> Self {
        self.single.client_v6_len = Some(bits);
        self
    }

    /// Sets the maximum time without write progress; then the connection is closed. Default 10 s.
    pub const fn write_timeout(mut self, timeout: Duration) -> Self {
        self.single.write_timeout = Some(timeout);
        self
    }

    /// Sets how long input is read and discarded between the last reply and the close, if the peer
    /// may still send. Default 1 s.
    pub const fn linger_timeout(mut self, timeout: Duration) -> Self {
        self.single.linger_timeout = Some(timeout);
        self
    }

    /// Sets how long [`Handle::drain`] waits for requests in progress. Default 20 s. A blocking
    /// handler is not interrupted: its worker ends when the handler returns.
    pub const fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.single.drain_timeout = Some(timeout);
        self
    }

    /// Sets the reaction to the failure of a worker. Default [`OnWorkerFailure::Stop`].
    pub const fn on_worker_failure(mut self, on_failure: OnWorkerFailure) -> Self {
        self.on_worker_failure = on_failure;
        self
    }

    /// Sets the receiver of connections that are handed over. Default: hand-overs are refused.
    pub fn hand_over(mut self, to: HandOver) -> Self {
        self.hand_over = Some(to);
        self
    }

    /// Replaces a running server.
    ///
    /// A listener at the same address as a listener of the running server takes the sockets of that
    /// listener, with their backlogs and the port that was chosen for port 0; other listeners are
    /// opened. The number of workers is that of the running server. Both servers share one table of
    /// connections per address if the cap and the prefix length are the same. Both accept until
    /// [`Handle::take_over`]. If this server fails to start, the running one continues unchanged.
    ///
    /// While both servers run, each may have up to its `conns_max` connections. If `RLIMIT_NOFILE`
    /// is too low for that, clients wait in the backlog until connections of the old server end.
    pub fn succeed(mut self, predecessor: &Handle) -> Self {
        self.predecessor = Some(predecessor.clone());
        self
    }

    /// Calls `observer` on worker threads with events for the operator. `observer` must return
    /// quickly. If it panics, only that event is lost.
    pub fn observer(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Opens all listeners, starts the workers and returns once all of them have started.
    ///
    /// # Errors
    /// Returns the reason why the server could not start. All resources are then closed.
    pub fn start(mut self) -> Result<Server, StartError> {
        self.settle()?;
        let workers = self.worker_count();
        let mut notes = Vec::new();
        self.limits.conns_max = self.affordable_conns(workers, &mut notes)?;
        self.limits.check(workers)?;
        let plan = self.plan()?;
        let accept_margin = accept_margin(self.listeners.iter().map(|(listen, _)| listen.backlog_max()));
        let (wakes, shareds) = wakers(workers)?;
        let bindings = self.bind(workers)?;
        let facts = bindings.facts();
        let Bindings { protocols, arrivals, bound, taken, renewals, datagrams, services } = bindings;
        self.hand_over.iter().for_each(|to| wake_on_room(to, shareds.clone()));
        let core = Arc::new(self.core(shareds, &bound, taken).map_err(StartError::Sockets)?);
        protocols.iter().for_each(|protocol| protocol.size_for(&core.server_size));
        let server = Arc::new(ServerShared {
            arrivals,
            protocols,
            datagrams: services,
            datagrams_are_ours: facts.datagrams_are_ours,
            listener_is_shared: facts.listener_is_shared,
            listener_is_ours: facts.listener_is_ours,
            limits: self.limits,
            workers,
            ip_table: Arc::clone(&core.ip_table),
            accept_margin,
            tuning: self.tuning,
            balancer: core.balancer.clone(),
            hand_over: self.hand_over,
        });
        let mut running = Server {
            handle: Handle { core: Arc::clone(&core) },
            threads: Vec::with_capacity(usize::from(workers)),
            local_addrs: facts.local_addrs,
            datagram_addrs: facts.datagram_addrs,
            report: plan.report.clone(),
            notes,
        };
        let cpus = cpus_for(self.pin_cpus, &bound);
        let (started, starts) = sync_channel(usize::from(workers));
        let mut goes = Vec::with_capacity(usize::from(workers));
        for (index, (wake, sockets)) in
            (0..workers).zip(wakes.into_iter().zip(transpose(bound, &datagrams, workers)))
        {
            let (go, start) = sync_channel(1);
            goes.push(go);
            let thread = WorkerThread {
                index: WorkerIndex(index),
                cpu: cpus.get(usize::from(index) % cpus.len().max(1)).copied(),
                plan: plan.clone(),
                sockets,
                wake,
                server: Arc::clone(&server),
                shared: Arc::clone(&core.workers[usize::from(index)]),
                core: Arc::clone(&core),
                engine_is_forced: self.engine == Engine::IoUring,
                started: started.clone(),
                go: start,
            };
            let spawned =
                std::thread::Builder::new().name(format!("doorbell-{index}")).spawn(|| thread.main());
            running.threads.push(spawned.map_err(StartError::Thread)?);
        }
        drop(started);
        await_starts(starts.iter().take(usize::from(workers)), &mut running)?;
        // Done after the other steps that can fail, because a failed start must not change the
        // predecessor's sockets.
        renewals.apply(&core.sockets.lock().unwrap_or_else(PoisonError::into_inner), &datagrams)?;
        core.share_predecessor_sockets();
        for go in goes {
            // Sending fails only if the worker has failed and has already reported that.
            let _gone = go.send(());
        }
        Ok(running)
    }

    /// Combines the settings of several calls, and checks the listeners.
    fn settle(&mut self) -> Result<(), StartError> {
        if !(1..=LISTENERS_MAX).contains(&(self.listeners.len() + self.datagrams.len())) {
            return Err(StartError::Listeners);
        }
        if self.hand_over.as_ref().is_some_and(|to| to.answer_before_body) {
            self.listeners.iter_mut().for_each(|(_, protocol)| protocol.answer_before_body());
        }
        self.single.apply(&mut self.limits);
        self.check_addresses()
    }

    /// Tests the kernel and chooses the driver, on a separate thread: a ring interrupts system
    /// calls of the thread that opened it, even after the ring is closed, and the caller's code may
    /// not expect that.
    fn plan(&self) -> Result<Plan, StartError> {
        let Self { engine, descriptors, tuning, .. } = self;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("doorbell-selftest".to_owned());
            let tested = thread.spawn_scoped(scope, || plan(*engine, *descriptors, tuning));
            match tested.map_err(StartError::Thread)?.join() {
                Ok(plan) => Ok(plan?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Refuses settings that need the peer's address if the descriptors hide it.
    fn check_addresses(&self) -> Result<(), StartError> {
        if self.descriptors != Descriptors::Direct || self.engine == Engine::Epoll {
            return Ok(());
        }
        let of_tcp = self.listeners.iter().filter(|(listen, _)| !listen.is_unix());
        for (listen, protocol) in of_tcp {
            let needs = match listen.proxy {
                Some(_) => "the PROXY protocol",
                None if protocol.wants_client() => "the service",
                None if self.limits.conns_per_ip_max != 0 => "the cap of connections from one address",
                None => continue,
            };
            return Err(StartError::AddressHidden { needs, addr: listen.addr.to_string() });
        }
        Ok(())
    }

    /// Returns the number of workers. With a predecessor it is the predecessor's number, because
    /// each of its sockets has a backlog that must be served.
    fn worker_count(&self) -> u16 {
        let count = |predecessor: &Handle| u16::try_from(predecessor.core.workers.len()).ok();
        self.predecessor.as_ref().and_then(count).unwrap_or_else(|| self.workers.count())
    }

    fn bind(&mut self, workers: u16) -> Result<Bindings, ListenError> {
        let (listeners, datagrams) =
            (core::mem::take(&mut self.listeners), core::mem::take(&mut self.datagrams));
        let predecessor = self.predecessor.as_ref().map(|predecessor| &predecessor.core.sockets);
        let predecessor = predecessor.map(|sockets| sockets.lock().unwrap_or_else(PoisonError::into_inner));
        Bindings::of(listeners, datagrams, predecessor.as_deref(), workers)
    }

    /// Creates the state that the handle and the workers share.
    fn core(
        &mut self,
        workers: Vec<Arc<WorkerShared>>,
        bound: &[Bound],
        taken: TakenListeners,
    ) -> io::Result<Core> {
        let sockets = Sockets::of(bound)?;
        let predecessor = self.predecessor.take().map(|predecessor| predecessor.core);
        let conns_max = self.limits.conns_max;
        let server_size =
            predecessor.as_ref().map(|predecessor| predecessor.server_size.for_successor(conns_max));
        let table = predecessor.as_ref().map(|predecessor| &predecessor.ip_table);
        let ip_table = match table.filter(|table| table.is_for(&self.limits)) {
            Some(table) => Arc::clone(table),
            None => {
                let workers = u16::try_from(workers.len()).expect("the number of workers has 16 bits");
                Arc::new(IpTable::new(&self.limits, workers))
            }
        };
        let balancer = bound.iter().any(Bound::is_balanced).then(|| {
            let balances = bound.iter().map(|bound| bound.balance).collect();
            Arc::new(Balancer::new(workers.clone(), balances, &self.limits))
        });
        Ok(Core {
            workers,
            on_failure: self.on_worker_failure,
            failures: Mutex::default(),
            replacements: Mutex::default(),
            draining: AtomicBool::new(false),
            drain_timeout: self.limits.drain_timeout,
            observer: self.observer.take(),
            sockets: Mutex::new(sockets),
            ip_table,
            balancer,
            server_size: server_size.unwrap_or_else(|| ServerSize::new(conns_max)),
            predecessor: Mutex::new(predecessor.map(|core| Predecessor::new(core, taken))),
            misuses_reported: AtomicU8::new(0),
        })
    }

    /// Returns the number of connections that `RLIMIT_NOFILE` allows, up to `conns_max`, after
    /// raising the soft limit.
    fn affordable_conns(&self, workers: u16, notes: &mut Vec<String>) -> Result<u32, StartError> {
        let wanted_conns = self.limits.conns_max;
        let others = FDS_RESERVED
            + u64::from(self.fds_kept)
            + u64::from(workers)
                * (FDS_A_WORKER + FDS_A_SOCKET * (self.listeners.len() + self.datagrams.len()) as u64);
        let wanted_out = self.hand_over.as_ref().map_or(0, |to| u64::from(to.places().max()));
        let wanted = u64::from(wanted_conns) + wanted_out + others;
        let limit = getrlimit(Resource::Nofile);
        let hard = if self.raises_nofile { limit.maximum } else { limit.current }.unwrap_or(u64::MAX);
        if self.raises_nofile && limit.current.is_some_and(|soft| soft < wanted) {
            // Raising the soft limit up to the hard limit is always permitted (getrlimit(2)).
            let _allowed = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted.min(hard)), ..limit });
        }
        if wanted <= hard {
            return Ok(wanted_conns);
        }
        let affordable = hard.saturating_sub(others);
        let affordable = self.affordable_out(affordable, wanted_conns, notes);
        if u64::from(wanted_conns) <= affordable {
            return Ok(wanted_conns);
        }
        if self.single.conns_max.is_some() || affordable < CONNS_MIN {
            let wanted = if self.single.conns_max.is_some() {
                u64::from(wanted_conns) + others
            } else {
                CONNS_MIN + others
            };
            return Err(StartError::TooFewDescriptors { wanted, available: hard });
        }
        notes.push(format!("at most {affordable} connections: RLIMIT_NOFILE allows {hard} file descriptors"));
        Ok(u32::try_from(affordable).unwrap_or(u32::MAX).min(wanted_conns))
    }

    /// Returns the number of descriptors for connections of this server, and lowers the limit of
    /// hand-overs accordingly. An explicit number of connections has precedence; otherwise at most
    /// half of the descriptors are for hand-overs.
    fn affordable_out(&self, affordable: u64, wanted_conns: u32, notes: &mut Vec<String>) -> u64 {
        let Some(to) = &self.hand_over else { return affordable };
        let here = if self.single.conns_max.is_some() { u64::from(wanted_conns) } else { affordable / 2 };
        let out = affordable.saturating_sub(here).min(u64::from(to.places().max()));
        if out < u64::from(to.places().max()) {
            to.gate.set_max(u32::try_from(out).unwrap_or(u32::MAX));
            notes.push(format!("at most {out} connections handed over: RLIMIT_NOFILE allows no more"));
        }
        affordable - out
    }
}

impl Workers {
    fn count(self) -> u16 {
        match self {
            Self::Count(count) => count.get(),
            Self::Auto => {
                let cpus = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
                u16::try_from(cpus).unwrap_or(u16::MAX)
            }
        }
    }
}

fn wakers(workers: u16) -> Result<(Vec<WakeSource>, Vec<Arc<WorkerShared>>), StartError> {
    let mut wakes = Vec::with_capacity(usize::from(workers));
    let mut shareds = Vec::with_capacity(usize::from(workers));
    for _ in 0..workers {
        let (waker, wake) =
            Waker::pair().map_err(|errno| StartError::Worker(Fault { call: "eventfd", errno }.into()))?;
        wakes.push(wake);
        shareds.push(Arc::new(WorkerShared::new(waker)));
    }
    Ok((wakes, shareds))
}

/// The processors to which workers are pinned; empty if they are not.
fn cpus_for(pins: bool, bound: &[Bound]) -> Vec<usize> {
    let pins = pins || bound.iter().any(|bound| bound.balance == Balance::Cpu);
    if pins { allowed_cpus() } else { Vec::new() }
}

/// Waits until every worker is ready to accept, or until one has failed to start.
fn await_starts(
    starts: impl Iterator<Item = Result<DriverReport, WorkerFailure>>,
    running: &mut Server,
) -> Result<(), StartError> {
    for start in starts {
        let report = start.map_err(StartError::Worker)?;
        if report.is_fallback || report.direct != running.report.direct {
            running.report = report;
        }
    }
    Ok(())
}

fn wake_on_room(to: &HandOver, workers: Vec<Arc<WorkerShared>>) {
    to.on_room(move || workers.iter().for_each(|worker| worker.wake()));
}

impl core::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("workers", &self.workers)
            .field("engine", &self.engine)
            .field("descriptors", &self.descriptors)
            .field("limits", &self.limits)
            .field("listeners", &self.listeners.len())
            .field("datagrams", &self.datagrams.len())
            .finish_non_exhaustive()
    }
}
