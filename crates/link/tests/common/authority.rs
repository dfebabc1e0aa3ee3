//! Certificates of a CA for tests.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use doorbell_link::net::LinkTls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::{Path, PathBuf};

/// A directory with a CA, removed on drop.
pub(crate) struct Authority {
    pub(crate) dir: PathBuf,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("doorbell-link-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(dir.join("ca.pem"), ca.pem()).unwrap();
        Self { dir, ca }
    }

    pub(crate) fn tls(&self, name: &str) -> LinkTls {
        self.tls_with_ca(name, &self.dir.join("ca.pem"))
    }

    pub(crate) fn tls_with_ca(&self, name: &str, ca: &Path) -> LinkTls {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.ca).unwrap();
        let [cert_file, key_file] = ["crt", "key"].map(|end| self.dir.join(format!("{name}.{end}")));
        std::fs::write(&cert_file, cert.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        LinkTls::from_files(ca, &cert_file, &key_file).unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.dir);
    }
}
