//! Sockets and paths that cannot serve a listener as it is configured.

use std::io;

use super::{Balance, Listen, ListenError};
use socket2::{Domain, Socket, Type};

/// A socket or path of a listener cannot be used. This is not an error of the operating system.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(pub(super) &'static str);

impl Unusable {
    /// The workers share one socket, so the kernel has nothing to choose. The socket may be that of
    /// a predecessor whose workers passed connections to each other.
    pub(crate) fn balanced() -> io::Error {
        io::Error::other(Self(
            "the workers share this socket, so the kernel cannot choose one: use the balance round-robin, \
             least-connections or kernel, or restart with a TCP address",
        ))
    }

    /// A passed socket does not receive datagrams.
    pub(crate) fn not_udp() -> io::Error {
        io::Error::other(Self("the socket is not a UDP socket: pass a bound UDP socket"))
    }

    pub(crate) fn is_cause_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

impl Listen {
    /// Checks the settings against each other.
    pub(crate) fn check(&self) -> Result<(), ListenError> {
        // The kernel would choose among the sockets of one of the two servers only.
        if self.overlap && matches!(self.balance, Balance::Cpu | Balance::SourceHash) {
            let why = Unusable(
                "a listener that overlaps another server cannot have `Balance::Cpu` or \
                 `Balance::SourceHash`",
            );
            return Err(self.failed("balance", io::Error::other(why)));
        }
        Ok(())
    }
}

/// Checks that a passed socket listens. Without this check the only symptom would be waiting
/// clients.
pub(super) fn check_listens(socket: &Socket) -> io::Result<()> {
    let domain = socket.domain()?;
    let why = match () {
        () if ![Domain::IPV4, Domain::IPV6, Domain::UNIX].contains(&domain) => {
            "the socket is neither TCP nor Unix: pass a listening TCP or Unix socket"
        }
        () if socket.r#type()? != Type::STREAM => {
            "the socket is not a stream socket: pass a listening TCP or Unix socket"
        }
        () if !socket.is_listener()? => "the socket does not listen: pass it after listen(2)",
        () => return Ok(()),
    };
    Err(io::Error::other(Unusable(why)))
}
