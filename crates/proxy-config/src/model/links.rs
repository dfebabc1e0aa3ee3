//! `[links]` and `[link.NAME]`: connections to other instances of doorbell.

use super::super::bind::addresses;
use doorbell_checks::options::HostPort;
use doorbell_config::{At, Link, Table};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Certificates of this instance for links, and addresses at which it accepts links.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Links {
    /// Addresses and ports at which links without `peer` are accepted; one or a list. Default:
    /// none.
    #[key(name = "bind", read = addresses)]
    pub binds: Vec<At<SocketAddr>>,
    /// PEM file with the certificate of this instance and its chain, for accepted and opened links;
    /// read when links start and at a reload. Required.
    #[key(required = "\"/etc/doorbell/tls/link.crt\"")]
    pub cert: At<PathBuf>,
    /// PEM file with the key of `cert`. Required.
    #[key(required = "\"/etc/doorbell/tls/link.key\"")]
    pub key: At<PathBuf>,
    /// PEM file with the CA certificates of the peers. Required.
    #[key(required = "\"/etc/doorbell/tls/links-ca.crt\"")]
    pub ca: At<PathBuf>,
}

/// A link to another instance: one connection over TLS 1.3, on which both sides state their checks
/// and endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct Peer {
    /// Referred to by checks of type link.
    #[key(table_name)]
    pub name: String,
    /// Address of the peer, `HOST:PORT`. Default: the peer connects to `bind` of `[links]`.
    #[key(with = peer)]
    pub peer: Option<HostPort>,
    /// Name for which the certificate of the peer must be valid. Default: the host of `peer`, or
    /// the name of this table.
    pub certificate_name: Option<String>,
    /// Checks that this instance states; one or a list, [] for none. Default: all except those of
    /// type alias or link, which are never stated.
    #[key(shown)]
    pub checks: Option<Vec<At<Link>>>,
    /// Endpoints that this instance states; one or a list, [] for none. Default: all.
    #[key(shown)]
    pub endpoints: Option<Vec<At<Link>>>,
}

impl Peer {
    /// Name for which the certificate of the peer must be valid.
    #[must_use]
    pub fn certificate_name(&self) -> &str {
        let host = self.peer.as_ref().map(|peer| peer.host.as_str());
        self.certificate_name.as_deref().or(host).unwrap_or(&self.name)
    }
}

/// Reader of `peer`: a host and a port.
mod peer {
    use doorbell_checks::options::HostPort;
    use doorbell_config::{Entry, Json, Key, Value as _};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Option<HostPort>> {
        let text = entry.string()?;
        HostPort::parse(&text, None).map(Some).or_else(|| {
            let help = "write \"eu.example.com:7443\", \"192.0.2.1:7443\" or \"[2001:db8::1]:7443\"";
            entry.refuse("bad-value", format!("{text:?} is not a host and a port"), help)
        })
    }

    #[expect(clippy::ref_option, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(peer: &Option<HostPort>) -> Option<Json> {
        Some(peer.as_ref()?.to_string().into())
    }

    pub(super) fn form(key: &Key) -> Json {
        String::form(key)
    }
}
