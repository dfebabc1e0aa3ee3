//! The claims that a correctly signed token must have.

use super::sign::{CLAIMS, NOW, builder, header, key, sign};
use doorbell_http::auth::jwt::{Algorithm, Denied, JwtBuilder, JwtPolicy, LEEWAY_SECS};
use proptest::prelude::*;

const HS: Algorithm = Algorithm::Hs256;

fn verify(builder: JwtBuilder, claims: impl AsRef<[u8]>) -> Result<Box<str>, Denied> {
    let token = sign(HS, &header(HS), claims);
    builder.build().expect("good input").verify(token.as_bytes(), NOW).map(|verified| verified.subject)
}

/// A policy with one key, which requires only `exp`.
fn plain() -> JwtBuilder {
    JwtPolicy::builder().key(key(HS)).leeway_secs(0)
}

fn check(builder: JwtBuilder, claims: &str) -> Result<(), Denied> {
    verify(builder, claims).map(|_| ())
}

#[test]
fn times() {
    use Denied::{ClaimsMalformed as Malformed, Expired, ExpiryMissing, NotYetValid};
    let cases: [(&str, Result<(), Denied>); 38] = [
        ("{}", Err(ExpiryMissing)),
        (r#"{"nbf":0}"#, Err(ExpiryMissing)),
        (r#"{"exp":1700000001}"#, Ok(())),
        (r#"{"exp":1700000000}"#, Err(Expired)),
        (r#"{"exp":1699999999}"#, Err(Expired)),
        (r#"{"exp":0}"#, Err(Expired)),
        (r#"{"exp":-0}"#, Err(Expired)),
        (r#"{"exp":1700000000.5}"#, Ok(())),
        (r#"{"exp":1700000000.0}"#, Err(Expired)),
        (r#"{"exp":1699999999.999}"#, Err(Expired)),
        (r#"{"exp":1.7000000005e9}"#, Ok(())),
        (r#"{"exp":1.7e9}"#, Err(Expired)),
        (r#"{"exp":253402300799}"#, Ok(())),
        (r#"{"exp":253402300800}"#, Err(Malformed)),
        (r#"{"exp":253402300799.5}"#, Err(Malformed)),
        (r#"{"exp":1700000001000}"#, Err(Malformed)),
        (r#"{"exp":9223372036854775807}"#, Err(Malformed)),
        (r#"{"exp":9223372036854775808}"#, Err(Malformed)),
        (r#"{"exp":18446744073709551615}"#, Err(Malformed)),
        (r#"{"exp":18446744073709551617}"#, Err(Malformed)),
        (r#"{"exp":1e300}"#, Err(Malformed)),
        (r#"{"exp":1e400}"#, Err(Malformed)),
        (r#"{"exp":-1}"#, Err(Malformed)),
        (r#"{"exp":-0.5}"#, Err(Malformed)),
        (r#"{"exp":"1700000001"}"#, Err(Malformed)),
        (r#"{"exp":null}"#, Err(Malformed)),
        (r#"{"exp":true}"#, Err(Malformed)),
        (r#"{"exp":[1700000001]}"#, Err(Malformed)),
        (r#"{"exp":{"$serde_json::private::Number":"1700000001"}}"#, Err(Malformed)),
        (r#"{"exp":NaN}"#, Err(Malformed)),
        (r#"{"exp":01700000001}"#, Err(Malformed)),
        (r#"{"exp":1700000001,"exp":1800000000}"#, Err(Malformed)),
        (r#"{"exp":1700000001,"nbf":1700000000}"#, Ok(())),
        (r#"{"exp":1700000002,"nbf":1700000001}"#, Err(NotYetValid)),
        (r#"{"exp":1700000002,"nbf":1700000000.1}"#, Err(NotYetValid)),
        (r#"{"exp":1700000002,"nbf":1699999999.9}"#, Ok(())),
        (r#"{"exp":1700000002,"nbf":"0"}"#, Err(Malformed)),
        (r#"{"exp":1700000002,"nbf":-1}"#, Err(Malformed)),
    ];
    for (claims, expect) in cases {
        assert_eq!(check(plain(), claims), expect, "{claims}");
    }
    for claims in ["null", "[]", "1", "{", "{}}", "\u{feff}{}", r#"{"exp":1700000001}x"#] {
        assert_eq!(check(plain(), claims), Err(Malformed), "{claims}");
    }
}

#[test]
fn leeway() {
    let late = |secs: i64| format!(r#"{{"exp":{}}}"#, NOW - secs);
    let early = |secs: i64| format!(r#"{{"exp":1800000000,"nbf":{}}}"#, NOW + secs);
    for leeway in [0, 1, 60, 600] {
        let secs = i64::from(leeway);
        let policy = || plain().leeway_secs(leeway);
        assert_eq!(check(policy(), &late(secs - 1)), Ok(()));
        assert_eq!(check(policy(), &late(secs)), Err(Denied::Expired));
        assert_eq!(check(policy(), &early(secs)), Ok(()));
        assert_eq!(check(policy(), &early(secs + 1)), Err(Denied::NotYetValid));
    }
    let default = || JwtPolicy::builder().key(key(HS));
    assert_eq!(check(default(), &late(i64::from(LEEWAY_SECS) - 1)), Ok(()));
    assert_eq!(check(default(), &late(i64::from(LEEWAY_SECS))), Err(Denied::Expired));
}

#[test]
fn the_ends_of_time() {
    let token = sign(HS, &header(HS), r#"{"exp":253402300799,"nbf":1}"#);
    let policy = plain().leeway_secs(600).build().unwrap();
    let cases = [
        (i64::MIN, Err(Denied::NotYetValid)),
        (-600, Err(Denied::NotYetValid)),
        (-599, Ok(())),
        (253_402_301_398, Ok(())),
        (253_402_301_399, Err(Denied::Expired)),
        (i64::MAX, Err(Denied::Expired)),
    ];
    for (now, expect) in cases {
        assert_eq!(policy.verify(token.as_bytes(), now).map(|_| ()), expect, "{now}");
    }
}

#[test]
fn issuers_and_audiences() {
    use Denied::{AudienceWrong as Audience, ClaimsMalformed as Malformed, IssuerWrong as Issuer};
    let two = || plain().issuer("a").issuer("b").audience("x").audience("y");
    let cases: [(&str, Result<(), Denied>); 21] = [
        (r#""iss":"a","aud":"x""#, Ok(())),
        (r#""iss":"b","aud":"y""#, Ok(())),
        (r#""iss":"\u0061","aud":"x""#, Ok(())),
        (r#""iss":"c","aud":"x""#, Err(Issuer)),
        (r#""iss":"A","aud":"x""#, Err(Issuer)),
        (r#""iss":"a/","aud":"x""#, Err(Issuer)),
        (r#""iss":"","aud":"x""#, Err(Issuer)),
        (r#""aud":"x""#, Err(Issuer)),
        (r#""iss":["a"],"aud":"x""#, Err(Malformed)),
        (r#""iss":null,"aud":"x""#, Err(Malformed)),
        (r#""iss":"a""#, Err(Audience)),
        (r#""iss":"a","aud":"z""#, Err(Audience)),
        (r#""iss":"a","aud":"x y""#, Err(Audience)),
        (r#""iss":"a","aud":[]"#, Err(Audience)),
        (r#""iss":"a","aud":["z"]"#, Err(Audience)),
        (r#""iss":"a","aud":["z","x"]"#, Ok(())),
        (r#""iss":"a","aud":["z","z","y","z"]"#, Ok(())),
        (r#""iss":"a","aud":["x",1]"#, Err(Malformed)),
        (r#""iss":"a","aud":[["x"]]"#, Err(Malformed)),
        (r#""iss":"a","aud":{"x":1}"#, Err(Malformed)),
        (r#""iss":"a","aud":null"#, Err(Malformed)),
    ];
    for (claims, expect) in cases {
        assert_eq!(check(two(), &format!(r#"{{"exp":1800000000,{claims}}}"#)), expect, "{claims}");
    }
    // Without configured names, an issuer is ignored, and a token with an audience is refused.
    assert_eq!(check(plain(), r#"{"exp":1800000000,"iss":"a"}"#), Ok(()));
    assert_eq!(check(plain(), r#"{"exp":1800000000,"aud":"x"}"#), Err(Audience));
    assert_eq!(check(plain(), r#"{"exp":1800000000,"aud":[]}"#), Err(Audience));
}

#[test]
fn rights() {
    use Denied::{ClaimMissing, ScopeMissing};
    let cases: [(JwtBuilder, Result<(), Denied>); 12] = [
        (builder().require_scope("read"), Ok(())),
        (builder().require_scope("write").require_scope("read"), Ok(())),
        (builder().require_scope("read write"), Ok(())),
        (builder().require_scope("rea"), Err(ScopeMissing)),
        (builder().require_scope("READ"), Err(ScopeMissing)),
        (builder().require_scope("read").require_scope("admin"), Err(ScopeMissing)),
        (builder().require_claim("sub", "alice"), Ok(())),
        (builder().require_claim("role", "ringer"), Ok(())),
        (builder().require_claim("role", "admin"), Err(ClaimMissing)),
        (builder().require_claim("exp", "1700000600"), Err(ClaimMissing)),
        (builder().require_claim("group", "a"), Err(ClaimMissing)),
        (builder().require_claim("scope", "read"), Err(ClaimMissing)),
    ];
    for (builder, expect) in cases {
        let shown = format!("{builder:?}");
        assert_eq!(check(builder, CLAIMS), expect, "{shown}");
    }
    for scope in [r#"["read","write"]"#, r#"["write read"]"#] {
        let claims = format!(r#"{{"exp":1800000000,"scope":{scope}}}"#);
        assert_eq!(check(plain().require_scope("read"), &claims), Ok(()), "{scope}");
    }
    for scope in ["null", "1", r#"{"read":true}"#, r#"["read",1]"#, r#""read\twrite""#, r#""""#] {
        let claims = format!(r#"{{"exp":1800000000,"scope":{scope}}}"#);
        assert_eq!(check(plain().require_scope("read"), &claims), Err(ScopeMissing), "{scope}");
    }
    // Validity is checked before permissions.
    let expired = CLAIMS.replace("1700000600", "1700000000");
    assert_eq!(check(builder().require_scope("admin"), &expired), Err(Denied::Expired));
    for denied in [ClaimMissing, ScopeMissing] {
        assert!(denied.is_forbidden());
    }
    assert!(!Denied::Expired.is_forbidden() && !Denied::SignatureWrong.is_forbidden());
}

#[test]
fn subjects() {
    let subject = |sub: &str| verify(plain(), format!(r#"{{"exp":1800000000{sub}}}"#));
    assert_eq!(subject(r#","sub":"alice""#).as_deref(), Ok("alice"));
    assert_eq!(subject("").as_deref(), Ok(""));
    assert_eq!(subject(r#","sub":"\u00e9""#).as_deref(), Ok("\u{e9}"));
    assert_eq!(subject(&format!(r#","sub":"{}""#, "a".repeat(255))).as_deref(), Ok(&*"a".repeat(255)));
    for sub in
        [r#","sub":1"#, r#","sub":null"#, r#","sub":"a\nb""#, r#","sub":"\u0000""#, r#","sub":"\u009b""#]
    {
        assert_eq!(subject(sub), Err(Denied::ClaimsMalformed), "{sub}");
    }
    assert_eq!(subject(&format!(r#","sub":"{}""#, "a".repeat(256))), Err(Denied::ClaimsMalformed));
}

/// RFC 7519 4.1.4 and 4.1.5 implemented literally, in thousandths of a second.
fn times_allow(exp: i128, nbf: Option<i128>, now: i128, leeway: i128) -> bool {
    now < exp + leeway && nbf.is_none_or(|nbf| now + leeway >= nbf)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn times_as_the_standard_reads(
        now in 1_699_999_000_i64..1_700_001_000,
        exp in 1_699_998_000_000_i64..1_700_002_000_000,
        nbf in prop::option::of(1_699_998_000_000_i64..1_700_002_000_000),
        leeway in 0_u32..=600,
        whole in any::<bool>(),
    ) {
        let round = |millis: i64| if whole { millis / 1000 * 1000 } else { millis };
        let write = |millis: i64| match round(millis) {
            millis if millis % 1000 == 0 => format!("{}", millis / 1000),
            millis => format!("{}.{:03}", millis / 1000, millis % 1000),
        };
        let mut claims = format!(r#"{{"exp":{}"#, write(exp));
        if let Some(nbf) = nbf {
            claims.push_str(&format!(r#","nbf":{}"#, write(nbf)));
        }
        claims.push('}');
        let token = sign(HS, &header(HS), &claims);
        let policy = plain().leeway_secs(leeway).build().unwrap();
        let passed = policy.verify(token.as_bytes(), now).is_ok();
        let expect = times_allow(
            i128::from(round(exp)),
            nbf.map(|nbf| i128::from(round(nbf))),
            i128::from(now) * 1000,
            i128::from(leeway) * 1000,
        );
        prop_assert_eq!(passed, expect, "{} at {} with {}", claims, now, leeway);
    }

    /// The parser accepts the same texts as `serde_json`.
    #[test]
    fn json_as_others_read_it(
        value in "[ \\[\\],0-9eE+.\"-]{0,10}|\"(\\\\u[dD][89abcdEF][0-9a-f]{2}|\\\\[\"bfnrtux/]|a|\u{1f6aa}|\n){0,4}\"|-?[0-9]{1,3}(\\.[0-9]{0,2})?([eE][+-]?[0-9]{0,3})?|(true|fals|null|\\{\\}|\\[\\[\\]|\\]|,){0,3}",
    ) {
        let claims = format!(r#"{{"exp":1800000000,"y": {value} }}"#);
        let others = serde_json::from_str::<serde_json::Value>(&claims);
        prop_assert_eq!(check(plain(), &claims).is_ok(), others.is_ok(), "{}", claims);
    }

    /// Arbitrary claims cause no panic, and no token passes without an `exp` in the future.
    #[test]
    fn any_claims(claims in "\\{(\"(exp|nbf|aud|iss|sub)\":(\"[ax]\"|[0-9.e+-]{1,12}|\\[\\]|null),?){0,4}\\}|\\PC{0,40}") {
        if check(plain(), &claims).is_ok() {
            let value: serde_json::Value = serde_json::from_str(&claims).unwrap();
            prop_assert!(value["exp"].as_f64().unwrap() > 1_700_000_000.0);
        }
    }
}
