//! `doorbell healthcheck`: asks a running doorbell whether it is well.
//!
//! Does not know about: what makes a configuration good. One request, one deadline for all of it, exit 0 or 1.

use super::load;
use super::operate::the_only_one;
use super::options::{Global, parse_timeout};
use super::output::{print, print_error};
use crate::config::model::{ClientAuthMode, Listener, ProxyProtocol, Route};
use crate::config::{Bind, Config, glean};
use crate::exit::Exit;
use crate::http::forwarded::Networks;
use crate::wire::Status;
use clap::Args;
use doorbell_checks::options::{ClientTls, HostPort};
use doorbell_checks::{cause_of, tls_client};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

pub(super) const HELP: &str = "\
Examples:
  HEALTHCHECK CMD [\"doorbell\", \"healthcheck\"]
  doorbell healthcheck -c /etc/doorbell/doorbell.toml
  doorbell healthcheck --endpoint livez --address 127.0.0.1:9000 --timeout 500ms

A file says where to ask, and whether with TLS.

Exit codes: 0 healthy, 1 everything else, also a wrong command line: Docker keeps 2 for itself";

/// Options of `healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// What to ask for: readyz, livez or a path
    #[arg(long, value_name = "NAME", default_value = "readyz")]
    endpoint: String,

    /// Where doorbell listens, an address, HOST:PORT or unix:/PATH; by default the first listener that can be asked of the file named with
    /// -c, else of the one doorbell that runs here, else of /etc/doorbell/doorbell.toml where there is one, and else 127.0.0.1:8080
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    address: Option<Address>,

    /// Longest wait for the whole answer
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_timeout)]
    timeout: Duration,
}

/// The status line and a little more; the rest of the answer is not needed.
const ANSWER_LEN_MAX: u64 = 1024;

/// Where somebody listens on this machine, or on another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// An address and a port.
    Addr(SocketAddr),
    /// A name and a port.
    Name(HostPort),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Where the image and the unit for systemd have it: what a check is told by nobody, as `HEALTHCHECK` of the image, is about this file.
const USUAL_FILE: &str = "/etc/doorbell/doorbell.toml";

/// A listener, and how it wants to be asked.
#[derive(Clone, Debug)]
struct Door {
    address: Address,
    /// For `Host` and for the handshake, where only some names are answered.
    host: Option<String>,
    is_tls: bool,
    /// Whether nobody is heard without a PROXY header.
    needs_proxy_header: bool,
}

#[expect(clippy::disallowed_methods, reason = "a command line waits in real time")]
pub(super) fn run(args: &HealthcheckArgs, global: &Global) -> Exit {
    let path = match args.endpoint.as_str() {
        path if path.starts_with('/') => path.to_owned(),
        name => format!("/{name}"),
    };
    if path.bytes().any(|byte| !byte.is_ascii_graphic()) {
        print_error("doorbell: the endpoint is not a path\n");
        return Exit::Failure;
    }
    let deadline = Instant::now() + args.timeout;
    let door = match door(args, global, &path) {
        Ok(door) => door,
        Err(why) => {
            print_error(&format!("doorbell: {why}\n"));
            return Exit::Failure;
        }
    };
    // The thread is left behind when it misses the deadline; the process ends anyway.
    let (sender, receiver) = sync_channel(1);
    let (asked, target, timeout) = (door.clone(), path.clone(), args.timeout);
    std::thread::spawn(move || sender.send(ask(&asked, &target, timeout)));
    let left = deadline.saturating_duration_since(Instant::now());
    let answer = receiver.recv_timeout(left).unwrap_or_else(|_| {
        Err(format!("no answer within {}", crate::config::format_duration(args.timeout)))
    });
    let address = &door.address;
    match answer {
        Ok(status @ 200..=399) => {
            if !global.quiet {
                // The code is the answer.
                let _lost = print(&format!("{address}{path}: {status}\n"));
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

/// Where to ask: what the command line says, else what the file named does, else where the one doorbell listens that runs here, else what the
/// usual file says, else where doorbell listens without one.
fn door(args: &HealthcheckArgs, global: &Global, path: &str) -> Result<Door, String> {
    let plain = |address| Door { address, host: None, is_tls: false, needs_proxy_header: false };
    if let Some(address) = &args.address {
        return Ok(plain(address.clone()));
    }
    let is_told = global.config.is_some() || std::env::vars_os().any(|(name, _)| is_about_listeners(&name));
    // Half of the time is left for the case that it does not say where it listens.
    let running = (!is_told).then(|| the_only_one(args.timeout / 2)).flatten();
    if let Some(door) = running.and_then(|status| listening(&status, path)) {
        return Ok(door);
    }
    let usual = Path::new(USUAL_FILE);
    let source = match global.config {
        None if usual.is_file() => load::read_source(usual).map(Some),
        _ => load::source_or_built_in(global),
    };
    let Some(source) = source.map_err(|failure| failure.to_string())? else {
        let listen = load::listen(&[]).map_err(|failure| failure.to_string())?;
        let address = listen.iter().find_map(|bind| address_of(bind, &Listener::default()));
        return Ok(plain(address.unwrap_or(Address::Addr(crate::config::model::DEFAULT_ADDR))));
    };
    let overrides = load::overrides().map_err(|failure| failure.to_string())?;
    let name = &source.name;
    // What else is wrong with it is not asked here: what runs may have been started with what it said before.
    let config = glean(&source, &|name| std::env::var(name).ok(), &overrides);
    let config = config.ok_or_else(|| format!("{name} is not TOML: mend it, or say where with --address"))?;
    find(&config, path).ok_or_else(|| {
        format!("no listener of {name} can be asked for {path} from here: say where with --address")
    })
}

/// Variables that stand for an address to listen on.
fn is_about_listeners(name: &OsStr) -> bool {
    name.as_encoded_bytes().to_ascii_uppercase().starts_with(b"DOORBELL__LISTENER__")
}

/// Where a doorbell listens that says so itself; its configuration says how it wants to be asked. What only the command line says, as
/// another address, is not in its file.
fn listening(status: &Status, path: &str) -> Option<Door> {
    let mut bound = status.addresses.iter().filter_map(|text| text.parse::<Bind>().ok());
    let file = Path::new(&status.config);
    if !file.is_absolute() {
        let address = bound.find_map(|bind| address_of(&bind, &Listener::default()))?;
        return Some(Door { address, host: None, is_tls: false, needs_proxy_header: false });
    }
    let source = load::read_source(file).ok()?;
    let mut config = glean(&source, &|name| std::env::var(name).ok(), &load::overrides().ok()?)?;
    if let [only] = config.listeners.as_mut_slice() {
        only.binds = bound.map(Into::into).collect();
    }
    find(&config, path)
}

/// The first listener that answers this path to whoever is nobody in particular.
fn find(config: &Config, path: &str) -> Option<Door> {
    let asked = |position: usize| {
        let is_open = |route: &&Route| {
            route.is_on(position)
                && route.paths.iter().any(|known| known.value == path)
                && route.auth.is_empty()
                && !config.needs_client_cert(position, route)
        };
        config.routes.iter().find(is_open)
    };
    (0..).zip(&config.listeners).find_map(|(position, listener)| {
        let route = asked(position)?;
        if !listener.is_http() || config.handshake_asks(position) == ClientAuthMode::Require {
            return None;
        }
        let address = listener.addresses().find_map(|bind| address_of(bind, listener))?;
        Some(Door {
            address,
            host: route.hosts.first().map(|host| host.value.clone()),
            is_tls: listener.tls.is_some(),
            needs_proxy_header: listener.proxy_protocol == ProxyProtocol::Require,
        })
    })
}

/// How a bound address is reached from here. Of a socket that somebody hands over nobody knows the address.
fn address_of(bind: &Bind, listener: &Listener) -> Option<Address> {
    let needs_belief = listener.proxy_protocol == ProxyProtocol::Require;
    let believed: Networks = listener.trusted().collect();
    match bind {
        Bind::Tcp(addr) if addr.port() != 0 => {
            let ips = match addr.ip() {
                // Where IPv6 is off, it takes IPv4 only.
                IpAddr::V6(ip) if ip.is_unspecified() => {
                    vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                }
                _ => vec![reachable(*addr).ip()],
            };
            // This machine asks an address of its own from that address.
            let ip = ips.into_iter().find(|ip| !needs_belief || believed.contains(*ip))?;
            Some(Address::Addr(SocketAddr::new(ip, addr.port())))
        }
        Bind::Unix(path) if !needs_belief => Some(Address::Unix(path.clone())),
        Bind::Fd(_) | Bind::Systemd(_) | Bind::Tcp(_) | Bind::Unix(_) => None,
    }
}

fn ask(door: &Door, path: &str, timeout: Duration) -> Result<u16, String> {
    let said = |error: std::io::Error| cause_of(&error);
    let host = door.host.clone();
    match &door.address {
        Address::Addr(addr) => {
            let addr = reachable(*addr);
            let stream = TcpStream::connect_timeout(&addr, timeout).map_err(said)?;
            greet(door, stream, host.unwrap_or_else(|| addr.to_string()), path)
        }
        Address::Name(at) => {
            let mut why = format!("{} has no address", at.host);
            for addr in (at.host.as_str(), at.port).to_socket_addrs().map_err(said)? {
                match TcpStream::connect_timeout(&addr, timeout) {
                    Ok(stream) => return greet(door, stream, at.to_string(), path),
                    Err(error) => why = format!("{addr}: {}", cause_of(&error)),
                }
            }
            Err(why)
        }
        Address::Unix(socket) => {
            let stream = UnixStream::connect(socket).map_err(said)?;
            greet(door, stream, host.unwrap_or_else(|| "localhost".into()), path)
        }
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

/// What comes before the request.
fn greet(door: &Door, mut stream: impl Read + Write, host: String, path: &str) -> Result<u16, String> {
    if door.needs_proxy_header {
        // Nobody in particular, as who checks a server himself (PROXY protocol, version 1).
        stream.write_all(b"PROXY UNKNOWN\r\n").map_err(|error| cause_of(&error))?;
    }
    if !door.is_tls {
        return exchange(stream, &host, path);
    }
    // Whether the certificate is good for others is not asked: it is for other names than that of this machine.
    let tls = ClientTls { verify: false, ..ClientTls::default() };
    let config = tls_client(&tls, "http/1.1")?.config;
    let name = door.host.clone().unwrap_or_else(|| match &door.address {
        Address::Addr(addr) => addr.ip().to_string(),
        Address::Name(at) => at.host.clone(),
        Address::Unix(_) => "localhost".into(),
    });
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let connection = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    exchange(StreamOwned::new(connection, stream), &host, path)
}

pub(super) fn parse_address(text: &str) -> Result<Address, String> {
    match text.parse() {
        Ok(Bind::Tcp(addr)) => Ok(Address::Addr(addr)),
        Ok(Bind::Unix(path)) => Ok(Address::Unix(path)),
        _ => HostPort::parse(text, None)
            .map(Address::Name)
            .ok_or_else(|| "write 127.0.0.1:8080, localhost:8080 or unix:/PATH".into()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(addr) => addr.fmt(f),
            Self::Name(at) => at.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> Result<u16, String> {
    let version = env!("CARGO_PKG_VERSION");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: doorbell-healthcheck/{version}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(|error| cause_of(&error))?;
    let mut answer = Vec::new();
    // An answer that came whole counts even if a reset follows it.
    let read = stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer);
    match parse_status(&answer) {
        Some(status) => Ok(status),
        None => Err(read.err().map_or_else(|| "that is no HTTP answer".into(), |error| cause_of(&error))),
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
