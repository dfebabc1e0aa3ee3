//! Certificates for tests: a CA, the certificates that it signs, its revocation list, and their
//! files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, SignatureAlgorithm, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::support::Scratch;

/// A certificate authority.
pub(crate) struct Ca {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A signed certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The CA that clients of these tests trust.
pub(crate) fn ca() -> &'static Ca {
    static CA: OnceLock<Ca> = OnceLock::new();
    CA.get_or_init(|| Ca::new("Test CA"))
}

/// A certificate for `localhost` and 127.0.0.1 from [`ca`].
pub(crate) fn localhost() -> &'static Signed {
    static SIGNED: OnceLock<Signed> = OnceLock::new();
    SIGNED.get_or_init(|| ca().server(&["localhost", "127.0.0.1"]))
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Signs a certificate for a server with these names and a P-256 key.
    pub(crate) fn server(&self, names: &[&str]) -> Signed {
        self.server_with(names, &rcgen::PKCS_ECDSA_P256_SHA256)
    }

    /// Signs a server certificate with a key for this algorithm. It is valid for three months, as
    /// from public CAs.
    pub(crate) fn server_with(&self, names: &[&str], algorithm: &'static SignatureAlgorithm) -> Signed {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, *names.first().unwrap());
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        make_current(&mut params);
        Signed { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    /// Signs a certificate for a server and a client with this name.
    pub(crate) fn mutual(&self, name: &str) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        make_current(&mut params);
        Signed { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    /// Signs a client certificate for this name.
    pub(crate) fn client(&self, name: &str, serial: u64) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Signed { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    /// A revocation list with these serial numbers.
    pub(crate) fn crl(&self, serials: &[u64]) -> String {
        self.crl_until(serials, SystemTime::now() + 90 * DAY)
    }

    /// As [`Self::crl`], with this end of validity.
    pub(crate) fn crl_until(&self, serials: &[u64], end: SystemTime) -> String {
        let revoke = |&serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(1970, 1, 1) + end.duration_since(UNIX_EPOCH).unwrap(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoke).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

impl Signed {
    /// Writes `NAME.crt` and a private `NAME.key`, and returns their paths.
    pub(crate) fn write(&self, scratch: &Scratch, name: &str) -> (String, String) {
        let certificate = scratch.write(&format!("{name}.crt"), &self.certificate);
        let key = scratch.write(&format!("{name}.key"), &self.key);
        make_private(Path::new(&key));
        (certificate, key)
    }

    /// The certificate in DER.
    pub(crate) fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap().to_vec()
    }

    /// Atomically replaces the files of [`Signed::write`], the certificate first.
    pub(crate) fn replace(&self, scratch: &Scratch, name: &str) {
        for (end, text) in [("crt", &self.certificate), ("key", &self.key)] {
            let fresh = scratch.write(&format!("{name}.{end}.new"), text);
            make_private(Path::new(&fresh));
            fs::rename(fresh, scratch.path(&format!("{name}.{end}"))).unwrap();
        }
    }
}

/// Sets the validity to three months from yesterday.
fn make_current(params: &mut CertificateParams) {
    let now = date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (params.not_before, params.not_after) = (now - DAY, now + 90 * DAY);
}

const DAY: Duration = Duration::from_secs(86_400);

/// Makes a file private. A readable key file would cause a warning.
pub(crate) fn make_private(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
