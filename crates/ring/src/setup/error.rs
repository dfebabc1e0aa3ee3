//! Owns `SetupError` and its likely cause.

use std::fmt;
use std::fs;

use rustix::process::{Resource, getrlimit};

use super::Step;
use crate::Errno;

/// A ring could not be opened.
///
/// `Display` prints one sentence that names the failed step, the errno, the likely cause and a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupError {
    /// The failed step.
    pub step: Step,
    /// The kernel's error.
    pub errno: Errno,
    /// The likely cause.
    pub hint: Hint,
}

/// The likely cause of a set-up error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A size in `Setup` is out of range.
    BadSetup(&'static str),
    /// The setting `kernel.io_uring_disabled` has this value, which refuses io_uring.
    Disabled(u32),
    /// `RLIMIT_NOFILE` or the system's file table is exhausted.
    Files,
    /// `RLIMIT_MEMLOCK`, in bytes, is too small.
    Memlock(u64),
    /// The system or the cgroup is out of memory.
    Memory,
    /// The kernel lacks the named operation or feature.
    MissingOpcode(&'static str),
    /// The kernel was built without io_uring, or predates io_uring.
    NotBuilt,
    /// A seccomp filter refuses the system call.
    Seccomp,
    /// The kernel is too old for a required feature.
    TooOld,
    /// No known cause fits; most likely a security module, or a sandbox that emulates Linux.
    Unknown,
}

impl SetupError {
    /// Determines the likely cause from the state of the system.
    pub(crate) fn new(step: Step, errno: Errno) -> Self {
        Self { step, errno, hint: Evidence::read().hint(errno) }
    }

    pub(crate) const fn hinted(step: Step, errno: Errno, hint: Hint) -> Self {
        Self { step, errno, hint }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "io_uring is not available: {} returned {}; ", self.step.name(), self.errno)?;
        match self.hint {
            Hint::BadSetup(what) => write!(f, "the configuration is impossible: {what}"),
            Hint::Disabled(value @ 1) => write!(
                f,
                "the setting kernel.io_uring_disabled={value} refuses it to this user: join the group in \
                 kernel.io_uring_group, or set it to 0"
            ),
            Hint::Disabled(value) => {
                write!(f, "kernel.io_uring_disabled={value} disables it: run `sysctl kernel.io_uring_disabled=0`")
            }
            Hint::Files => f.write_str("too few file descriptors: raise the open-file limit (`ulimit -n`, LimitNOFILE=)"),
            Hint::Memlock(bytes) => write!(
                f,
                "the locked-memory limit of {} KiB is most likely too small: raise it (`ulimit -l`, LimitMEMLOCK=) or use \
                 fewer workers",
                bytes / 1_024
            ),
            Hint::Memory => f.write_str("the system or the cgroup is out of memory: allow more, or use fewer workers"),
            Hint::MissingOpcode(name) => {
                write!(f, "this kernel lacks {name}: use Linux 6.1 or later")
            }
            Hint::NotBuilt => f.write_str("the kernel was built without io_uring: use one that has CONFIG_IO_URING"),
            Hint::Seccomp => f.write_str(
                "a seccomp filter forbids it, as container run-times do by default: allow io_uring_setup, io_uring_enter and \
                 io_uring_register in the seccomp profile",
            ),
            Hint::TooOld => f.write_str("this kernel is most likely too old: use Linux 6.1 or later"),
            Hint::Unknown => f.write_str("a security module or a sandbox most likely forbids it: ask its administrator"),
        }
    }
}

impl std::error::Error for SetupError {}

/// State of the system that points to the cause.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    /// `/proc/sys/kernel/io_uring_disabled` (Linux 6.6).
    io_uring_disabled: Option<u32>,
    /// `Seccomp:` in `/proc/thread-self/status`: 2 means a filter.
    seccomp: Option<u32>,
    /// `RLIMIT_MEMLOCK`; `None` means no limit.
    memlock: Option<u64>,
}

impl Evidence {
    fn read() -> Self {
        let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
        let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        Self {
            io_uring_disabled: disabled.trim().parse().ok(),
            seccomp: seccomp_mode(&status),
            memlock: getrlimit(Resource::Memlock).current,
        }
    }

    fn hint(self, errno: Errno) -> Hint {
        let filtered = self.seccomp == Some(2);
        match errno.0 {
            libc::EACCES | libc::EPERM => match self.io_uring_disabled {
                Some(value @ 1..) => Hint::Disabled(value),
                _ if filtered => Hint::Seccomp,
                _ => Hint::Unknown,
            },
            libc::EINVAL => Hint::TooOld,
            libc::EMFILE | libc::ENFILE => Hint::Files,
            libc::ENOMEM => match self.memlock {
                Some(bytes) => Hint::Memlock(bytes),
                None => Hint::Memory,
            },
            libc::ENOSYS if filtered => Hint::Seccomp,
            libc::ENOSYS => Hint::NotBuilt,
            _ => Hint::Unknown,
        }
    }
}

fn seccomp_mode(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_by_evidence() {
        let plain = Evidence { io_uring_disabled: Some(0), seccomp: Some(0), memlock: None };
        let off = Evidence { io_uring_disabled: Some(2), ..plain };
        let group = Evidence { io_uring_disabled: Some(1), ..plain };
        let filtered = Evidence { seccomp: Some(2), ..plain };
        let limited = Evidence { memlock: Some(65_536), ..plain };
        let table = [
            (plain, libc::EPERM, Hint::Unknown),
            (off, libc::EPERM, Hint::Disabled(2)),
            (group, libc::EPERM, Hint::Disabled(1)),
            (Evidence { io_uring_disabled: Some(2), ..filtered }, libc::EPERM, Hint::Disabled(2)),
            (filtered, libc::EPERM, Hint::Seccomp),
            (filtered, libc::EACCES, Hint::Seccomp),
            (filtered, libc::ENOSYS, Hint::Seccomp),
            (plain, libc::ENOSYS, Hint::NotBuilt),
            (plain, libc::EINVAL, Hint::TooOld),
            (limited, libc::ENOMEM, Hint::Memlock(65_536)),
            (plain, libc::ENOMEM, Hint::Memory),
            (plain, libc::EMFILE, Hint::Files),
            (plain, libc::ENFILE, Hint::Files),
            (plain, libc::EOPNOTSUPP, Hint::Unknown),
            (Evidence::default(), libc::EPERM, Hint::Unknown),
        ];
        for (evidence, errno, hint) in table {
            assert_eq!(evidence.hint(Errno(errno)), hint, "{evidence:?} {errno}");
        }
    }

    #[test]
    fn the_seccomp_line_is_found() {
        assert_eq!(seccomp_mode("Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"), Some(2));
        assert_eq!(seccomp_mode("Seccomp_filters:\t1\n"), None);
        assert_eq!(seccomp_mode(""), None);
    }

    #[test]
    fn every_sentence_names_step_errno_and_a_fix() {
        let table = [
            (Hint::BadSetup("no receive buffers"), "no receive buffers"),
            (Hint::Disabled(1), "io_uring_group"),
            (Hint::Disabled(2), "sysctl kernel.io_uring_disabled=0"),
            (Hint::Files, "ulimit -n"),
            (Hint::Memlock(65_536), "64 KiB"),
            (Hint::Memory, "fewer workers"),
            (Hint::MissingOpcode("ACCEPT"), "lacks ACCEPT"),
            (Hint::NotBuilt, "CONFIG_IO_URING"),
            (Hint::Seccomp, "seccomp profile"),
            (Hint::TooOld, "6.1"),
            (Hint::Unknown, "security module"),
        ];
        for (hint, fix) in table {
            let text = SetupError::hinted(Step::Create, Errno(libc::EPERM), hint).to_string();
            assert!(text.starts_with("io_uring is not available: io_uring_setup returned EPERM; "), "{text}");
            assert!(text.contains(fix), "{text}");
            assert!(!text.contains('\n') && !text.ends_with('.') && !text.contains("  "), "{text}");
        }
    }
}
