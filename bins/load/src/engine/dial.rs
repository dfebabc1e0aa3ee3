//! Opens sockets with source addresses, targets and options.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use doorbell_egress::{Egress, EgressConfig, SpeaksFirst, Transport};
use doorbell_ring::Errno;
use rustix::net;

use crate::exit::Failure;
use crate::plan::{Closer, Flow, Plan};

/// Opens connections to each target in turn, from each source in turn.
#[derive(Debug)]
pub(crate) struct Dialer {
    egress: Egress,
    targets: Vec<SocketAddr>,
    next_target: usize,
    nodelay: bool,
    reset: bool,
}

/// Maximum length of a request that always fits into one segment on loopback, and needs no
/// `TCP_NODELAY` on a new connection.
const ONE_SEGMENT: usize = 1_200;

impl Dialer {
    /// Creates the dialer of worker `index`. The workers start at different targets and sources, as
    /// far as there are enough of them.
    pub(crate) fn new(plan: &Plan, index: u32) -> Result<Self, Failure> {
        let offset = |len: usize| (index as usize * len) / plan.threads.max(1) as usize;
        let (mut sources, mut v6): (Vec<IpAddr>, Vec<IpAddr>) =
            plan.sources.iter().partition(|source| source.is_ipv4());
        for family in [&mut sources, &mut v6] {
            let turn = offset(family.len());
            family.rotate_left(turn);
        }
        sources.append(&mut v6);
        let config = EgressConfig::new().sources(sources).ports(plan.ports);
        let egress = config.quickack(!plan.delayed_ack).linger(None).open();
        Ok(Self {
            egress: egress.map_err(|error| Failure::usage(error.to_string()))?,
            next_target: offset(plan.targets.len()),
            targets: plan.targets.clone(),
            nodelay: matches!(plan.flow, Flow::Keep { .. }) || plan.request.len() > ONE_SEGMENT,
            reset: matches!(plan.flow, Flow::New { closer: Closer::Reset, .. }),
        })
    }

    /// Returns a socket on which a connect has been started.
    #[inline]
    pub(crate) fn dial(&mut self) -> Result<OwnedFd, Errno> {
        let target = self.targets[self.next_target];
        self.next_target = if self.next_target + 1 == self.targets.len() { 0 } else { self.next_target + 1 };
        let nodelay = self.nodelay;
        let dialed = self.egress.dial(Transport::Tcp(SpeaksFirst::We), target, |fd, target| {
            if nodelay {
                net::sockopt::set_tcp_nodelay(fd, true)?;
            }
            Ok(net::connect(fd, &target)?)
        });
        dialed.map_err(|error| errno(&error))
    }

    /// Closes a connection, with a reset if configured.
    #[inline]
    pub(crate) fn close(&self, fd: OwnedFd) {
        if self.reset {
            // If this fails, the connection is closed without a reset.
            let _ = net::sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
        }
        drop(fd);
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(-1))
}
