//! What a check contacts.

use super::address::{Address, ClientTls, HostPort, Url};

/// What a kind contacts.
pub(super) trait Target {
    /// TLS options of the connections, if the kind supports TLS.
    fn tls(&self) -> Option<&ClientTls> {
        None
    }

    /// The host to which the check connects; `None` if it is this machine, or if there is no
    /// connection.
    fn remote(&self) -> Option<&HostPort> {
        None
    }
}

/// Implements [`Target`] by an expression for the host and, if the kind supports TLS, an expression
/// for the TLS options.
macro_rules! target {
    ($check:ident: $options:ty, $remote:expr $(, $tls:expr)?) => {
        impl super::target::Target for $options {
            $(fn tls(&self) -> Option<&super::address::ClientTls> {
                let $check = self;
                $tls
            })?

            fn remote(&self) -> Option<&super::address::HostPort> {
                let $check = self;
                $remote
            }
        }
    };
}
pub(super) use target;

/// The host of a URL, or of the address that replaces it; `None` if the host is this machine.
pub(super) fn remote_of<'a>(address: Option<&'a Address>, url: &'a Url) -> Option<&'a HostPort> {
    address.map_or_else(|| url.at.remote(), Address::remote)
}

/// The address of a URL, or the address that replaces it.
pub(crate) fn address_of(address: Option<&Address>, url: &Url) -> Address {
    address.cloned().unwrap_or_else(|| Address::Tcp(url.at.clone()))
}
