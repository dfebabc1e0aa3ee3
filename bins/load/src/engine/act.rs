//! Executes the next action of a connection: connect, send, receive, cancel, close, or new work.
//!
//! Does not know about: due times; how actions are chosen (`conn`).

use std::os::fd::AsFd;

use bytes::Bytes;
use doorbell_ring::{Op, SendBuf, Target, Token};

use super::turn::Turn;
use crate::conn::{After, Next};

impl Turn<'_> {
    /// Executes an action of a connection, and the actions that follow.
    pub(super) fn act(&mut self, index: u32, mut next: Next) {
        loop {
            next = match next {
                Next::SendRequests => return self.send_requests(index),
                Next::Cancel => return self.cancel(index),
                Next::Close(after) => {
                    self.close(index);
                    match after {
                        After::Again => self.connect(index),
                        After::BackOff => return self.backed_off.push(self.now, index),
                        After::Done => match self.pace.take(self.now, self.pipeline) {
                            Some(batch) => {
                                self.slots[index as usize].conn.begin(self.now, batch, &self.job);
                                self.connect(index)
                            }
                            None => return self.free.push(index),
                        },
                    }
                }
                Next::Idle => match self.pace.take(self.now, self.pipeline) {
                    Some(batch) => {
                        self.slots[index as usize].conn.begin(self.now, batch, &self.job);
                        Next::SendRequests
                    }
                    None => return self.idle.push_back(index),
                },
                Next::Pause => return self.paused.push(self.now, index),
                Next::Recv => return self.recv(index, false),
                // `Turn::apply`, which owns the buffer, handles `SendRest`.
                Next::SendRest | Next::Wait => return,
            }
        }
    }

    pub(super) fn connect(&mut self, index: u32) -> Next {
        let slot = &mut self.slots[index as usize];
        match self.dialer.dial() {
            Ok(fd) => slot.fd = Some(fd),
            Err(errno) => return slot.conn.handle_no_connect(self.now, errno, &mut self.stats),
        }
        let next = slot.conn.handle_connecting(self.now, &self.job);
        if next == Next::Wait {
            // An empty send completes together with the handshake.
            slot.conn.note_send();
            self.send(index, Bytes::new().into());
        }
        next
    }

    fn close(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = (slot.generation + 1) & Token::GENERATION_MAX;
        if let Some(fd) = slot.fd.take() {
            self.dialer.close(fd);
        }
    }

    fn send_requests(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.conn.note_send();
        let buf = self.requests.fill(&slot.conn, slot.buf.take(), &self.job);
        self.send(index, buf);
        self.recv(index, true);
    }

    pub(super) fn send(&mut self, index: u32, buf: SendBuf) {
        let slot = &self.slots[index as usize];
        let Some(fd) = &slot.fd else { return };
        self.ring.send(Token::new(index, slot.generation), Target::Fd(fd.as_fd()), buf, false);
    }

    fn recv(&mut self, index: u32, poll_first: bool) {
        let slot = &mut self.slots[index as usize];
        let Some(fd) = &slot.fd else { return };
        slot.conn.note_recv();
        self.ring.recv(Token::new(index, slot.generation), Target::Fd(fd.as_fd()), poll_first);
    }

    #[cold]
    fn cancel(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let token = Token::new(index, slot.generation);
        let (send, recv) = slot.conn.in_flight();
        for (op, in_flight) in [(Op::Send, send), (Op::Recv, recv)] {
            if in_flight {
                self.ring.cancel(op, token);
            }
        }
    }
}
