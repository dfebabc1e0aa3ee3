//! What the user asks of the engine, as limits that were checked against each other.
//!
//! Does not know about: files, TOML, the kernel's own limits (see [`crate::server`]).

use core::time::Duration;

use doorbell_http::limit::CLIENT_V6_LEN;

/// Every cap and time of the engine that is not part of a protocol. Invariant I-7: nothing grows past these after start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once in the process; more clients wait in the backlog. Default 65,536; the server lowers it to what `RLIMIT_NOFILE` allows.
    pub conns_max: u32,
    /// Connections held at once from one address (of IPv6: one network, see [`Limits::client_v6_len`]), 0 for no cap. Default 1,024. One that is answered and closed
    /// in the turn that accepted it is not held, and may be served beyond the cap. Not applied to Unix sockets. While workers begin to count, each may hold up to its share (cap / workers) uncounted.
    pub conns_per_ip_max: u32,
    /// Bits of an IPv6 address that count as one address, 1 to 128. Default 64, because a provider gives
    /// each customer at least that network.
    pub client_v6_len: u8,
    /// Without progress of a reply for this long the connection is closed. Progress is looked for once in this time: a reply may take up to
    /// twice as long to be found standing still. Default 10 s.
    pub write_timeout: Duration,
    /// After an early reply: how long input is read and dropped before the close. Default 1 s.
    pub linger_timeout: Duration,
    /// After an early reply: how many bytes are read and dropped. Default 64 KiB.
    pub linger_bytes_max: u32,
    /// Memory for requests that arrived in parts, over all connections. Default 64 MiB; above it a connection that needs more
    /// is closed and counted.
    pub input_bytes_max: usize,
    /// First pause after an accept error; doubles up to [`Limits::accept_backoff_max`]. Default 10 ms.
    pub accept_backoff_min: Duration,
    /// Longest pause after accept errors. Default 1 s.
    pub accept_backoff_max: Duration,
    /// How long a drain waits for connections in progress. Default 20 s. It does not bound a handler: a worker whose handler blocks ends when that
    /// returns.
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

/// A limit that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// The first pause is longer than the longest.
    #[error("accept_backoff_min must not be longer than accept_backoff_max")]
    BackoffOrder,
    /// More bits than an IPv6 address has, or none.
    #[error("client_v6_len must be between 1 and 128")]
    ClientV6Len,
    /// Nothing could be accepted.
    #[error("conns_max must be at least 1 for each worker ({workers} workers)")]
    ConnsMax {
        /// Workers asked for.
        workers: u16,
    },
    /// More than a slot index can name beside the accept margin.
    #[error("conns_max must be at most 16,777,216")]
    ConnsMaxTooLarge,
    /// A time of zero would close every connection at once.
    #[error("{name} must be longer than zero")]
    ZeroTime {
        /// The limit's name.
        name: &'static str,
    },
}

/// The largest `conns_max`: as many as fit beside the generation in a completion's token, with room for the margin.
pub const CONNS_MAX_LARGEST: u32 = 1 << 24;

impl Limits {
    /// Checks each limit and the relations between them.
    ///
    /// # Errors
    /// The first limit that cannot work.
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

    /// The share of one of `workers`: listeners of one port spread clients evenly (SO_REUSEPORT hashes the 4-tuple).
    pub(crate) fn conns_max_of_worker(&self, workers: u16) -> u32 {
        self.conns_max.div_ceil(u32::from(workers))
    }
}

/// What to do when a worker cannot go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWorkerFailure {
    /// Its listeners close, so that the kernel gives its share of clients to the others; [`Handle::is_healthy`] turns false.
    ///
    /// [`Handle::is_healthy`]: crate::Handle::is_healthy
    Degrade,
    /// The whole server stops and [`Server::wait`] returns the failure.
    ///
    /// [`Server::wait`]: crate::Server::wait
    #[default]
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold() {
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
