//! Who chooses the port of a connection: what the user asks for, what the kernel can do, and what is then done.
//!
//! Does not know about: sockets; how the kernel was tested.

use core::fmt;
use core::num::NonZeroU16;
use core::str::FromStr;

use super::range::PortRange;

/// How the port of a connection is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The kernel, out of its whole range, unasked: one half of the ports (by parity) before the other, so that connections
    /// become slow when the first half is taken. Written `kernel` or `off`.
    Kernel,
    /// We pick one, test it by connecting, and pick another if it is taken. For kernels without `IP_LOCAL_PORT_RANGE`. Written
    /// `select`.
    Select,
    /// The kernel, out of its whole range passed as `IP_LOCAL_PORT_RANGE`: from Linux 6.8 it then goes from port to port. Written
    /// `full`.
    Whole,
    /// The kernel, out of a random window of so many ports. Written as the number.
    Window(NonZeroU16),
}

/// What the user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// The best this kernel can do, found by a test at start. Written `auto`. The default.
    #[default]
    Auto,
    /// This.
    Only(Strategy),
}

/// What `IP_LOCAL_PORT_RANGE` does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRangeSupport {
    /// The kernel does not have it (before Linux 6.3).
    Absent,
    /// A range is searched from port to port (from Linux 6.8).
    EveryPort,
    /// Of a range, too, one half is tried before the other (Linux 6.3 to 6.7).
    OneParity,
    /// The kernel has it; how it searches could not be seen, because loopback does not work here.
    Unseen,
}

/// The strategy in force, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressReport {
    /// How ports are chosen.
    pub strategy: Strategy,
    /// Why, as half a sentence.
    pub reason: &'static str,
}

/// What was asked for cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this kernel has no IP_LOCAL_PORT_RANGE (Linux 6.3): ports cannot be chosen by {0}; use auto, kernel or select"
)]
pub struct NoPortRange(pub Strategy);

/// Ports of the windows that are chosen without being asked for. The smallest of the study's that nearly never has to be moved.
const AUTO_WINDOW: NonZeroU16 = NonZeroU16::new(1_000).expect("not 0");

/// So many windows are tried, and then the whole range.
const WINDOWS_MAX: u32 = 16;
/// So many ports are picked, and then the kernel may search. With nine of ten ports taken, 32 picks find a free one 97 times of 100.
const SELECTS_MAX: u32 = 32;

/// What one attempt to connect may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// What the kernel chooses by itself.
    Any,
    /// Exactly this one.
    One(u16),
    /// What the kernel chooses out of these.
    Range(PortRange),
}

impl PortChoice {
    /// What to do on a kernel with `support`, which is only asked where it matters.
    pub(super) fn decide(
        self,
        support: impl FnOnce() -> PortRangeSupport,
    ) -> Result<EgressReport, NoPortRange> {
        let (strategy, reason) = match self {
            Self::Only(strategy @ (Strategy::Kernel | Strategy::Select)) => (strategy, ASKED),
            Self::Only(strategy @ (Strategy::Whole | Strategy::Window(_))) => match support() {
                PortRangeSupport::Absent => return Err(NoPortRange(strategy)),
                PortRangeSupport::EveryPort | PortRangeSupport::OneParity | PortRangeSupport::Unseen => {
                    (strategy, ASKED)
                }
            },
            Self::Auto => match support() {
                PortRangeSupport::Absent => (Strategy::Select, "the kernel has no IP_LOCAL_PORT_RANGE"),
                PortRangeSupport::EveryPort => (Strategy::Whole, "the kernel searches a range port by port"),
                PortRangeSupport::OneParity => {
                    (Strategy::Window(AUTO_WINDOW), "the kernel tries one half of a range before the other")
                }
                PortRangeSupport::Unseen => (
                    Strategy::Window(AUTO_WINDOW),
                    "loopback does not work here, so the kernel's search is unknown",
                ),
            },
        };
        Ok(EgressReport { strategy, reason })
    }
}

const ASKED: &str = "asked for";

impl Strategy {
    /// What attempt `number` (from 0) chooses from; `None` when there is nothing left to try. The last attempt of each strategy has
    /// the whole range, so none gives up while a port is free.
    pub(super) fn attempt(
        self,
        number: u32,
        system: PortRange,
        random: impl FnOnce() -> u32,
    ) -> Option<Ports> {
        match self {
            Self::Kernel => (number == 0).then_some(Ports::Any),
            Self::Whole => (number == 0).then_some(Ports::Range(system)),
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
            "full" => Ok(Self::Whole),
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
            Self::Whole => f.write_str("full"),
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
            Strategy::Kernel | Strategy::Select | Strategy::Whole => {
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
    fn the_strategy_follows_from_the_wish_and_the_kernel() {
        use PortRangeSupport::{Absent, EveryPort, OneParity, Unseen};
        let all = [Absent, EveryPort, OneParity, Unseen];
        let auto = [Strategy::Select, Strategy::Whole, window(1_000), window(1_000)];
        for (support, want) in all.into_iter().zip(auto) {
            assert_eq!(PortChoice::Auto.decide(|| support).unwrap().strategy, want, "{support:?}");
            for always in [Strategy::Kernel, Strategy::Select] {
                let unasked = || unreachable!("the kernel is not tested for this");
                assert_eq!(PortChoice::Only(always).decide(unasked).unwrap().strategy, always);
            }
            for needs in [Strategy::Whole, window(7)] {
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
            (Strategy::Whole, 1, Ports::Range(system)),
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
            assert!(plan.windows(2).all(|two| two[0] != two[1]), "each attempt looks elsewhere");
        }
    }

    #[test]
    fn names_are_read_and_written() {
        for (text, want) in [
            ("auto", PortChoice::Auto),
            ("kernel", PortChoice::Only(Strategy::Kernel)),
            ("select", PortChoice::Only(Strategy::Select)),
            ("full", PortChoice::Only(Strategy::Whole)),
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
