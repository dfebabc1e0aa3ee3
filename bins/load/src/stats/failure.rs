//! Failures of requests, counted by kind, each with its first errno.

use doorbell_ring::Errno;

/// Reasons why a request has no good reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// No connection was established: refused, no route, no free port.
    Connect,
    /// The reply has other bytes in place of the id of its request.
    Foreign,
    /// The reply is not HTTP.
    Malformed,
    /// The server reset the connection, perhaps after a complete reply.
    Reset,
    /// The connection ended inside or before a reply.
    Short,
    /// The reply has an unexpected status.
    Status,
    /// The exchange was not complete in time.
    Timeout,
    /// The form of the reply is not supported: `Transfer-Encoding`, `101`, or a head of more than
    /// 64 KiB.
    Unsupported,
    /// The reply is complete but has unexpected bytes.
    WrongBytes,
}

/// Counters of failures by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    counts: [u64; FailureKind::ALL.len()],
    errnos: [Option<Errno>; FailureKind::ALL.len()],
}

impl FailureKind {
    /// Every kind in numerical order.
    pub const ALL: [Self; 9] = [
        Self::Connect,
        Self::Foreign,
        Self::Malformed,
        Self::Reset,
        Self::Short,
        Self::Status,
        Self::Timeout,
        Self::Unsupported,
        Self::WrongBytes,
    ];

    /// The key of the kind in the JSON report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Foreign => "foreign_bytes",
            Self::Malformed => "malformed",
            Self::Reset => "reset",
            Self::Short => "short_reply",
            Self::Status => "status",
            Self::Timeout => "timeout",
            Self::Unsupported => "unsupported",
            Self::WrongBytes => "wrong_bytes",
        }
    }

    /// A description of the kind.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Connect => "could not connect",
            Self::Foreign => "bytes of another request in the reply",
            Self::Malformed => "reply is not HTTP",
            Self::Reset => "connection reset by the server",
            Self::Short => "connection ended before the reply did",
            Self::Status => "unexpected status",
            Self::Timeout => "not done in time",
            Self::Unsupported => "reply form not supported (Transfer-Encoding, 101, or a head over 64 KiB)",
            Self::WrongBytes => "wrong bytes",
        }
    }
}

impl Failures {
    /// Counts a failure.
    pub fn count(&mut self, kind: FailureKind, errno: Option<Errno>) {
        self.counts[kind as usize] += 1;
        let first = &mut self.errnos[kind as usize];
        *first = first.or(errno);
    }

    /// Number of failures of a kind.
    #[must_use]
    pub const fn of(&self, kind: FailureKind) -> u64 {
        self.counts[kind as usize]
    }

    /// The first error number of a kind.
    #[must_use]
    pub const fn errno(&self, kind: FailureKind) -> Option<Errno> {
        self.errnos[kind as usize]
    }

    /// Number of all failures.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the failures of another thread.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts) {
            *ours += theirs;
        }
        for (ours, theirs) in self.errnos.iter_mut().zip(other.errnos) {
            *ours = ours.or(theirs);
        }
    }
}

const _: () = {
    let mut index = 0;
    while index < FailureKind::ALL.len() {
        assert!(FailureKind::ALL[index] as usize == index, "ALL is in the order of the numbers");
        index += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_errno_of_each_kind_is_kept() {
        let mut failures = Failures::default();
        failures.count(FailureKind::Connect, None);
        failures.count(FailureKind::Connect, Some(Errno(111)));
        failures.count(FailureKind::Connect, Some(Errno(99)));
        failures.count(FailureKind::Reset, Some(Errno(104)));
        let mut sum = Failures::default();
        sum.count(FailureKind::Reset, Some(Errno(32)));
        sum.add(&failures);
        assert_eq!((sum.of(FailureKind::Connect), sum.of(FailureKind::Reset), sum.total()), (3, 2, 5));
        assert_eq!(sum.errno(FailureKind::Connect), Some(Errno(111)));
        assert_eq!(sum.errno(FailureKind::Reset), Some(Errno(32)));
        assert_eq!(sum.errno(FailureKind::Timeout), None);
    }
}
