//! `doorbell healthcheck`: asks a running doorbell whether it is well.
//!
//! Does not know about: configurations. One request, one deadline for all of it, exit 0 or 1.

use super::args::{Global, HealthcheckArgs};
use super::{print, print_error};
use crate::config::Bind;
use crate::exit::Exit;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// The status line and a little more; the rest of the answer is not needed.
const ANSWER_LEN_MAX: u64 = 1024;

pub(super) fn run(args: &HealthcheckArgs, global: &Global) -> Exit {
    let path = match args.endpoint.as_str() {
        path if path.starts_with('/') => path.to_owned(),
        name => format!("/{name}"),
    };
    if path.bytes().any(|byte| !byte.is_ascii_graphic()) {
        print_error("doorbell: the endpoint is not a path\n");
        return Exit::Failure;
    }
    // The thread is left behind when it misses the deadline; the process ends anyway.
    let (sender, receiver) = sync_channel(1);
    let (address, timeout, asked) = (args.address.clone(), args.timeout, path.clone());
    std::thread::spawn(move || sender.send(ask(&address, &asked, timeout)));
    let answer = receiver.recv_timeout(args.timeout).unwrap_or_else(|_| {
        Err(format!("no answer within {}", crate::config::format_duration(args.timeout)))
    });
    let address = &args.address;
    match answer {
        Ok(status @ 200..=399) => {
            if !global.quiet {
                print(&format!("{address}{path}: {status}\n"));
            }
            Exit::Success
        }
        Ok(status) => {
            print_error(&format!("doorbell: {address}{path} answers {status}\n"));
            Exit::Failure
        }
        Err(cause) => {
            print_error(&format!("doorbell: {address}{path}: {cause}\n"));
            Exit::Failure
        }
    }
}

fn ask(address: &Bind, path: &str, timeout: Duration) -> Result<u16, String> {
    match address {
        Bind::Tcp(addr) => {
            let addr = reachable(*addr);
            let stream = TcpStream::connect_timeout(&addr, timeout).map_err(|error| error.to_string())?;
            exchange(stream, &addr.to_string(), path)
        }
        Bind::Unix(socket) => {
            let stream = UnixStream::connect(socket).map_err(|error| error.to_string())?;
            exchange(stream, "localhost", path)
        }
        Bind::Fd(_) | Bind::Systemd(_) => Err("name an address or a unix: path".into()),
    }
}

/// An address to listen on may be "every address"; to connect, it means this machine.
fn reachable(addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), addr.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), addr.port()),
        _ => addr,
    }
}

fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> Result<u16, String> {
    let version = env!("CARGO_PKG_VERSION");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: doorbell-healthcheck/{version}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    // An answer that came whole counts even if a reset follows it.
    let read = stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer);
    match parse_status(&answer) {
        Some(status) => Ok(status),
        None => Err(read.err().map_or_else(|| "that is no HTTP answer".into(), |error| error.to_string())),
    }
}

fn parse_status(answer: &[u8]) -> Option<u16> {
    let rest = answer.strip_prefix(b"HTTP/1.").filter(|_| answer.contains(&b'\n'))?;
    std::str::from_utf8(rest.get(2..5)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503 No\r\n\r\n", Some(503)),
            ("HTTP/1.1 200\r\n", Some(200)),
            ("HTTP/1.1 200 OK", None),
            ("HTTP/2 200\r\n", None),
            ("HTTP/1.1 2x0\r\n", None),
            ("HTTP/1.\n", None),
            ("ok\n", None),
            ("", None),
        ] {
            assert_eq!(parse_status(answer.as_bytes()), expected, "{answer:?}");
        }
    }
}
