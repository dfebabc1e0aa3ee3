//! Listening sockets that the service manager stores during a restart (sd_notify(3), `FDSTORE`).
//! Clients that connect during the restart wait in the backlog, and are served by the next process.
//!
//! A socket with a copy at the manager keeps listening after its listener is closed. A socket from
//! which no worker accepts any more, because its listener was removed or its worker failed, is
//! therefore shut down: the kernel then refuses connections despite the copy, and the manager drops
//! the copy.

#[cfg(test)]
mod tests;

use super::datagram::Manager;
use super::{address, inherit};
use crate::operator::Operator;
use doorbell::Listening;
use doorbell_proxy_config::model::{Config, FdStore, Systemd};
use doorbell_proxy_config::{Bind, BoundAddr};
use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Prefix in `LISTEN_FDNAMES` of the sockets stored by doorbell. Sockets of a .socket unit do not
/// have it.
const PREFIX: &str = "doorbell-listener-";

/// Maximum number of descriptors in a message; the kernel allows 253 (unix(7), `SCM_RIGHTS`).
const SENT_MAX: usize = 128;

/// The store; one per process, because a process has one manager.
static STORE: Mutex<Store> = Mutex::new(Store::new(Manager::none()));

#[derive(Debug)]
struct Store {
    manager: Manager,
    /// Whether the sockets of the previous process have been collected.
    is_read: bool,
    /// Copies of the sockets that the manager stores.
    stored: Vec<StoredSocket>,
    /// The operator and the settings while updates are active.
    updates: Option<(Operator, Systemd)>,
    has_warned: bool,
}

#[derive(Debug)]
struct StoredSocket {
    name: String,
    /// Identifies the socket.
    inode: u64,
    socket: OwnedFd,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Used in addition to the sockets of workers until the first reload, because the previous
    /// process had more workers.
    Extra,
    /// Stored by the previous process, and not requested by a listener yet.
    Unclaimed,
    /// Used by a worker.
    Worker,
}

/// The sockets of the previous process at an address.
#[derive(Debug, Default)]
pub(crate) struct InheritedSockets {
    /// Sockets for the workers, at most one for each.
    pub(crate) own: Vec<OwnedFd>,
    /// Further sockets, whose waiting clients must be served too.
    pub(crate) extra: Vec<OwnedFd>,
}

/// Closes the sockets of the previous process that no listener takes, if they would prevent an
/// address from being bound. If the start fails later, they remain closed.
pub(crate) fn close_overlapping(config: &Config) {
    let mut store = STORE.lock();
    store.manager = Manager::of_env();
    store.read_once();
    store.close_overlapping(config);
}

/// Takes the sockets of the previous process at this address.
pub(crate) fn take(addr: BoundAddr, workers: usize) -> InheritedSockets {
    let mut store = STORE.lock();
    store.read_once();
    let mut inherited = InheritedSockets::default();
    let unclaimed = store.stored.iter_mut().filter(|stored| stored.part == Part::Unclaimed);
    for stored in unclaimed.filter(|stored| address::of(&stored.socket) == Some(addr)) {
        // If the copy fails for lack of descriptors, starting the listener reports the error.
        let Ok(copy) = stored.socket.try_clone() else { continue };
        if inherited.own.len() < workers {
            stored.part = Part::Worker;
            inherited.own.push(copy);
        } else {
            stored.part = Part::Extra;
            inherited.extra.push(copy);
        }
    }
    inherited
}

/// Activates [`update`] and calls it once.
pub(crate) fn begin(operator: &Operator, settings: Systemd) {
    let mut store = STORE.lock();
    store.manager = Manager::of_env();
    store.updates = Some((operator.clone(), settings));
    drop(store);
    update();
}

/// Deactivates [`update`]. The manager keeps its copies for the next process.
pub(crate) fn end() {
    STORE.lock().updates = None;
}

/// Updates the manager, so that it stores the sockets from which workers currently accept, and
/// drops all other sockets.
pub(crate) fn update() {
    let mut store = STORE.lock();
    let Some((operator, settings)) = store.updates.clone() else { return };
    let capacity = capacity(settings, announced().as_deref());
    if capacity == 0 && store.stored.is_empty() {
        return;
    }
    let Some(running) = operator.running() else { return };
    let Ok(listening) = running.handle.listening() else { return };
    // Checked after the sockets are read: a server that has stopped accepting has no sockets, but
    // the next process needs the copies.
    if running.handle.is_draining() {
        return;
    }
    store.update(&listening, operator.status().generation <= 1, capacity);
}

/// Upper bound on descriptors in addition to the accepting sockets: passed descriptors, their
/// copies until they are assigned, a copy of each stored socket, temporary copies of all sockets
/// for an update, and one for the message.
pub(crate) fn descriptors(config: &Config, workers: usize) -> u32 {
    let binds = config.listeners.iter().flat_map(|listener| listener.addresses());
    let agents = config.agents.iter().flat_map(|agent| &agent.binds).map(|bind| &bind.value);
    let sockets = binds.chain(agents).filter(|bind| matches!(bind, Bind::Tcp(_))).count() * workers;
    let passed = inherit::passed(&|name| std::env::var(name).ok());
    needed(sockets, passed, capacity(config.systemd, announced().as_deref()))
}

fn needed(sockets: usize, passed: usize, capacity: usize) -> u32 {
    let storing = if capacity == 0 { 0 } else { sockets.min(capacity) + sockets + 1 };
    u32::try_from(2 * passed + storing).unwrap_or(u32::MAX)
}

/// The limit that the manager announces.
fn announced() -> Option<String> {
    std::env::var("FDSTORE").ok()
}

/// The maximum number of descriptors that the manager stores.
fn capacity(settings: Systemd, announced: Option<&str>) -> usize {
    let announced = announced.and_then(|count| count.parse().ok());
    match settings.fd_store {
        _ if !settings.notify => 0,
        FdStore::Auto => announced.unwrap_or(0),
        FdStore::Off => 0,
        FdStore::On => announced.unwrap_or(usize::MAX),
    }
}

impl Store {
    const fn new(manager: Manager) -> Self {
        Self { manager, is_read: false, stored: Vec::new(), updates: None, has_warned: false }
    }

    fn read_once(&mut self) {
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        for (name, socket) in inherit::all(&|name| std::env::var(name).ok()) {
            // Sockets with other names must not be dropped.
            let is_ours = address::of(&socket).is_some_and(|bound| name_of(bound.addr) == name);
            if let (true, Ok(inode)) = (is_ours, inode_of(socket.as_fd())) {
                self.stored.push(StoredSocket { name, inode, socket, part: Part::Unclaimed });
            }
        }
    }

    fn update(&mut self, listening: &[Listening], is_first: bool, capacity: usize) {
        // Sockets with the configured port 0 are not stored: the next process gets another port.
        let served = listening.iter().filter(|one| one.asked.port() != 0);
        let served: Vec<(String, Vec<(u64, &OwnedFd)>)> = served
            .map(|one| {
                let known =
                    one.sockets.iter().filter_map(|socket| Some((inode_of(socket.as_fd()).ok()?, socket)));
                (name_of(one.addr), known.collect())
            })
            .collect();
        let is_gone = |stored: &mut StoredSocket| {
            let mut inodes = served.iter().flat_map(|(_, sockets)| sockets.iter().map(|(inode, _)| *inode));
            !(inodes.any(|inode| inode == stored.inode) || (stored.part == Part::Extra && is_first))
        };
        let gone: Vec<StoredSocket> = self.stored.extract_if(.., is_gone).collect();
        self.close(&gone);
        if capacity == 0 {
            self.forget_all();
            return;
        }
        for (name, sockets) in &served {
            let is_new =
                |(inode, _): &&(u64, &OwnedFd)| !self.stored.iter().any(|stored| stored.inode == *inode);
            let new: Vec<(u64, &OwnedFd)> = sockets.iter().filter(is_new).copied().collect();
            self.add(name, &new, capacity);
        }
    }

    fn close_overlapping(&mut self, config: &Config) {
        let taken: Vec<BoundAddr> =
            config.worker_addrs().map(|addr| address::for_workers(addr, config)).collect();
        let bound: Vec<BoundAddr> = config.tcp_addrs().map(|addr| config.bound(addr)).collect();
        let overlaps = |stored: &mut StoredSocket| {
            let addr = address::of(&stored.socket).filter(|addr| !taken.contains(addr));
            addr.is_some_and(|addr| bound.iter().any(|bound| bound.overlaps(addr)))
        };
        let gone: Vec<StoredSocket> = self.stored.extract_if(.., overlaps).collect();
        for stored in &gone {
            tracing::info!(name = stored.name, "stored socket closed: its address overlaps a configured one");
        }
        self.close(&gone);
    }

    /// Shuts down removed sockets, so that the kernel refuses connections despite the manager's
    /// copies.
    fn close(&self, gone: &[StoredSocket]) {
        let mut names: Vec<&str> = gone.iter().map(|stored| stored.name.as_str()).collect();
        names.dedup();
        names.retain(|name| !self.stored.iter().any(|stored| stored.name == **name));
        self.manager.forget(names.into_iter());
        for stored in gone {
            // Fails if the socket is already shut down.
            let _closed = shutdown(&stored.socket, Shutdown::Both);
        }
    }

    fn add(&mut self, name: &str, sockets: &[(u64, &OwnedFd)], capacity: usize) {
        if self.stored.len() + sockets.len() > capacity {
            if !std::mem::replace(&mut self.has_warned, true) {
                tracing::warn!(
                    "not all listening sockets are kept across a restart: the limit is {capacity}; set FileDescriptorStoreMax= to the number of listeners times workers"
                );
            }
            return;
        }
        for sockets in sockets.chunks(SENT_MAX) {
            let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
            if !self.manager.send(&format!("FDSTORE=1\nFDNAME={name}\n"), &fds) {
                return;
            }
            self.stored.extend(sockets.iter().filter_map(|(inode, socket)| {
                let socket = socket.try_clone().ok()?;
                Some(StoredSocket { name: name.to_owned(), inode: *inode, socket, part: Part::Worker })
            }));
        }
    }

    /// Requests that the manager drops all copies; sockets in use stay open.
    fn forget_all(&mut self) {
        let mut names: Vec<String> = self.stored.drain(..).map(|stored| stored.name).collect();
        names.dedup();
        self.manager.forget(names.iter().map(String::as_str));
    }
}

/// Name of the sockets at an address, without colons (sd_pid_notify_with_fds(3)).
fn name_of(addr: SocketAddr) -> String {
    format!("{PREFIX}{}", addr.to_string().replace(':', "_"))
}

/// Whether a name in `LISTEN_FDNAMES` has the prefix of doorbell.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn inode_of(socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
}
