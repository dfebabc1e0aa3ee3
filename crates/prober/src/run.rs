//! Runs a probe: the connection and the protocol depend on its target.

use super::probe::Probe;
use super::report::Report;
use super::target::Target;
use super::{checked, exchange};

impl Probe {
    /// Runs the probe once. It ends within its timeout, regardless of the target's behavior.
    ///
    /// The call blocks: in async code, use `spawn_blocking` or a thread.
    pub fn run(&self) -> Report {
        match &self.target {
            Target::Check(text) => checked::session(self, text),
            Target::Grpc { at, service, is_tls } => checked::grpc(self, at, service, *is_tls),
            Target::Icmp(host) => checked::icmp(self, host),
            Target::Udp(at) => checked::udp(self, at),
            Target::Http(_) | Target::Redis(_) | Target::Tcp(_) | Target::Tls(_) | Target::Unix(_) => {
                exchange::run(self)
            }
        }
    }
}
