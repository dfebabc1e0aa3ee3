//! Fields of certificates and revocation lists that the TLS library does not expose.

use std::net::IpAddr;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

/// Maximum length of a client's name. Longer names are ignored, because names are written to logs
/// and headers.
const NAME_LEN_MAX: usize = 256;

/// Fields of a certificate of the server.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// DNS names in lower case; wildcards begin with `*.`.
    pub(super) names: Vec<String>,
    /// Start of validity, in seconds since 1970.
    pub(super) not_before: i64,
    /// End of validity, in seconds since 1970.
    pub(super) not_after: i64,
    issuer: Vec<u8>,
    subject: Vec<u8>,
}

impl Facts {
    /// Parses a certificate.
    pub(super) fn read(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (_rest, parsed) =
            X509Certificate::from_der(certificate.as_ref()).map_err(|error| error.to_string())?;
        let mut names: Vec<String> = alternative_names(&parsed)
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
                _ => None,
            })
            .collect();
        if names.is_empty() {
            names.extend(common_name(&parsed).map(str::to_ascii_lowercase));
        }
        Ok(Self {
            names,
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            issuer: parsed.issuer().as_raw().to_vec(),
            subject: parsed.subject().as_raw().to_vec(),
        })
    }

    /// True if `issuer` has the name of this certificate's issuer.
    pub(super) fn is_issued_by(&self, issuer: &Self) -> bool {
        self.issuer == issuer.subject
    }
}

/// Names of a verified client.
#[derive(Debug, Default)]
pub(super) struct ClientNames {
    /// The common name of the subject, otherwise the first alternative name.
    pub(super) for_logs: Option<String>,
    /// The alternative names, or the common name if there are none.
    pub(super) all: Vec<String>,
}

impl ClientNames {
    /// Parses the names. Returns no names if the certificate cannot be parsed.
    pub(super) fn read(certificate: &CertificateDer<'_>) -> Self {
        let Ok((_rest, parsed)) = X509Certificate::from_der(certificate.as_ref()) else {
            return Self::default();
        };
        let common_name = common_name(&parsed).map(str::to_owned);
        let mut all: Vec<String> = alternative_names(&parsed).filter_map(name_of_client).collect();
        if all.is_empty() {
            all.extend(common_name.clone());
        }
        let for_logs = common_name.or_else(|| all.first().cloned()).filter(|name| is_printable(name));
        // Names are filtered last, so that an ignored alternative name still takes precedence over
        // the common name.
        all.retain(|name| is_printable(name));
        Self { for_logs, all }
    }
}

/// Formats an alternative name as configurations write it. `None` for types of names that do not
/// identify clients.
fn name_of_client(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
            Some((*name).to_owned())
        }
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            let addr = v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
            addr.ok().map(|addr| addr.to_string())
        }
        _ => None,
    }
}

/// Returns the `nextUpdate` of a revocation list, in seconds since 1970.
pub(super) fn crl_end(crl: &CertificateRevocationListDer<'_>) -> Option<i64> {
    let (_rest, parsed) = CertificateRevocationList::from_der(crl.as_ref()).ok()?;
    parsed.next_update().map(|end| end.timestamp())
}

fn common_name<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    let mut names = certificate.subject().iter_common_name();
    names.find_map(|name| name.as_str().ok()).filter(|name| !name.is_empty())
}

fn alternative_names<'a>(certificate: &'a X509Certificate<'a>) -> impl Iterator<Item = &'a GeneralName<'a>> {
    let found = certificate.subject_alternative_name().ok().flatten();
    found.into_iter().flat_map(|extension| extension.value.general_names.iter())
}

fn is_printable(name: &str) -> bool {
    name.len() <= NAME_LEN_MAX && !name.chars().any(char::is_control)
}
