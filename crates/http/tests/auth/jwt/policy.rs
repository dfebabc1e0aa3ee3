//! A policy with signed tokens: its statuses and challenges.

use super::sign::{CLAIMS, NOW, builder, header, policy as jwt, sign, token};
use crate::policy::tokens;
use doorbell_http::auth::jwt::{Algorithm, Denied};
use doorbell_http::auth::{Authorization, Decision, Policy, PolicyError, Principal, Reason, Tokens};

const HS: Algorithm = Algorithm::Hs256;

#[test]
fn signed_only() {
    let policy =
        Policy::jwt("api", builder().require_scope("read").require_scope("admin").build().unwrap()).unwrap();
    assert!(policy.is_heavy());
    let good = sign(HS, &header(HS), CLAIMS.replace("write", "admin"));
    let expired = sign(HS, &header(HS), CLAIMS.replace("1700000600", "1"));
    let cases = [
        (good, None, None),
        (token(HS), Some(403), Some(r#"Bearer realm="api", error="insufficient_scope", scope="read admin""#)),
        (expired, Some(401), Some(r#"Bearer realm="api", error="invalid_token""#)),
        ("abc".to_owned(), Some(401), Some(r#"Bearer realm="api", error="invalid_token""#)),
        ("a.b.c d".to_owned(), Some(400), Some(r#"Bearer realm="api", error="invalid_request""#)),
        ("a.b.\u{e9}".to_owned(), Some(400), Some(r#"Bearer realm="api", error="invalid_request""#)),
    ];
    for (token, status, challenge) in cases {
        let value = format!("bearer {token}");
        let decision = policy.decide(Authorization::One(value.as_bytes()), NOW);
        assert_eq!(decision.status().map(|status| status.code()), status, "{token}");
        assert_eq!(policy.challenge(&decision), challenge, "{token}");
    }
    let absent = policy.decide(Authorization::Absent, NOW);
    assert_eq!(policy.challenge(&absent), Some(r#"Bearer realm="api""#));
}

#[test]
fn either_kind() {
    let policy = Policy::either("api", tokens(), jwt()).unwrap();
    let signed = format!("Bearer {}", token(Algorithm::Es256));
    let decide = |value: &str| match policy.decide(Authorization::One(value.as_bytes()), NOW) {
        Decision::Allowed(Principal::Subject(subject)) => Ok(format!("subject {subject}")),
        Decision::Allowed(Principal::Token(name)) => Ok(format!("token {name}")),
        Decision::Unauthorized(reason) => Err(reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(decide(&signed), Ok("subject alice".to_owned()));
    assert_eq!(decide("Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK"), Ok("token prometheus".to_owned()));
    assert_eq!(decide("Bearer no-such-token"), Err(Reason::Jwt(Denied::TokenMalformed)));
    assert_eq!(decide("Basic YTpi"), Err(Reason::SchemeOther));
    assert_eq!(Reason::Jwt(Denied::Expired).word(), "token expired");
    assert!(policy.is_heavy());
    assert_eq!(Policy::either("api", Tokens::new(), jwt()).unwrap_err(), PolicyError::NoTokens);
    let light = builder_of_one();
    assert!(!Policy::jwt("api", light).unwrap().is_heavy());
}

fn builder_of_one() -> doorbell_http::auth::jwt::JwtPolicy {
    doorbell_http::auth::jwt::JwtPolicy::builder().key(super::sign::key(HS)).build().expect("good input")
}

#[test]
fn only_what_has_its_public_key_signature_looked_at_is_heavy() {
    let policy = Policy::either("api", tokens(), jwt()).unwrap();
    let is_heavy =
        |token: &str| policy.is_heavy_for(Authorization::One(format!("Bearer {token}").as_bytes()));
    for algorithm in [Algorithm::EdDsa, Algorithm::Es256, Algorithm::Rs256] {
        let good = token(algorithm);
        let (head, signature) = good.rsplit_once('.').unwrap();
        assert!(is_heavy(&good), "{algorithm:?}");
        assert!(is_heavy(&sign(algorithm, &header(algorithm), CLAIMS.replace("1700000600", "1"))), "expired");
        let garbage = [
            format!("{head}."),
            format!("{head}.{signature}="),
            format!("{head}.*"),
            format!("{good}.x"),
            format!("x{good}"),
            good.replacen('.', "", 1),
            good.repeat(40),
        ];
        for token in garbage {
            assert!(!is_heavy(&token), "{token}");
        }
    }
    assert!(!is_heavy(&token(HS)) && !is_heavy("XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK"));
    assert!(!policy.is_heavy_for(Authorization::Absent) && !policy.is_heavy_for(Authorization::Several));
    let light = Policy::jwt("api", builder_of_one()).unwrap();
    let signed = format!("Bearer {}", token(Algorithm::Es256));
    assert!(!light.is_heavy_for(Authorization::One(signed.as_bytes())), "the policy has no key of this kind");
}
