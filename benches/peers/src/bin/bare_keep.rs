//! The floor for a request on a kept connection: wait, receive and send. Only the ends of requests
//! are searched for.
//!
//! Every request gets the same bytes.
#![forbid(unsafe_code)]

#[path = "../address.rs"]
mod address;
#[path = "../floor.rs"]
mod floor;

use std::error::Error;
use std::os::fd::{AsRawFd, OwnedFd};

use memchr::memmem::Finder;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n";
const END: &[u8] = b"\r\n\r\n";
/// Maximum replies in one send; no receive contains more requests than this.
const REPLIES_MAX: usize = 4096 / END.len();
const LISTENER: u64 = u64::MAX;

fn main() -> Result<(), Box<dyn Error>> {
    let listener = floor::listen(address::address()?)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut conns = Conns { open: Vec::new(), buffer: vec![0; 4096] };
    let mut events = Vec::with_capacity(512);
    let replies = REPLY.repeat(REPLIES_MAX);
    let end = Finder::new(END);
    loop {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => conns.accept(&poll, &listener)?,
                key => conns.answer(usize::try_from(key)?, &replies, &end),
            }
        }
    }
}

/// Open connections, indexed by descriptor.
struct Conns {
    open: Vec<Option<OwnedFd>>,
    buffer: Vec<u8>,
}

impl Conns {
    fn accept(&mut self, poll: &OwnedFd, listener: &OwnedFd) -> Result<(), Box<dyn Error>> {
        let conn = match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(conn) => conn,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let key = usize::try_from(conn.as_raw_fd())?;
        epoll::add(poll, &conn, epoll::EventData::new_u64(key as u64), epoll::EventFlags::IN)?;
        if self.open.len() <= key {
            self.open.resize_with(key + 1, || None);
        }
        self.open[key] = Some(conn);
        Ok(())
    }

    /// Replies to the received requests. Requests must be complete, as those of the load generator
    /// are on loopback.
    fn answer(&mut self, key: usize, replies: &[u8], end: &Finder<'_>) {
        let Some(conn) = &self.open[key] else { return };
        let count = match recv(conn, &mut self.buffer[..], RecvFlags::empty()) {
            Ok((_, count)) if count > 0 => end.find_iter(&self.buffer[..count]).count(),
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(_) | Err(_) => {
                self.open[key] = None;
                return;
            }
        };
        let reply = &replies[..count * REPLY.len()];
        if send(conn, reply, SendFlags::NOSIGNAL) != Ok(reply.len()) {
            self.open[key] = None;
        }
    }
}
