//! Buffer sizes of a socket.

use std::io;
use std::os::fd::AsFd as _;

use doorbell_ring::sockopt::{BufLocks, buf_locks, set_buf_locks};
use socket2::{SockRef, Socket};

/// Sizes in bytes of the buffers of a socket. With `None` the kernel chooses the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufLens {
    /// `SO_RCVBUF`.
    pub(crate) recv: Option<usize>,
    /// `SO_SNDBUF`.
    pub(crate) send: Option<usize>,
}

impl BufLens {
    /// Sets the sizes. With `None`, a size that a predecessor has fixed is left to the kernel
    /// again; before Linux 5.14 it stays fixed.
    pub(crate) fn apply(self, socket: &SockRef<'_>) -> io::Result<()> {
        let fixed = buf_locks(socket.as_fd()).unwrap_or_default();
        let keeps =
            BufLocks { recv: fixed.recv && self.recv.is_some(), send: fixed.send && self.send.is_some() };
        if keeps != fixed {
            let plain = Socket::new(socket.domain()?, socket.r#type()?, socket.protocol()?)?;
            // The kernel doubles a size that is set (socket(7)).
            if keeps.recv != fixed.recv {
                socket.set_recv_buffer_size(plain.recv_buffer_size()? / 2)?;
            }
            if keeps.send != fixed.send {
                socket.set_send_buffer_size(plain.send_buffer_size()? / 2)?;
            }
            set_buf_locks(socket.as_fd(), keeps)?;
        }
        if let Some(bytes) = self.recv {
            socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.send {
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    #[test]
    fn a_size_that_was_fixed_is_the_kernels_again() {
        for kind in [Type::STREAM, Type::DGRAM] {
            let open = || Socket::new(Domain::IPV4, kind, None).unwrap();
            let lens =
                |socket: &Socket| (socket.recv_buffer_size().unwrap(), socket.send_buffer_size().unwrap());
            let (plain, socket) = (lens(&open()), open());
            let set = |recv, send| {
                BufLens { recv, send }.apply(&SockRef::from(&socket)).unwrap();
                (lens(&socket), buf_locks(socket.as_fd()))
            };
            let (sizes, Ok(locks)) = set(Some(20_000), Some(30_000)) else { return };
            assert_eq!((sizes, locks), ((40_000, 60_000), BufLocks { recv: true, send: true }));
            let locks = BufLocks { recv: false, send: true };
            assert_eq!(set(None, Some(10_000)), ((plain.0, 20_000), Ok(locks)), "{kind:?}");
            assert_eq!(set(None, None), (plain, Ok(BufLocks::default())), "{kind:?}");
        }
    }
}
