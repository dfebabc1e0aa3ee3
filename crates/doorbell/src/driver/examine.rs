//! Report about io_uring on this system: capabilities that work, and the causes of failures.
//!
//! The report is a diagnostic and has no effect on the choice of a driver.
//!
//! [`select`](super::select) chooses the driver.

use doorbell_ring::selftest::capabilities;
use doorbell_ring::{Hint, Ring, Setup};

use super::Errno;
use super::select::{Descriptors, DriverReport, Engine, fallback_reason, plan};
use crate::tuning::Tuning;

/// Result of [`examine`]. Holds no resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// The driver that [`Engine::Auto`] chooses here.
    pub report: DriverReport,
    /// The reason why io_uring does not work, or [`Cause::Ok`].
    pub cause: Cause,
    /// The effective settings of the ring; `None` without a ring.
    pub ring: Option<String>,
    /// Each capability that was tested: its name, whether it works, and what was observed.
    pub tried: Vec<(&'static str, bool, String)>,
}

/// Number of direct descriptors of a test ring.
const FIXED_FILES: u32 = 16;

/// The reason why io_uring is not used. A label of the metric `doorbell_driver_info` has the same
/// values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `RLIMIT_NOFILE`, or the file table of the system.
    Files,
    /// Another driver was requested.
    Forced,
    /// The kernel is too old, was built without io_uring, or lacks an operation.
    Kernel,
    /// `RLIMIT_MEMLOCK`.
    Memlock,
    /// The system or its cgroup is out of memory.
    Memory,
    /// io_uring works.
    Ok,
    /// A security module, or a sandbox that emulates Linux.
    Sandbox,
    /// A seccomp filter.
    Seccomp,
    /// `kernel.io_uring_disabled`.
    Sysctl,
}

/// Opens a ring and tests it on loopback connections. Takes less than 0.1 s.
#[must_use]
pub fn examine() -> Examination {
    let setup = Setup::default();
    let ring = match Ring::open(&setup) {
        Ok(ring) => ring,
        Err(error) => {
            let report = super::select::epoll_plan(fallback_reason(&error), Cause::of(error.hint)).report;
            return Examination { cause: report.cause, report, ring: None, tried: Vec::new() };
        }
    };
    let granted = ring.report().to_string();
    drop(ring);
    let (installs, tables) = installs();
    let found = capabilities(&setup);
    let verdicts = [
        ("multishot accept", found.multishot_accept),
        ("direct descriptors", found.direct_descriptors),
        ("reply and FIN in one segment", found.reply_and_fin),
    ];
    let mut tried: Vec<_> =
        verdicts.into_iter().map(|(name, verdict)| (name, verdict.ok, verdict.why)).collect();
    tried.push(("FIXED_FD_INSTALL", installs, tables));
    // A ring opens only if the kernel supports every required opcode; otherwise the error names the
    // missing one.
    let needed = doorbell_ring::opcodes().collect::<Vec<_>>().join(", ");
    tried.push(("opcodes", true, needed));
    let report = match plan(Engine::Auto, Descriptors::Auto, &Tuning::default()) {
        Ok(plan) => plan.report,
        Err(error) => super::select::epoll_plan(error.to_string(), Cause::Kernel).report,
    };
    Examination { cause: report.cause, report, ring: Some(granted), tried }
}

/// Tests whether the kernel can create an ordinary descriptor for a direct descriptor.
fn installs() -> (bool, String) {
    match Ring::open(&Setup { fixed_files: FIXED_FILES, ..Setup::default() }) {
        Ok(ring) if ring.report().fd_install => {
            (true, "an ordinary descriptor can be created for a direct one".to_owned())
        }
        Ok(ring) if ring.report().fixed_files == 0 => {
            (false, "the ring has no direct descriptors".to_owned())
        }
        Ok(_) => {
            (false, "no ordinary descriptor can be created for a direct one: Linux before 6.8".to_owned())
        }
        Err(error) => (false, fallback_reason(&error)),
    }
}

impl Cause {
    pub(crate) const fn of(hint: Hint) -> Self {
        match hint {
            Hint::Disabled(_) => Self::Sysctl,
            Hint::Files => Self::Files,
            Hint::Memlock(_) => Self::Memlock,
            Hint::Memory => Self::Memory,
            Hint::BadSetup(_) | Hint::MissingOpcode(_) | Hint::NotBuilt | Hint::TooOld => Self::Kernel,
            Hint::Seccomp => Self::Seccomp,
            Hint::Unknown => Self::Sandbox,
        }
    }

    /// The cause of a failure of the ring after a successful set-up.
    pub(crate) const fn of_failure(errno: Errno) -> Self {
        match errno {
            Errno::MFILE | Errno::NFILE => Self::Files,
            Errno::NOMEM => Self::Memory,
            Errno::ACCESS | Errno::PERM => Self::Seccomp,
            _ => Self::Kernel,
        }
    }

    /// The name of the cause in logs and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Forced => "forced",
            Self::Kernel => "kernel",
            Self::Memlock => "memlock",
            Self::Memory => "memory",
            Self::Ok => "ok",
            Self::Sandbox => "sandbox",
            Self::Seccomp => "seccomp",
            Self::Sysctl => "sysctl",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_tested_capabilities() {
        let found = examine();
        assert_eq!(found.cause == Cause::Ok, !found.report.is_fallback, "{found:?}");
        match found.ring {
            Some(_) => {
                assert_eq!(found.tried.len(), 5);
                // Linux supports `FIXED_FD_INSTALL` since 6.8.
                let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
                let mut numbers = release.split(['.', '-']).filter_map(|part| part.parse::<u32>().ok());
                let version = (numbers.next().unwrap(), numbers.next().unwrap());
                let installs = found.tried.iter().find(|(name, ..)| *name == "FIXED_FD_INSTALL").unwrap();
                assert_eq!(installs.1, version >= (6, 8), "{version:?}: {installs:?}");
            }
            None => assert!(found.tried.is_empty() && found.report.why.contains("io_uring"), "{found:?}"),
        }
    }
}
