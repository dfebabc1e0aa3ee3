//! One plain-text request on a new connection, and its reply.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use doorbell_testkit::peers::{End, PATIENCE, Reply, connect_from, finish};

/// Sends a request with these header fields. Panics unless the connection ends after one complete
/// reply.
pub(crate) fn get(server: SocketAddr, path: &str, fields: &[&str]) -> Reply {
    try_get(server, path, fields).unwrap_or_else(|what| panic!("{path} {fields:?}: {what}"))
}

/// As [`get`], for a server that may refuse the connection.
pub(crate) fn try_get(server: SocketAddr, path: &str, fields: &[&str]) -> Result<Reply, String> {
    send(server, &request(path, fields))
}

/// Sends bytes unchanged.
pub(crate) fn send(server: SocketAddr, bytes: &[u8]) -> Result<Reply, String> {
    send_from(Ipv4Addr::LOCALHOST, server, bytes)
}

/// Sends bytes from another loopback address.
pub(crate) fn send_from(source: Ipv4Addr, server: SocketAddr, bytes: &[u8]) -> Result<Reply, String> {
    let mut stream = connect_from(source, server).map_err(|error| error.to_string())?;
    // The write may fail although the reply arrives.
    let _ = stream.write_all(bytes);
    let got = finish(&mut stream, PATIENCE);
    match Reply::parse(&got.bytes, false) {
        Some(reply) if got.end == End::Fin && reply.len == got.bytes.len() => Ok(reply),
        _ => Err(format!("{:?} after {:?}", got.end, String::from_utf8_lossy(&got.bytes))),
    }
}

/// The bytes of a request as [`get`] sends it.
pub(crate) fn request(path: &str, fields: &[&str]) -> Vec<u8> {
    let fields: String = fields.iter().flat_map(|field| [field, "\r\n"]).collect();
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n").into_bytes()
}
