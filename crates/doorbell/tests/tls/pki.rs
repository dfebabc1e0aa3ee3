//! Certificates for tests: a CA, certificates signed by it, and its revocation list.

use std::sync::{Arc, OnceLock};

use doorbell::tls::{CertPair, ClientCa};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate authority.
pub(crate) struct Ca {
    pub(crate) certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A signed certificate and its key, both PEM.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The contents of a certificate.
pub(crate) struct Wish<'a> {
    pub(crate) names: &'a [&'a str],
    pub(crate) common_name: &'a str,
    pub(crate) more: Vec<SanType>,
    pub(crate) serial: u64,
    /// The years of validity, from the first day of the first year to the first day of the second.
    pub(crate) years: (i32, i32),
}

impl Default for Wish<'_> {
    fn default() -> Self {
        Self { names: &[], common_name: "", more: Vec::new(), serial: 1, years: (2020, 2100) }
    }
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

    /// Creates an intermediate authority, signed by this authority and valid between these years.
    pub(crate) fn intermediate(&self, name: &str, years: (i32, i32)) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn sign(&self, wish: Wish<'_>) -> Signed {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = wish.names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.subject_alt_names.extend(wish.more);
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !wish.common_name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, wish.common_name);
        }
        params.serial_number = Some(SerialNumber::from(wish.serial));
        params.not_before = date_time_ymd(wish.years.0, 1, 1);
        params.not_after = date_time_ymd(wish.years.1, 1, 1);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Creates a revocation list of these serial numbers, with the year of its next update.
    pub(crate) fn crl(&self, serials: &[u64], next_year: i32) -> String {
        let revoke = |&serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(next_year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoke).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        Arc::new(roots)
    }

    pub(crate) fn as_client_ca(&self) -> ClientCa {
        ClientCa::from_pem(self.pem().as_bytes()).unwrap()
    }
}

impl Signed {
    pub(crate) fn pair(&self) -> CertPair {
        CertPair::from_pem(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }

    /// Returns the chain and the key for a client.
    pub(crate) fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).map(Result::unwrap).collect();
        (chain, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap())
    }
}

/// Returns the CA that clients of these tests trust.
pub(crate) fn ca() -> &'static Ca {
    static CA: OnceLock<Ca> = OnceLock::new();
    CA.get_or_init(|| Ca::new("Test CA"))
}

/// Returns a certificate for `localhost` and 127.0.0.1, signed by [`ca`].
pub(crate) fn localhost() -> &'static Signed {
    static SIGNED: OnceLock<Signed> = OnceLock::new();
    SIGNED.get_or_init(|| ca().sign(Wish { names: &["localhost", "127.0.0.1"], ..Wish::default() }))
}
