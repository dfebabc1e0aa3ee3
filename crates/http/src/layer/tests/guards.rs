//! The guards of this crate, each behind a connection.

use super::{alive, talk, talk_from};
use crate::auth::{Policy, Tokens};
use crate::layer::{AtMost, Guard, RateLimit, RequireAuth, RequireClientCert, ServiceExt};
use crate::limit::{Key, Limiter, Quota};
use crate::{Client, Service, TlsInfo, service_fn};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn with_field(field: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n").into_bytes()
}

fn from(addr: &str) -> Client<'static> {
    Client::at(addr.parse::<IpAddr>().unwrap())
}

fn status(reply: &str) -> &str {
    reply.get(9..12).unwrap_or("none")
}

#[test]
fn a_token_is_asked_for_as_the_rfc_says() {
    let mut tokens = Tokens::new();
    tokens.add("alice", b"0123456789abcdef0123456789abcdef").unwrap();
    let service = alive().guarded(RequireAuth::new(Policy::bearer("ops", tokens).unwrap()));
    let cases: [(Vec<u8>, &str, &str); 4] = [
        (GET.to_vec(), "401", "WWW-Authenticate: Bearer realm=\"ops\"\r\n"),
        (with_field("Authorization: Bearer wrong-wrong-wrong-wrong"), "401", "error=\"invalid_token\""),
        (with_field("Authorization: Bearer a b"), "400", "error=\"invalid_request\""),
        (with_field("Authorization: bearer 0123456789abcdef0123456789abcdef"), "200", "ok\n"),
    ];
    for (input, expected, text) in cases {
        let reply = talk(&service, &input);
        assert_eq!(status(&reply), expected, "{reply}");
        assert!(reply.contains(text), "{text} in {reply}");
    }
}

#[test]
fn the_quota_is_each_clients_own() {
    let quota = Quota::new(2, 1, Duration::from_secs(60)).unwrap();
    let limiter = Arc::new(Limiter::new(quota, 1024, [1, 2]));
    let guard = RateLimit::new(Arc::clone(&limiter), Key::Ip).send_fields(true);
    assert!(guard.wants_client());
    let service = alive().guarded(guard);
    assert!(service.wants_client());
    let one = from("192.0.2.1");
    for left in ["1", "0"] {
        let reply = talk_from(&service, GET, &one);
        assert_eq!(status(&reply), "200", "{reply}");
        assert!(reply.contains(&format!("RateLimit-Remaining: {left}\r\n")), "{reply}");
    }
    let reply = talk_from(&service, GET, &one);
    assert_eq!(status(&reply), "429", "{reply}");
    assert!(reply.contains("Retry-After: 60\r\n") && reply.contains("RateLimit-Limit: 2\r\n"), "{reply}");
    assert_eq!(status(&talk_from(&service, GET, &from("192.0.2.2"))), "200", "another client");
    assert_eq!(limiter.counts().denied, 1);
}

/// Addresses of one network share a quota. The same applies to requests without the field of the
/// key.
#[test]
fn addresses_of_one_network_have_one_quota() {
    let quota = Quota::new(1, 1, Duration::from_secs(60)).unwrap();
    let by = |key: &Key| RateLimit::new(Arc::new(Limiter::new(quota, 1024, [1, 2])), key.clone());
    for key in [Key::Ip, Key::Token, Key::Header("x-api-key".into())] {
        let (usual, whole) = (alive().guarded(by(&key)), alive().guarded(by(&key).client_v6_len(128)));
        for (client, by_usual, by_whole) in [
            ("2001:db8::1", "200", "200"),
            ("2001:db8::2", "429", "200"),
            ("2001:db8::2", "429", "429"),
            ("2001:db8:0:1::1", "200", "200"),
        ] {
            assert_eq!(status(&talk_from(&usual, GET, &from(client))), by_usual, "{key:?} {client}");
            assert_eq!(status(&talk_from(&whole, GET, &from(client))), by_whole, "{key:?} {client}");
        }
    }
}

#[test]
fn probes_may_be_exempt() {
    let quota = Quota::new(1, 1, Duration::from_secs(60)).unwrap();
    let limiter = Arc::new(Limiter::new(quota, 1024, [1, 2]));
    let service = alive().guarded(RateLimit::new(limiter, Key::Ip).exempt_probes(true));
    let one = from("192.0.2.1");
    for _ in 0..3 {
        let reply = talk_from(&service, &with_field("User-Agent: kube-probe/1.34"), &one);
        assert_eq!(status(&reply), "200", "{reply}");
        assert!(!reply.contains("RateLimit"), "{reply}");
    }
    assert_eq!(status(&talk_from(&service, GET, &one)), "200");
    assert_eq!(status(&talk_from(&service, GET, &one)), "429");
}

#[test]
fn a_certificate_has_to_be_there_and_may_have_to_have_a_name() {
    // The name shown in logs does not authorize a client.
    let verified = |names: &[&str]| TlsInfo {
        client_verified: true,
        client_name: Some("ops.example".to_owned()),
        client_names: names.iter().map(|&name| name.to_owned()).collect(),
        ..TlsInfo::default()
    };
    let (named, other) = (verified(&["web.example", "ops.example"]), verified(&["web.example"]));
    let nameless = verified(&[]);
    let none = TlsInfo::default();
    let any = alive().guarded(RequireClientCert::any());
    let ops = alive().guarded(RequireClientCert::named(vec!["ops.example".to_owned()]));
    for (tls, by_any, by_ops) in [
        (None, "a client certificate is needed", "a client certificate is needed"),
        (Some(&none), "a client certificate is needed", "a client certificate is needed"),
        (Some(&nameless), "200 OK", "none of the names that are allowed here"),
        (Some(&other), "200 OK", "none of the names that are allowed here"),
        (Some(&named), "200 OK", "200 OK"),
    ] {
        let client = Client::UNKNOWN.with_tls(tls);
        for (service, expected) in [(&any, by_any), (&ops, by_ops)] {
            let reply = talk_from(service, GET, &client);
            assert!(reply.contains(expected), "{tls:?}: {reply}");
            assert_eq!(status(&reply), if expected == "200 OK" { "200" } else { "403" }, "{tls:?}");
        }
    }
}

#[test]
fn only_so_many_at_once() {
    let at_most = AtMost::new(1);
    let nested = at_most.clone();
    let service = (service_fn(move |_, reply| {
        assert!(nested.enter().is_none(), "the only place is in use");
        nested.refuse(reply)
    }))
    .with(at_most.clone());
    let reply = talk(&service, GET);
    assert!(reply.contains("Retry-After: 1\r\n") && status(&reply) == "503", "{reply}");
    assert_eq!((at_most.live(), at_most.refused()), (0, 1), "every place is released");
    let closed = alive().with(AtMost::new(0));
    assert_eq!(status(&talk(&closed, GET)), "503");
}

/// An absent guard does not need the client's address, which would cost a system call per
/// connection.
#[test]
fn a_guard_that_is_not_there_wants_nothing() {
    let quota = Quota::new(2, 1, Duration::from_secs(60)).unwrap();
    let limiter = Arc::new(Limiter::new(quota, 1024, [1, 2]));
    let guard = Some(RateLimit::new(limiter, Key::Ip));
    assert!(alive().guarded(guard).wants_client());
    assert!(!alive().guarded(None::<RateLimit>).wants_client());
}
