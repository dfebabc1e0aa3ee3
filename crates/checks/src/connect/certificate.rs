//! Certificates of a server: identification and expiry.

use crate::finding::Issue;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Maximum number of certificates of a chain that are parsed.
const CHAIN_LEN_MAX: usize = 16;

/// Maximum length of each text of [`CertificateInfo`], in characters.
const TEXT_LEN_MAX: usize = 1024;

/// Identification of a certificate, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// SHA-256 in hexadecimal digits.
    pub fingerprint_sha256: String,
    /// Distinguished name of the subject.
    pub subject: String,
    /// Distinguished name of the issuer.
    pub issuer: String,
    /// DNS names, separated by commas.
    pub names: String,
    /// Serial number in hexadecimal digits.
    pub serial: String,
}

impl CertificateInfo {
    /// Parses a certificate; `None` if it cannot be parsed.
    pub(crate) fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(der).ok()?;
        let sha256 = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13()?;
        let fingerprint = sha256.common.hash_provider.hash(der);
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let names = alternatives.iter().flat_map(|names| &names.value.general_names);
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        });
        Some(Self {
            fingerprint_sha256: hex(fingerprint.as_ref()),
            subject: short(&certificate.subject().to_string()),
            issuer: short(&certificate.issuer().to_string()),
            names: short(&names.collect::<Vec<_>>().join(",")),
            serial: hex(certificate.raw_serial()),
        })
    }
}

/// Truncates a text whose length the server controls.
fn short(text: &str) -> String {
    text.chars().take(TEXT_LEN_MAX).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(TEXT_LEN_MAX / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Earliest expiry of these certificates, as time since 1970.
pub(crate) fn ends_at(chain: &[CertificateDer<'_>]) -> Result<Duration, Issue> {
    let unreadable = || Issue::failure("the server's certificate cannot be parsed");
    let mut ends = None;
    for der in chain.iter().take(CHAIN_LEN_MAX) {
        let (_, certificate) = parse_x509_certificate(der).map_err(|_| unreadable())?;
        let secs = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        ends = Some(ends.map_or(secs, |known: u64| known.min(secs)));
    }
    ends.map(Duration::from_secs).ok_or_else(|| Issue::failure("the server sent no certificate"))
}

/// Time, since 1970, at which the certificates of a completed handshake expire. With `roots`, this
/// is the time until which a chain verifies, because a server may send certificates that no
/// verified chain needs. Without `roots`, or if no chain verifies now, it is the earliest expiry of
/// all certificates.
pub(crate) fn session_ends_at(
    chain: &[CertificateDer<'_>],
    roots: Option<&RootCertStore>,
    now: Duration,
) -> Result<Duration, Issue> {
    let earliest = ends_at(chain)?;
    // Each chain contains the server's own certificate. If this certificate is the first to expire,
    // no chain has to be verified.
    let is_own = chain.first().is_some_and(|own| ends_at(std::slice::from_ref(own)) == Ok(earliest));
    let verified = roots.filter(|_| !is_own).and_then(|roots| chain_ends_at(chain, roots, now));
    Ok(verified.unwrap_or(earliest))
}

/// Time, since 1970, until which at least one chain of these certificates verifies; `None` if no
/// chain verifies now. The expiry of a root is ignored, as in the handshake.
pub(crate) fn chain_ends_at(
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: Duration,
) -> Option<Duration> {
    let chain = chain.get(..chain.len().min(CHAIN_LEN_MAX))?;
    let (first, others) = chain.split_first()?;
    let first = ParsedCertificate::try_from(first).ok()?;
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let is_good_at = |at: Duration| {
        let at = UnixTime::since_unix_epoch(at);
        verify_server_cert_signed_by_trust_anchor(&first, roots, others, at, algorithms).is_ok()
    };
    if !is_good_at(now) {
        return None;
    }
    let mut ends: Vec<Duration> =
        chain.iter().filter_map(|der| ends_at(std::slice::from_ref(der)).ok()).collect();
    ends.sort_unstable();
    ends.into_iter().rev().find(|ends| *ends >= now && is_good_at(*ends))
}

#[expect(clippy::disallowed_methods, reason = "certificates expire by the wall clock")]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    #[test]
    fn certificates_have_names() {
        let mut params = CertificateParams::new(vec!["a.test".to_owned(), "b.test".to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "a \"quoted\" one");
        params.serial_number = Some(rcgen::SerialNumber::from(vec![0x0a, 0xbc]));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let named = CertificateInfo::of(certificate.der()).unwrap();
        assert_eq!((named.names.as_str(), named.serial.as_str()), ("a.test,b.test", "0abc"));
        assert!(named.subject.contains("CN=a \"quoted\" one") && named.issuer == named.subject, "{named:?}");
        assert!(named.fingerprint_sha256.len() == 64, "{named:?}");
        assert_eq!(CertificateInfo::of(&CertificateDer::from(b"no".to_vec())), None);
        // The test vector of FIPS 180-2, appendix B.1.
        let sha256 = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().unwrap();
        let abc = hex(sha256.common.hash_provider.hash(b"abc").as_ref());
        assert_eq!(abc, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    /// A chain whose server certificate, for `a.test`, expires in `year`, with its key and its
    /// root. The server sends two certificates of its intermediate CA, signed by different roots:
    /// one has expired and is only useful to old clients, the other one expires in 2090.
    pub(crate) fn cross_signed(year: i32) -> ([CertificateDer<'static>; 3], KeyPair, rcgen::Certificate) {
        let params = |name: &str, year| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            params
        };
        let keys = [(); 4].map(|()| KeyPair::generate().unwrap());
        let root = params("root", 2095).self_signed(&keys[0]).unwrap();
        let (good, old) =
            (Issuer::new(params("root", 2095), &keys[0]), Issuer::new(params("old", 2095), &keys[1]));
        let by_good = params("middle", 2090).signed_by(&keys[2], &good).unwrap();
        let by_old = params("middle", 2020).signed_by(&keys[2], &old).unwrap();
        let middle = Issuer::new(params("middle", 2090), &keys[2]);
        let mut leaf = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        leaf.not_after = rcgen::date_time_ymd(year, 1, 1);
        let leaf = leaf.signed_by(&keys[3], &middle).unwrap();
        let chain = [leaf, by_old, by_good].map(|certificate| certificate.der().clone());
        let [.., key] = keys;
        (chain, key, root)
    }

    #[test]
    fn a_chain_ends_when_no_path_verifies() {
        let at =
            |year| Duration::from_secs(rcgen::date_time_ymd(year, 1, 1).unix_timestamp().cast_unsigned());
        let now = at(2026);
        for (year, len, expected) in [
            (2085, 3, Some(2085)),
            // The intermediate certificate expires first.
            (2094, 3, Some(2090)),
            // No root signed it.
            (2085, 2, None),
            // It has expired.
            (2025, 3, None),
            (2085, 0, None),
        ] {
            let (chain, _, root) = cross_signed(year);
            let mut roots = RootCertStore::empty();
            roots.add(root.der().clone()).unwrap();
            let ends = chain_ends_at(&chain[..len], &roots, now);
            assert_eq!(ends, expected.map(at), "{year}, {len} certificates");
            assert_eq!(ends_at(&chain), Ok(at(2020)));
            let whole = session_ends_at(&chain, Some(&roots), now);
            assert_eq!(whole, Ok(at(if year == 2025 { 2020 } else { year.min(2090) })), "{year}");
            assert_eq!(session_ends_at(&chain, None, now), Ok(at(2020)));
        }
    }

    #[test]
    fn the_first_to_end_counts_and_garbage_is_refused() {
        let of = |year| {
            let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = KeyPair::generate().unwrap();
            params.self_signed(&key).unwrap().der().clone()
        };
        let chain = [of(2040), of(2030), of(2035)];
        assert_eq!(ends_at(&chain), Ok(Duration::from_secs(1_893_456_000)));
        assert_eq!(ends_at(&[]).unwrap_err().reason, "the server sent no certificate");
        let whole = chain[0].to_vec();
        for end in 0..whole.len() {
            assert!(ends_at(&[CertificateDer::from(whole[..end].to_vec())]).is_err(), "{end}");
        }
    }
}
