//! Limits of the engine, checked against each other.
//!
//! Does not know about: files, TOML, limits of the kernel (see [`crate::server`]).

use core::time::Duration;

use doorbell_http::limit::CLIENT_V6_LEN;

/// Limits and timeouts of the engine that apply to every protocol.
///
/// Invariant I-7: after the start nothing grows beyond these limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections of the server; further clients wait in the backlog.
    /// Default 65,536, lowered to what `RLIMIT_NOFILE` allows.
    pub conns_max: u32,
    /// Maximum number of open connections per client address (IPv6: per network, see
    /// [`Limits::client_v6_len`]); 0 for no cap. Default 1,024.
    ///
    /// An HTTP connection without TLS that is served and closed in the turn that accepted it
    /// usually does not count, and may exceed the cap. Unix sockets have no cap. All workers begin
    /// to count when one worker has more connections than its share, which is cap / workers. Until
    /// then, each worker may have as many uncounted connections as its share.
    pub conns_per_ip_max: u32,
    /// Length of the IPv6 prefix that counts as one client, 1 to 128. Default 64, the smallest
    /// network that providers assign to a customer.
    pub client_v6_len: u8,
    /// Maximum time without write progress; then the connection is closed. Default 10 s. Progress
    /// is checked once per interval of this length, so a stalled reply may be detected only after
    /// twice the time.
    pub write_timeout: Duration,
    /// How long input is read and discarded between the last reply and the close, if the peer may
    /// still send. Default 1 s.
    pub linger_timeout: Duration,
    /// Maximum number of bytes that are read and discarded while the last reply is sent, and again
    /// after it. So a client that has sent up to twice the number, and then reads, gets the whole
    /// reply. Default 64 KiB.
    pub linger_bytes_max: u32,
    /// Memory for requests that arrive in parts, over all connections; each worker has an equal
    /// share. Default 64 MiB. A connection that would exceed the share is closed and counted.
    pub input_bytes_max: usize,
    /// First pause after an accept error; doubles up to [`Limits::accept_backoff_max`]. Default 10
    /// ms.
    pub accept_backoff_min: Duration,
    /// Longest pause after accept errors. Default 1 s.
    pub accept_backoff_max: Duration,
    /// How long a drain waits for requests in progress. Default 20 s. A blocking handler is not
    /// interrupted: its worker ends when the handler returns.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            conns_max: 65_536,
            conns_per_ip_max: 1_024,
            client_v6_len: CLIENT_V6_LEN,
            write_timeout: Duration::from_secs(10),
            linger_timeout: Duration::from_secs(1),
            linger_bytes_max: 64 * 1024,
            input_bytes_max: 64 * 1024 * 1024,
            accept_backoff_min: Duration::from_millis(10),
            accept_backoff_max: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(20),
        }
    }
}

/// Invalid limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// The first pause is longer than the longest pause.
    #[error("accept_backoff_min must not be longer than accept_backoff_max")]
    BackoffOrder,
    /// `client_v6_len` is not a prefix length of IPv6.
    #[error("client_v6_len must be between 1 and 128")]
    ClientV6Len,
    /// Too few connections for the number of workers.
    #[error("conns_max must be at least 1 for each worker ({workers} workers)")]
    ConnsMax {
        /// The number of workers.
        workers: u16,
    },
    /// `conns_max` exceeds [`CONNS_MAX_LARGEST`].
    #[error("conns_max must be at most 16,777,216")]
    ConnsMaxTooLarge,
    /// A timeout or pause of zero.
    #[error("{name} must be longer than zero")]
    ZeroTime {
        /// The limit's name.
        name: &'static str,
    },
}

/// The largest valid value of `conns_max`.
///
/// A driver has additional slots for clients of a full backlog, which may be accepted while accept
/// is being cancelled. Up to this value, every slot index fits into the token of a completion.
pub const CONNS_MAX_LARGEST: u32 = 1 << 24;

impl Limits {
    /// Checks each limit, and limits that depend on each other.
    ///
    /// # Errors
    /// Returns the first invalid limit.
    pub fn check(&self, workers: u16) -> Result<(), LimitsError> {
        if self.conns_max < u32::from(workers) {
            return Err(LimitsError::ConnsMax { workers });
        }
        if self.conns_max > CONNS_MAX_LARGEST {
            return Err(LimitsError::ConnsMaxTooLarge);
        }
        if !(1..=128).contains(&self.client_v6_len) {
            return Err(LimitsError::ClientV6Len);
        }
        if self.accept_backoff_min > self.accept_backoff_max {
            return Err(LimitsError::BackoffOrder);
        }
        let times = [
            ("write_timeout", self.write_timeout),
            ("linger_timeout", self.linger_timeout),
            ("accept_backoff_min", self.accept_backoff_min),
        ];
        match times.iter().find(|(_, time)| time.is_zero()) {
            Some(&(name, _)) => Err(LimitsError::ZeroTime { name }),
            None => Ok(()),
        }
    }

    /// Returns one worker's share of `conns_max`. The shares are equal, because by default the
    /// kernel distributes clients evenly to the workers (`SO_REUSEPORT` hashes the 4-tuple).
    pub(crate) fn conns_max_of_worker(&self, workers: u16) -> u32 {
        self.conns_max.div_ceil(u32::from(workers))
    }
}

/// The reaction to the failure of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWorkerFailure {
    /// Close the listeners of the worker. The kernel distributes new clients to the other workers;
    /// [`Handle::is_healthy`] returns false.
    ///
    /// [`Handle::is_healthy`]: crate::Handle::is_healthy
    Degrade,
    /// Stop the whole server. [`Server::wait`] returns the failure.
    ///
    /// [`Server::wait`]: crate::Server::wait
    #[default]
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limits_are_valid() {
        assert_eq!(Limits::default().check(64), Ok(()));
    }

    #[test]
    fn each_unusable_limit_is_named() {
        let good = Limits::default;
        let table = [
            (Limits { conns_max: 1, ..good() }, LimitsError::ConnsMax { workers: 2 }),
            (Limits { client_v6_len: 0, ..good() }, LimitsError::ClientV6Len),
            (Limits { client_v6_len: 129, ..good() }, LimitsError::ClientV6Len),
            (Limits { conns_max: u32::MAX, ..good() }, LimitsError::ConnsMaxTooLarge),
            (Limits { accept_backoff_max: Duration::from_millis(1), ..good() }, LimitsError::BackoffOrder),
            (
                Limits { write_timeout: Duration::ZERO, ..good() },
                LimitsError::ZeroTime { name: "write_timeout" },
            ),
            (
                Limits { linger_timeout: Duration::ZERO, ..good() },
                LimitsError::ZeroTime { name: "linger_timeout" },
            ),
        ];
        for (limits, error) in table {
            assert_eq!(limits.check(2), Err(error));
        }
    }
}
