//! `doorbell healthcheck`: queries the health of a running instance.
//!
//! The command sends one request; one deadline covers all steps; the exit code is 0 or 1.

use super::load;
use super::operate::only_instance;
use super::options::{Global, parse_timeout};
use super::output::{print, print_error};
use clap::Args;
use doorbell::http::forwarded::Networks;
use doorbell_checks::options::{ClientTls, HostPort};
use doorbell_checks::{cause_of, tls_client};
use doorbell_control::Status;
use doorbell_egress::connect_unix;
use doorbell_proxy_config::model::{ClientAuthMode, Listener, ProxyProtocol, Route};
use doorbell_proxy_config::{Bind, Config};
use doorbell_proxy_server::exit::Exit;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

pub(super) const HELP: &str = "\
Examples:
  HEALTHCHECK CMD [\"doorbell\", \"healthcheck\"]
  doorbell healthcheck -c /etc/doorbell/doorbell.toml
  doorbell healthcheck --endpoint livez --address 127.0.0.1:9000 --timeout 500ms

The address and the use of TLS are taken from the configuration.

Exit codes: 0 healthy, 1 everything else, also an invalid command line, because Docker reserves 2";

/// Options of `healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// Endpoint to request: readyz, livez or a path
    #[arg(long, value_name = "NAME", default_value = "readyz")]
    endpoint: String,

    /// Address of the listener: IP:PORT, HOST:PORT or unix:/PATH. Default: the first listener for
    /// the endpoint in the file given with -c, else of the only running instance, else in
    /// /etc/doorbell/doorbell.toml if it exists, else DOORBELL_LISTEN, else 127.0.0.1:8080
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    address: Option<Address>,

    /// Maximum time until the response has arrived
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_timeout)]
    timeout: Duration,
}

/// Maximum number of bytes to read: only the status line is needed.
const RESPONSE_LEN_MAX: u64 = 1024;

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// An address and a port.
    Addr(SocketAddr),
    /// A name and a port.
    Name(HostPort),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Path of the configuration in the container image and in the systemd unit; [`target`] defines its
/// precedence.
const DEFAULT_FILE: &str = "/etc/doorbell/doorbell.toml";

/// Address of a listener, and the parameters of a request to it.
#[derive(Clone, Debug)]
struct Target {
    address: Address,
    /// Value of `Host`, and of SNI without brackets, if the route is limited to some hosts.
    host: Option<String>,
    is_tls: bool,
    /// Whether the listener requires a PROXY header.
    needs_proxy_header: bool,
}

pub(super) fn run(args: &HealthcheckArgs, global: &Global) -> Exit {
    match query(args, global) {
        Ok(line) => {
            if !global.quiet {
                // The exit code reports the result even if printing fails.
                let _lost = print(&format!("{line}\n"));
            }
            Exit::Success
        }
        Err(why) => {
            print_error(&format!("doorbell: {why}\n"));
            Exit::Failure
        }
    }
}

/// Sends the request; returns its result as a line, or the reason why the result is not healthy.
#[expect(clippy::disallowed_methods, reason = "commands wait in real time")]
fn query(args: &HealthcheckArgs, global: &Global) -> Result<String, String> {
    let path = match args.endpoint.as_str() {
        path if path.starts_with('/') => path.to_owned(),
        name => format!("/{name}"),
    };
    if path.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("invalid --endpoint: expected a name or a path of printable ASCII".to_owned());
    }
    let deadline = Instant::now() + args.timeout;
    let target = target(args, global, &path)?;
    // A thread that misses the deadline ends with the process.
    let (sender, receiver) = sync_channel(1);
    let (request_target, request_path, timeout) = (target.clone(), path.clone(), args.timeout);
    std::thread::Builder::new()
        .spawn(move || sender.send(request_status(&request_target, &request_path, timeout)))
        .map_err(|error| format!("cannot start a thread: {}", cause_of(&error)))?;
    let left = deadline.saturating_duration_since(Instant::now());
    let status = receiver.recv_timeout(left).unwrap_or_else(|_| {
        Err(format!("no response within {}", doorbell_proxy_config::format_duration(args.timeout)))
    });
    let address = &target.address;
    match status {
        Ok(status @ 200..=399) => Ok(format!("{address}{path}: {status}")),
        Ok(status) => Err(format!("{address}{path}: status {status}")),
        Err(cause) => Err(format!("{address}{path}: {cause}")),
    }
}

/// Returns the target. The address is taken from the first of these sources that exists: the
/// command line, the given file, the only running instance (unless variables override keys of a
/// listener), [`DEFAULT_FILE`], the built-in configuration if variables override its keys,
/// `DOORBELL_LISTEN`, the default address.
fn target(args: &HealthcheckArgs, global: &Global, path: &str) -> Result<Target, String> {
    let plain = |address| Target { address, host: None, is_tls: false, needs_proxy_header: false };
    if let Some(address) = &args.address {
        return Ok(plain(address.clone()));
    }
    let is_configured =
        global.config.is_some() || std::env::vars_os().any(|(name, _)| load::overrides_listener(&name));
    // Half of the time is left for the request itself.
    let running = (!is_configured).then(|| only_instance(args.timeout / 2)).flatten();
    if let Some(target) = running.and_then(|status| listening(&status, path)) {
        return Ok(target);
    }
    let default_file = Path::new(DEFAULT_FILE);
    let source = match global.config {
        None if default_file.is_file() => load::read_source(default_file).map(Some),
        _ => load::source_or_built_in(global),
    };
    let Some(source) = source.map_err(|failure| failure.to_string())? else {
        let listen = load::listen(&[]).map_err(|failure| failure.to_string())?;
        let address = listen.iter().find_map(|bind| address_of(bind, &Listener::default()));
        return Ok(plain(address.unwrap_or(Address::Addr(doorbell_proxy_config::model::DEFAULT_ADDR))));
    };
    let name = &source.name;
    // Problems other than invalid TOML are ignored: the instance may run with an earlier version of
    // the file.
    let config = load::valid_part(&source).map_err(|failure| failure.to_string())?;
    let config = config
        .ok_or_else(|| format!("{name} is not valid TOML: correct it, or give the address with --address"))?;
    find(&config, path).ok_or_else(|| {
        format!("no listener of {name} serves {path} without authentication: give the address with --address")
    })
}

/// Returns the target of a running instance. The instance reports its addresses, which may come
/// from its command line; other parameters are read from its configuration file.
fn listening(status: &Status, path: &str) -> Option<Target> {
    let mut bound = status.addresses.iter().filter_map(|text| text.parse::<Bind>().ok());
    let file = Path::new(&status.config);
    if !file.is_absolute() {
        let address = bound.find_map(|bind| address_of(&bind, &Listener::default()))?;
        return Some(Target { address, host: None, is_tls: false, needs_proxy_header: false });
    }
    let source = load::read_source(file).ok()?;
    let mut config = load::valid_part(&source).ok()??;
    if let [only] = config.listeners.as_mut_slice() {
        only.binds = bound.map(Into::into).collect();
    }
    find(&config, path)
}

/// The first listener that serves this path without authentication.
fn find(config: &Config, path: &str) -> Option<Target> {
    let route_of = |position: usize| {
        let is_open = |route: &&Route| {
            route.is_on(position)
                && route.paths.iter().any(|known| known.value == path)
                && route.auth.is_empty()
                && !config.needs_client_cert(position, route)
        };
        config.routes.iter().find(is_open)
    };
    (0..).zip(&config.listeners).find_map(|(position, listener)| {
        let route = route_of(position)?;
        if !listener.is_http() || config.handshake_client_auth(position) == ClientAuthMode::Require {
            return None;
        }
        let address = listener.addresses().find_map(|bind| address_of(bind, listener))?;
        Some(Target {
            address,
            host: host_of(route),
            is_tls: listener.tls.is_some(),
            needs_proxy_header: listener.proxy_protocol == ProxyProtocol::Require,
        })
    })
}

/// A host that the route accepts: the first one without a wildcard, or else a name that matches the
/// first wildcard.
fn host_of(route: &Route) -> Option<String> {
    let mut hosts = route.hosts.iter().map(|host| &host.value);
    let exact = hosts.clone().find(|host| !host.contains('*'));
    exact.or_else(|| hosts.next()).map(|host| host.replace('*', "doorbell"))
}

/// Address to connect to for a bound address; `None` if the bound address is unknown (inherited
/// socket, port 0), or if the listener requires a PROXY header and trusts none from this machine.
fn address_of(bind: &Bind, listener: &Listener) -> Option<Address> {
    let needs_trust = listener.proxy_protocol == ProxyProtocol::Require;
    let trusted: Networks = listener.trusted().collect();
    match bind {
        Bind::Tcp(addr) if addr.port() != 0 => {
            let ips = match addr.ip() {
                // IPv4 comes first: on a machine without IPv6, a listener on `[::]` accepts IPv4 only.
                IpAddr::V6(ip) if ip.is_unspecified() => {
                    vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                }
                _ => vec![without_wildcard(*addr).ip()],
            };
            // A connection to an address of this machine uses the same address as its source.
            let ip = ips.into_iter().find(|ip| !needs_trust || trusted.contains(*ip))?;
            Some(Address::Addr(SocketAddr::new(ip, addr.port())))
        }
        Bind::Unix(path) if !needs_trust => Some(Address::Unix(path.clone())),
        Bind::Fd(_) | Bind::Systemd(_) | Bind::Tcp(_) | Bind::Unix(_) => None,
    }
}

fn request_status(target: &Target, path: &str, timeout: Duration) -> Result<u16, String> {
    let cause = |error: std::io::Error| cause_of(&error);
    let host = target.host.clone();
    match &target.address {
        Address::Addr(addr) => {
            let addr = without_wildcard(*addr);
            let stream = TcpStream::connect_timeout(&addr, timeout).map_err(cause)?;
            request(target, stream, host.unwrap_or_else(|| addr.to_string()), path)
        }
        Address::Name(at) => {
            let mut why = format!("{}: no address found", at.host);
            let addrs = Vec::from_iter((at.host.as_str(), at.port).to_socket_addrs().map_err(cause)?);
            // An address that drops packets must not use up the time of the others.
            let share = timeout / u32::try_from(addrs.len()).unwrap_or(u32::MAX).max(1);
            for addr in addrs {
                match TcpStream::connect_timeout(&addr, share) {
                    Ok(stream) => return request(target, stream, at.to_string(), path),
                    Err(error) => why = format!("{addr}: {}", cause_of(&error)),
                }
            }
            Err(why)
        }
        Address::Unix(socket) => {
            let stream = connect_unix(socket, timeout).map_err(cause)?;
            request(target, stream, host.unwrap_or_else(|| "localhost".into()), path)
        }
    }
}

/// Replaces a wildcard address by the loopback address.
fn without_wildcard(addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), addr.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), addr.port()),
        _ => addr,
    }
}

/// Sends the PROXY header if the listener requires one, performs the TLS handshake if it uses TLS,
/// and sends the request.
fn request(target: &Target, mut stream: impl Read + Write, host: String, path: &str) -> Result<u16, String> {
    if target.needs_proxy_header {
        // `UNKNOWN` marks a health check by the proxy itself (PROXY protocol, version 1).
        stream.write_all(b"PROXY UNKNOWN\r\n").map_err(|error| cause_of(&error))?;
    }
    if !target.is_tls {
        return exchange(stream, &host, path);
    }
    // The certificate is not verified: it is issued for public names, not for the address of this
    // machine.
    let tls = ClientTls { verify: false, ..ClientTls::default() };
    let config = tls_client(&tls, "http/1.1")?.config;
    let name = target.host.clone().unwrap_or_else(|| match &target.address {
        Address::Addr(addr) => addr.ip().to_string(),
        Address::Name(at) => at.host.clone(),
        Address::Unix(_) => "localhost".into(),
    });
    let name = name.trim_matches(['[', ']']).to_owned();
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
            .ok_or_else(|| "expected an address, as in 127.0.0.1:8080, localhost:8080 or unix:/PATH".into()),
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
    let mut response = Vec::new();
    // A complete status line is sufficient even if the connection is reset afterwards.
    let read = stream.take(RESPONSE_LEN_MAX).read_to_end(&mut response);
    match parse_status(&response) {
        Some(status) => Ok(status),
        None => Err(read.err().map_or_else(|| "not an HTTP response".into(), |error| cause_of(&error))),
    }
}

fn parse_status(response: &[u8]) -> Option<u16> {
    let rest = response.strip_prefix(b"HTTP/1.").filter(|_| response.contains(&b'\n'))?;
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
