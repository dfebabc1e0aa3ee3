//! Runs a probe: the connection and the protocol depend on its target.

use super::probe::Probe;
use super::report::{Report, Verdict};
use super::target::Target;
use super::{checked, exchange};

impl Probe {
    /// Runs the probe once. It ends within its timeout, regardless of the target's behavior.
    ///
    /// The call blocks: in async code, use `spawn_blocking` or a thread. If the probe has a
    /// [`problem`](Self::problem), nothing is sent, and the problem is the reason of
    /// [`Verdict::ProtocolFailed`].
    pub fn run(&self) -> Report {
        if let Some(problem) = self.problem() {
            let verdict = Verdict::ProtocolFailed;
            return Report { verdict, reason: problem.to_string(), ..Report::default() };
        }
        let report = match &self.target {
            Target::Check(text) => checked::session(self, text),
            Target::Grpc { at, service, is_tls } => checked::grpc(self, at, service, *is_tls),
            Target::Icmp(host) => checked::icmp(self, host),
            Target::Udp(at) => checked::udp(self, at),
            Target::Http(_) | Target::Redis(_) | Target::Tcp(_) | Target::Tls(_) | Target::Unix(_) => {
                exchange::run(self)
            }
        };
        // The reason may quote the target, whose control characters would act on a terminal.
        Report { reason: report.reason.replace(char::is_control, " "), ..report }
    }
}
