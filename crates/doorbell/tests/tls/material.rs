//! Tests of certificates and keys from bytes and files: error messages, warnings, and replacement.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use doorbell::tls::{Acceptor, CertFiles, CertPair, ClientAuth, TlsConfig, TlsWarning, read_client_ca};

use crate::memory::{Pair, UNIX_SECS, VERSIONS, client, client_config, http};
use crate::pki::{Ca, Signed, Wish, ca, localhost};

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("doorbell-tls-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

const ENCRYPTED: &str =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";

#[test]
fn each_mistake_is_reported_with_its_file_and_a_fix() {
    let Signed { certificate, key } = localhost();
    let other = ca().sign(Wish { names: &["other"], serial: 41, ..Wish::default() });
    let reversed = format!("{}{certificate}", ca().pem());
    let unrelated = format!("{certificate}{}", Ca::new("Other CA").pem());
    let folder = Folder::new("mistakes");
    let broken = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
    let no_x509 = "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n";
    let no_key = "-----BEGIN PRIVATE KEY-----\nMAMCAQE=\n-----END PRIVATE KEY-----\n";
    let table: [(&str, &str, &str, &str); 12] = [
        ("", key, "c.pem", "contains no certificate; PEM with"),
        (key, certificate, "c.pem", "are certificate and key swapped?"),
        ("0\u{2}\u{1}", key, "c.pem", "looks like DER"),
        (broken, key, "c.pem", "not valid PEM"),
        (no_x509, key, "c.pem", "certificate 1 cannot be read"),
        (certificate, "", "k.pem", "contains no private key; PEM with"),
        (certificate, certificate, "k.pem", "are certificate and key swapped?"),
        (certificate, ENCRYPTED, "k.pem", "is encrypted; decrypt it with `openssl pkey"),
        (certificate, no_key, "k.pem", "the private key cannot be used"),
        (certificate, &other.key, "k.pem", "the key does not belong to the certificate in"),
        (
            &reversed,
            key,
            "c.pem",
            "the key belongs to certificate 2 of the chain; put that certificate first",
        ),
        (&unrelated, key, "c.pem", "certificate 2 did not sign the one before it"),
    ];
    for (row, (certificate, key, file, words)) in table.into_iter().enumerate() {
        let files =
            CertFiles::new(folder.file("c.pem", certificate, 0o644), folder.file("k.pem", key, 0o600));
        let error = files.load().unwrap_err().to_string();
        let origin = folder.0.join(file).display().to_string();
        assert!(error.starts_with(&origin) && error.contains(words), "row {row}: {error}");
    }
    let missing = CertFiles::new(folder.0.join("none.pem"), folder.0.join("k.pem")).load().unwrap_err();
    assert!(missing.to_string().contains("none.pem: cannot be read"), "{missing}");
    let missing = read_client_ca(&folder.0.join("ca.pem"), &[]).unwrap_err().to_string();
    assert!(missing.contains("ca.pem: cannot be read"), "{missing}");
    let bundle = folder.file("ca.pem", &ca().pem(), 0o644);
    let list = folder.file("ca.crl", &ca().crl(&[1], 2099), 0o644);
    assert!(read_client_ca(&bundle, &[list]).is_ok());
}

#[test]
fn a_whole_chain_is_accepted_and_oddities_are_warnings() {
    let folder = Folder::new("warnings");
    let chain = format!("{}{}", localhost().certificate, ca().pem());
    let load = |mode| {
        CertFiles::new(folder.file("c.pem", &chain, 0o644), folder.file("k.pem", &localhost().key, mode))
            .load()
            .unwrap()
    };
    assert_eq!(load(0o600).warnings(UNIX_SECS), []);
    assert_eq!(load(0o640).warnings(UNIX_SECS), []);
    let readable = load(0o644).warnings(UNIX_SECS);
    let [TlsWarning::KeyReadableByOthers { mode: 0o644, origin }] = readable.as_slice() else {
        panic!("{readable:?}")
    };
    assert!(origin.ends_with("k.pem"));
    let pair = localhost().pair();
    let (end, start) = (pair.not_after(), 1_577_836_800);
    assert_eq!(end, 4_102_444_800, "2100-01-01");
    let expired = pair.warnings(end + 5);
    assert!(matches!(expired.as_slice(), [TlsWarning::Expired { ago_secs: 5, .. }]), "{expired:?}");
    let early = pair.warnings(start - 7);
    assert!(matches!(early.as_slice(), [TlsWarning::NotYetValid { in_secs: 7, .. }]), "{early:?}");
    for warning in [&readable[0], &expired[0], &early[0]] {
        assert!(warning.to_string().contains(": "), "{warning}");
    }
}

#[test]
fn a_swap_changes_new_handshakes_only_and_equal_files_are_no_swap() {
    let next = ca().sign(Wish { names: &["localhost"], serial: 51, years: (2020, 2099), ..Wish::default() });
    let config = TlsConfig::new(localhost().pair());
    let acceptor = Acceptor::new(&config).unwrap();
    let client_config = Arc::new(client_config(VERSIONS[1], None));
    let mut old = Pair::new(client(&client_config), http(&acceptor));
    assert!(old.ask("/").ends_with("ok\n"));
    assert_eq!(acceptor.certificates()[0].not_after, 4_102_444_800);
    let again = CertPair::from_pem(localhost().certificate.as_bytes(), localhost().key.as_bytes()).unwrap();
    assert_eq!(again.fingerprint(), localhost().pair().fingerprint());
    assert!(!acceptor.replace(&TlsConfig::new(again)).unwrap(), "nothing changed");
    assert!(acceptor.replace(&TlsConfig::new(next.pair())).unwrap());
    assert_eq!(acceptor.certificates()[0].not_after, 4_070_908_800);
    assert_eq!(acceptor.certificates()[0].names, ["localhost"]);
    assert!(old.ask("/").ends_with("ok\n"), "an existing session keeps its certificate");
    let mut new = Pair::new(client(&client_config), http(&acceptor));
    new.talk();
    // A resumed TLS 1.3 session presents no certificate, so only a new client sees the new
    // certificate.
    let fresh = Arc::new(crate::memory::client_config(VERSIONS[1], None));
    let mut shown = Pair::new(client(&fresh), http(&acceptor));
    shown.talk();
    assert_eq!(shown.client.peer_certificates().unwrap()[0], next.der().0[0]);
}

#[test]
fn every_difference_in_a_configuration_is_detected() {
    let base = || TlsConfig::new(localhost().pair());
    let more = ca().sign(Wish { names: &["more"], serial: 61, ..Wish::default() });
    let revoking = ca().as_client_ca().crl(ca().crl(&[1], 2099).as_bytes()).unwrap();
    let others = [
        base().pair(more.pair()),
        base().alpn(["h2"]),
        base().alpn(["http/1.1", "h2"]),
        base().min_version(doorbell::tls::TlsVersion::Tls13),
        base().unknown_name(doorbell::tls::UnknownName::Refuse),
        base().resumption(false),
        base().client_auth(ClientAuth::Request(ca().as_client_ca())),
        base().client_auth(ClientAuth::Require(ca().as_client_ca())),
        base().client_auth(ClientAuth::Require(ca().as_client_ca().expired_crls_hold(true))),
        base().client_auth(ClientAuth::Require(revoking)),
        TlsConfig::new(localhost().pair().names(["else.test"])),
        TlsConfig::new(more.pair()),
    ];
    let mut seen = vec![base().fingerprint()];
    assert_eq!(base().fingerprint(), seen[0]);
    for (row, other) in others.iter().enumerate() {
        assert!(!seen.contains(&other.fingerprint()), "row {row}");
        seen.push(other.fingerprint());
    }
}
