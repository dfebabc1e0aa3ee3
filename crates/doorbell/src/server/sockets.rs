//! Copies of a running server's listening sockets: what a successor accepts from, so that no client in a backlog is lost.
//!
//! Does not know about: who accepts.
//!
//! A copy keeps its socket open. So they are given up before the workers are told to stop listening, and those of a worker that
//! failed with it, or clients would wait in a backlog that nobody looks at.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::net::{Asked, Bound, Listen, ListenError, LocalAddr};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Sockets(Vec<Kept>);

/// The sockets of one listener.
#[derive(Debug)]
struct Kept {
    asked: Asked,
    local: LocalAddr,
    is_shared: bool,
    unix_path: Option<PathBuf>,
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
            let Bound { asked, local, is_shared, unix_path, .. } = bound;
            Ok(Kept {
                asked: asked.clone(),
                local: local.clone(),
                is_shared: *is_shared,
                unix_path: unix_path.clone(),
                fds,
            })
        };
        bound.iter().map(kept).collect::<io::Result<_>>().map(Self)
    }

    /// None is taken yet.
    pub(super) fn none_taken(&self) -> Taken {
        Taken(vec![false; self.0.len()])
    }

    /// The sockets that `listen` asks for, if they are here and not taken. The path of a socket file stays with this server.
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
            None => listen.beside(&kept.local, speaks_first),
        };
        let fds = kept.fds.iter().map(copy).collect::<Result<_, _>>()?;
        *is_taken = true;
        Ok(Some(Bound { fds, is_shared: kept.is_shared, local: kept.local.clone(), unix_path: None, asked }))
    }

    /// Gives the sockets of the listener with this index what `listen` says of those that they accept.
    pub(super) fn renew(&self, at: usize, listen: &Listen, speaks_first: bool) -> Result<(), ListenError> {
        let Some(kept) = self.0.get(at) else { return Ok(()) };
        listen.renew(&kept.asked, kept.fds.iter().flatten(), speaks_first)
    }

    /// Copies of those at TCP addresses that were bound here, by listener.
    pub(super) fn listening(&self) -> io::Result<Vec<Listening>> {
        let of = |kept: &Kept| {
            let (Asked::Tcp { addr: asked, .. }, LocalAddr::Tcp(addr)) = (&kept.asked, &kept.local) else {
                return None;
            };
            let copies = kept.fds.iter().flatten().take(if kept.is_shared { 1 } else { usize::MAX });
            let sockets = copies.map(OwnedFd::try_clone).collect::<io::Result<_>>();
            Some(sockets.map(|sockets| Listening { asked: *asked, addr: *addr, sockets }))
        };
        self.0.iter().filter_map(of).collect()
    }

    /// The socket files of the listeners that are taken, whose removal is the successor's from here on.
    pub(super) fn unix_paths(&self, taken: &Taken) -> Vec<PathBuf> {
        let taken = self.0.iter().zip(&taken.0).filter(|(_, taken)| **taken);
        taken.filter_map(|(kept, _)| kept.unix_path.clone()).collect()
    }

    /// Closes the copies, so that the workers' own are the last.
    pub(super) fn give_up(&mut self) {
        self.0.iter_mut().for_each(|kept| kept.fds.fill_with(|| None));
    }

    /// Closes the copies of one worker.
    pub(super) fn give_up_worker(&mut self, worker: usize) {
        self.0.iter_mut().filter_map(|kept| kept.fds.get_mut(worker)).for_each(|fd| *fd = None);
    }
}

impl Kept {
    fn is_gone(&self) -> bool {
        self.fds.iter().all(Option::is_none)
    }
}
