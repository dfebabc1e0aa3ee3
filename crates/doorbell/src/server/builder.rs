//! Building and starting a server: everything is checked and every socket is open before the first client is accepted.
//!
//! Does not know about: TOML, the command line.

use core::num::NonZeroU16;
use core::sync::atomic::{AtomicBool, AtomicU8};
use core::time::Duration;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::sockets::{Sockets, Taken};
use super::succession::Before;
use super::thread::WorkerThread;
use super::{Core, Event, Handle, Observer, Server, StartError, WorkerFailure};
use crate::config::{Limits, OnWorkerFailure};
use crate::control::WorkerShared;
use crate::driver::select::{Descriptors, DriverReport, Engine, Plan, plan};
use crate::driver::{Fault, WakeSource, Waker};
use crate::hand_over::HandOver;
use crate::id::WorkerIndex;
use crate::net::{Asked, Bound, Listen, ListenError};
use crate::protocol::{ListenerProtocol, Protocol, Room};
use crate::tuning::Tuning;
use crate::worker::{Arrival, IpTable, ServerShared, accept_margin};

/// Listeners a server may have.
pub(super) const LISTENERS_MAX: usize = 256;

/// Descriptors for everything that is not a connection: standard streams, files, and what a worker needs.
const FDS_RESERVED: u64 = 64;

/// Descriptors a worker needs beside its listeners: ring or epoll, eventfd, timer, spare.
const FDS_A_WORKER: u64 = 5;

/// A listening socket and its copy for a successor.
const FDS_A_SOCKET: u64 = 2;

/// Fewer connections than this are not worth serving.
const CONNS_MIN: u64 = 16;

/// How many workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// One for each CPU this process may use: CPU affinity and cgroup quota are respected.
    #[default]
    Auto,
    /// This many.
    Count(NonZeroU16),
}

/// Builds a [`Server`]. Each method names its default.
#[must_use = "a builder does nothing until it is started"]
pub struct ServerBuilder {
    workers: Workers,
    pin_cpus: bool,
    engine: Engine,
    descriptors: Descriptors,
    tuning: Tuning,
    limits: Limits,
    /// What was said of single limits.
    single: SingleLimits,
    raises_nofile: bool,
    on_worker_failure: OnWorkerFailure,
    listeners: Vec<(Listen, ListenerProtocol)>,
    observer: Option<Observer>,
    hand_over: Option<HandOver>,
    /// Descriptors that are the program's own.
    fds_kept: u32,
    /// The server that this one follows.
    before: Option<Handle>,
}

/// Limits that have a method of their own, which [`ServerBuilder::limits`] does not undo.
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
            observer: None,
            hand_over: None,
            fds_kept: 0,
            before: None,
        }
    }
}

impl ServerBuilder {
    /// Adds a listener and what it speaks.
    pub fn listen(mut self, listen: Listen, protocol: impl Into<ListenerProtocol>) -> Self {
        self.listeners.push((listen, protocol.into()));
        self
    }

    /// How many workers. Default [`Workers::Auto`].
    pub const fn workers(mut self, workers: Workers) -> Self {
        self.workers = workers;
        self
    }

    /// Binds worker i to the i-th CPU this process may use. Default false.
    pub const fn pin_cpus(mut self, on: bool) -> Self {
        self.pin_cpus = on;
        self
    }

    /// Which driver. Default [`Engine::Auto`].
    pub const fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// How io_uring holds connections. Default [`Descriptors::Auto`]. With [`Descriptors::Direct`] the peer's address is not available: a listener that is
    /// no Unix socket and needs it, for the cap of connections an address ([`Self::conns_per_ip_max`]), a PROXY protocol header or its service
    /// ([`wants_client`](crate::Handler::wants_client)), is refused at start. The progress of a client that reads a reply slowly is only looked
    /// for when the write timeout has passed, and cannot be seen before Linux 6.8: one that reads nothing keeps its connection for twice that time.
    pub const fn descriptors(mut self, descriptors: Descriptors) -> Self {
        self.descriptors = descriptors;
        self
    }

    /// Which techniques the drivers use. Default [`Tuning::default`].
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// Caps and times. Default [`Limits::default`]. A limit that a method of its own sets is that one, whether it is called before or after this.
    /// [`Limits::conns_max`] is lowered to what `RLIMIT_NOFILE` allows: see [`Self::conns_max`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Connections open at once in the process. The default, 65,536 or what [`Self::limits`] says, is lowered to what `RLIMIT_NOFILE` allows, with a
    /// [note](Server::notes); a number given here is not: if it cannot be had, the server does not start.
    pub const fn conns_max(mut self, conns: u32) -> Self {
        self.single.conns_max = Some(conns);
        self
    }

    /// Whether the start raises the soft limit of `RLIMIT_NOFILE`, as far as the hard one allows, to what the server may need. That is the limit of the whole
    /// process: a program that sets it itself, or that calls `select(2)` with more than 1,023 descriptors, turns this off, and has the number of connections
    /// lowered to what the soft limit allows. It is not lowered again when the server ends. Default true.
    pub const fn raise_descriptor_limit(mut self, on: bool) -> Self {
        self.raises_nofile = on;
        self
    }

    /// Descriptors that the rest of the program wants for itself, beside a few that are always left: connections never take them. Default 0.
    pub const fn keep_descriptors(mut self, count: u32) -> Self {
        self.fds_kept = count;
        self
    }

    /// Connections held at once from one address ([`Limits::conns_per_ip_max`]). Default 1,024; 0 turns the cap off.
    pub const fn conns_per_ip_max(mut self, conns: u32) -> Self {
        self.single.conns_per_ip_max = Some(conns);
        self
    }

    /// Bits of an IPv6 address that count as one address ([`Limits::client_v6_len`]). Default 64.
    pub const fn client_v6_len(mut self, bits: u8) -> Self {
        self.single.client_v6_len = Some(bits);
        self
    }

    /// Without progress of a reply for this long the connection is closed. Default 10 s.
    pub const fn write_timeout(mut self, timeout: Duration) -> Self {
        self.single.write_timeout = Some(timeout);
        self
    }

    /// After an early reply: how long input is read and dropped before the close. Default 1 s.
    pub const fn linger_timeout(mut self, timeout: Duration) -> Self {
        self.single.linger_timeout = Some(timeout);
        self
    }

    /// How long [`Handle::drain`] waits for connections in progress. Default 20 s. It does not bound a handler: a worker whose handler blocks ends when that
    /// returns.
    pub const fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.single.drain_timeout = Some(timeout);
        self
    }

    /// What a worker's failure means for the others. Default [`OnWorkerFailure::Stop`].
    pub const fn on_worker_failure(mut self, on_failure: OnWorkerFailure) -> Self {
        self.on_worker_failure = on_failure;
        self
    }

    /// Where connections go that are not for the ring lane: those of which a handler says so, in a protocol that is not behind TLS.
    /// Without it, such a client is refused.
    pub fn hand_over(mut self, to: HandOver) -> Self {
        self.hand_over = Some(to);
        self
    }

    /// Follows a running server in its place: of a listener that is at the same address as one of its, the same sockets are taken, with
    /// their backlogs and with the port that 0 became; other listeners are opened. There are as many workers as it has, and one table counts
    /// the connections of an address where the cap is the same. Both accept until [`Handle::take_over`]; if this server does not start,
    /// the other one goes on as if nothing had been.
    ///
    /// While two servers live, each may hold its own `conns_max`: where `RLIMIT_NOFILE` is too low for both, clients wait in the backlog
    /// until the old one's have left.
    pub fn succeed(mut self, before: &Handle) -> Self {
        self.before = Some(before.clone());
        self
    }

    /// Calls `observer` from worker threads with what an operator should hear of; it must be quick. If it panics the event is lost, and nothing else.
    pub fn observer(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Opens every listener, starts the workers and returns once they all accept.
    ///
    /// # Errors
    /// What made it impossible; nothing is left open then.
    pub fn start(mut self) -> Result<Server, StartError> {
        self.settle()?;
        let workers = self.worker_count();
        let mut notes = Vec::new();
        self.limits.conns_max = self.affordable_conns(workers, &mut notes)?;
        self.limits.check(workers)?;
        let plan = self.plan()?;
        // A listening socket's backlog is never longer than the kernel allows, whatever was asked (listen(2)).
        let accept_margin = accept_margin(self.listeners.iter().map(|(listen, _)| listen.backlog_max()));
        let (wakes, shareds) = wakers(workers)?;
        let Bindings { protocols, arrivals, bound, taken, renewals } = self.bind(workers)?;
        let listener_is_shared = bound.iter().map(|bound| bound.is_shared).collect();
        let listener_is_ours = bound.iter().map(|bound| bound.asked != Asked::Inherited).collect();
        let local_addrs = bound.iter().map(|bound| bound.local.clone()).collect();
        self.hand_over.iter().for_each(|to| wake_on_room(to, shareds.clone()));
        let core = Arc::new(self.core(shareds, &bound, taken).map_err(StartError::Sockets)?);
        protocols.iter().for_each(|protocol| protocol.size_for(&core.room));
        let server = Arc::new(ServerShared {
            arrivals,
            protocols,
            listener_is_shared,
            listener_is_ours,
            limits: self.limits,
            workers,
            ip_table: Arc::clone(&core.ip_table),
            accept_margin,
            tuning: self.tuning,
            hand_over: self.hand_over,
        });
        let mut running = Server {
            handle: Handle { core: Arc::clone(&core) },
            threads: Vec::with_capacity(usize::from(workers)),
            local_addrs,
            report: plan.report.clone(),
            notes,
        };
        let cpus = if self.pin_cpus { allowed_cpus() } else { Vec::new() };
        let (started, starts) = sync_channel(usize::from(workers));
        let mut goes = Vec::with_capacity(usize::from(workers));
        for (index, (wake, listeners)) in (0..workers).zip(wakes.into_iter().zip(transpose(bound, workers))) {
            let (go, hears) = sync_channel(1);
            goes.push(go);
            let thread = WorkerThread {
                index: WorkerIndex(index),
                cpu: cpus.get(usize::from(index) % cpus.len().max(1)).copied(),
                plan: plan.clone(),
                listeners,
                wake,
                server: Arc::clone(&server),
                shared: Arc::clone(&core.workers[usize::from(index)]),
                core: Arc::clone(&core),
                engine_is_forced: self.engine == Engine::IoUring,
                started: started.clone(),
                go: hears,
            };
            let spawned =
                std::thread::Builder::new().name(format!("doorbell-{index}")).spawn(|| thread.main());
            running.threads.push(spawned.map_err(StartError::Thread)?);
        }
        drop(started);
        await_starts(starts.iter().take(usize::from(workers)), &mut running)?;
        // Last, because the server before has these sockets too: what fails above changes nothing for it.
        core.renew(&renewals)?;
        core.before.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(Before::lend);
        for go in goes {
            // A worker that failed meanwhile has said so to whom it concerns.
            let _gone = go.send(());
        }
        Ok(running)
    }

    /// What was asked for in several calls, as one; checked as far as it needs no system call.
    fn settle(&mut self) -> Result<(), StartError> {
        if self.listeners.is_empty() || self.listeners.len() > LISTENERS_MAX {
            return Err(StartError::Listeners);
        }
        if self.hand_over.as_ref().is_some_and(|to| to.answer_before_body) {
            self.listeners.iter_mut().for_each(|(_, protocol)| protocol.answer_before_body());
        }
        self.single.apply(&mut self.limits);
        self.check_addresses()
    }

    /// On a thread of its own: a ring interrupts the calls of the thread that opened it, also when it is closed and taken down later, and the caller
    /// of a start may be in a call that does not expect that.
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

    /// What needs the address of a peer is refused where no connection has one.
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

    /// As many as the server before has: each has a socket of its own, whose backlog somebody must look at.
    fn worker_count(&self) -> u16 {
        let before = self.before.as_ref().and_then(|before| u16::try_from(before.core.workers.len()).ok());
        before.unwrap_or_else(|| self.workers.count())
    }

    /// What the handle and the workers share.
    fn core(&mut self, workers: Vec<Arc<WorkerShared>>, bound: &[Bound], taken: Taken) -> io::Result<Core> {
        let sockets = Sockets::of(bound)?;
        let before = self.before.take().map(|before| before.core);
        let conns_max = self.limits.conns_max;
        let room = before.as_ref().map(|before| before.room.for_heir(conns_max));
        let table = before.as_ref().map(|before| &before.ip_table);
        let ip_table = match table.filter(|table| table.is_for(&self.limits)) {
            Some(table) => Arc::clone(table),
            None => {
                let workers = u16::try_from(workers.len()).expect("they were counted in 16 bits");
                Arc::new(IpTable::new(&self.limits, workers))
            }
        };
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
            room: room.unwrap_or_else(|| Room::new(conns_max)),
            before: Mutex::new(before.map(|core| Before::new(core, taken))),
            misuses_told: AtomicU8::new(0),
        })
    }

    /// The connections that descriptors allow; raises the soft limit to what is needed, if it may.
    fn affordable_conns(&self, workers: u16, notes: &mut Vec<String>) -> Result<u32, StartError> {
        let wanted_conns = self.limits.conns_max;
        let others = FDS_RESERVED
            + u64::from(self.fds_kept)
            + u64::from(workers) * (FDS_A_WORKER + FDS_A_SOCKET * self.listeners.len() as u64);
        let wanted_out = self.hand_over.as_ref().map_or(0, |to| u64::from(to.places().max()));
        let wanted = u64::from(wanted_conns) + wanted_out + others;
        let limit = getrlimit(Resource::Nofile);
        let hard = if self.raises_nofile { limit.maximum } else { limit.current }.unwrap_or(u64::MAX);
        if self.raises_nofile && limit.current.is_some_and(|soft| soft < wanted) {
            // Raising the soft limit up to the hard one is always allowed (getrlimit(2)).
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

    /// What is left for connections of the ring lane. A number of them that was asked for comes first; else those that are handed over may
    /// be as many.
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

    fn bind(&mut self, workers: u16) -> Result<Bindings, ListenError> {
        let before = self.before.as_ref().map(|before| &before.core.sockets);
        let before = before.map(|sockets| sockets.lock().unwrap_or_else(PoisonError::into_inner));
        let taken = before.as_ref().map(|sockets| sockets.none_taken()).unwrap_or_default();
        let mut bindings = Bindings { taken, ..Bindings::default() };
        for (mut listen, protocol) in self.listeners.drain(..) {
            let arrival = Arrival::of(&protocol, listen.proxy.take(), listen.is_unix());
            let speaks_first = arrival.speaks_first;
            let inherited = match &before {
                Some(sockets) => sockets.take(&listen, speaks_first, &mut bindings.taken),
                None => Ok(None),
            };
            let bound = match inherited {
                Ok(Some(bound)) => {
                    let renewal = Renewal { listener: bindings.bound.len(), listen, speaks_first };
                    bindings.renewals.push(renewal);
                    Ok(bound)
                }
                Ok(None) => listen.bind(workers, speaks_first),
                Err(error) => Err(error),
            };
            bindings.bound.push(bound?);
            bindings.arrivals.push(arrival);
            bindings.protocols.push(protocol);
        }
        Ok(bindings)
    }
}

/// The listeners, each with its sockets, in order.
#[derive(Default)]
struct Bindings {
    protocols: Vec<ListenerProtocol>,
    arrivals: Vec<Arrival>,
    bound: Vec<Bound>,
    /// Those of the server before.
    taken: Taken,
    renewals: Vec<Renewal>,
}

/// What is to be so of sockets that the server before has as well.
struct Renewal {
    /// Its index.
    listener: usize,
    listen: Listen,
    speaks_first: bool,
}

impl Core {
    fn renew(&self, renewals: &[Renewal]) -> Result<(), ListenError> {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        renewals.iter().try_for_each(|Renewal { listener, listen, speaks_first }| {
            sockets.renew(*listener, listen, *speaks_first)
        })
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

/// Every worker accepts, or one could not start.
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

/// From sockets by listener to sockets by worker.
fn transpose(bound: Vec<Bound>, workers: u16) -> Vec<Vec<OwnedFd>> {
    let mut by_worker: Vec<Vec<OwnedFd>> = (0..workers).map(|_| Vec::with_capacity(bound.len())).collect();
    for listener in bound {
        for (worker, fd) in by_worker.iter_mut().zip(listener.fds) {
            worker.push(fd);
        }
    }
    by_worker
}

fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

impl core::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("workers", &self.workers)
            .field("engine", &self.engine)
            .field("descriptors", &self.descriptors)
            .field("limits", &self.limits)
            .field("listeners", &self.listeners.len())
            .finish_non_exhaustive()
    }
}
