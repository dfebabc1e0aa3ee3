//! Listening sockets that the service manager keeps during a restart (sd_notify(3), `FDSTORE`): clients that connect meanwhile wait in the
//! backlog and are served by the next process.
//!
//! Does not know about: when to update.
//!
//! A socket with a copy at the manager keeps listening after its listener is closed. So a socket that is not accepted from any more, because
//! the configuration dropped it or its worker failed, is shut down: then the kernel refuses connections despite the copies, and the manager
//! drops it.

mod datagram;
#[cfg(test)]
mod tests;

use super::inherit;
use crate::config::Bind;
use crate::config::model::{Config, FdStore, Systemd};
use crate::operator::Operator;
use datagram::Manager;
use doorbell::Listening;
use rustix::net::{Shutdown, shutdown, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Prefix of our names in `LISTEN_FDNAMES`, which sockets of a .socket unit do not have.
const PREFIX: &str = "doorbell-listener-";

/// Maximum number of descriptors in a message; the kernel allows 253 (unix(7), `SCM_RIGHTS`).
const SENT_MAX: usize = 128;

/// One per process, because there is one manager.
static STORE: Mutex<Store> = Mutex::new(Store::new(Manager::nobody()));

#[derive(Debug)]
struct Store {
    manager: Manager,
    /// Whether the sockets of the previous process have been collected.
    is_read: bool,
    /// Copies of the sockets that the manager has.
    kept: Vec<Kept>,
    /// The operator and the settings, while updates are active.
    keeps: Option<(Operator, Systemd)>,
    has_warned: bool,
}

#[derive(Debug)]
struct Kept {
    name: String,
    /// Identifies the socket.
    inode: u64,
    socket: OwnedFd,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Besides the sockets of workers, because there were more workers before; until the first reload.
    Beside,
    /// Left by the previous process, and not requested by a listener.
    Left,
    /// Used by a worker.
    Worker,
}

/// The sockets of the previous process at an address.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// At most one for each worker.
    pub(crate) own: Vec<OwnedFd>,
    /// Further ones, whose waiting clients must be served too.
    pub(crate) beside: Vec<OwnedFd>,
}

/// Takes the sockets of the previous process at this address.
pub(crate) fn take(addr: SocketAddr, v6_only: bool, workers: usize) -> Taken {
    let mut store = lock();
    store.read_once();
    let mut taken = Taken::default();
    let left = store.kept.iter_mut().filter(|kept| kept.part == Part::Left);
    for kept in left.filter(|kept| is_at(kept.socket.as_fd(), addr, v6_only)) {
        // Without a descriptor for a copy the listener will fail with an error.
        let Ok(copy) = kept.socket.try_clone() else { continue };
        if taken.own.len() < workers {
            kept.part = Part::Worker;
            taken.own.push(copy);
        } else {
            kept.part = Part::Beside;
            taken.beside.push(copy);
        }
    }
    taken
}

/// Activates [`settle`] and calls it once.
pub(crate) fn begin(operator: &Operator, settings: Systemd) {
    let mut store = lock();
    store.manager = Manager::of_env();
    store.keeps = Some((operator.clone(), settings));
    drop(store);
    settle();
}

/// Deactivates [`settle`]. The manager keeps its copies for the next process.
pub(crate) fn end() {
    lock().keeps = None;
}

/// Makes the manager keep the sockets that are accepted from now, and drop all others.
pub(crate) fn settle() {
    let mut store = lock();
    let Some((operator, settings)) = store.keeps.clone() else { return };
    let room = room(settings, announced().as_deref());
    if room == 0 && store.kept.is_empty() {
        return;
    }
    let Some(running) = operator.running() else { return };
    let Ok(listening) = running.handle.listening() else { return };
    // Checked afterwards: during a drain there are no listeners, and the copies are for the next process.
    if running.handle.is_draining() {
        return;
    }
    store.settle(&listening, operator.status().generation <= 1, room);
}

/// Upper bound on descriptors besides those of the accepting sockets: passed descriptors, their copies until they are assigned, a copy of
/// each socket at the manager, copies of all for an update, and one for the message.
pub(crate) fn descriptors(config: &Config, workers: usize) -> u32 {
    let binds = config.listeners.iter().flat_map(|listener| listener.addresses());
    let agents = config.agents.iter().flat_map(|agent| &agent.binds).map(|bind| &bind.value);
    let sockets = binds.chain(agents).filter(|bind| matches!(bind, Bind::Tcp(_))).count() * workers;
    let passed = inherit::passed(&|name| std::env::var(name).ok());
    needed(sockets, passed, room(config.systemd, announced().as_deref()))
}

fn needed(sockets: usize, passed: usize, room: usize) -> u32 {
    let keeping = if room == 0 { 0 } else { sockets.min(room) + sockets + 1 };
    u32::try_from(2 * passed + keeping).unwrap_or(u32::MAX)
}

/// The limit that the manager announces.
fn announced() -> Option<String> {
    std::env::var("FDSTORE").ok()
}

/// The number of descriptors that the manager keeps.
fn room(settings: Systemd, announced: Option<&str>) -> usize {
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
        Self { manager, is_read: false, kept: Vec::new(), keeps: None, has_warned: false }
    }

    fn read_once(&mut self) {
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        for (name, socket) in inherit::all(&|name| std::env::var(name).ok()) {
            // A name that is not ours must not be dropped.
            let is_ours = addr_of(socket.as_fd()).is_some_and(|addr| name_of(addr) == name);
            if let (true, Ok(inode)) = (is_ours, inode_of(socket.as_fd())) {
                self.kept.push(Kept { name, inode, socket, part: Part::Left });
            }
        }
    }

    fn settle(&mut self, listening: &[Listening], is_first: bool, room: usize) {
        // Port 0 gives another port next time.
        let served = listening.iter().filter(|one| one.asked.port() != 0);
        let served: Vec<(String, Vec<(u64, &OwnedFd)>)> = served
            .map(|one| {
                let known =
                    one.sockets.iter().filter_map(|socket| Some((inode_of(socket.as_fd()).ok()?, socket)));
                (name_of(one.addr), known.collect())
            })
            .collect();
        let is_gone = |kept: &mut Kept| {
            let mut inodes = served.iter().flat_map(|(_, sockets)| sockets.iter().map(|(inode, _)| *inode));
            !(inodes.any(|inode| inode == kept.inode) || (kept.part == Part::Beside && is_first))
        };
        let gone: Vec<Kept> = self.kept.extract_if(.., is_gone).collect();
        let mut names: Vec<&str> = gone.iter().map(|kept| kept.name.as_str()).collect();
        names.dedup();
        for name in names.into_iter().filter(|name| !self.kept.iter().any(|kept| kept.name == **name)) {
            self.manager.forget(name);
        }
        for kept in &gone {
            // Fails if it is closed already.
            let _closed = shutdown(&kept.socket, Shutdown::Both);
        }
        if room == 0 {
            self.forget_all();
            return;
        }
        for (name, sockets) in &served {
            let is_new = |(inode, _): &&(u64, &OwnedFd)| !self.kept.iter().any(|kept| kept.inode == *inode);
            let new: Vec<(u64, &OwnedFd)> = sockets.iter().filter(is_new).copied().collect();
            self.keep(name, &new, room);
        }
    }

    fn keep(&mut self, name: &str, sockets: &[(u64, &OwnedFd)], room: usize) {
        if self.kept.len() + sockets.len() > room {
            if !std::mem::replace(&mut self.has_warned, true) {
                tracing::warn!(
                    "not all listening sockets are kept across a restart: the limit is {room}; set FileDescriptorStoreMax= to the number of listeners times workers"
                );
            }
            return;
        }
        for sockets in sockets.chunks(SENT_MAX) {
            let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
            match self.manager.send(&format!("FDSTORE=1\nFDNAME={name}\n"), &fds) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    return tracing::debug!(%error, "cannot keep listening sockets across a restart");
                }
            }
            self.kept.extend(sockets.iter().filter_map(|(inode, socket)| {
                let socket = socket.try_clone().ok()?;
                Some(Kept { name: name.to_owned(), inode: *inode, socket, part: Part::Worker })
            }));
        }
    }

    /// Makes the manager drop everything; sockets in use stay open.
    fn forget_all(&mut self) {
        let mut names: Vec<String> = self.kept.drain(..).map(|kept| kept.name).collect();
        names.dedup();
        names.iter().for_each(|name| self.manager.forget(name));
    }
}

/// A name has no colon (sd_pid_notify_with_fds(3)).
fn name_of(addr: SocketAddr) -> String {
    format!("{PREFIX}{}", addr.to_string().replace(':', "_"))
}

/// Whether a name in `LISTEN_FDNAMES` is one of ours.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

fn addr_of(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    rustix::net::getsockname(socket).ok()?.try_into().ok()
}

fn is_at(socket: BorrowedFd<'_>, addr: SocketAddr, v6_only: bool) -> bool {
    addr_of(socket) == Some(addr)
        && (addr.is_ipv4() || sockopt::ipv6_v6only(socket).is_ok_and(|only| only == v6_only))
}

fn inode_of(socket: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::fs::fstat(socket)?.st_ino)
}

fn lock() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}
