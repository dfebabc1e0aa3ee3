//! Opens sockets: from which address, to which, with which options.
//!
//! Does not know about: rings; what is sent.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use doorbell_ring::{Errno, sockopt};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::plan::{Closer, Flow, Plan};

/// Opens connections to each target in turn, from each source in turn.
#[derive(Debug)]
pub(crate) struct Dialer {
    targets: Vec<SocketAddr>,
    /// By family: sources for IPv4 targets, and for IPv6 ones.
    sources: [Vec<IpAddr>; 2],
    next_target: usize,
    next_source: [usize; 2],
    nodelay: bool,
    delayed_ack: bool,
    reset: bool,
}

/// Segments on loopback hold more; a request that fits one needs no `TCP_NODELAY` on a new connection.
const ONE_SEGMENT: usize = 1_200;

impl Dialer {
    /// Worker `index` starts at another target and source than the others.
    pub(crate) fn new(plan: &Plan, index: u32) -> Self {
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = plan.sources.iter().partition(|source| source.is_ipv4());
        let offset = |len: usize| (index as usize * len) / plan.threads.max(1) as usize;
        Self {
            next_target: offset(plan.targets.len()),
            next_source: [offset(v4.len()), offset(v6.len())],
            targets: plan.targets.clone(),
            sources: [v4, v6],
            nodelay: matches!(plan.flow, Flow::Keep { .. }) || plan.request.len() > ONE_SEGMENT,
            delayed_ack: plan.delayed_ack,
            reset: matches!(plan.flow, Flow::New { closer: Closer::Reset, .. }),
        }
    }

    /// A socket on which connecting has begun.
    #[inline]
    pub(crate) fn dial(&mut self) -> Result<OwnedFd, Errno> {
        let target = self.targets[self.next_target];
        self.next_target = if self.next_target + 1 == self.targets.len() { 0 } else { self.next_target + 1 };
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(family, SocketType::STREAM, flags, None).map_err(errno)?;
        if let Some(source) = self.source_for(target) {
            net::bind(&fd, &SocketAddr::new(source, 0)).map_err(errno)?;
        }
        if self.nodelay {
            net::sockopt::set_tcp_nodelay(&fd, true).map_err(errno)?;
        }
        if self.delayed_ack {
            sockopt::set_tcp_quickack(fd.as_fd(), false)?;
        }
        match net::connect(&fd, &target) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(fd),
            Err(error) => Err(errno(error)),
        }
    }

    /// Closes it, with a reset if that was asked for.
    #[inline]
    pub(crate) fn close(&self, fd: OwnedFd) {
        if self.reset {
            // If it fails the close is an ordinary one.
            let _ = net::sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
        }
        drop(fd);
    }

    fn source_for(&mut self, target: SocketAddr) -> Option<IpAddr> {
        let family = usize::from(target.is_ipv6());
        let sources = &self.sources[family];
        let next = &mut self.next_source[family];
        let source = sources.get(*next).copied()?;
        *next = if *next + 1 == sources.len() { 0 } else { *next + 1 };
        Some(source)
    }
}

const fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}
