//! Duplicates of a server's listening sockets. A successor accepts from them, so that no client in
//! a backlog is lost.
//!
//! A duplicate keeps its socket open. So duplicates are closed before the workers stop listening,
//! and when a worker fails; otherwise clients would wait in a backlog that is never served. Before
//! the duplicates are closed, they are used to prepare a listener for its close (`net::last_call`).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use std::sync::Arc;

use crate::datagram::{DatagramListen, refuse};
use crate::net::{Balance, Bound, Identity, Listen, ListenError, LocalAddr, SocketFile, Unusable, last_call};

/// The duplicates of a server's sockets. The [module](self) documents them.
#[derive(Debug, Default)]
pub(super) struct Sockets(Vec<ListenerSockets>);

/// The sockets of one listener.
#[derive(Debug)]
struct ListenerSockets {
    identity: Identity,
    local: LocalAddr,
    is_shared: bool,
    balance: Balance,
    /// True if another process, or another successor of this server's predecessor, has duplicates
    /// and may continue to listen.
    is_passed: bool,
    /// Number of running successors in this process that share the socket.
    successors: u32,
    /// The listener's deferred-accept time in seconds, while deferred accept is disabled.
    deferred_s: Option<u32>,
    /// The file of a Unix socket; `None` if there is no file, and after this server has released
    /// it.
    file: Option<Arc<SocketFile>>,
    /// The duplicates by worker; `None` after they are closed.
    fds: Vec<Option<OwnedFd>>,
}

/// The sockets of one TCP or UDP listener.
#[derive(Debug)]
pub struct Listening {
    /// The requested address; its port may be 0.
    pub asked: SocketAddr,
    /// The actual address.
    pub addr: SocketAddr,
    /// Duplicates of the sockets of running workers; a single one if the workers share the socket.
    /// A duplicate keeps the socket and its backlog open.
    pub sockets: Vec<OwnedFd>,
}

/// The listeners that a successor takes, by their index in the predecessor.
#[derive(Clone, Debug, Default)]
pub(super) struct TakenListeners(pub(super) Vec<bool>);

impl Sockets {
    /// Duplicates the sockets of `bound`.
    pub(super) fn of(bound: &[Bound]) -> io::Result<Self> {
        let entry = |bound: &Bound| {
            let fds = bound.fds.iter().map(|fd| fd.try_clone().map(Some)).collect::<io::Result<_>>()?;
            let Bound { identity, local, is_shared, is_lent, balance, file, .. } = bound;
            let is_passed = *is_lent;
            Ok(ListenerSockets {
                identity: identity.clone(),
                local: local.clone(),
                is_shared: *is_shared,
                balance: *balance,
                is_passed,
                successors: 0,
                deferred_s: None,
                file: file.clone(),
                fds,
            })
        };
        bound.iter().map(entry).collect::<io::Result<_>>().map(Self)
    }

    /// Returns a list in which no listener is taken yet.
    pub(super) fn none_taken(&self) -> TakenListeners {
        TakenListeners(vec![false; self.0.len()])
    }

    /// Returns the sockets for `listen`, if they exist and are not taken. The missing socket of a
    /// failed worker is replaced: by a duplicate if all workers share one socket, otherwise by a
    /// new socket.
    pub(super) fn take(
        &self,
        listen: &Listen,
        speaks_first: bool,
        taken: &mut TakenListeners,
    ) -> Result<Option<Bound>, ListenError> {
        let another = |local: &LocalAddr| listen.bind_another(local, speaks_first);
        let failed = |error| listen.failed("dup", error);
        self.take_as(listen.identity(), listen.balance, taken, another, failed)
    }

    /// Returns the sockets for a datagram listener, like [`Self::take`].
    pub(super) fn take_datagrams(
        &self,
        listen: &DatagramListen,
        taken: &mut TakenListeners,
    ) -> Result<Option<Bound>, ListenError> {
        let another = |local: &LocalAddr| listen.bind_another(local);
        let failed = |error| listen.failed("dup", error);
        self.take_as(listen.identity(), Balance::Kernel, taken, another, failed)
    }

    fn take_as(
        &self,
        identity: Identity,
        balance: Balance,
        taken: &mut TakenListeners,
        another: impl Fn(&LocalAddr) -> Result<OwnedFd, ListenError>,
        failed: impl Fn(io::Error) -> ListenError,
    ) -> Result<Option<Bound>, ListenError> {
        let mut entry = self.0.iter().zip(&mut taken.0);
        let wanted = |(entry, taken): &(&ListenerSockets, &mut bool)| {
            !**taken && entry.identity == identity && identity != Identity::Inherited && !entry.is_gone()
        };
        let Some((entry, is_taken)) = entry.find(wanted) else { return Ok(None) };
        let copy = |fd: &Option<OwnedFd>| match fd {
            Some(fd) => fd.try_clone().map_err(&failed),
            None => match entry.fds.iter().flatten().next().filter(|_| entry.is_shared) {
                Some(same) => same.try_clone().map_err(&failed),
                None => another(&entry.local),
            },
        };
        let fds = entry.fds.iter().map(copy).collect::<Result<_, _>>()?;
        *is_taken = true;
        let (is_shared, is_lent) = (entry.is_shared, entry.is_lent());
        Ok(Some(Bound {
            fds,
            is_shared,
            is_lent,
            local: entry.local.clone(),
            balance,
            file: entry.file.clone(),
            identity,
        }))
    }

    /// Applies the options of `listen` to the sockets of the listener with this index.
    pub(super) fn renew(&self, at: usize, listen: &Listen, speaks_first: bool) -> Result<(), ListenError> {
        let Some(entry) = self.0.get(at) else { return Ok(()) };
        listen.renew(&entry.identity, entry.fds.iter().flatten(), speaks_first)?;
        entry.file.as_deref().map_or(Ok(()), |file| listen.set_mode_of(file))
    }

    /// Applies the options of `listen` to the sockets of the datagram listener with this index.
    pub(super) fn renew_datagrams(&self, at: usize, listen: &DatagramListen) -> Result<(), ListenError> {
        let Some(entry) = self.0.get(at).filter(|entry| entry.is_udp()) else { return Ok(()) };
        listen.renew(entry.fds.iter().flatten())
    }

    /// Makes the kernel refuse datagrams for the datagram listener with this index, or receive them
    /// again.
    pub(super) fn refuse_datagrams(&self, index: usize, on: bool) -> io::Result<()> {
        let Some(entry) = self.0.iter().filter(|entry| entry.is_datagrams()).nth(index) else {
            return Ok(());
        };
        entry.fds.iter().flatten().try_for_each(|fd| refuse(fd, on))
    }

    /// Applies the balance of each listener to its sockets.
    pub(super) fn balance(&self) -> Result<(), ListenError> {
        self.0.iter().try_for_each(ListenerSockets::balance)
    }

    /// Duplicates the TCP sockets, or the UDP sockets if `is_tcp` is false, by listener. Inherited
    /// sockets are omitted.
    pub(super) fn listening(&mut self, is_tcp: bool) -> io::Result<Vec<Listening>> {
        let of = |entry: &mut ListenerSockets| {
            let (asked, addr) = match (&entry.identity, &entry.local) {
                (Identity::Tcp { addr: asked, .. }, LocalAddr::Tcp(addr)) if is_tcp => (asked, addr),
                (Identity::Udp { addr: asked, .. }, LocalAddr::Udp(addr)) if !is_tcp => (asked, addr),
                _ => return None,
            };
            entry.is_passed = true;
            let copies = entry.fds.iter().flatten().take(if entry.is_shared { 1 } else { usize::MAX });
            let sockets = copies.map(OwnedFd::try_clone).collect::<io::Result<_>>();
            Some(sockets.map(|sockets| Listening { asked: *asked, addr: *addr, sockets }))
        };
        self.0.iter_mut().filter_map(of).collect()
    }

    /// Releases the files of Unix sockets. A file that no other server uses is removed.
    pub(super) fn leave_files(&mut self) {
        self.0.iter_mut().for_each(|entry| entry.file = None);
    }

    /// Disables deferred accept, or restores the configured value. Inherited sockets are not
    /// changed.
    pub(super) fn accept_at_once(&mut self, on: bool) {
        for entry in self.0.iter_mut().filter(|entry| matches!(entry.identity, Identity::Tcp { .. })) {
            for fd in entry.fds.iter().flatten() {
                if on {
                    entry.deferred_s = last_call::accept_at_once(fd.as_fd()).or(entry.deferred_s);
                } else if let Some(deferred_s) = entry.deferred_s {
                    last_call::defer_again(fd.as_fd(), deferred_s);
                }
            }
            if !on {
                entry.deferred_s = None;
            }
        }
    }

    /// Prepares the listeners that are not in `theirs` for their close: connected clients are
    /// accepted at once, and new clients and datagrams are ignored unless another server or process
    /// also has the socket.
    pub(super) fn last_call(&self, theirs: &TakenListeners) {
        let is_theirs = |at: usize| theirs.0.get(at).copied().unwrap_or_default();
        let ours = self.0.iter().enumerate().filter(|(at, _)| !is_theirs(*at)).map(|(_, entry)| entry);
        for entry in ours {
            if entry.is_udp() && !entry.is_lent() {
                // If this fails, new datagrams still arrive during a drain, which then ends when
                // the queue is empty for the first time.
                entry.fds.iter().flatten().for_each(|fd| drop(last_call::turn_datagrams_away(fd.as_fd())));
            }
            if !matches!(entry.identity, Identity::Tcp { .. }) {
                continue;
            }
            for fd in entry.fds.iter().flatten() {
                let _deferred_s = last_call::accept_at_once(fd.as_fd());
                if !entry.is_lent() {
                    // If `turn_away` fails, clients that arrive between the last check of the
                    // backlog and the close are reset.
                    let _let_in = last_call::turn_away(fd.as_fd());
                }
            }
        }
    }

    /// Records that a successor shares the listeners in `taken`.
    pub(super) fn lend(&mut self, taken: &TakenListeners) {
        self.taken_by(taken).for_each(|entry| entry.successors += 1);
    }

    /// Records that the successor has ended and this server continues alone.
    pub(super) fn take_back(&mut self, taken: &TakenListeners) {
        self.taken_by(taken).for_each(|entry| entry.successors -= 1);
    }

    fn taken_by(&mut self, taken: &TakenListeners) -> impl Iterator<Item = &mut ListenerSockets> {
        self.0.iter_mut().zip(&taken.0).filter(|(_, taken)| **taken).map(|(entry, _)| entry)
    }

    /// Returns for each listener whether other servers or processes have duplicates and continue to
    /// listen. With `datagrams`, this is true for every datagram listener.
    pub(super) fn lent(&self, datagrams: bool) -> Arc<[bool]> {
        self.0.iter().map(|entry| entry.is_lent() || (datagrams && entry.is_datagrams())).collect()
    }

    /// Whether another server or process has a duplicate of any socket and may continue to listen.
    pub(super) fn has_lent(&self) -> bool {
        self.0.iter().any(ListenerSockets::is_lent)
    }

    /// Releases the files of Unix sockets, and closes the duplicates, so that only the workers'
    /// sockets are open.
    pub(super) fn give_up(&mut self) {
        self.leave_files();
        self.0.iter_mut().for_each(|entry| entry.fds.fill_with(|| None));
    }

    /// Closes the duplicates of one worker. A Unix socket without further duplicates releases its
    /// file.
    pub(super) fn give_up_worker(&mut self, worker: usize) {
        let is_last = |entry: &ListenerSockets| {
            entry.fds.iter().enumerate().all(|(at, fd)| at == worker || fd.is_none())
        };
        self.0.iter_mut().filter(|entry| is_last(entry)).for_each(|entry| entry.file = None);
        self.0.iter_mut().filter_map(|entry| entry.fds.get_mut(worker)).for_each(|fd| *fd = None);
        // The `SO_REUSEPORT` group now has one socket less, so its filter is replaced, unless
        // another server still has the socket. If that fails, the kernel itself distributes the
        // clients of the missing socket. `Balance::Cpu` is not applied again, because the other
        // sockets keep their processors, and this thread may be pinned and see only its own
        // processor.
        let ours = self.0.iter().filter(|entry| entry.balance == Balance::SourceHash && !entry.is_lent());
        ours.for_each(|entry| drop(entry.balance()));
    }
}

impl ListenerSockets {
    fn balance(&self) -> Result<(), ListenError> {
        let failed = |error| ListenError { call: "balance", addr: self.local.to_string(), error };
        match (self.balance, self.fds.len()) {
            _ if self.is_udp() => Ok(()),
            (_, 1) => Ok(()),
            (Balance::Kernel | Balance::LeastConnections | Balance::RoundRobin, _) if self.is_shared => {
                Ok(())
            }
            _ if self.is_shared => Err(failed(Unusable::balanced())),
            (balance, _) => balance.apply(&self.fds).map_err(failed),
        }
    }

    /// True for a datagram listener, even with an inherited socket.
    const fn is_datagrams(&self) -> bool {
        matches!(self.local, LocalAddr::Udp(_))
    }

    /// True for a datagram listener without an inherited socket.
    const fn is_udp(&self) -> bool {
        matches!(self.identity, Identity::Udp { .. })
    }

    const fn is_lent(&self) -> bool {
        self.is_passed || self.successors > 0
    }

    fn is_gone(&self) -> bool {
        self.fds.iter().all(Option::is_none)
    }
}
