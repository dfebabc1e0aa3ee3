//! Tests of mutual TLS: which clients are admitted, under which name, and which are refused.

use std::sync::Arc;

use doorbell::http::layer::{RequireClientCert, ServiceExt};
use doorbell::protocol::Http1;
use doorbell::tls::{Acceptor, ClientAuth, ClientCa};
use rcgen::SanType;

use crate::memory::{Pair, VERSIONS, answer, client, client_config, config, http};
use crate::pki::{Ca, Signed, Wish, ca};

fn acceptor(client_auth: ClientAuth) -> Acceptor {
    Acceptor::new(&config().client_auth(client_auth)).unwrap()
}

/// Returns the client's name as the service sees it, or the reason for the refusal.
fn client_name(
    acceptor: &Acceptor,
    version: &'static rustls::SupportedProtocolVersion,
    own: Option<&Signed>,
) -> Result<String, String> {
    let mut pair = Pair::new(client(&Arc::new(client_config(version, own))), http(acceptor));
    let reply = pair.ask("/client");
    match reply.split(' ').find_map(|field| field.strip_prefix("client=")) {
        Some(name) => Ok(name.to_owned()),
        None => Err(format!("{:?}", pair.error)),
    }
}

#[test]
fn each_requirement_with_each_kind_of_client() {
    let good = ca().sign(Wish { common_name: "alice", ..Wish::default() });
    let strange = Ca::new("Other CA").sign(Wish { common_name: "mallory", ..Wish::default() });
    let expired = ca().sign(Wish { common_name: "old", years: (2000, 2001), ..Wish::default() });
    let require = || ClientAuth::Require(ca().as_client_ca());
    let request = || ClientAuth::Request(ca().as_client_ca());
    for version in VERSIONS {
        let table = [
            (ClientAuth::None, None, Some("-")),
            (ClientAuth::None, Some(&good), Some("-")),
            (request(), None, Some("-")),
            (request(), Some(&good), Some("alice")),
            (request(), Some(&strange), None),
            (request(), Some(&expired), None),
            (require(), None, None),
            (require(), Some(&good), Some("alice")),
            (require(), Some(&strange), None),
            (require(), Some(&expired), None),
        ];
        for (row, (demand, own, expected)) in table.into_iter().enumerate() {
            let acceptor = acceptor(demand);
            let got = client_name(&acceptor, version, own);
            let stats = acceptor.stats();
            assert_eq!(got.as_deref().ok(), expected, "{version:?} row {row}: {got:?} {stats:?}");
            assert_eq!(
                stats.handshakes_client_refused,
                u64::from(expected.is_none()),
                "row {row}: {stats:?}"
            );
        }
    }
}

#[test]
fn the_name_is_the_common_name_or_the_first_alternative() {
    let uri = || SanType::URI("spiffe://test/ns/a".try_into().unwrap());
    let mail = || SanType::Rfc822Name("bob@test".try_into().unwrap());
    let table = [
        (Wish { common_name: "cn", names: &["dns.test"], ..Wish::default() }, "cn"),
        (Wish { names: &["dns.test"], more: vec![uri()], ..Wish::default() }, "dns.test"),
        (Wish { more: vec![uri(), mail()], ..Wish::default() }, "spiffe://test/ns/a"),
        (Wish { more: vec![mail()], ..Wish::default() }, "bob@test"),
        (Wish { names: &["127.0.0.1"], ..Wish::default() }, "127.0.0.1"),
        (Wish::default(), "-"),
        (Wish { common_name: "line\nbreak", ..Wish::default() }, "-"),
    ];
    let acceptor = acceptor(ClientAuth::Require(ca().as_client_ca()));
    for (wish, name) in table {
        assert_eq!(client_name(&acceptor, VERSIONS[1], Some(&ca().sign(wish))).unwrap(), name);
    }
}

#[test]
fn every_alternative_name_admits_and_the_common_name_only_without_one() {
    let allowed =
        RequireClientCert::named(["ops", "ops.test", "spiffe://test/ops", "::1"].map(str::to_owned).into());
    let uri = |uri: &str| vec![SanType::URI(uri.try_into().unwrap())];
    let table = [
        (Wish { common_name: "ops", ..Wish::default() }, true),
        (Wish { common_name: "web", ..Wish::default() }, false),
        (Wish { common_name: "ops", names: &["web.test"], ..Wish::default() }, false),
        // A name that is not printable also counts as a name.
        (Wish { common_name: "ops", more: uri("spiffe://test/\u{1}"), ..Wish::default() }, false),
        (Wish { common_name: "web", names: &["web.test", "ops.test"], ..Wish::default() }, true),
        (Wish { names: &["web.test"], more: uri("spiffe://test/ops"), ..Wish::default() }, true),
        (Wish { names: &["web.test", "::1"], ..Wish::default() }, true),
    ];
    let acceptor = acceptor(ClientAuth::Require(ca().as_client_ca()));
    for (row, (wish, gets_in)) in table.into_iter().enumerate() {
        let config = Arc::new(client_config(VERSIONS[1], Some(&ca().sign(wish))));
        let http = Http1::new(doorbell::service_fn(answer).guarded(allowed.clone())).tls(acceptor.clone());
        let reply = Pair::new(client(&config), http).ask("/client");
        let expected = if gets_in { " 200 " } else { "none of the names that are allowed here" };
        assert!(reply.contains(expected), "row {row}: {reply}");
    }
}

#[test]
fn a_verified_client_without_a_name_passes_where_any_certificate_does() {
    let any = || Http1::new(doorbell::service_fn(answer).guarded(RequireClientCert::any()));
    let wishes = [Wish { common_name: "line\nbreak", ..Wish::default() }, Wish::default()];
    let own: Vec<_> = wishes.into_iter().map(|wish| ca().sign(wish)).collect();
    for version in VERSIONS {
        let acceptor = acceptor(ClientAuth::Request(ca().as_client_ca()));
        let ask = |own: Option<&Signed>| {
            let config = Arc::new(client_config(version, own));
            // The second connection resumes the session of the first one.
            [(); 2].map(|()| Pair::new(client(&config), any().tls(acceptor.clone())).ask("/client"))
        };
        for own in &own {
            let replies = ask(Some(own));
            assert!(replies.iter().all(|reply| reply.contains(" 200 ")), "{version:?}: {replies:?}");
            assert!(replies[1].ends_with("resumed=true"), "{version:?}: {replies:?}");
        }
        assert!(ask(None).iter().all(|reply| reply.contains(" 403 ")), "{version:?}");
    }
}

#[test]
fn revoked_clients_are_refused() {
    let good = ca().sign(Wish { common_name: "good", serial: 21, ..Wish::default() });
    let revoked = ca().sign(Wish { common_name: "revoked", serial: 22, ..Wish::default() });
    let with_crl = |crl: &str| ca().as_client_ca().crl(crl.as_bytes()).unwrap();
    for version in VERSIONS {
        let acceptor = acceptor(ClientAuth::Require(with_crl(&ca().crl(&[22], 2099))));
        assert_eq!(client_name(&acceptor, version, Some(&good)).unwrap(), "good");
        assert!(client_name(&acceptor, version, Some(&revoked)).is_err());
        assert_eq!(acceptor.stats().handshakes_client_refused, 1);
    }
    let stale = || with_crl(&ca().crl(&[22], 2022));
    assert!(
        client_name(&acceptor(ClientAuth::Require(stale())), VERSIONS[1], Some(&good)).is_err(),
        "a stale list"
    );
    let lenient = acceptor(ClientAuth::Require(stale().expired_crls_hold(true)));
    assert_eq!(client_name(&lenient, VERSIONS[1], Some(&good)).unwrap(), "good");
    assert!(client_name(&lenient, VERSIONS[1], Some(&revoked)).is_err());
    let foreign = Ca::new("Other CA").crl(&[22], 2099);
    let uncovered = acceptor(ClientAuth::Require(with_crl(&foreign)));
    assert!(client_name(&uncovered, VERSIONS[1], Some(&good)).is_err(), "no list covers the certificate");
    let bad = ca().as_client_ca().crl(b"no list").unwrap_err().to_string();
    assert!(bad.starts_with("the revocation list: the revocation list cannot be used"), "{bad}");
}

#[test]
fn a_resumed_session_keeps_its_client_until_the_requirement_changes() {
    let alice = ca().sign(Wish { common_name: "alice", serial: 31, ..Wish::default() });
    for version in VERSIONS {
        let client_config = Arc::new(client_config(version, Some(&alice)));
        let acceptor = acceptor(ClientAuth::Require(ca().as_client_ca()));
        let ask = || Pair::new(client(&client_config), http(&acceptor)).ask("/client");
        assert!(ask().contains("client=alice") && ask().ends_with("resumed=true"), "{version:?}");
        assert!(ask().contains("client=alice"));
        let revoking = ca().as_client_ca().crl(ca().crl(&[31], 2099).as_bytes()).unwrap();
        assert!(acceptor.replace(&config().client_auth(ClientAuth::Require(revoking))).unwrap());
        assert!(!ask().contains("client="), "{version:?}: a revoked client resumed its session");
    }
}

/// Connects a client with this certificate that made a session in 2026 and resumes it in 2096.
fn resumed_in_2096(
    version: &'static rustls::SupportedProtocolVersion,
    own: &Signed,
    client_ca: ClientCa,
) -> (bool, u64) {
    let config = Arc::new(client_config(version, Some(own)));
    let acceptor = acceptor(ClientAuth::Require(client_ca));
    assert!(Pair::new(client(&config), http(&acceptor)).ask("/client").contains("client=old"));
    let mut pair = Pair::new(client(&config), http(&acceptor));
    pair.stand.set_date(4_000_000_000);
    pair.send(b"GET /client HTTP/1.1\r\nHost: a\r\n\r\n");
    let plaintext = String::from_utf8_lossy(&pair.plaintext);
    assert!(plaintext.is_empty() || plaintext.ends_with("resumed=true"), "{version:?}: {plaintext}");
    (!plaintext.is_empty(), acceptor.stats().handshakes_client_refused)
}

#[test]
fn a_resumed_client_with_an_expired_certificate_or_list_is_refused() {
    // All certificates are valid at the current time; the connection is given a later time.
    let until = |year: i32| Wish { common_name: "old", serial: 41, years: (2020, year), ..Wish::default() };
    let (short, long) = (ca().sign(until(2090)), ca().sign(until(2100)));
    let listed = |next_year: i32| ca().as_client_ca().crl(ca().crl(&[22], next_year).as_bytes()).unwrap();
    // An issuer expires before the certificate that it signed.
    let middle = ca().intermediate("Middle CA", (2020, 2090));
    let mut chained = middle.sign(until(2100));
    chained.certificate.push_str(&middle.pem());
    for version in VERSIONS {
        assert_eq!(resumed_in_2096(version, &long, ca().as_client_ca()), (true, 0));
        assert_eq!(resumed_in_2096(version, &short, ca().as_client_ca()), (false, 1));
        assert_eq!(resumed_in_2096(version, &chained, ca().as_client_ca()), (false, 1), "its issuer");
        assert_eq!(resumed_in_2096(version, &long, listed(2099)), (true, 0));
        assert_eq!(
            resumed_in_2096(version, &long, listed(2090)),
            (false, 1),
            "{version:?}: the list has expired"
        );
        assert_eq!(resumed_in_2096(version, &long, listed(2090).expired_crls_hold(true)), (true, 0));
    }
}

#[test]
fn a_bundle_without_a_certificate_is_refused_by_name() {
    let error = ClientCa::from_named_pem(b"", "/etc/ca.pem").unwrap_err().to_string();
    assert!(error.starts_with("/etc/ca.pem: contains no certificate"), "{error}");
}
