//! The operator's end of a control socket.
//!
//! Does not know about: which socket, how answers are shown.

use crate::wire::frame::{
    FrameError, HELLO_LEN, PREFIX_LEN, REQUEST_LEN_MAX, RESPONSE_LEN_MAX, check_hello, decode, frame,
    frame_len, hello,
};
use crate::wire::{Request, Response};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// How long a doorbell may take for an answer. A command that writes waits for a disk.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A connection to a running doorbell.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    /// The other side ended, or never was there.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side cannot be understood.
    #[error("{0}")]
    Frame(#[from] FrameError),
}

impl Client {
    pub(crate) fn connect(path: &Path) -> Result<Self, CallError> {
        Self::connect_within(path, TIMEOUT)
    }

    /// With another time for each answer.
    pub(crate) fn connect_within(path: &Path, timeout: Duration) -> Result<Self, CallError> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.write_all(&hello())?;
        let mut theirs = [0; HELLO_LEN];
        stream.read_exact(&mut theirs)?;
        check_hello(theirs)?;
        Ok(Self { stream })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn call(&mut self, request: &Request) -> Result<Response, CallError> {
        self.stream.write_all(&frame(request, REQUEST_LEN_MAX)?)?;
        self.next()
    }

    /// From now on answers may come as late as they like.
    pub(crate) fn wait_forever(&self) -> Result<(), CallError> {
        Ok(self.stream.set_read_timeout(None)?)
    }

    /// The next answer of a request that has several.
    pub(crate) fn next(&mut self) -> Result<Response, CallError> {
        let mut prefix = [0; PREFIX_LEN];
        self.stream.read_exact(&mut prefix)?;
        let mut bytes = vec![0; frame_len(prefix, RESPONSE_LEN_MAX)?];
        self.stream.read_exact(&mut bytes)?;
        Ok(decode(&bytes)?)
    }
}

impl CallError {
    /// Whether the other side ended the connection, as a doorbell does that ends.
    pub(crate) fn is_end(&self) -> bool {
        let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        matches!(self, Self::Io(error) if kinds.contains(&error.kind()))
    }
}
