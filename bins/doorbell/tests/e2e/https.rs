//! A TLS client for tests: fast enough for thousands of connections, and strict about how
//! connections end.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use doorbell_testkit::peers::{PATIENCE, Reply, connect_from};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::pki::ca;

/// A client that trusts [`ca`]. Clones share its TLS sessions.
#[derive(Clone)]
pub(crate) struct Https {
    config: Arc<ClientConfig>,
    server: SocketAddr,
    source: Ipv4Addr,
}

/// A TLS connection. The handshake runs with the first read or write.
pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

impl Https {
    /// Never resumes a session, so that each connection is a full handshake.
    pub(crate) fn new(server: SocketAddr) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(ca().certificate().der().clone()).unwrap();
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.resumption = rustls::client::Resumption::disabled();
        Self { config: Arc::new(config), server, source: Ipv4Addr::LOCALHOST }
    }

    /// Returns the same client with another source address.
    pub(crate) fn at(&self, source: Ipv4Addr) -> Self {
        Self { source, ..self.clone() }
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    pub(crate) fn connect(&self) -> io::Result<Stream> {
        self.connect_behind(&[])
    }

    /// As [`Self::connect`], after a PROXY header.
    fn connect_behind(&self, header: &[u8]) -> io::Result<Stream> {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        let mut socket = connect_from(self.source, self.server)?;
        socket.write_all(header)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(StreamOwned::new(session, socket))
    }

    /// Sends one request on a new connection. An end without close_notify is an error.
    pub(crate) fn get(&self, path: &str) -> io::Result<Reply> {
        self.get_behind(&[], path)
    }

    /// As [`Self::get`], after a PROXY header.
    pub(crate) fn get_behind(&self, header: &[u8], path: &str) -> io::Result<Reply> {
        let mut stream = self.connect_behind(header)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Reply::parse(&bytes, false)
            .ok_or_else(|| io::Error::other(format!("no reply: {:?}", String::from_utf8_lossy(&bytes))))
    }
}

/// Sends one request on a connection that stays open.
pub(crate) fn ask(stream: &mut Stream, path: &str) -> io::Result<Reply> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let (mut bytes, mut buf) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(reply) = Reply::parse(&bytes, false) {
            return Ok(reply);
        }
        match stream.read(&mut buf)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&buf[..n]),
        }
    }
}
