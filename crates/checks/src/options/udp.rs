//! Options of a check that sends a datagram.

use super::address::{Address, Resolve};
use super::latency::LatencyRule;
use super::payload::Payload;
use super::target::target;
use doorbell_config::{Problem, Section, Table, format_duration};
use std::time::Duration;

/// A datagram, and optionally a reply.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(check = Self::check)]
pub struct UdpCheck {
    /// Address to send to, "host:port" or "unix:/path" of a datagram socket. Required.
    #[key(required = "\"127.0.0.1:8125\"")]
    pub address: Address,
    /// Bytes to send and to expect in the first reply.
    #[key(flatten)]
    pub payload: Payload,
    /// Without a required reply: time to wait for an ICMP error, which is a failure (port or
    /// protocol unreachable). Without an error in this time the check succeeds, even if the
    /// datagram or the error was lost. With "unix:": time in which the socket must accept the
    /// datagram. Default: a tenth of `timeout`.
    #[key(range = "1ms..=10m")]
    pub wait: Option<Duration>,
    /// Number of times that the datagram is sent, spread evenly over `timeout` or `wait`, until a
    /// reply arrives.
    #[key(default = 1, range = 1..=10)]
    pub sends: u32,
    /// Limits of the time to the reply.
    #[key(flatten)]
    pub latency: LatencyRule,
    /// Which addresses of the target host are used, and for how long.
    pub resolve: Resolve,
}

target!(check: UdpCheck, check.address.remote());

impl UdpCheck {
    /// An empty datagram; the check succeeds unless it causes an ICMP error.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, ..Self::default() }
    }

    fn check(&self, at: &Section<'_>) {
        let (useless, why): (&[_], _) = match self.payload.expects_response() {
            true => (&["wait"], "with a required reply"),
            false => (&["expect.max_latency", "degraded.max_latency"], "without a required reply"),
        };
        for (key, place) in useless.iter().filter_map(|key| Some((key, at.right_place(key)?))) {
            let problem = Problem::warning("no-effect", place, format!("`{key}` has no effect {why}"));
            at.problem(problem.help("remove it"));
        }
    }

    /// Reports a wait that does not end before the timeout of a run.
    pub fn check_wait(&self, timeout: Duration, at: &Section<'_>) {
        if let Some(wait) = at.right_place("wait").filter(|_| self.wait.is_some_and(|wait| wait >= timeout)) {
            let message =
                format!("the wait is not shorter than `timeout`, which is {}", format_duration(timeout));
            let problem = Problem::error("contradiction", wait, message);
            at.problem(problem.help("shorten it, or write a longer `timeout`"));
        }
    }
}
