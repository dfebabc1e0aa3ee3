//! The decision about a request, its status and its challenge.

use doorbell_http::auth::{Authorization, Decision, Policy, PolicyError, Reason, Tokens};
use doorbell_http::parse::Head;
use doorbell_http::{Limits, Request};
use proptest::prelude::*;

const SECRET: &str = "XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK";

pub(crate) fn tokens() -> Tokens {
    let mut tokens = Tokens::new();
    tokens.add("prometheus", SECRET.as_bytes()).expect("good input");
    tokens
}

fn policy() -> Policy {
    Policy::bearer("status", tokens()).expect("good input")
}

/// The status and the challenge of a decision.
fn outcome(policy: &Policy, decision: &Decision<'_>) -> (Option<u16>, Option<String>) {
    (decision.status().map(|status| status.code()), policy.challenge(decision).map(str::to_owned))
}

#[test]
fn what_stands_in_the_field() {
    use Reason::{CredentialsMalformed as Malformed, SchemeOther as Other, TokenUnknown as Unknown};
    let good: Result<(), Reason> = Ok(());
    let cases: [(&str, Result<(), Reason>); 29] = [
        ("Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", good),
        ("bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", good),
        ("BEARER XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", good),
        ("bEARER   XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", good),
        ("Bearer xJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Unknown)),
        ("Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK=", Err(Unknown)),
        ("Bearer a", Err(Unknown)),
        ("Bearer a==", Err(Unknown)),
        ("Bearer \tXJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Malformed)),
        ("Bearer\tXJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Malformed)),
        ("Bearer", Err(Malformed)),
        ("Bearer ", Err(Malformed)),
        ("Bearer =", Err(Malformed)),
        ("Bearer a=a", Err(Malformed)),
        ("Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Malformed)),
        ("Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK, Basic YTpi", Err(Malformed)),
        ("Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK,", Err(Malformed)),
        ("Bearer \"XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK\"", Err(Malformed)),
        ("Bearer token=\"XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK\"", Err(Malformed)),
        ("Bearer: XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Malformed)),
        ("Bearer a\u{e9}", Err(Malformed)),
        ("", Err(Malformed)),
        (" Bearer XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Malformed)),
        ("XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Other)),
        ("Basic YTpi", Err(Other)),
        ("BearerXJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Other)),
        ("Bearer2 XJ7bXg1cV3yq8s0LQm5v2wZ4nT6pR9dK", Err(Other)),
        ("Negotiate", Err(Other)),
        ("a/b c", Err(Malformed)),
    ];
    let policy = policy();
    for (value, expect) in cases {
        let decision = policy.decide(Authorization::One(value.as_bytes()), 0);
        let (status, challenge) = outcome(&policy, &decision);
        let (found, want_status, want_challenge) = match &decision {
            Decision::Allowed(principal) => {
                assert_eq!(principal.name(), "prometheus");
                (Ok(()), None, None)
            }
            Decision::Malformed(reason) => (Err(*reason), Some(400), Some("error=\"invalid_request\"")),
            Decision::Unauthorized(Other) => (Err(Other), Some(401), Some("")),
            Decision::Unauthorized(reason) => (Err(*reason), Some(401), Some("error=\"invalid_token\"")),
            Decision::Forbidden(_) => panic!("a static token has no permissions"),
        };
        assert_eq!((found, status), (expect, want_status), "{value:?}");
        let want_challenge = want_challenge.map(|error| match error {
            "" => "Bearer realm=\"status\"".to_owned(),
            error => format!("Bearer realm=\"status\", {error}"),
        });
        assert_eq!(challenge, want_challenge, "{value:?}");
    }
    let decision = policy.decide(Authorization::Absent, 0);
    assert_eq!(decision, Decision::Unauthorized(Reason::CredentialsMissing));
    assert_eq!(outcome(&policy, &decision), (Some(401), Some("Bearer realm=\"status\"".to_owned())));
    assert!(!policy.is_heavy());
}

#[test]
fn what_stands_in_the_request() {
    let good = format!("Authorization: Bearer {SECRET}\r\n");
    let cases = [
        (String::new(), Some(401)),
        (good.clone(), None),
        (good.replace("Authorization", "AUTHORIZATION"), None),
        (good.replace("Authorization: ", "authorization:\t "), None),
        (good.repeat(2), Some(400)),
        (format!("{good}X: y\r\nauthorization: Basic YTpi\r\n"), Some(400)),
        (format!("authorization:\r\n{good}"), Some(400)),
        (good.replace("Authorization", "Proxy-Authorization"), Some(401)),
        (good.replace("Authorization", "X-Authorization"), Some(401)),
    ];
    let policy = policy();
    for (fields, expect) in cases {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}Accept: */*\r\n\r\n");
        let mut head = Head::new();
        assert_eq!(head.parse(text.as_bytes(), &Limits::default()), Ok(Some(text.len())), "{text}");
        let decision = policy.decide_request(&Request::new(text.as_bytes(), &head, b""), 0);
        assert_eq!(decision.status().map(|status| status.code()), expect, "{text}");
    }
}

#[test]
fn realms() {
    let challenge = |realm: &str| {
        let policy = Policy::bearer(realm, tokens())?;
        Ok(policy.challenge(&policy.decide(Authorization::Absent, 0)).unwrap().to_owned())
    };
    assert_eq!(challenge("a b"), Ok("Bearer realm=\"a b\"".to_owned()));
    assert_eq!(challenge(""), Ok("Bearer realm=\"\"".to_owned()));
    assert_eq!(challenge("a\"b\\"), Ok("Bearer realm=\"a\\\"b\\\\\"".to_owned()));
    for realm in ["a\r\nb", "\0", "\u{e9}", "\u{7f}", "\t"] {
        assert_eq!(challenge(realm), Err(PolicyError::Realm), "{realm:?}");
    }
    assert_eq!(Policy::bearer("a", Tokens::new()).unwrap_err(), PolicyError::NoTokens);
}

#[test]
fn deciding_does_not_allocate() {
    let policy = policy();
    let good = format!("Bearer {SECRET}");
    let info = allocation_counter::measure(|| {
        for value in [good.as_bytes(), b"Bearer wrong", b"Basic YTpi", b"Bearer a b"] {
            let decision = policy.decide(Authorization::One(std::hint::black_box(value)), 0);
            std::hint::black_box(policy.challenge(&decision));
        }
    });
    assert_eq!(info.count_total, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Only the secret after the scheme is accepted, whatever text surrounds it.
    #[test]
    fn only_the_token(before in "[ -~]{0,8}", between in "[ \t,;=]{0,3}", after in "[ -~]{0,3}") {
        let value = format!("{before}{between}{SECRET}{after}");
        let allowed = matches!(
            policy().decide(Authorization::One(value.as_bytes()), 0),
            Decision::Allowed(_)
        );
        let spaces = value.strip_suffix(SECRET).and_then(|front| {
            front.to_ascii_lowercase().strip_prefix("bearer").map(str::to_owned)
        });
        let expect = spaces.is_some_and(|spaces| !spaces.is_empty() && spaces.bytes().all(|byte| byte == b' '));
        prop_assert_eq!(allowed, expect, "{:?}", value);
    }
}
