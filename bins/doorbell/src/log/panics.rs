//! What is said of a panic: a line of the log like any other, because nobody may wait for whoever reads standard error.
//!
//! Does not know about: what became of the thread.

use super::{LINES, Throttle};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::time::Duration;

/// How long a panic waits for its line to be written: the end of the process may be next, as after a second one.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// Has panics told in the log from now on.
pub(super) fn tell() {
    panic::set_hook(Box::new(line));
}

fn line(panicked: &PanicHookInfo<'_>) {
    static WAITED: Throttle = Throttle::new();
    let thread = std::thread::current();
    let message = panicked.payload_as_str().unwrap_or("something that is no text");
    let place = panicked.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        thread = thread.name().unwrap_or("without a name"),
        place,
        backtrace,
        "a defect of doorbell, something panicked: {message}"
    );
    // However many panic, whoever hangs costs them a moment now and then.
    if let Some(lines) = LINES.get()
        && WAITED.turn().is_some()
    {
        let _late = lines.flush(FLUSH_TIMEOUT);
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "another process lives in real time, and ends at once"
)]
mod tests {
    use crate::config::model::Log;
    use rustix::pipe::fcntl_setpipe_size;
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    /// What the process of a test is told to do.
    const ROLE: &str = "DOORBELL_TEST_PANICS";

    /// Its exit code when it came to its end.
    const DONE: u8 = 7;

    const PANICS: usize = 200;

    /// In a process of its own, because there is one hook for all threads: panics, with whoever reads its output as its parent says.
    #[test]
    fn child_that_panics() {
        let Some(role) = std::env::var_os(ROLE) else { return };
        let _logging = super::super::init(&Log::default(), false).unwrap();
        if role == "unread" {
            // Until nothing fits in any more.
            rustix::io::ioctl_fionbio(std::io::stdout(), true).unwrap();
            while rustix::io::write(std::io::stdout(), b"\n").is_ok() {}
            rustix::io::ioctl_fionbio(std::io::stdout(), false).unwrap();
        }
        for _ in 0..PANICS {
            let panicking = thread::Builder::new().name("bell".into()).spawn(|| panic!("a clapper broke"));
            assert!(panicking.unwrap().join().is_err());
        }
        // Nothing of the harness, which would write to the full pipe, too.
        std::process::exit(i32::from(DONE));
    }

    fn child(role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "log::panics::tests::child_that_panics", "--nocapture"]);
        command.env(ROLE, role).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        command
    }

    #[test]
    fn a_panic_is_a_line_of_the_log() {
        let output = child("read").output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(DONE.into()), "{out}{err}");
        let told: Vec<&str> = out.lines().filter(|line| line.contains("a clapper broke")).collect();
        assert!(!err.contains("clapper"), "{err}");
        assert!(!told.is_empty() && told.len() <= PANICS, "{out}");
        let line: serde_json::Value = serde_json::from_str(told[0]).unwrap();
        assert_eq!((&line["level"], &line["thread"]), (&"ERROR".into(), &"bell".into()));
        assert!(line["place"].as_str().unwrap().contains("panics.rs:"), "{line}");
    }

    #[test]
    fn a_panic_waits_for_nobody_who_reads() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let _at_least_a_page = fcntl_setpipe_size(&writer, 1).unwrap();
        let mut child = child("unread");
        child.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut running = child.spawn().unwrap();
        drop(child);
        let began = Instant::now();
        let status = loop {
            match running.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if began.elapsed() > Duration::from_secs(20) => break None,
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        let _gone = running.kill();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(
            status.and_then(|status| status.code()),
            Some(DONE.into()),
            "{}",
            String::from_utf8_lossy(&read)
        );
    }
}
