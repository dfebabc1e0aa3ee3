//! Reaps orphaned processes, so that zombies do not fill the process table. As process 1 of a
//! container, this process is the parent of all orphans.
//!
//! Children of checks are excluded: each check waits for its own program.

use doorbell_checks::CHILDREN;
use rustix::process::{Pid, WaitOptions, waitpid};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;
use std::io;
use std::time::Duration;

/// Delay after a SIGCHLD, so that several zombies are reaped together.
const PAUSE: Duration = Duration::from_millis(100);

/// If this is process 1, starts the reaping thread, which runs until the process ends.
pub(crate) fn start() -> io::Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    let mut signals = Signals::new([SIGCHLD])?;
    let reap = move || signals.forever().for_each(|_child| reap_all());
    std::thread::Builder::new().name("reaper".into()).spawn(reap).map(drop)
}

#[expect(clippy::disallowed_methods, reason = "runs on its own thread")]
fn reap_all() {
    loop {
        std::thread::sleep(PAUSE);
        // While zombies are reaped, no check may start a program: its process could not be
        // distinguished from an orphan.
        let taken = CHILDREN.with_children(|is_own| {
            for pid in zombies().filter(|pid| !is_own(*pid)) {
                // The exit status of an orphan is not used.
                let _status = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        });
        if taken.is_some() {
            return;
        }
    }
}

/// The zombie children of this process (proc_pid_stat(5)).
fn zombies() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        is_zombie_of(&stat, std::process::id())
    })
    .filter_map(Pid::from_raw)
}

/// Whether `PID (NAME) STATE PARENT ...` describes a zombie child of process `parent`. NAME may
/// contain any character, including parentheses.
fn is_zombie_of(stat: &[u8], parent: u32) -> bool {
    let Some(end) = memchr::memrchr(b')', stat) else { return false };
    let rest = String::from_utf8_lossy(stat.get(end + 1..).unwrap_or_default()).into_owned();
    let mut words = rest.split_ascii_whitespace();
    words.next() == Some("Z") && words.next().and_then(|word| word.parse().ok()) == Some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zombie_children_are_reaped() {
        for (stat, expected) in [
            ("7 (sh) Z 1 7 7 0", true),
            ("7 (sh) S 1 7 7 0", false),
            ("7 (sh) Z 12 7 7 0", false),
            ("7 (a) Z 1 (b) Z 1 7", true),
            ("7 (a) Z 1) S 1 7", false),
            ("", false),
            ("7 (sh)", false),
        ] {
            assert_eq!(is_zombie_of(stat.as_bytes(), 1), expected, "{stat}");
        }
    }
}
