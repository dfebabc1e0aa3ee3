//! The client side of a control socket.

use super::frame::{
    FrameError, HELLO_LEN, PREFIX_LEN, REQUEST_LEN_MAX, RESPONSE_LEN_MAX, check_hello, decode, frame,
    frame_len, hello,
};
use super::{Request, Response};
use doorbell_egress::connect_unix;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// Maximum time for a response. A command that writes the state file waits for the disk.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A connection to a running instance.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    timeout: Duration,
}

/// The process of an instance.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// Waits until the process has exited.
    ///
    /// # Errors
    /// The error of poll(2).
    pub fn wait(&self) -> io::Result<()> {
        retry_on_intr(|| poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None))?;
        Ok(())
    }
}

/// Reason why a call failed.
#[derive(Debug, Error)]
pub enum CallError {
    /// The connection failed or ended.
    #[error("{0}")]
    Io(io::Error),
    /// The instance did not reply in this time.
    #[error("no reply within {}s", .0.as_secs_f64())]
    NoReply(Duration),
    /// The peer sent an invalid frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
}

impl Client {
    /// Connects to the instance at a socket; 15 seconds limit connecting and each response.
    ///
    /// # Errors
    /// The connection failed, or the instance has another version.
    pub fn connect(path: &Path) -> Result<Self, CallError> {
        Self::connect_within(path, TIMEOUT)
    }

    /// Connects to an instance; `timeout` limits connecting and each response.
    ///
    /// # Errors
    /// The connection failed, or the instance has another version.
    pub fn connect_within(path: &Path, timeout: Duration) -> Result<Self, CallError> {
        let stream = connect_unix(path, timeout).map_err(CallError::Io)?;
        stream.set_read_timeout(Some(timeout)).map_err(CallError::Io)?;
        stream.set_write_timeout(Some(timeout)).map_err(CallError::Io)?;
        let mut client = Self { stream, timeout };
        client.send(&hello())?;
        let mut theirs = [0; HELLO_LEN];
        client.receive(&mut theirs)?;
        check_hello(theirs)?;
        Ok(client)
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The connection failed, ended or timed out, or the response is invalid.
    pub fn call(&mut self, request: &Request) -> Result<Response, CallError> {
        self.send(&frame(request, REQUEST_LEN_MAX)?)?;
        self.next_response()
    }

    /// Returns the process of the instance. A response to a later [`Self::call`] confirms that the
    /// process ID has not been reused. Fails if the process is not visible, because it runs in
    /// another PID namespace.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn process(&self) -> io::Result<Process> {
        // Tokio reads the credentials, because rustix cannot represent PID 0, which the kernel
        // reports for an invisible process.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let _entered = runtime.enter();
        self.stream.set_nonblocking(true)?;
        let stream = tokio::net::UnixStream::from_std(self.stream.try_clone()?);
        let credentials = stream.and_then(|stream| stream.peer_cred());
        self.stream.set_nonblocking(false)?;
        let pid = credentials?.pid().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Ok(Process(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Removes the timeout of responses.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn wait_forever(&self) -> Result<(), CallError> {
        self.stream.set_read_timeout(None).map_err(CallError::Io)
    }

    /// Waits for the next response to a request with several responses.
    ///
    /// # Errors
    /// As of [`Self::call`].
    pub fn next_response(&mut self) -> Result<Response, CallError> {
        let mut prefix = [0; PREFIX_LEN];
        self.receive(&mut prefix)?;
        let mut bytes = vec![0; frame_len(prefix, RESPONSE_LEN_MAX)?];
        self.receive(&mut bytes)?;
        Ok(decode(&bytes)?)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        self.stream.write_all(bytes).map_err(|error| self.failed(error))
    }

    fn receive(&mut self, bytes: &mut [u8]) -> Result<(), CallError> {
        self.stream.read_exact(bytes).map_err(|error| self.failed(error))
    }

    /// The kernel reports the end of a timeout of the socket as `WouldBlock`.
    fn failed(&self, error: io::Error) -> CallError {
        match error.kind() {
            io::ErrorKind::WouldBlock => CallError::NoReply(self.timeout),
            _ => CallError::Io(error),
        }
    }
}

impl CallError {
    /// Whether the error means that the peer closed the connection, for example because it exited.
    #[must_use]
    pub fn is_end(&self) -> bool {
        let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        matches!(self, Self::Io(error) if kinds.contains(&error.kind()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn an_instance_that_hangs_has_not_replied() {
        let path = std::env::temp_dir().join(format!("doorbell-control-{}.sock", std::process::id()));
        // The kernel completes connections to a listener that never accepts.
        let _listener = UnixListener::bind(&path).expect("a listener");
        let error = Client::connect_within(&path, Duration::from_millis(50)).expect_err("no reply");
        std::fs::remove_file(&path).expect("its file");
        assert_eq!(error.to_string(), "no reply within 0.05s");
    }
}
