//! Well-known probers: the bytes each one sends, and how each one closes.
//!
//! The bytes were captured from the programs themselves or, for cloud probers, follow their
//! documentation.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::end::{End, Exchange, finish};

/// How a prober closes after it has read the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Closes with FIN, after the server if the server closes first.
    Fin,
    /// Closes as soon as the reply has arrived, with a reset (`SO_LINGER` 0).
    Reset,
}

/// A known prober.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `ELB-HealthChecker/2.0`, Host is the target's address and port.
    Alb,
    /// Azure load balancer, which treats a reset as a failed instance.
    Azure,
    /// Prometheus blackbox exporter.
    Blackbox,
    /// `curl` with its defaults.
    Curl,
    /// `curl -I`.
    CurlHead,
    /// `curl --http1.0`: HTTP/1.0 with a Host.
    CurlHttp10,
    /// Envoy's active check, which keeps its connection open.
    Envoy,
    /// `GoogleHC/1.0`.
    Gcp,
    /// HAProxy `option httpchk` with its defaults: no Host, no fields, reset after the reply.
    Haproxy,
    /// HAProxy `http-check send ver HTTP/1.1`: lower-case fields, reset after the reply.
    Haproxy11,
    /// `hey -disable-keepalive`.
    Hey,
    /// kubelet `httpGet`.
    Kubelet,
    /// kubelet `tcpSocket` and similar TCP checks: connect, close.
    Tcp,
    /// A TCP check that closes with a reset.
    TcpReset,
}

impl Shape {
    /// All probers.
    pub const ALL: &'static [Self] = &[
        Self::Alb,
        Self::Azure,
        Self::Blackbox,
        Self::Curl,
        Self::CurlHead,
        Self::CurlHttp10,
        Self::Envoy,
        Self::Gcp,
        Self::Haproxy,
        Self::Haproxy11,
        Self::Hey,
        Self::Kubelet,
        Self::Tcp,
        Self::TcpReset,
    ];

    /// The exact request bytes; empty for a TCP check.
    pub fn request(self, server: SocketAddr, path: &str) -> Vec<u8> {
        let host = server.ip();
        let text = match self {
            Self::Alb => format!(
                "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nUser-Agent: ELB-HealthChecker/2.0\r\nAccept-Encoding: gzip, compressed\r\n\r\n"
            ),
            Self::Azure => format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Load Balancer Agent\r\nConnection: close\r\n\r\n"
            ),
            Self::Blackbox => format!(
                "GET {path} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: Blackbox Exporter/0.23.0\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n"
            ),
            Self::Curl => format!(
                "GET {path} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"
            ),
            Self::CurlHead => format!(
                "HEAD {path} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"
            ),
            Self::CurlHttp10 => format!(
                "GET {path} HTTP/1.0\r\nHost: {server}\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n"
            ),
            Self::Envoy => format!("GET {path} HTTP/1.1\r\nhost: doorbell\r\nuser-agent: Envoy/HC\r\n\r\n"),
            Self::Gcp => format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: GoogleHC/1.0\r\nConnection: close\r\n\r\n"
            ),
            Self::Haproxy => format!("OPTIONS {path} HTTP/1.0\r\n\r\n"),
            Self::Haproxy11 => format!(
                "GET {path} HTTP/1.1\r\nhost: web\r\nx-haproxy-server-state: UP 1/3; address=127.0.0.1; port=80; name=b/s1; node=vm; weight=1/1; scur=0/0; qcur=0\r\nconnection: close\r\n\r\n"
            ),
            Self::Hey => format!(
                "GET {path} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: hey/0.0.1\r\nConnection: close\r\nContent-Type: text/html\r\nAccept-Encoding: gzip\r\n\r\n"
            ),
            Self::Kubelet => format!(
                "GET {path} HTTP/1.1\r\nHost: {server}\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n\r\n"
            ),
            Self::Tcp | Self::TcpReset => String::new(),
        };
        text.into_bytes()
    }

    /// How it closes.
    pub fn close(self) -> Close {
        match self {
            Self::Haproxy | Self::Haproxy11 | Self::TcpReset => Close::Reset,
            _ => Close::Fin,
        }
    }

    /// Whether the server closes first, because of `Connection: close` or HTTP/1.0.
    pub fn server_closes(self) -> bool {
        !matches!(self, Self::Curl | Self::CurlHead | Self::Envoy | Self::Tcp | Self::TcpReset)
    }

    /// Whether a reply is expected.
    pub fn expects_reply(self) -> bool {
        !matches!(self, Self::Tcp | Self::TcpReset)
    }

    /// Runs one probe from connect to close.
    ///
    /// # Errors
    /// When the connection cannot be made.
    pub fn probe(self, server: SocketAddr, path: &str) -> io::Result<Exchange> {
        let mut stream = TcpStream::connect_timeout(&server, super::PATIENCE)?;
        stream.set_nodelay(true)?;
        let mut exchange = if self.expects_reply() {
            self.ask(&mut stream, server, path)?
        } else {
            Exchange { bytes: Vec::new(), end: End::Fin, took: Duration::ZERO }
        };
        if self.close() == Close::Reset {
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        } else if !self.server_closes() && self.expects_reply() {
            // This side closes: the server must follow with FIN, not with a reset.
            stream.shutdown(std::net::Shutdown::Write)?;
            exchange.end = finish(&mut stream, super::PATIENCE).end;
        }
        Ok(exchange)
    }

    fn ask(self, stream: &mut TcpStream, server: SocketAddr, path: &str) -> io::Result<Exchange> {
        let start = Instant::now();
        stream.write_all(&self.request(server, path))?;
        if self.close() == Close::Fin && self.server_closes() {
            return Ok(finish(stream, super::PATIENCE));
        }
        let bytes = super::misbehave::read_replies(stream, 1, self == Self::CurlHead)?;
        Ok(Exchange { bytes, end: End::Fin, took: start.elapsed() })
    }
}
