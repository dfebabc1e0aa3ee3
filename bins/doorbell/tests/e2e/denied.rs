//! io_uring denied by seccomp, as in container runtimes: doorbell uses epoll immediately, with one
//! warning that names the cause.
//!
//! Does not know about: how the filter is installed; the `deny` example of `doorbell-ring` does
//! that.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Load, Mode, Reply, exchange};

use crate::support::{Doorbell, LIMIT, at_most, binary, skipped};

/// Path of the example in the workspace build. If only this package was built, prints a message and
/// returns `None`.
fn deny() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_doorbell"));
    let example = folder.parent().unwrap().join("examples/deny");
    if !example.is_file() {
        skipped("the deny example of doorbell-ring is not built; run the tests of the whole workspace");
        return None;
    }
    Some(example)
}

const SERVES_WITHIN: Duration = Duration::from_millis(50);

/// Starts the binary with io_uring denied, and returns the time until its first reply.
fn first_reply(deny: &Path, errno: &str) -> (Duration, Doorbell) {
    let mut command = Command::new(deny);
    command.args([errno, "--"]).arg(binary()).args(["serve", "--listen", "127.0.0.1:0"]);
    let start = Instant::now();
    let doorbell = Doorbell::try_start_command(&mut command).unwrap_or_else(|log| panic!("{errno}: {log}"));
    let got = exchange(doorbell.addr, b"GET /livez HTTP/1.0\r\n\r\n").unwrap();
    let took = start.elapsed();
    assert_eq!(Reply::parse(&got.bytes, false).map(|reply| reply.status), Some(200), "{errno}: {got:?}");
    (took, doorbell)
}

#[test]
fn epoll_serves_with_one_warning() {
    let Some(deny) = deny() else { return };
    for errno in ["EPERM", "ENOSYS", "ENOMEM", "EINVAL"] {
        let (took, doorbell) = first_reply(&deny, errno);
        at_most(format_args!("{errno}: start to first reply"), took, SERVES_WITHIN);
        let load = Load {
            server: doorbell.addr,
            sources: Vec::new(),
            requests: 500,
            in_flight: 16,
            mode: Mode::Close,
            first_id: 0,
            patience: LIMIT,
        };
        let report = load.run().unwrap();
        assert_eq!((report.replies, report.resets, report.refused), (500, 0, 0), "{errno}");
        let log = doorbell.process.log();
        assert_eq!(log.matches("WARN").count(), 1, "{errno}: {log}");
        assert!(log.contains("epoll") && log.contains("io_uring"), "{errno}: {log}");
    }
}

#[test]
fn a_forced_driver_is_not_replaced() {
    let Some(deny) = deny() else { return };
    let mut command = Command::new(&deny);
    command.args(["EPERM", "--"]).arg(binary()).args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--driver",
        "io_uring",
    ]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{stderr}");
    assert!(stderr.contains("io_uring"), "{stderr}");
}
