//! Start of a connection: looks up the peer's address, and reads a PROXY protocol header before the
//! protocol gets any byte.

use core::net::SocketAddr;

use doorbell_http::proxy::{self, Header, Parsed, Version};
use doorbell_http::{Client, Next, Peer};

use super::handler_call::{HandlerCall, Input};
use crate::conn::{Arriving, Conn};
use crate::error::CloseReason;
use crate::net::{Expected, ProxyProtocol};
use crate::protocol::{ListenerProtocol, Protocol, ProtocolConn};
use crate::stats::ProxyResult;

/// Settings of a listener for the start of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// True if the protocol sends first.
    pub(crate) speaks_first: bool,
    /// The first state of a new connection.
    pub(crate) arriving: Arriving,
    /// True if the peer's address is needed.
    pub(crate) wants_addr: bool,
    /// True if connections need [identities](Protocol::identify).
    pub(crate) has_ids: bool,
    proxy: Option<ProxyProtocol>,
    /// True if the worker that accepts a connection may pass it to another worker.
    pub(crate) is_balanced: bool,
    /// True if a new connection starts directly with its request, in the worker that accepted it.
    pub(crate) is_plain: bool,
    /// True if peers have no addresses. The value comes from the listener, because it cannot be
    /// derived from a missing address: a connection that was reset also has no address.
    is_unix: bool,
}

impl Arrival {
    pub(crate) fn of(protocol: &ListenerProtocol, proxy: Option<ProxyProtocol>, is_unix: bool) -> Self {
        let wants_addr = protocol.wants_client() || proxy.is_some();
        let has_ids = protocol.has_memory();
        let arriving = if wants_addr || has_ids { Arriving::Addr } else { Arriving::Done };
        let speaks_first = protocol.speaks_first();
        let (is_plain, is_balanced) = (!speaks_first && arriving == Arriving::Done, false);
        Self { speaks_first, arriving, wants_addr, has_ids, proxy, is_balanced, is_plain, is_unix }
    }

    /// Lets the worker that accepts a connection pass it to another worker.
    pub(crate) fn balanced(self) -> Self {
        Self { is_balanced: true, is_plain: false, ..self }
    }

    /// Returns the client of a connection; `addr` looks up its address.
    pub(crate) fn client(&self, addr: impl FnOnce() -> Option<SocketAddr>) -> Client<'static> {
        if self.is_unix {
            return Client::new(Peer::Unix);
        }
        addr().map_or(Client::UNKNOWN, |addr| Client::at(addr.ip()).with_port(addr.port()))
    }

    /// True if a new connection starts with its request.
    pub(crate) fn starts_with_request(&self) -> bool {
        !self.speaks_first && self.arriving == Arriving::Done
    }

    /// True if the protocol has greeted the client.
    pub(crate) fn is_greeted(&self, conn: &Conn<ProtocolConn>) -> bool {
        self.speaks_first && conn.arriving != Arriving::Header
    }

    /// True if the peer's address is needed before any other step. The address determines whether a
    /// header is expected, and therefore which address is counted and when the protocol may greet.
    pub(crate) fn needs_addr_first(&self) -> bool {
        self.arriving == Arriving::Addr && (self.proxy.is_some() || self.speaks_first)
    }

    /// True while a header is expected from a peer that is trusted to send one.
    pub(crate) fn awaits_trusted_header(&self, conn: &Conn<ProtocolConn>) -> bool {
        conn.arriving == Arriving::Header && self.expects(conn.client.peer) != Expected::Refuse
    }

    /// Returns the expected first bytes of a connection. A peer whose address is needed but unknown
    /// is refused.
    fn expects(&self, peer: Peer) -> Expected {
        match &self.proxy {
            Some(proxy) => proxy.expects(peer),
            None if self.wants_addr && peer == Peer::Unknown => Expected::Refuse,
            None => Expected::NoHeader,
        }
    }
}

impl HandlerCall<'_> {
    /// Sets the next [`Arriving`] of a connection whose peer was looked up.
    #[cold]
    pub(super) fn expect_header(&self, conn: &mut Conn<ProtocolConn>) {
        conn.arriving = match self.server.arrivals[conn.listener.index()].expects(conn.client.peer) {
            Expected::NoHeader => Arriving::Done,
            Expected::Header | Expected::MaybeHeader | Expected::Refuse => Arriving::Header,
        };
    }

    /// Handles input before the end of a header. The bytes of an incomplete header are kept as
    /// input. If the wait ends without a header, the protocol gets nothing, unless the header is
    /// optional and no byte has arrived.
    #[cold]
    pub(super) fn on_header(&mut self, conn: &mut Conn<ProtocolConn>, input: Input<'_>) -> Next {
        let Input::Bytes(fresh) = input else {
            return self.end_without_header(conn, input);
        };
        if conn.input.is_empty() {
            return self.read_header(conn, fresh);
        }
        let room = self.buffers.lend_with_memory();
        let mut so_far = core::mem::replace(&mut conn.input, room);
        so_far.extend_from_slice(fresh);
        let next = self.read_header(conn, &so_far);
        self.buffers.take_back(so_far);
        next
    }

    /// Reads the header from `bytes`, which are all bytes received so far; `conn.input` contains
    /// none of these bytes.
    fn read_header(&mut self, conn: &mut Conn<ProtocolConn>, bytes: &[u8]) -> Next {
        let arrival = &self.server.arrivals[conn.listener.index()];
        let expected = arrival.expects(conn.client.peer);
        let Some(proxy) = arrival.proxy.as_ref().filter(|_| expected != Expected::Refuse) else {
            self.refused(conn);
            return Next::Close;
        };
        match proxy::parse_within(bytes, proxy.header_len_max()) {
            Ok(Parsed::Complete(header)) => {
                self.take_header(conn, &header);
                self.begin(conn, bytes.get(header.len..).unwrap_or_default())
            }
            Ok(Parsed::Incomplete { .. }) => {
                self.keep_for_later(conn, bytes);
                Next::Read
            }
            Ok(Parsed::NotProxy) if expected == Expected::MaybeHeader => self.begin_direct(conn, bytes),
            Ok(Parsed::NotProxy) | Err(_) => {
                self.refused(conn);
                Next::Close
            }
        }
    }

    fn end_without_header(&mut self, conn: &mut Conn<ProtocolConn>, input: Input<'_>) -> Next {
        let arrival = &self.server.arrivals[conn.listener.index()];
        if arrival.expects(conn.client.peer) != Expected::MaybeHeader || !conn.input.is_empty() {
            self.refused(conn);
            return Next::Close;
        }
        match self.begin_direct(conn, &[]) {
            Next::Read => self.ask(conn, input),
            next => next,
        }
    }

    /// Starts the protocol of a client that connects without a proxy.
    fn begin_direct(&mut self, conn: &mut Conn<ProtocolConn>, bytes: &[u8]) -> Next {
        self.by_listener[conn.listener.index()].proxied(ProxyResult::None);
        self.begin(conn, bytes)
    }

    fn refused(&self, conn: &Conn<ProtocolConn>) {
        if conn.client.peer == Peer::Unknown {
            return;
        }
        self.counters.proxy_refused.add(1);
        self.by_listener[conn.listener.index()].proxied(ProxyResult::Refused);
    }

    fn take_header(&self, conn: &mut Conn<ProtocolConn>, header: &Header) {
        let (counter, result) = match (header.local, header.version) {
            (true, _) => (&self.counters.proxy_local, ProxyResult::Local),
            (false, Version::V1) => (&self.counters.proxy_v1, ProxyResult::V1),
            (false, Version::V2) => (&self.counters.proxy_v2, ProxyResult::V2),
        };
        counter.add(1);
        self.by_listener[conn.listener.index()].proxied(result);
        if let Some(source) = header.source {
            conn.client.peer = Peer::Addr(source.ip().to_canonical());
            conn.client = conn.client.with_port(source.port());
        }
    }

    /// Starts the protocol after the header, or without a header.
    fn begin(&mut self, conn: &mut Conn<ProtocolConn>, bytes: &[u8]) -> Next {
        conn.arriving = Arriving::Done;
        if let Some(addr) = conn.client.addr()
            && let Err(cell) = self.server.ip_table.enter_capped(addr).map(|cell| conn.ip_cell = cell)
        {
            conn.ip_cell = Some(cell);
            // The protocol's next step is ignored: the connection of a client over the cap lingers
            // only if input is unread.
            let _next = self.ask(conn, Input::Overload(CloseReason::PerIpCap));
            return Next::CloseClean;
        }
        if self.server.arrivals[conn.listener.index()].speaks_first {
            let next = self.ask(conn, Input::Greet);
            if next != Next::Read {
                self.keep_for_later(conn, bytes);
                return next;
            }
        }
        if bytes.is_empty() { Next::Read } else { self.ask(conn, Input::Bytes(bytes)) }
    }

    /// Keeps bytes as input of the next call, or of a hand-over.
    fn keep_for_later(&mut self, conn: &mut Conn<ProtocolConn>, bytes: &[u8]) {
        let kept = if conn.input.capacity() == 0 { &mut self.buffers.rest } else { &mut conn.input };
        kept.extend_from_slice(bytes);
    }
}
