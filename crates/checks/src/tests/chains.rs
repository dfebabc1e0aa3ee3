//! Limits on the remaining lifetime of certificates, against a server that sends a certificate that
//! its verified chain does not need.

use super::kinds::tls_server_with;
use super::*;
use crate::connect::certificate::tests::cross_signed;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

#[test]
fn only_the_verified_chain_counts_for_the_lifetime_of_certificates() {
    let (chain, key, root) = cross_signed(2085);
    let ca = std::env::temp_dir().join(format!("doorbell-chain-{}.crt", std::process::id()));
    std::fs::write(&ca, root.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain.to_vec(), key).unwrap());
    let addr = tls_server_with(Duration::ZERO, move || Arc::clone(&config));
    let name = Some("a.test".to_owned());
    let verified = ClientTls { ca: Some(ca.clone()), server_name: name, ..ClientTls::default() };
    let certificate =
        CertificateRule { expires_after: Some(Duration::from_secs(86_400)), ..CertificateRule::default() };
    for (client, reason) in [(verified, ""), (unverified(), "the certificate has expired")] {
        let tls = TlsCheck { tls: client.clone(), certificate, ..TlsCheck::new(address(addr)) };
        let https = HttpCheck { tls: client, certificate, ..HttpCheck::new(url(format!("https://{addr}/"))) };
        for kind in [CheckKind::from(tls), CheckKind::from(https)] {
            let finding = block_on(runner(kind.clone()).run());
            assert_eq!(finding.reason, reason, "{kind:?}");
        }
    }
    std::fs::remove_file(&ca).unwrap();
}
