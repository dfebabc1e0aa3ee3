//! Logs panics through the queue, because a write to standard error could block.

use super::{LINES, Throttle};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::time::Duration;

/// Maximum time to wait for the line to be written: the process may end immediately afterwards, for
/// example after a double panic.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// Installs the panic hook.
pub(super) fn install() {
    panic::set_hook(Box::new(line));
}

fn line(panicked: &PanicHookInfo<'_>) {
    static WAITED: Throttle = Throttle::new();
    let thread = std::thread::current();
    let message = panicked.payload_as_str().unwrap_or("(no message)");
    let place = panicked.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        thread = thread.name().unwrap_or("unnamed"),
        place,
        backtrace,
        "panic: {message}; this is a bug in doorbell"
    );
    // Throttled, so that a hung reader does not delay each of many panics.
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
    reason = "the child process runs in real time and exits immediately"
)]
mod tests {
    use doorbell_proxy_config::model::Log;
    use rustix::pipe::fcntl_setpipe_size;
    use std::io::Read as _;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Environment variable with the role of the child process of a test.
    const ROLE: &str = "DOORBELL_TEST_PANICS";

    /// Exit code of a child process that finished.
    const DONE: u8 = 7;

    const PANICS: usize = 200;

    /// A panic does not block on a full pipe. It happens in a child process, because the panic hook
    /// is global.
    #[test]
    fn child_that_panics() {
        let Some(role) = std::env::var_os(ROLE) else { return };
        let _logging = super::super::init(&Log::default(), false).unwrap();
        if role == "unread" {
            // Fills the pipe.
            rustix::io::ioctl_fionbio(std::io::stdout(), true).unwrap();
            while rustix::io::write(std::io::stdout(), b"\n").is_ok() {}
            rustix::io::ioctl_fionbio(std::io::stdout(), false).unwrap();
        }
        for _ in 0..PANICS {
            let panicking = thread::Builder::new().name("bell".into()).spawn(|| panic!("a clapper broke"));
            assert!(panicking.unwrap().join().is_err());
        }
        // The test harness would block on the full pipe.
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
        let lines: Vec<&str> = out.lines().filter(|line| line.contains("a clapper broke")).collect();
        assert!(!err.contains("clapper"), "{err}");
        assert!(!lines.is_empty() && lines.len() <= PANICS, "{out}");
        let line: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!((&line["level"], &line["thread"]), (&"ERROR".into(), &"bell".into()));
        assert!(line["place"].as_str().unwrap().contains("panics.rs:"), "{line}");
    }

    #[test]
    fn a_panic_does_not_wait_for_a_hung_reader() {
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
