//! Maximum number of descriptors that checks open at once. The limit on client connections is
//! reduced by this number.

#[cfg(feature = "kinds")]
use crate::connect::dialer::Dialer;
use crate::limits::{BLOCKING_MAX, LOOKUPS_MAX};
#[cfg(feature = "kinds")]
use crate::runner::all_addresses::ADDRS_AT_ONCE;
#[cfg(feature = "kinds")]
use crate::runner::target::{Kind, TargetRunner};
use crate::runner::{Runner, RunnerKind};

/// Descriptors of a lookup: a UDP socket for each of the three servers that a resolver queries in
/// turn (resolv.conf(5), `MAXNS`), and a TCP socket for long answers. musl uses one UDP socket and
/// two TCP sockets.
pub const FDS_PER_LOOKUP: usize = 4;

/// Descriptors of a blocking call.
const FDS_PER_BLOCKING_CALL: usize = 2;

/// Descriptors that one check may have open at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// During a run.
    pub(crate) in_flight: usize,
    /// Between runs.
    pub(crate) kept: usize,
    /// Concurrent DNS lookups.
    pub(crate) lookups: usize,
    /// Blocking threads, including those of abandoned runs.
    pub(crate) blocking: usize,
}

impl Descriptors {
    /// An upper bound for all checks together, with at most `in_flight_max` concurrent runs.
    pub(crate) fn all(each: impl Iterator<Item = Self>, in_flight_max: usize) -> usize {
        let (mut most, mut all, mut count) = (1, Self::default(), 0);
        for one in each {
            count += 1;
            most = most.max(one.in_flight);
            all.kept += one.kept;
            all.lookups += one.lookups;
            all.blocking += one.blocking;
        }
        let lookups = all.lookups.min(LOOKUPS_MAX);
        // Blocking calls also use the threads that are not needed for lookups.
        let blocking = all.blocking.min(BLOCKING_MAX + LOOKUPS_MAX - lookups);
        count.min(in_flight_max) * most
            + all.kept
            + lookups * FDS_PER_LOOKUP
            + blocking * FDS_PER_BLOCKING_CALL
    }
}

impl Runner {
    pub(crate) fn descriptors(&self) -> Descriptors {
        match &self.0 {
            // The number of descriptors that a function of the embedding program opens is unknown.
            RunnerKind::Call(_) => Descriptors::default(),
            #[cfg(feature = "kinds")]
            RunnerKind::Target(target) => target.descriptors(),
        }
    }
}

#[cfg(feature = "kinds")]
impl TargetRunner {
    fn descriptors(&self) -> Descriptors {
        let dialer = self.dialer();
        let in_flight = match &self.kind {
            Kind::Other(kind) if dialer.is_none() => kind.descriptors(),
            _ if dialer.is_some_and(Dialer::checks_all_addrs) => ADDRS_AT_ONCE,
            _ => 1,
        };
        let lookups = match &self.kind {
            // Redirects may lead to any host, and lookups of earlier runs may still be pending.
            Kind::Http(http) if http.follows_other_hosts() => LOOKUPS_MAX,
            _ => usize::from(dialer.is_some_and(Dialer::has_name)),
        };
        Descriptors {
            in_flight,
            kept: usize::from(matches!(self.kind, Kind::Grpc(_))),
            lookups,
            blocking: usize::from(match &self.kind {
                Kind::File(_) | Kind::Gauge(_) => true,
                Kind::Other(kind) => kind.blocks(),
                Kind::Grpc(_) | Kind::Http(_) | Kind::Tcp(_) => false,
            }),
        }
    }
}

#[cfg(test)]
#[cfg(feature = "kinds")]
mod tests {
    use super::*;
    use crate::connect::connector::Connector;
    use crate::kinds::materials::SharedResources;
    use crate::options::{
        Address, Check, CheckKind, EgressOptions, ExecCheck, FileCheck, FollowRedirects, HttpCheck, Resolve,
        TcpCheck, Url,
    };
    use std::sync::Arc;

    fn descriptors(kind: CheckKind) -> Descriptors {
        let connector = Connector::open(&EgressOptions::default()).unwrap();
        let runner = Runner::build(&Check::new("a", kind), &mut SharedResources::new(Arc::new(connector)));
        runner.unwrap().unwrap().descriptors()
    }

    #[test]
    fn descriptors_of_one_check() {
        let one = Descriptors { in_flight: 1, ..Descriptors::default() };
        let kind = |target: &str| CheckKind::parse(target).unwrap();
        let all = Resolve { all: true, ..Resolve::default() };
        let tcp = TcpCheck { resolve: all, ..TcpCheck::new(Address::parse("a.test:1").unwrap()) };
        let follow_redirects = FollowRedirects::All;
        let http =
            HttpCheck { follow_redirects, ..HttpCheck::new(Url::parse("http://127.0.0.1:1/").unwrap()) };
        let exec = ExecCheck { command: vec!["/bin/true".to_owned()], degraded_exit_code: None };
        for (kind, expected) in [
            (kind("tcp://127.0.0.1:1"), one),
            (kind("tcp://a.test:1"), Descriptors { lookups: 1, ..one }),
            (kind("http://127.0.0.1:1/"), one),
            (kind("http://a.test/"), Descriptors { lookups: 1, ..one }),
            (http.into(), Descriptors { lookups: LOOKUPS_MAX, ..one }),
            (tcp.into(), Descriptors { in_flight: ADDRS_AT_ONCE, lookups: 1, ..one }),
            (kind("grpc://127.0.0.1:1"), Descriptors { kept: 1, ..one }),
            (FileCheck::new("/dev/null".into()).into(), Descriptors { blocking: 1, ..one }),
            (exec.into(), Descriptors { in_flight: 4, blocking: 1, ..one }),
        ] {
            assert_eq!(descriptors(kind.clone()), expected, "{kind:?}");
        }
    }

    #[test]
    fn descriptors_of_all_checks() {
        let one = Descriptors { in_flight: 1, kept: 0, lookups: 1, blocking: 1 };
        let all = |count: usize, in_flight_max| Descriptors::all((0..count).map(|_| one), in_flight_max);
        assert_eq!(all(0, 64), 0);
        assert_eq!(all(3, 64), 3 * (1 + FDS_PER_LOOKUP + FDS_PER_BLOCKING_CALL));
        assert_eq!(all(1000, 64), 64 + LOOKUPS_MAX * FDS_PER_LOOKUP + BLOCKING_MAX * FDS_PER_BLOCKING_CALL);
        let files = (0..1000).map(|_| Descriptors { lookups: 0, ..one });
        assert_eq!(Descriptors::all(files, 64), 64 + (BLOCKING_MAX + LOOKUPS_MAX) * FDS_PER_BLOCKING_CALL);
        let more = [one, Descriptors { in_flight: 8, kept: 2, ..one }];
        assert_eq!(
            Descriptors::all(more.into_iter(), 1),
            8 + 2 + 2 * (FDS_PER_LOOKUP + FDS_PER_BLOCKING_CALL)
        );
    }
}
