//! Bind addresses: an IP address and port, a path, or a socket passed to the process.

use doorbell_config::{At, Entry, TEXTS, Text, Value as _};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Forms of a bind address, for help texts.
pub const BIND_FORM: &str = "one of \"0.0.0.0:8080\", \"[::]:8080\", \":8080\", \"unix:/run/doorbell.sock\", \"systemd:NAME\", \"fd:3\"";

/// A bind address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bind {
    /// Descriptor number of a listening socket that the parent process passed.
    Fd(u32),
    /// Name of a passed socket in `LISTEN_FDNAMES`.
    Systemd(String),
    /// An address and a port; port 0 selects a free one.
    Tcp(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
}

/// Reason why a string is not a bind address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// A host name instead of an IP address.
    HostName,
    /// An IP address without a port.
    NoPort,
    /// Any other text.
    Other,
}

impl std::str::FromStr for Bind {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        if let Some(path) = text.strip_prefix("unix:") {
            // 107 bytes and a NUL fit into sockaddr_un (unix(7)).
            let good = path.starts_with('/') && path.len() <= 107 && !path.contains('\0');
            return if good { Ok(Self::Unix(path.into())) } else { Err(BindError::Other) };
        }
        if let Some(name) = text.strip_prefix("systemd:") {
            let good = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
            return if good { Ok(Self::Systemd(name.into())) } else { Err(BindError::Other) };
        }
        if let Some(fd) = text.strip_prefix("fd:") {
            return fd.parse().ok().filter(|fd| *fd >= 3).map(Self::Fd).ok_or(BindError::Other);
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(BindError::NoPort);
        }
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| BindError::Other)?;
            return Ok(Self::Tcp(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
        }
        match text.parse() {
            Ok(addr) => Ok(Self::Tcp(addr)),
            Err(_) => match text.rsplit_once(':') {
                Some((name, port))
                    if port.parse::<u16>().is_ok()
                        && name.starts_with(|c: char| c.is_ascii_alphabetic())
                        && !name.contains(':') =>
                {
                    Err(BindError::HostName)
                }
                _ => Err(BindError::Other),
            },
        }
    }
}

impl Bind {
    /// Reads an address and a port; other forms are errors.
    pub(crate) fn address(entry: &Entry<'_>) -> Option<SocketAddr> {
        match Self::read(entry)? {
            Self::Tcp(addr) => Some(addr),
            other @ (Self::Fd(_) | Self::Systemd(_) | Self::Unix(_)) => {
                let message =
                    format!("\"{other}\" is not a listen address: it is not an IP address and port");
                entry.refuse("bad-address", message, "write an address and a port, as in \"0.0.0.0:9132\"")
            }
        }
    }
}

/// Reads a list of addresses and ports.
pub(crate) fn addresses(entry: &Entry<'_>) -> Option<Vec<At<SocketAddr>>> {
    entry.list(TEXTS, |entry| Some(At { value: Bind::address(entry)?, span: entry.span() }))
}

/// Reads a list of addresses; refuses port 0, which would select another port at each opening.
pub(crate) fn fixed_addresses(entry: &Entry<'_>) -> Option<Vec<At<SocketAddr>>> {
    entry.list(TEXTS, |entry| match Bind::address(entry)? {
        addr if addr.port() == 0 => {
            let message = format!("{addr} has no fixed port: each opening would select another one");
            entry.refuse("bad-address", message, "write the port that clients connect to")
        }
        value => Some(At { value, span: entry.span() }),
    })
}

impl Text for Bind {
    fn parse(text: String, entry: &Entry<'_>) -> Option<Self> {
        let error = match text.parse() {
            Ok(bind) => return Some(bind),
            Err(error) => error,
        };
        let help = match (error, text.rsplit_once(':')) {
            (BindError::HostName, Some(("localhost", port))) => {
                format!("write \"127.0.0.1:{port}\", \"[::1]:{port}\" or both in a list")
            }
            (BindError::NoPort, _) if text.contains(':') => format!("write \"[{text}]:8080\""),
            (BindError::NoPort, _) => format!("write \"{text}:8080\""),
            _ if text.parse::<u16>().is_ok() => format!("write \":{text}\" for every address"),
            _ => BIND_FORM.to_owned(),
        };
        entry.refuse("bad-address", format!("{text:?} is not a listen address: {error}"), help)
    }

    fn blank() -> Self {
        Self::Tcp(SocketAddr::blank())
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fd(fd) => write!(f, "fd:{fd}"),
            Self::Systemd(name) => write!(f, "systemd:{name}"),
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostName => "it is a name, not an IP address",
            Self::NoPort => "the port is missing",
            Self::Other => "it is not an address",
        })
    }
}

impl std::error::Error for BindError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("0.0.0.0:8080", Ok("0.0.0.0:8080")),
            ("[::]:8080", Ok("[::]:8080")),
            (":8080", Ok("[::]:8080")),
            ("127.0.0.1:0", Ok("127.0.0.1:0")),
            ("unix:/run/d.sock", Ok("unix:/run/d.sock")),
            ("systemd:web", Ok("systemd:web")),
            ("fd:3", Ok("fd:3")),
            ("localhost:80", Err(BindError::HostName)),
            ("127.0.0.1", Err(BindError::NoPort)),
            ("::1", Err(BindError::NoPort)),
            ("::1:80:x", Err(BindError::Other)),
            ("fd:2", Err(BindError::Other)),
            ("fd:x", Err(BindError::Other)),
            ("unix:relative", Err(BindError::Other)),
            ("systemd:", Err(BindError::Other)),
            (":99999", Err(BindError::Other)),
            ("8080", Err(BindError::Other)),
            ("", Err(BindError::Other)),
        ] {
            let found = text.parse::<Bind>().map(|bind| bind.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        }
        assert!(format!("unix:/{}", "a".repeat(107)).parse::<Bind>().is_err());
    }
}
