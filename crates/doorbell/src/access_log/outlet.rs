//! Targets of a log: a file, a standard stream or any other writer.

use core::fmt;
use core::time::Duration;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Maximum number of retries when a target is not ready, one second in total; then the batch is
/// lost.
const RETRIES_MAX: u32 = 100;
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Target of an access log.
#[non_exhaustive]
pub enum LogTarget {
    /// A file, opened for appending. A missing file is created, readable by its owner and group.
    File(PathBuf),
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
    /// Any other writer. It receives whole lines. It may block, which delays only the log's own
    /// thread.
    Writer(Box<dyn Write + Send>),
}

/// An open target.
pub(super) struct Outlet {
    /// Path for reopening.
    path: Option<PathBuf>,
    stream: Box<dyn Write + Send>,
    /// The last write ended in the middle of a line.
    torn: bool,
}

impl Outlet {
    pub(super) fn open(target: LogTarget) -> io::Result<Self> {
        let (path, stream): (_, Box<dyn Write + Send>) = match target {
            LogTarget::File(path) => {
                let file = append_to(&path)?;
                (Some(path), Box::new(file))
            }
            // Bypasses the locks and line buffers of the standard library, which other threads may
            // hold.
            LogTarget::Stderr => (None, Box::new(File::from(io::stderr().as_fd().try_clone_to_owned()?))),
            LogTarget::Stdout => (None, Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?))),
            LogTarget::Writer(writer) => (None, writer),
        };
        Ok(Self { path, stream, torn: false })
    }

    /// Reopens the file by its name. Returns false if the target is not a file. After an error the
    /// old file stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<bool> {
        let Some(path) = &self.path else { return Ok(false) };
        self.stream = Box::new(append_to(path)?);
        self.torn = false;
        Ok(true)
    }

    /// Writes whole lines. A failure returns the number of bytes written before it, and the error.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        if self.torn {
            self.write_bytes(b"\n").map_err(|(_, error)| (0, error))?;
            self.torn = false;
        }
        let done =
            self.write_bytes(lines).and_then(|()| self.stream.flush().map_err(|error| (lines.len(), error)));
        if let Err((taken, _)) = &done
            && *taken > 0
        {
            self.torn = lines.get(*taken - 1) != Some(&b'\n');
        }
        done
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let (mut taken, mut retries) = (0, 0);
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err((taken, ErrorKind::WriteZero.into())),
                Ok(len) => (taken, retries) = (taken + len, 0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The standard stream is non-blocking, because another process that shares it has
                // changed its mode.
                Err(error) if error.kind() == ErrorKind::WouldBlock && retries < RETRIES_MAX => {
                    retries += 1;
                    pause();
                }
                Err(error) => return Err((taken, error)),
            }
        }
        Ok(())
    }
}

/// Opens a file without waiting: a FIFO without a reader is an error (ENXIO). Writes wait for a slow
/// reader, which delays only the log's own thread.
fn append_to(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o640).custom_flags(flags).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

#[expect(clippy::disallowed_methods, reason = "on the log's own thread, not on a ring thread")]
fn pause() {
    std::thread::sleep(RETRY_PAUSE);
}

impl fmt::Debug for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Stderr => f.write_str("Stderr"),
            Self::Stdout => f.write_str("Stdout"),
            Self::Writer(_) => f.write_str("Writer"),
        }
    }
}
