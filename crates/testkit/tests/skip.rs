//! A skipped test is reported on the real standard error and counted. It fails if the feature is
//! present or required.
//!
//! For each case, this program runs itself again with other variables and a seccomp filter.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::process::{Command, Output};
use std::thread;

use doorbell_ring::Errno;
use doorbell_ring::sandbox::{Denial, deny};
use doorbell_testkit::skip::{self, DENIED, Need};

const EPERM: Errno = Errno(1);
const ENOMEM: Errno = Errno(12);
const EACCES: Errno = Errno(13);
const EINVAL: Errno = Errno(22);
const ENOSYS: Errno = Errno(38);
const EOPNOTSUPP: Errno = Errno(95);

const REQUIRED: (&str, &str) = ("DOORBELL_REQUIRE_URING", "1");

/// Runs the two ignored tests below, with io_uring refused by this errno, and with these variables.
fn run(denied: Option<Errno>, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--test-threads=2", "needs_io_uring"]);
    command.env_remove(REQUIRED.0).env_remove(DENIED).envs(variables.iter().copied());
    // The filter applies to a thread and the processes that it starts.
    let started = thread::spawn(move || {
        if let Some(errno) = denied {
            deny(&Denial::at_setup(errno)).unwrap();
        }
        command.output().unwrap()
    });
    started.join().unwrap()
}

#[test]
#[ignore = "run by the other tests"]
fn needs_io_uring() {
    let _works = skip::io_uring();
}

#[test]
#[ignore = "run by the other tests"]
fn needs_io_uring_too() {
    let _works = skip::io_uring();
}

/// The skips that the test program reported, sorted. Asserts that its tests passed.
#[track_caller]
fn skips(output: &Output) -> Vec<String> {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}{}", String::from_utf8_lossy(&output.stdout));
    let mut lines: Vec<_> = err.lines().filter(|line| line.contains("SKIPPED ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[track_caller]
fn assert_fails(output: &Output, why: &str) {
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && out.contains("0 passed; 2 failed") && out.contains(why), "{out}");
}

#[test]
fn absence_is_said_of_each_test_and_counted() {
    for errno in [EPERM, ENOMEM, EACCES, ENOSYS] {
        let said = skips(&run(Some(errno), &[]));
        assert_eq!(said.len(), 2, "{said:?}");
        for (line, count) in said.iter().zip(["(1 skipped", "(2 skipped"]) {
            assert!(line.starts_with(count), "{line}");
            assert!(line.contains(") needs_io_uring") && line.contains(": SKIPPED io_uring: "), "{line}");
            assert!(line.contains(&format!("returned {errno};")), "{line}");
        }
    }
}

#[test]
fn absence_fails_where_it_is_required() {
    assert_fails(&run(Some(EPERM), &[REQUIRED]), "and DOORBELL_REQUIRE_URING=1");
}

#[test]
fn another_errno_is_a_defect_unless_it_was_announced() {
    for errno in [EINVAL, EOPNOTSUPP] {
        assert_fails(&run(Some(errno), &[]), &format!("returned {errno};"));
        assert_eq!(skips(&run(Some(errno), &[(DENIED, &errno.to_string())])).len(), 2);
    }
    assert_fails(&run(Some(EINVAL), &[(DENIED, "EPERM")]), "returned EINVAL;");
}

#[test]
fn a_denial_that_was_announced_and_does_not_work_fails() {
    if skip::io_uring() {
        assert_fails(&run(None, &[(DENIED, "EPERM")]), "and a ring opens");
        assert_eq!(skips(&run(None, &[REQUIRED])), [""; 0]);
    }
}

#[test]
fn a_variable_that_means_nothing_fails() {
    for wrong in ["true", "yes", "2", " 1"] {
        let output = run(Some(EPERM), &[(REQUIRED.0, wrong)]);
        assert_fails(&output, &format!("DOORBELL_REQUIRE_URING={wrong}: it must be 1 or 0"));
    }
    for off in ["", "0"] {
        assert_eq!(skips(&run(Some(EPERM), &[(REQUIRED.0, off)])).len(), 2);
    }
}

#[test]
fn every_need_has_a_variable_of_its_own() {
    let all = [Need::Clients, Need::IoUring, Need::Valgrind].map(Need::variable);
    assert!(all.iter().all(|name| name.starts_with("DOORBELL_REQUIRE_")), "{all:?}");
    assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
}
