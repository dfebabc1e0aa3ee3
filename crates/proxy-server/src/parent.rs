//! The connection between `doorbell run` and the server that it starts: the server reports that its
//! listeners close or that a stop was cancelled, and `run` reports the exit of the command, CMD in
//! `doorbell run -- CMD`.
//!
//! The server's end is its standard input, which is otherwise unused.

use rustix::net::{SendFlags, send};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Environment variable in which `doorbell run` passes its process ID to the server.
pub const PARENT: &str = "DOORBELL_RUN_PARENT";

/// A report of the server to `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerReport {
    /// Listeners are closing; the stop can no longer be cancelled.
    Closing,
    /// A stop was cancelled.
    StopCancelled,
}

/// A report of `run` to the server: the command has exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// How the command ended.
    pub status: ExitStatus,
    /// Whether the server continues without the command.
    pub stays: bool,
}

impl ServerReport {
    const fn byte(self) -> u8 {
        match self {
            Self::Closing => b'c',
            Self::StopCancelled => b'g',
        }
    }

    /// Reads a report from its byte on the pipe.
    #[must_use]
    pub fn of(byte: u8) -> Option<Self> {
        [Self::Closing, Self::StopCancelled].into_iter().find(|report| report.byte() == byte)
    }
}

impl CommandEnd {
    const LEN: usize = 5;

    fn bytes(self) -> [u8; Self::LEN] {
        let [a, b, c, d] = self.status.into_raw().to_ne_bytes();
        [u8::from(self.stays), a, b, c, d]
    }

    fn of([stays, status @ ..]: [u8; Self::LEN]) -> Self {
        Self { status: ExitStatus::from_raw(i32::from_ne_bytes(status)), stays: stays != 0 }
    }

    /// Sends the report to the server at the other end of `socket`.
    pub fn report(self, socket: impl AsFd) -> io::Result<()> {
        send_now(socket, &self.bytes())
    }
}

/// Exit code as in a shell: 128 plus the number of the signal, if a signal ended the process.
pub fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// If `doorbell run` started this process, makes the kernel send SIGTERM to it when `doorbell run`
/// exits for any reason.
pub fn exit_with_parent() {
    if std::env::var_os(PARENT).is_none() {
        return;
    }
    if set_parent_process_death_signal(Some(Signal::TERM)).is_err() || !is_child() {
        tracing::warn!(
            "cannot set the parent death signal: this process will keep running after its parent has exited"
        );
    }
}

/// If `doorbell run` started this server, starts a thread that calls `report` when the command has
/// exited.
pub(crate) fn on_command_end(report: impl FnOnce(CommandEnd) + Send + 'static) -> io::Result<()> {
    let Some(mut stream) = socket().map(UnixStream::from) else { return Ok(()) };
    let wait = move || {
        let mut bytes = [0; CommandEnd::LEN];
        // If the parent has exited, the parent death signal ends this process.
        if stream.read_exact(&mut bytes).is_ok() {
            report(CommandEnd::of(bytes));
        }
    };
    std::thread::Builder::new().name("command".into()).spawn(wait).map(drop)
}

/// Reports to `doorbell run`, if it is the parent.
pub(crate) fn send_report(report: ServerReport) {
    if let Some(socket) = socket()
        && let Err(error) = send_now(socket, &[report.byte()])
    {
        tracing::warn!(%error, "cannot report to doorbell run: the command will be stopped later");
    }
}

/// The socket to `doorbell run`, if it is the parent.
fn socket() -> Option<OwnedFd> {
    is_child().then(|| io::stdin().as_fd().try_clone_to_owned().ok())?
}

/// Whether the parent is the `doorbell run` that started this process.
fn is_child() -> bool {
    let parent = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    parent.is_some() && std::env::var(PARENT).ok() == parent
}

/// Sends without blocking, even if the peer does not read.
fn send_now(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)? {
        len if len == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_arrives_as_it_was() {
        // Raw wait statuses: exit 0, exit 7, killed by signal 9.
        for (raw, code) in [(0, 0), (7 << 8, 7), (9, 137)] {
            for stays in [true, false] {
                let end = CommandEnd { status: ExitStatus::from_raw(raw), stays };
                let (ours, mut theirs) = UnixStream::pair().unwrap();
                end.report(&ours).unwrap();
                let mut bytes = [0; CommandEnd::LEN];
                theirs.read_exact(&mut bytes).unwrap();
                assert_eq!((CommandEnd::of(bytes), code_of(end.status)), (end, code));
            }
        }
    }

    #[test]
    fn a_parent_that_does_not_read_holds_nothing_up() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let end = CommandEnd { status: ExitStatus::from_raw(0), stays: false };
        let refused = (0..1_000_000).find_map(|_| end.report(&ours).err());
        assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    }
}
