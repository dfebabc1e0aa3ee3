//! The strategy for choosing ports: the user's choice, the kernel's capabilities, and the resulting
//! attempts.

use core::fmt;
use core::num::NonZeroU16;
use core::str::FromStr;

use super::range::PortRange;

/// How the port of a connection is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// By the kernel from its whole range. The kernel searches one half of the ports (by parity)
    /// before the other half, so that connections become slow when the first half is in use.
    /// Written `kernel` or `off`.
    Kernel,
    /// By this crate, which tries to connect from a random port and tries another port if that one
    /// is in use. For kernels without `IP_LOCAL_PORT_RANGE`. Written `select`.
    Select,
    /// By the kernel from its whole range, passed as `IP_LOCAL_PORT_RANGE`. From Linux 6.8 on, the
    /// kernel then searches port by port. Written `full`.
    FullRange,
    /// By the kernel from a random window with this number of ports. Written as the number.
    Window(NonZeroU16),
}

/// The user's choice of a strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// The best strategy for this kernel, as determined by a test at the start. Written `auto`. The
    /// default.
    #[default]
    Auto,
    /// This strategy.
    Only(Strategy),
}

/// Effect of `IP_LOCAL_PORT_RANGE` on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRangeSupport {
    /// Not supported (before Linux 6.3).
    Absent,
    /// A range is searched port by port (from Linux 6.8 on).
    EveryPort,
    /// One half of a range is searched before the other (Linux 6.3 to 6.7).
    OneParity,
    /// Assumed to be supported. The search could not be observed, because loopback connections over
    /// IPv4 fail here.
    Unseen,
}

/// The strategy in use, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressReport {
    /// The strategy.
    pub strategy: Strategy,
    /// The reason, as a clause for messages.
    pub reason: &'static str,
}

/// The requested strategy is not supported by this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "strategy {0} needs IP_LOCAL_PORT_RANGE (Linux 6.3 or later), which this kernel lacks; use auto, kernel or select"
)]
pub struct NoPortRange(pub Strategy);

/// Default window size: the smallest measured size with which a second window is rarely needed.
const AUTO_WINDOW: NonZeroU16 = NonZeroU16::new(1_000).expect("not 0");

/// Number of windows tried before the whole range.
const WINDOWS_MAX: u32 = 16;
/// Number of random ports tried before the kernel searches. If nine of ten ports are taken, 32
/// random ports include a free one in 97 of 100 cases.
const SELECTS_MAX: u32 = 32;

/// Candidate ports of one attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// Chosen by the kernel.
    Any,
    /// Exactly this port.
    One(u16),
    /// Chosen by the kernel from this range.
    Range(PortRange),
}

impl PortChoice {
    /// Decides which strategy to use. `support` tests the kernel; it is called only if the decision
    /// depends on the result.
    pub(super) fn decide(
        self,
        support: impl FnOnce() -> PortRangeSupport,
    ) -> Result<EgressReport, NoPortRange> {
        let (strategy, reason) = match self {
            Self::Only(strategy @ (Strategy::Kernel | Strategy::Select)) => (strategy, ASKED),
            Self::Only(strategy @ (Strategy::FullRange | Strategy::Window(_))) => match support() {
                PortRangeSupport::Absent => return Err(NoPortRange(strategy)),
                PortRangeSupport::EveryPort | PortRangeSupport::OneParity | PortRangeSupport::Unseen => {
                    (strategy, ASKED)
                }
            },
            Self::Auto => match support() {
                PortRangeSupport::Absent => (Strategy::Select, "the kernel has no IP_LOCAL_PORT_RANGE"),
                PortRangeSupport::EveryPort => {
                    (Strategy::FullRange, "the kernel searches a range port by port")
                }
                PortRangeSupport::OneParity => {
                    (Strategy::Window(AUTO_WINDOW), "the kernel tries one half of a range before the other")
                }
                PortRangeSupport::Unseen => (
                    Strategy::Window(AUTO_WINDOW),
                    "loopback connections fail, so the kernel's search is unknown",
                ),
            },
        };
        Ok(EgressReport { strategy, reason })
    }
}

const ASKED: &str = "requested";

impl Strategy {
    /// Candidates of attempt `number` (from 0); `None` if there are no more attempts. The last
    /// attempt of each strategy uses the whole range, so it fails only if no port is free.
    pub(super) fn attempt(
        self,
        number: u32,
        system: PortRange,
        random: impl FnOnce() -> u32,
    ) -> Option<Ports> {
        match self {
            Self::Kernel => (number == 0).then_some(Ports::Any),
            Self::FullRange => (number == 0).then_some(Ports::Range(system)),
            Self::Select if number < SELECTS_MAX => Some(Ports::One(system.port(random()))),
            Self::Select => (number == SELECTS_MAX).then_some(Ports::Any),
            Self::Window(width) if number < WINDOWS_MAX => {
                Some(Ports::Range(system.window(width.get(), random())))
            }
            Self::Window(_) => (number == WINDOWS_MAX).then_some(Ports::Range(system)),
        }
    }
}

impl FromStr for Strategy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "kernel" | "off" => Ok(Self::Kernel),
            "select" => Ok(Self::Select),
            "full" => Ok(Self::FullRange),
            number => number
                .parse()
                .map(Self::Window)
                .map_err(|_| "write kernel, select, full, or the ports of a window from 1 to 65535"),
        }
    }
}

impl FromStr for PortChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let wrong = "write auto, off, select, full, or the ports of a window from 1 to 65535";
        text.parse().map(Self::Only).map_err(|_| wrong)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Select => f.write_str("select"),
            Self::FullRange => f.write_str("full"),
            Self::Window(width) => width.fmt(f),
        }
    }
}

impl fmt::Display for PortChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Only(strategy) => strategy.fmt(f),
        }
    }
}

impl fmt::Display for EgressReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            Strategy::Window(width) => write!(f, "windows of {width} ports: {}", self.reason),
            Strategy::Kernel | Strategy::Select | Strategy::FullRange => {
                write!(f, "{}: {}", self.strategy, self.reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(ports: u16) -> Strategy {
        Strategy::Window(NonZeroU16::new(ports).unwrap())
    }

    #[test]
    fn the_strategy_depends_on_the_choice_and_the_kernel() {
        use PortRangeSupport::{Absent, EveryPort, OneParity, Unseen};
        let all = [Absent, EveryPort, OneParity, Unseen];
        let auto = [Strategy::Select, Strategy::FullRange, window(1_000), window(1_000)];
        for (support, want) in all.into_iter().zip(auto) {
            assert_eq!(PortChoice::Auto.decide(|| support).unwrap().strategy, want, "{support:?}");
            for always in [Strategy::Kernel, Strategy::Select] {
                let unasked = || unreachable!("this choice needs no test of the kernel");
                assert_eq!(PortChoice::Only(always).decide(unasked).unwrap().strategy, always);
            }
            for needs in [Strategy::FullRange, window(7)] {
                let got = PortChoice::Only(needs).decide(|| support).map(|report| report.strategy);
                assert_eq!(got, if support == Absent { Err(NoPortRange(needs)) } else { Ok(needs) });
            }
        }
    }

    #[test]
    fn attempts_are_bounded_and_the_last_has_every_port() {
        let system = PortRange::new(1_000, 9_999).unwrap();
        for (strategy, attempts, last) in [
            (Strategy::Kernel, 1, Ports::Any),
            (Strategy::FullRange, 1, Ports::Range(system)),
            (Strategy::Select, SELECTS_MAX + 1, Ports::Any),
            (window(500), WINDOWS_MAX + 1, Ports::Range(system)),
        ] {
            let plan: Vec<_> = (0..100).map_while(|n| strategy.attempt(n, system, || n << 26)).collect();
            assert_eq!(plan.len(), attempts as usize, "{strategy}");
            assert_eq!(plan.last(), Some(&last));
            assert_eq!(strategy.attempt(attempts, system, || 0), None);
            for ports in &plan[..plan.len() - 1] {
                match (strategy, ports) {
                    (Strategy::Select, Ports::One(port)) => assert!(system.contains(*port)),
                    (Strategy::Window(_), Ports::Range(range)) => assert_eq!(range.len(), 500),
                    other => panic!("{other:?}"),
                }
            }
            assert!(plan.windows(2).all(|two| two[0] != two[1]), "successive attempts differ");
        }
    }

    #[test]
    fn names_are_read_and_written() {
        for (text, want) in [
            ("auto", PortChoice::Auto),
            ("kernel", PortChoice::Only(Strategy::Kernel)),
            ("select", PortChoice::Only(Strategy::Select)),
            ("full", PortChoice::Only(Strategy::FullRange)),
            ("500", PortChoice::Only(window(500))),
        ] {
            assert_eq!(text.parse(), Ok(want));
            assert_eq!(want.to_string(), text);
        }
        assert_eq!("off".parse(), Ok(PortChoice::Only(Strategy::Kernel)));
        for text in ["", "0", "-1", "65536", "whole", "Auto"] {
            assert!(text.parse::<PortChoice>().is_err(), "{text:?}");
        }
        let report = PortChoice::Auto.decide(|| PortRangeSupport::OneParity).unwrap();
        assert!(report.to_string().starts_with("windows of 1000 ports: the kernel "));
    }
}
