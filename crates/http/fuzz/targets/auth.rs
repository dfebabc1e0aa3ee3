//! Target: bearer tokens, signed tokens and their keys. Only signed tokens are accepted, and no
//! input causes a panic.

use super::sign::{self, ALL, CLAIMS, NOW};
use doorbell_http::auth::jwt::{Algorithm, Jwks, JwtPolicy, Key};
use doorbell_http::auth::{Authorization, Decision, Policy, Tokens};
use serde_json::Value;
use std::sync::LazyLock;

/// A stored ECDSA token, because ECDSA signatures are randomized.
const ES256_TOKEN: &str = include_str!("../../tests/keys/es256.jwt").trim_ascii_end();
const SECRET: &str = "XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK";

static JWT: LazyLock<JwtPolicy> = LazyLock::new(sign::policy);
static GOOD: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tokens: Vec<String> = ALL
        .into_iter()
        .map(|each| if each == Algorithm::Es256 { ES256_TOKEN.to_owned() } else { sign::token(each) })
        .collect();
    assert!(tokens.iter().all(|token| JWT.verify(token.as_bytes(), NOW).is_ok()));
    tokens
});
static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let mut tokens = Tokens::new();
    tokens.add("door", SECRET.as_bytes()).expect("a good secret");
    Policy::either("fuzz", tokens, sign::policy()).expect("a good policy")
});

/// Runs the target. The first byte selects the kind of input.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    match choice % 6 {
        0 => whole_token(rest),
        1 => field(rest),
        2 => claims(rest),
        3 => header(rest),
        4 => pem(rest),
        _ => key_set(rest),
    }
}

fn whole_token(token: &[u8]) {
    let good = GOOD.iter().any(|good| good.as_bytes() == token);
    assert_eq!(JWT.verify(token, NOW).is_ok(), good, "{}", token.escape_ascii());
}

fn field(value: &[u8]) {
    let decision = POLICY.decide(Authorization::One(value), NOW);
    assert_eq!(POLICY.challenge(&decision).is_some(), decision.status().is_some());
    let token = value
        .get(..6)
        .filter(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
        .and_then(|_| value.get(6..))
        .filter(|rest| rest.starts_with(b" "))
        .map(|rest| rest.trim_ascii_start());
    let good = token
        .is_some_and(|token| token == SECRET.as_bytes() || GOOD.iter().any(|good| good.as_bytes() == token));
    // Spaces may precede a valid token. A value with tabs before the token may be refused, even if
    // the token is valid.
    let allowed = matches!(decision, Decision::Allowed(_));
    assert!(!allowed || good, "{}", value.escape_ascii());
    assert!(allowed || !good || value.iter().any(u8::is_ascii_whitespace), "{}", value.escape_ascii());
}

/// Verifies a correctly signed token whose claims have any content.
fn claims(claims: &[u8]) {
    let token = sign::sign(Algorithm::Hs256, r#"{"alg":"HS256"}"#, claims);
    if let Ok(verified) = JWT.verify(token.as_bytes(), NOW) {
        let value: Value = serde_json::from_slice(claims).expect("only JSON passes");
        assert!(value["exp"].as_f64().expect("a number") > 1_700_000_000.0);
        assert!(value.get("nbf").is_none_or(|nbf| nbf.as_f64().expect("a number") <= 1_700_000_000.0));
        assert_eq!(value["iss"], "https://issuer.test");
        let ours = |name: &Value| name == "doorbell";
        assert!(ours(&value["aud"]) || value["aud"].as_array().expect("a list").iter().any(ours));
        assert_eq!(*verified.subject, *value["sub"].as_str().unwrap_or_default());
        assert!(!verified.subject.chars().any(char::is_control));
    }
}

/// Verifies a correctly signed token whose header has any content.
fn header(header: &[u8]) {
    let message = format!("{}.{}", sign::encode(header), sign::encode(CLAIMS));
    let token = format!("{message}.{}", sign::encode(sign::hmac(sign::SECRET, &message)));
    if JWT.verify(token.as_bytes(), NOW).is_ok() {
        let value: Value = serde_json::from_slice(header).expect("only JSON passes");
        assert_eq!(value["alg"], "HS256");
        assert!(value.get("kid").is_none_or(|kid| kid == "hs"));
        assert!(["crit", "b64", "enc"].iter().all(|name| value.get(name).is_none()));
    }
}

fn pem(pem: &[u8]) {
    for algorithm in ALL {
        if let Ok(key) = Key::pem(algorithm, pem) {
            assert_eq!(key.algorithm(), algorithm);
            assert!(!pem.windows(11).any(|window| window == b"PRIVATE KEY"), "{}", pem.escape_ascii());
        }
    }
    if let Ok(key) = Key::hmac(pem) {
        assert!(pem.len() >= 32 && key.algorithm() == Algorithm::Hs256);
    }
}

fn key_set(text: &[u8]) {
    if let Ok(set) = Jwks::read(text, &ALL) {
        let value: Value = serde_json::from_slice(text).expect("only JSON passes");
        let entries = value["keys"].as_array().expect("a list");
        assert_eq!(entries.len(), set.keys.len() + set.ignored.len() + set.skipped);
        assert!(!set.keys.is_empty());
        assert!(entries.iter().filter(|entry| entry["kty"] == "RSA").all(|entry| entry.get("d").is_none()));
    }
}
