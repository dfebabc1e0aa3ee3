//! How many descriptors checks may have open at once, which connections must not take.
//!
//! Does not know about: the limit of the process.

use crate::checks::connect::dialer::Dialer;
use crate::checks::connect::resolver::LOOK_UPS_MAX;
use crate::checks::kinds::blocking::LOOKS_MAX;
use crate::checks::runner::all_addresses::ADDRS_AT_ONCE;
use crate::checks::runner::{Kind, Runner};

/// A look-up: a socket for each of the three servers that a resolver asks in turn (resolv.conf(5), `MAXNS`), and one of TCP for what is too
/// long. musl has one, and two of TCP.
pub(crate) const FDS_A_LOOK_UP: usize = 4;

/// A file that is looked at.
const FDS_A_LOOK: usize = 2;

/// What one check may need at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// While it runs.
    pub(crate) in_flight: usize,
    /// Between runs.
    pub(crate) kept: usize,
    /// DNS lookups under way.
    pub(crate) look_ups: usize,
    /// Blocking threads, those of abandoned runs included.
    pub(crate) looks: usize,
}

impl Needs {
    /// Of all of these together, with at most `in_flight_max` concurrent runs.
    pub(crate) fn all(each: impl Iterator<Item = Self>, in_flight_max: usize) -> usize {
        let (mut most, mut all, mut count) = (1, Self::default(), 0);
        for one in each {
            count += 1;
            most = most.max(one.in_flight);
            all.kept += one.kept;
            all.look_ups += one.look_ups;
            all.looks += one.looks;
        }
        count.min(in_flight_max) * most
            + all.kept
            + all.look_ups.min(LOOK_UPS_MAX) * FDS_A_LOOK_UP
            + all.looks.min(LOOKS_MAX) * FDS_A_LOOK
    }
}

impl Runner {
    pub(crate) fn needs(&self) -> Needs {
        let dialer = self.dialer();
        let in_flight = match &self.asks {
            // Both ends of a pipe, one of them twice, and the process.
            Kind::Exec(_) => 4,
            _ if dialer.is_some_and(Dialer::asks_all) => ADDRS_AT_ONCE,
            _ => 1,
        };
        let look_ups = match &self.asks {
            // Each run may lead to another host, and nobody knows where look-ups of runs before are.
            Kind::Http(http) if http.goes_anywhere() => LOOK_UPS_MAX,
            _ => usize::from(dialer.is_some_and(Dialer::has_name)),
        };
        Needs {
            in_flight,
            kept: usize::from(matches!(self.asks, Kind::Grpc(_))),
            look_ups,
            looks: usize::from(matches!(self.asks, Kind::Exec(_) | Kind::File(_) | Kind::Gauge(_))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Connector, Shared};
    use super::*;
    use crate::config::{Source, parse};
    use std::sync::Arc;

    fn needs(checks: &str) -> Vec<Needs> {
        let text = format!("version = 1\n{checks}");
        let parsed = parse(&Source { name: "f".to_owned(), text }, &|_| None);
        let config = parsed.config.unwrap_or_else(|| panic!("{:?}", parsed.problems));
        let mut shared = Shared::new(Arc::new(Connector::open(&config.egress).unwrap()));
        let runners = config.checks.iter().map(|check| Runner::build(check, &mut shared).unwrap().unwrap());
        runners.map(|runner| runner.needs()).collect()
    }

    #[test]
    fn a_check_needs_what_it_may_have_open() {
        let one = Needs { in_flight: 1, ..Needs::default() };
        for (check, expected) in [
            ("type = \"tcp\"\naddress = \"127.0.0.1:1\"", one),
            ("type = \"tcp\"\naddress = \"a.test:1\"", Needs { look_ups: 1, ..one }),
            ("type = \"http\"\nurl = \"http://127.0.0.1:1/\"", one),
            ("type = \"http\"\nurl = \"http://a.test/\"", Needs { look_ups: 1, ..one }),
            (
                "type = \"http\"\nurl = \"http://127.0.0.1:1/\"\nfollow_redirects = \"all\"",
                Needs { look_ups: LOOK_UPS_MAX, ..one },
            ),
            (
                "type = \"tcp\"\naddress = \"a.test:1\"\nresolve = { all = true }",
                Needs { in_flight: ADDRS_AT_ONCE, look_ups: 1, ..one },
            ),
            ("type = \"grpc\"\naddress = \"127.0.0.1:1\"", Needs { kept: 1, ..one }),
            ("type = \"file\"\npath = \"/dev/null\"", Needs { looks: 1, ..one }),
            ("type = \"exec\"\ncommand = [\"/bin/true\"]", Needs { in_flight: 4, looks: 1, ..one }),
        ] {
            assert_eq!(needs(&format!("[check.a]\n{check}\n")), [expected], "{check}");
        }
    }

    #[test]
    fn what_is_bounded_together_is_counted_so() {
        let one = Needs { in_flight: 1, kept: 0, look_ups: 1, looks: 1 };
        let all = |count: usize, in_flight_max| Needs::all((0..count).map(|_| one), in_flight_max);
        assert_eq!(all(0, 64), 0);
        assert_eq!(all(3, 64), 3 * (1 + FDS_A_LOOK_UP + FDS_A_LOOK));
        assert_eq!(all(1000, 64), 64 + LOOK_UPS_MAX * FDS_A_LOOK_UP + LOOKS_MAX * FDS_A_LOOK);
        let more = [one, Needs { in_flight: 8, kept: 2, ..one }];
        assert_eq!(Needs::all(more.into_iter(), 1), 8 + 2 + 2 * (FDS_A_LOOK_UP + FDS_A_LOOK));
    }
}
