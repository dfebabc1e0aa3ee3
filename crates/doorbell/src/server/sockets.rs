//! Copies of a running server's listening sockets: what a successor accepts from, so that no client in a backlog is lost.
//!
//! Does not know about: who accepts.
//!
//! A copy keeps its socket open. So they are given up before the workers are told to stop listening, and those of a worker that
//! failed with it, or clients would wait in a backlog that nobody looks at. Before that they are what the last call of a listener is made with.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use std::sync::Arc;

use crate::net::{Asked, Bound, Listen, ListenError, LocalAddr, SocketFile, last_call};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Sockets(Vec<Kept>);

/// The sockets of one listener.
#[derive(Debug)]
struct Kept {
    asked: Asked,
    local: LocalAddr,
    is_shared: bool,
    /// Another process has copies and may go on listening: the successor.
    is_passed: bool,
    /// Successors that have it and may go on with it: those that have not ended.
    heirs: u32,
    /// How long they defer accept when they do not accept at once.
    deferred_s: Option<u32>,
    /// `None` where it has none, and after this server has let go of it.
    file: Option<Arc<SocketFile>>,
    /// By worker; `None` once it failed.
    fds: Vec<Option<OwnedFd>>,
}

/// The sockets of a listener at a TCP address.
#[derive(Debug)]
pub struct Listening {
    /// The address as it was asked for: its port may be 0.
    pub asked: SocketAddr,
    /// The address that it has.
    pub addr: SocketAddr,
    /// Copies of the sockets of workers that accept; one where they share it. A copy keeps a socket open, and with it the backlog.
    pub sockets: Vec<OwnedFd>,
}

/// Which listeners a successor takes, by their index in the server before.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(pub(super) Vec<bool>);

impl Sockets {
    /// Copies of `bound`.
    pub(super) fn of(bound: &[Bound]) -> io::Result<Self> {
        let kept = |bound: &Bound| {
            let fds = bound.fds.iter().map(|fd| fd.try_clone().map(Some)).collect::<io::Result<_>>()?;
            let Bound { asked, local, is_shared, is_lent, file, .. } = bound;
            let is_passed = *is_lent;
            Ok(Kept {
                asked: asked.clone(),
                local: local.clone(),
                is_shared: *is_shared,
                is_passed,
                heirs: 0,
                deferred_s: None,
                file: file.clone(),
                fds,
            })
        };
        bound.iter().map(kept).collect::<io::Result<_>>().map(Self)
    }

    /// None is taken yet.
    pub(super) fn none_taken(&self) -> Taken {
        Taken(vec![false; self.0.len()])
    }

    /// The sockets that `listen` asks for, if they are here and not taken. Where a worker failed, its place gets one more: a copy where all have the same socket.
    pub(super) fn take(
        &self,
        listen: &Listen,
        speaks_first: bool,
        taken: &mut Taken,
    ) -> Result<Option<Bound>, ListenError> {
        let asked = listen.asked();
        let mut kept = self.0.iter().zip(&mut taken.0);
        let wanted = |(kept, taken): &(&Kept, &mut bool)| {
            !**taken && kept.asked == asked && asked != Asked::Inherited && !kept.is_gone()
        };
        let Some((kept, is_taken)) = kept.find(wanted) else { return Ok(None) };
        let copy = |fd: &Option<OwnedFd>| match fd {
            Some(fd) => fd.try_clone().map_err(|error| listen.failed("dup", error)),
            None => match kept.fds.iter().flatten().next().filter(|_| kept.is_shared) {
                Some(same) => same.try_clone().map_err(|error| listen.failed("dup", error)),
                None => listen.beside(&kept.local, speaks_first),
            },
        };
        let fds = kept.fds.iter().map(copy).collect::<Result<_, _>>()?;
        *is_taken = true;
        let (is_shared, is_lent) = (kept.is_shared, kept.is_lent());
        Ok(Some(Bound { fds, is_shared, is_lent, local: kept.local.clone(), file: kept.file.clone(), asked }))
    }

    /// Gives the sockets of the listener with this index what `listen` says of those that they accept.
    pub(super) fn renew(&self, at: usize, listen: &Listen, speaks_first: bool) -> Result<(), ListenError> {
        let Some(kept) = self.0.get(at) else { return Ok(()) };
        listen.renew(&kept.asked, kept.fds.iter().flatten(), speaks_first)
    }

    /// Copies of those at TCP addresses that were bound here, by listener.
    pub(super) fn listening(&mut self) -> io::Result<Vec<Listening>> {
        let of = |kept: &mut Kept| {
            let (Asked::Tcp { addr: asked, .. }, LocalAddr::Tcp(addr)) = (&kept.asked, &kept.local) else {
                return None;
            };
            kept.is_passed = true;
            let copies = kept.fds.iter().flatten().take(if kept.is_shared { 1 } else { usize::MAX });
            let sockets = copies.map(OwnedFd::try_clone).collect::<io::Result<_>>();
            Some(sockets.map(|sockets| Listening { asked: *asked, addr: *addr, sockets }))
        };
        self.0.iter_mut().filter_map(of).collect()
    }

    /// This server listens at no path from here on: files that no other server listens at are removed.
    pub(super) fn leave_files(&mut self) {
        self.0.iter_mut().for_each(|kept| kept.file = None);
    }

    /// Has clients of TCP accepted as soon as they connect, or again as their listener says. Sockets that somebody passed stay as they are.
    pub(super) fn accept_at_once(&mut self, on: bool) {
        for kept in self.0.iter_mut().filter(|kept| matches!(kept.asked, Asked::Tcp { .. })) {
            for fd in kept.fds.iter().flatten() {
                if on {
                    kept.deferred_s = last_call::accept_at_once(fd.as_fd()).or(kept.deferred_s);
                } else if let Some(deferred_s) = kept.deferred_s {
                    last_call::defer_again(fd.as_fd(), deferred_s);
                }
            }
            if !on {
                kept.deferred_s = None;
            }
        }
    }

    /// The last call of those that are not `theirs`: who has connected is accepted at once, and from here on nobody new gets in, except
    /// where others listen too.
    pub(super) fn last_call(&self, theirs: &Taken) {
        let is_theirs = |at: usize| theirs.0.get(at).copied().unwrap_or_default();
        let ours = self.0.iter().enumerate().filter(|(at, _)| !is_theirs(*at)).map(|(_, kept)| kept);
        for kept in ours.filter(|kept| matches!(kept.asked, Asked::Tcp { .. })) {
            for fd in kept.fds.iter().flatten() {
                let _deferred_s = last_call::accept_at_once(fd.as_fd());
                if !kept.is_lent() {
                    // Where it cannot be had, who comes between the last look at the backlog and the close is reset.
                    let _let_in = last_call::turn_away(fd.as_fd());
                }
            }
        }
    }

    /// A successor accepts from those that it has taken: what ends here does not end there.
    pub(super) fn lend(&mut self, taken: &Taken) {
        self.taken_by(taken).for_each(|kept| kept.heirs += 1);
    }

    /// It has ended, and this server goes on alone.
    pub(super) fn take_back(&mut self, taken: &Taken) {
        self.taken_by(taken).for_each(|kept| kept.heirs -= 1);
    }

    fn taken_by(&mut self, taken: &Taken) -> impl Iterator<Item = &mut Kept> {
        self.0.iter_mut().zip(&taken.0).filter(|(_, taken)| **taken).map(|(kept, _)| kept)
    }

    /// By listener: whether others have copies, who go on listening.
    pub(super) fn lent(&self) -> Arc<[bool]> {
        self.0.iter().map(Kept::is_lent).collect()
    }

    /// Whether another process has copies of any, and may go on listening.
    pub(super) fn has_lent(&self) -> bool {
        self.0.iter().any(Kept::is_lent)
    }

    /// Closes the copies, so that the workers' own are the last.
    pub(super) fn give_up(&mut self) {
        self.leave_files();
        self.0.iter_mut().for_each(|kept| kept.fds.fill_with(|| None));
    }

    /// Closes the copies of one worker. With those of the last one this server listens nowhere.
    pub(super) fn give_up_worker(&mut self, worker: usize) {
        let is_last = |kept: &Kept| kept.fds.iter().enumerate().all(|(at, fd)| at == worker || fd.is_none());
        self.0.iter_mut().filter(|kept| is_last(kept)).for_each(|kept| kept.file = None);
        self.0.iter_mut().filter_map(|kept| kept.fds.get_mut(worker)).for_each(|fd| *fd = None);
    }
}

impl Kept {
    const fn is_lent(&self) -> bool {
        self.is_passed || self.heirs > 0
    }

    fn is_gone(&self) -> bool {
        self.fds.iter().all(Option::is_none)
    }
}
