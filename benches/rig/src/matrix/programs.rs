//! The test programs that are run in every kernel.
//!
//! Does not know about: guests.

use std::path::PathBuf;

use super::answer::Setting;
use crate::error::RigError;
use crate::image::programs;

/// Package, test target, and whether it says anything where io_uring is refused.
const TESTS: [(&str, &str, bool); 3] = [
    ("doorbell", "conformance", true),
    ("doorbell-ring", "operations", false),
    ("doorbell-ring", "selftest", true),
];

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Built {
    /// The test target.
    pub(super) name: &'static str,
    /// The program on this machine.
    pub(super) file: PathBuf,
    without_uring: bool,
}

impl Built {
    /// Its path in the guest.
    pub(super) fn inside(&self) -> String {
        format!("/rig/test-{}", self.name)
    }

    /// Whether it is worth running there.
    pub(super) fn runs_in(&self, setting: Setting) -> bool {
        setting == Setting::Plain || self.without_uring
    }
}

/// With debug assertions: a broken invariant is found where it breaks.
pub(super) fn build() -> Result<Vec<Built>, RigError> {
    TESTS
        .iter()
        .map(|&(package, name, without_uring)| {
            Ok(Built { name, file: programs::test(package, name)?, without_uring })
        })
        .collect()
}
