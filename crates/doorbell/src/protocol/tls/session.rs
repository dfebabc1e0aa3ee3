//! The TLS session of a connection: decrypts input, calls the inner protocol, encrypts its output.
//!
//! Input stays in the connection's buffer while the TLS library may read it again, after an
//! incomplete record or a part of a handshake message; such input is *seen*. Input after a request
//! whose reply must be sent first is not decrypted yet; such input is *held*.

use core::fmt;

use doorbell_http::Next;
use rustls::Error;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, ReadTraffic, UnbufferedStatus, WriteTraffic,
};

use super::super::{Io, Protocol};
use super::hello::HEADER_LEN;
use super::upper::{CallContext, Upper, write_close_notify};
use super::{Tls, TlsState};
use crate::tls::{Outcome, info_of, take_asked_name};

/// Maximum handshake bytes of a client after its first message, mainly its certificate chain.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// A TLS session. The [module](self) documents it.
pub(super) struct Session {
    rustls: UnbufferedServerConnection,
    /// The requested host name, until it moves into the result of the handshake.
    server_name: Option<String>,
    /// Number of bytes of input that the library has read and needs again.
    seen_len: usize,
    /// True while input is *held* (see the module).
    pub(super) holds: bool,
    /// True during a call into the library, and after a panic in such a call, when the state of the
    /// library is unknown.
    pub(super) is_busy: bool,
    /// The peer has closed its direction.
    pub(super) peer_closed: bool,
    /// True once the server's first message is written.
    answered: bool,
    /// Number of bytes received before the end of the handshake.
    received: usize,
}

/// The reason why a session fails.
#[derive(Debug)]
pub(super) enum Failure {
    /// The keys have reached the limit of data that they may encrypt.
    Exhausted,
    /// The session was resumed, but its client certificate is no longer accepted.
    Expired,
    /// An error that the TLS library reports about the peer's messages or offers.
    Rustls(Error),
    /// The handshake exceeds its limit of bytes.
    TooLong,
}

impl Failure {
    /// The outcome to count if the failure ends a handshake.
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Expired => Outcome::ClientRefused,
            Self::Rustls(error) => Outcome::of(error),
            Self::Exhausted | Self::TooLong => Outcome::Failed,
        }
    }
}

impl Session {
    pub(super) const fn new(rustls: UnbufferedServerConnection) -> Self {
        Self {
            rustls,
            server_name: None,
            seen_len: 0,
            holds: false,
            is_busy: false,
            peer_closed: false,
            answered: false,
            received: 0,
        }
    }

    /// True if output can be written now: the library has read all input, or input is *held*.
    pub(super) const fn can_write(&self, input: &[u8]) -> bool {
        self.holds || self.seen_len == input.len()
    }

    /// True if no part of a record or message of the peer is pending. Nothing follows the peer's
    /// close_notify.
    pub(super) const fn is_between_records(&self) -> bool {
        self.peer_closed || (self.seen_len == 0 && !self.holds)
    }

    /// True until the server's first message is written.
    pub(super) const fn peer_waits(&self) -> bool {
        !self.answered
    }

    /// Counts input before the end of the handshake.
    pub(super) const fn count_received(&mut self, len: usize) {
        self.received += len;
    }

    /// Decrypts input, calls the inner protocol with it, and encrypts its output.
    pub(super) fn pump<P: Protocol>(
        &mut self,
        tls: &Tls<P>,
        tls_state: &mut TlsState<P::Conn>,
        io: Io<'_>,
    ) -> Result<Next, Failure> {
        let Io { now, date, input, out, draining, local, client } = io;
        let mut context = CallContext { now, date, draining, local, client };
        let mut used = 0;
        let next = loop {
            if tls_state.upper.is_none() && !self.rustls.is_handshaking() {
                self.establish(tls, tls_state, &mut context)?;
            }
            let rest = if self.holds { &mut [][..] } else { &mut input[used..] };
            self.is_busy = true;
            let UnbufferedStatus { mut discard, state } = self.rustls.process_tls_records(rest);
            let upper = tls_state.upper.as_mut();
            if upper.is_none() {
                self.server_name = take_asked_name().or_else(|| self.server_name.take());
            }
            let mut next = None;
            match state.map_err(Failure::Rustls)? {
                ConnectionState::BlockedHandshake => next = Some(Next::Read),
                ConnectionState::EncodeTlsData(data) => {
                    encode(data, &mut out.head);
                    self.answered = true;
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => {
                    self.is_busy = false;
                    self.on_close_notify(tls, upper, &mut context);
                }
                // The inner protocol does not exist yet: the next pass creates it from the result
                // of the handshake. Until then the record stays in the input.
                ConnectionState::ReadTraffic(_) | ConnectionState::WriteTraffic(_) if upper.is_none() => {
                    next = self.rustls.is_handshaking().then_some(Next::Close);
                }
                ConnectionState::ReadTraffic(traffic) => {
                    self.is_busy = false;
                    // A panic of the inner protocol leaves the library between two messages.
                    // `holds` keeps further input from the library.
                    self.holds = true;
                    discard += hand_up(traffic, tls, upper, &mut context)?;
                    self.holds = tls_state.upper.as_ref().is_some_and(Upper::stops_reading);
                }
                ConnectionState::WriteTraffic(writer) => {
                    write(writer, upper, &mut out.head)?;
                    let waits = input.len() > used + discard;
                    next = tls_state.upper.as_ref().map(|upper| self.next_step(upper, waits));
                }
                // Neither state occurs: early data is never accepted, and `pump` is not called
                // again after both sides have closed.
                ConnectionState::Closed | ConnectionState::ReadEarlyData(_) | _ => next = Some(Next::Close),
            }
            used += discard;
            if let Some(next) = next {
                break next;
            }
        };
        self.is_busy = false;
        drop_front(input, used);
        self.seen_len = if self.holds { 0 } else { input.len() };
        if next == Next::Wait
            && let Some(later) = tls_state.upper.as_mut().and_then(Upper::take_later)
        {
            out.put_later(later);
        }
        if tls_state.upper.is_none() && self.is_too_long(tls, input) {
            return Err(Failure::TooLong);
        }
        Ok(next)
    }

    /// Writes the alert for a failure, if there is one.
    pub(super) fn write_alert(&mut self, out: &mut Vec<u8>) {
        // The library returns pending output before it reads input.
        while self.rustls.wants_write() {
            match self.rustls.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out),
                _ => return,
            }
        }
    }

    /// Creates the inner protocol at the end of the handshake.
    fn establish<P: Protocol>(
        &mut self,
        tls: &Tls<P>,
        tls_state: &mut TlsState<P::Conn>,
        context: &mut CallContext<'_>,
    ) -> Result<(), Failure> {
        let (name, unix_secs) = (self.server_name.take(), context.date.unix_secs());
        let info = info_of(&tls.acceptor, &self.rustls, name, unix_secs).ok_or(Failure::Expired)?;
        if let Some(permit) = tls_state.permit.take() {
            permit.end(Outcome::Done { version: info.version, resumed: info.resumed });
        }
        let (mut conn, plain) = (tls.inner.open(context.now), tls.inner.out_over_tls());
        if let Some(id) = tls_state.id {
            tls.inner.identify(&mut conn, id);
        }
        let upper = Upper::new(conn, info, plain, tls.acceptor.plain_bytes());
        let upper = tls_state.upper.insert(upper);
        if tls.inner.speaks_first() {
            self.holds = true;
            upper.run(&tls.inner, context, Protocol::greet);
            self.holds = upper.stops_reading();
        }
        Ok(())
    }

    fn on_close_notify<P: Protocol>(
        &mut self,
        tls: &Tls<P>,
        upper: Option<&mut Upper<P::Conn>>,
        context: &mut CallContext<'_>,
    ) {
        self.peer_closed = true;
        if let Some(upper) = upper.filter(|upper| !upper.closes()) {
            self.holds = true;
            upper.run(&tls.inner, context, Protocol::handle_eof);
        }
    }

    fn is_too_long<P: Protocol>(&self, tls: &Tls<P>, input: &[u8]) -> bool {
        let hello_bytes_max = tls.acceptor.limits().hello_bytes_max;
        if self.answered {
            self.received > hello_bytes_max + HANDSHAKE_BYTES_MAX
        } else {
            input.len() > hello_bytes_max + HEADER_LEN
        }
    }

    /// The next step after `write` was called.
    fn next_step<C>(&mut self, upper: &Upper<C>, input_waits: bool) -> Next {
        if !upper.is_written() {
            return Next::Flush;
        }
        match upper.after {
            Next::Read if self.holds && input_waits => Next::Flush,
            Next::Read => {
                self.holds = false;
                Next::Read
            }
            Next::Flush | Next::HandOver | Next::Wait => upper.after,
            Next::Close | Next::CloseClean | Next::CloseLinger if self.peer_closed => Next::CloseClean,
            // The connection lingers, because the peer replies with a close_notify, which would
            // cause a reset on a closed socket.
            Next::Close | Next::CloseClean | Next::CloseLinger => Next::CloseLinger,
        }
    }
}

/// Passes decrypted records to the inner protocol. Returns the number of input bytes that these
/// records used.
fn hand_up<P: Protocol>(
    mut traffic: ReadTraffic<'_, '_, ServerConnectionData>,
    tls: &Tls<P>,
    upper: Option<&mut Upper<P::Conn>>,
    context: &mut CallContext<'_>,
) -> Result<usize, Failure> {
    let mut discard = 0;
    let Some(upper) = upper else { return Ok(discard) };
    while let Some(record) = traffic.next_record() {
        let record = record.map_err(Failure::Rustls)?;
        discard += record.discard;
        if !record.payload.is_empty() && !upper.closes() {
            upper.run(&tls.inner, context, |protocol, conn, io| {
                protocol.handle_input(conn, record.payload, io)
            });
        }
    }
    Ok(discard)
}

fn write<C>(
    mut writer: WriteTraffic<'_, ServerConnectionData>,
    upper: Option<&mut Upper<C>>,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some(upper) = upper else { return Ok(()) };
    upper.write(&mut writer, out).map_err(|_exhausted| Failure::Exhausted)?;
    if upper.is_written() && upper.closes() {
        write_close_notify(&mut writer, out).map_err(|_exhausted| Failure::Exhausted)?;
    }
    Ok(())
}

/// Appends pending output of the library to `out`.
fn encode(mut data: EncodeTlsData<'_, ServerConnectionData>, out: &mut Vec<u8>) {
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
        let start = out.len();
        out.resize(start + size.required_size, 0);
        let _written = data.encode(&mut out[start..]);
    }
}

fn drop_front(input: &mut Vec<u8>, used: usize) {
    if used >= input.len() {
        input.clear();
    } else if used > 0 {
        input.drain(..used);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("seen_len", &self.seen_len)
            .field("holds", &self.holds)
            .field("peer_closed", &self.peer_closed)
            .field("answered", &self.answered)
            .finish_non_exhaustive()
    }
}
