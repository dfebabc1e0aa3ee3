//! Skipped tests: features that a machine may lack, and how a test reports that it did not run.
//!
//! The test runner does not support skips, and captures the `eprintln!` output of a passing test.
//! So every skip is written to the real standard error, with the number of skips in this test
//! program so far. The last line of a program contains the total.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use doorbell_ring::{Errno, Ring, Setup};

/// A feature that a machine may lack.
///
/// For each feature, an environment variable makes its absence a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// External programs, and the right to create namespaces and mounts.
    Clients,
    /// io_uring.
    IoUring,
    /// valgrind and its tools.
    Valgrind,
}

impl Need {
    /// The environment variable: `1` makes a skip a failure.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Clients => "DOORBELL_REQUIRE_CLIENTS",
            Self::IoUring => "DOORBELL_REQUIRE_URING",
            Self::Valgrind => "DOORBELL_REQUIRE_VALGRIND",
        }
    }

    /// Whether its absence is a failure.
    ///
    /// # Panics
    /// If the variable is neither `1`, `0` nor empty: a `true` treated as `0` would be a silent
    /// skip.
    #[must_use]
    #[track_caller]
    pub fn is_required(self) -> bool {
        let variable = self.variable();
        match std::env::var_os(variable) {
            None => false,
            Some(value) if value.is_empty() || value == "0" => false,
            Some(value) if value == "1" => true,
            Some(value) => panic!("{variable}={}: it must be 1 or 0", value.display()),
        }
    }
}

/// Environment variable that shows that io_uring is deliberately refused to this process tree. Its
/// value is the name of the errno. The `deny` example of `doorbell-ring` sets it.
pub const DENIED: &str = "DOORBELL_URING_DENIED";

/// Errors of a machine without io_uring: seccomp filters and security modules (EPERM, EACCES),
/// kernels without it (ENOSYS), limits of locked memory (ENOMEM). Any other error is a defect of
/// the set-up: EINVAL, for example, means that no ring opens even without optional flags.
const MEANS_ABSENT: [Errno; 4] = [Errno(1), Errno(12), Errno(13), Errno(38)];

/// Reports that `what` was not tested because `need` is missing.
///
/// # Panics
/// If `need` is required.
#[track_caller]
pub fn skipped(need: Need, what: impl Display) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    assert!(!need.is_required(), "{what}, and {}=1", need.variable());
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    // Not `eprintln!`, whose output the test runner captures when a test passes. A failed write is
    // ignored.
    let _unheard = writeln!(std::io::stderr(), "({count} skipped in this program) {test}: SKIPPED {what}");
}

/// Whether io_uring works here, tested once.
///
/// If not, the calling test is reported as skipped.
///
/// # Panics
/// If io_uring is absent and required, if a ring does not open although io_uring is available, or
/// if a ring opens although io_uring is deliberately refused.
#[must_use]
#[track_caller]
pub fn io_uring() -> bool {
    match absent() {
        None => true,
        Some(why) => {
            skipped(Need::IoUring, format_args!("io_uring: {why}"));
            false
        }
    }
}

/// Reason why io_uring is absent, for tests of its absence. Reports no skip, and does not fail if
/// io_uring is required.
///
/// # Panics
/// If a ring does not open although io_uring is available; if io_uring was deliberately refused and
/// a ring opens.
#[track_caller]
pub fn absent() -> Option<&'static str> {
    static OPENED: OnceLock<Result<Option<String>, String>> = OnceLock::new();
    let opened = OPENED.get_or_init(|| {
        let denied = std::env::var_os(DENIED).map(|value| value.to_string_lossy().into_owned());
        match (Ring::open(&Setup::default()), denied) {
            (Ok(_), None) => Ok(None),
            (Ok(_), Some(name)) => Err(format!("{DENIED}={name}, and a ring opens")),
            (Err(error), None) if MEANS_ABSENT.contains(&error.errno) => Ok(Some(error.to_string())),
            (Err(error), Some(name)) if error.errno.to_string() == name => Ok(Some(error.to_string())),
            (Err(error), denied) => Err(format!(
                "a ring does not open, for a reason other than the absence of io_uring ({DENIED}={}): {error}",
                denied.as_deref().unwrap_or_default()
            )),
        }
    });
    match opened {
        Ok(absent) => absent.as_deref(),
        Err(defect) => panic!("{defect}"),
    }
}
