//! A hand-written HTTP/2 client that can also send invalid frames.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use doorbell_testkit::peers::PATIENCE;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A received frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) content: Vec<u8>,
}

/// One HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Peer(pub(crate) TcpStream);

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let len = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// The header block of a request, as literals without indexing (RFC 7541 6.2.2).
pub(crate) fn block(method: &str, path: &str) -> Vec<u8> {
    let literal =
        |index: u8, value: &str| [&[index, u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    // `:scheme http` is in the static table.
    [literal(2, method), vec![0x86], literal(4, path), literal(1, "example.com")].concat()
}

pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block("GET", path))
}

impl Peer {
    /// Connects, and sends the preface with these settings.
    pub(crate) fn connect(addr: SocketAddr, settings: &[u8]) -> io::Result<Self> {
        Self::connect_behind(&[], addr, settings)
    }

    /// As [`Self::connect`], after a PROXY header.
    pub(crate) fn connect_behind(header: &[u8], addr: SocketAddr, settings: &[u8]) -> io::Result<Self> {
        let mut stream = TcpStream::connect(addr)?;
        stream.write_all(header)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut peer = Self(stream);
        peer.write(&[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat())?;
        Ok(peer)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    pub(crate) fn read(&mut self) -> io::Result<Frame> {
        let mut header = [0; 9];
        self.0.read_exact(&mut header)?;
        let [top, high, low, kind, flags, stream @ ..] = header;
        let mut content = vec![0; u32::from_be_bytes([0, top, high, low]) as usize];
        self.0.read_exact(&mut content)?;
        Ok(Frame { kind, flags, stream: u32::from_be_bytes(stream), content })
    }

    /// Reads up to the end of a stream. Returns whether its status was 200, and its body.
    /// Acknowledges settings and pings.
    pub(crate) fn reply(&mut self, stream: u32) -> io::Result<(bool, Vec<u8>)> {
        let (mut good, mut content) = (false, Vec::new());
        loop {
            let frame = self.read()?;
            match frame.kind {
                SETTINGS | PING if frame.flags & ACK == 0 => {
                    let answer = if frame.kind == PING { frame.content } else { Vec::new() };
                    self.write(&self::frame(frame.kind, ACK, 0, &answer))?;
                    continue;
                }
                HEADERS if frame.stream == stream => good = frame.content.first() == Some(&0x88),
                DATA if frame.stream == stream => content.extend(frame.content),
                GOAWAY | RST_STREAM => return Err(io::Error::other(format!("{frame:?}"))),
                _ => continue,
            }
            if frame.flags & END_STREAM != 0 {
                return Ok((good, content));
            }
        }
    }

    /// Reads until the connection ends. Returns whether it ended within `limit`, and whether a
    /// GOAWAY arrived.
    pub(crate) fn ending(&mut self, limit: Duration) -> (bool, bool) {
        let mut went = false;
        self.0.set_read_timeout(Some(limit)).unwrap();
        loop {
            match self.read() {
                Ok(frame) => {
                    went |= frame.kind == GOAWAY;
                    if frame.kind == PING && frame.flags & ACK == 0 {
                        let _gone = self.write(&self::frame(PING, ACK, 0, &frame.content));
                    }
                }
                Err(error) => {
                    let waits = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                    return (!waits, went);
                }
            }
        }
    }
}

/// Sends one request on its own connection.
pub(crate) fn ask(addr: SocketAddr, path: &str) -> io::Result<(bool, Vec<u8>)> {
    let mut peer = Peer::connect(addr, &[])?;
    peer.write(&get(1, path))?;
    peer.reply(1)
}
