//! Tables of attacks on signed tokens. Each attack is refused for the correct reason.
//!
//! Does not know about: random mutations; see `mutations`.

use super::sign::{
    ALL, CLAIMS, NOW, P256_PUBLIC, RSA_PUBLIC, SECRET, builder, decode, der, encode, header, hmac, key,
    policy, sign, signature, token,
};
use doorbell_http::auth::jwt::{Algorithm, Denied, JwtPolicy, Key, Verified};

const HS: Algorithm = Algorithm::Hs256;

fn verify(token: impl AsRef<[u8]>) -> Result<Verified, Denied> {
    policy().verify(token.as_ref(), NOW)
}

#[test]
fn good_tokens_pass() {
    for algorithm in ALL {
        let verified = verify(token(algorithm)).unwrap();
        assert_eq!(&*verified.subject, "alice", "{algorithm:?}");
    }
}

#[test]
fn without_a_signature() {
    let claims = encode(CLAIMS);
    for name in ["none", "None", "NONE", "nOnE", "", "null", "HS256 ", "hs256", "\\u006eone"] {
        let header = encode(format!(r#"{{"alg":"{name}","typ":"JWT"}}"#));
        for algorithm in ALL {
            let signature = encode(signature(algorithm, &format!("{header}.{claims}")));
            assert_eq!(
                verify(format!("{header}.{claims}.{signature}")),
                Err(Denied::AlgorithmRefused),
                "{name}"
            );
        }
        assert_eq!(verify(format!("{header}.{claims}.")), Err(Denied::TokenMalformed), "{name}");
        assert_eq!(verify(format!("{header}.{claims}")), Err(Denied::TokenMalformed), "{name}");
        assert_eq!(verify(format!("{header}.{claims}.AA")), Err(Denied::AlgorithmRefused), "{name}");
    }
    for header in
        [r#"{"typ":"JWT"}"#, r#"{"alg":null}"#, r#"{"alg":["HS256"]}"#, r#"{"alg":1}"#, r#"{"Alg":"HS256"}"#]
    {
        assert_eq!(verify(sign(HS, header, CLAIMS)), Err(Denied::HeaderMalformed), "{header}");
    }
    for other in ["HS384", "HS512", "RS384", "PS256", "ES384", "ES256K", "Ed25519", "dir", "A256KW"] {
        let header = format!(r#"{{"alg":"{other}","kid":"hs"}}"#);
        assert_eq!(verify(sign(HS, &header, CLAIMS)), Err(Denied::AlgorithmRefused), "{other}");
    }
}

/// A token signed with the public key as an HMAC secret is refused, in every form in which a
/// careless server could store that key.
#[test]
fn swapped_algorithms() {
    for public in [RSA_PUBLIC, P256_PUBLIC] {
        for secret in [public.as_bytes().to_vec(), public.trim_end().as_bytes().to_vec(), der(public)] {
            for kid in [r#","kid":"rs""#, r#","kid":"es""#, r#","kid":"hs""#, ""] {
                let message = format!("{}.{}", encode(format!(r#"{{"alg":"HS256"{kid}}}"#)), encode(CLAIMS));
                let forged = format!("{message}.{}", encode(hmac(&secret, &message)));
                let denied = verify(&forged).unwrap_err();
                assert!(matches!(denied, Denied::AlgorithmRefused | Denied::SignatureWrong), "{denied:?}");
            }
        }
    }
    // The same attack on a policy with only the public key.
    for algorithm in [Algorithm::Rs256, Algorithm::Es256] {
        let policy = JwtPolicy::builder().key(key(algorithm)).audience("doorbell").build().unwrap();
        let public = if algorithm == Algorithm::Rs256 { RSA_PUBLIC } else { P256_PUBLIC };
        let message = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), encode(CLAIMS));
        let forged = format!("{message}.{}", encode(hmac(public.as_bytes(), &message)));
        assert_eq!(policy.verify(forged.as_bytes(), NOW), Err(Denied::AlgorithmRefused));
    }
    // A signature by each algorithm is refused under the name of every other algorithm.
    for signed in ALL {
        for claimed in ALL.into_iter().filter(|&claimed| claimed != signed) {
            let denied = verify(sign(signed, &header(claimed), CLAIMS)).unwrap_err();
            assert_eq!(denied, Denied::SignatureWrong, "{signed:?} as {claimed:?}");
            let mixed = header(claimed).replace(claimed.name(), signed.name());
            assert_eq!(verify(sign(signed, &mixed, CLAIMS)), Err(Denied::AlgorithmRefused), "{mixed}");
        }
    }
}

#[test]
fn names_of_keys() {
    let with = |algorithm: Algorithm, kid: &str| {
        verify(sign(algorithm, &format!(r#"{{"alg":"{}"{kid}}}"#, algorithm.name()), CLAIMS)).map(|_| ())
    };
    for algorithm in ALL {
        assert_eq!(with(algorithm, ""), Ok(()), "there is one candidate key");
        assert_eq!(with(algorithm, r#","kid":"other""#), Err(Denied::KeyUnknown));
        assert_eq!(with(algorithm, r#","kid":"""#), Err(Denied::KeyUnknown));
        assert_eq!(with(algorithm, r#","kid":"../../keys/hs""#), Err(Denied::KeyUnknown));
        assert_eq!(with(algorithm, r#","kid":"hs\u0000""#), Err(Denied::KeyUnknown));
        for kid in [r#","kid":null"#, r#","kid":1"#, r#","kid":["hs"]"#] {
            assert_eq!(with(algorithm, kid), Err(Denied::HeaderMalformed));
        }
    }
    // A token with an unknown key name is verified with the key that has no name, not with a key
    // that has another name.
    let other = Key::hmac(b"another secret of thirty-two byte").unwrap().with_id("other");
    let policy = JwtPolicy::builder().key(key(HS)).key(other).audience("doorbell").build().unwrap();
    let check = |kid: &str| {
        policy.verify(sign(HS, &format!(r#"{{"alg":"HS256"{kid}}}"#), CLAIMS).as_bytes(), NOW).map(|_| ())
    };
    assert_eq!(check(""), Ok(()));
    assert_eq!(check(r#","kid":"anything""#), Ok(()));
    assert_eq!(check(r#","kid":"other""#), Err(Denied::SignatureWrong));
    // A token without a key name is refused if there are too many candidates.
    let many = |count: u8| {
        let keys = (0..count).map(|number| Key::hmac(&[number; 32]).unwrap().with_id(&number.to_string()));
        let policy = JwtPolicy::builder().keys(keys).key(key(HS).with_id("hs")).audience("doorbell");
        policy.build().unwrap().verify(sign(HS, r#"{"alg":"HS256"}"#, CLAIMS).as_bytes(), NOW).map(|_| ())
    };
    assert_eq!(many(3), Ok(()));
    assert_eq!(many(4), Err(Denied::KeyIdMissing));
}

/// Keys inside the token are ignored.
#[test]
fn keys_in_the_header() {
    let jwk = r#"{"kty":"oct","k":"YW5vdGhlciBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRl"}"#;
    for extra in [
        format!(r#","jwk":{jwk}"#),
        r#","jku":"https://evil.test/jwks""#.to_owned(),
        r#","x5u":"https://evil.test/crt""#.to_owned(),
        r#","x5c":["MIIB"]"#.to_owned(),
    ] {
        let header = format!(r#"{{"alg":"HS256"{extra}}}"#);
        let message = format!("{}.{}", encode(&header), encode(CLAIMS));
        let signature = encode(hmac(b"another secret of thirty-two byte", &message));
        assert_eq!(verify(format!("{message}.{signature}")), Err(Denied::SignatureWrong), "{extra}");
        assert_eq!(verify(sign(HS, &header, CLAIMS)).map(|_| ()), Ok(()), "the key in the header is ignored");
    }
}

#[test]
fn headers() {
    use Denied::{Encrypted, ExtensionRefused as Extension, HeaderMalformed as Malformed, Nested, TypeWrong};
    let cases: [(&str, Result<(), Denied>); 34] = [
        (r#"{"alg":"HS256"}"#, Ok(())),
        (" {\"alg\" :\n\"HS256\"}\t", Ok(())),
        (r#"{"alg":"HS256","typ":"jwt"}"#, Ok(())),
        (r#"{"alg":"HS256","typ":"application/at+JWT"}"#, Ok(())),
        (r#"{"alg":"HS256","typ":"JWE"}"#, Err(TypeWrong)),
        (r#"{"alg":"HS256","typ":"logout+jwt"}"#, Err(TypeWrong)),
        (r#"{"alg":"HS256","typ":""}"#, Err(TypeWrong)),
        (r#"{"alg":"HS256","typ":1}"#, Err(Malformed)),
        (r#"{"alg":"HS256","cty":"JWT"}"#, Err(Nested)),
        (r#"{"alg":"HS256","cty":"application/jwt"}"#, Err(Nested)),
        (r#"{"alg":"HS256","cty":"json"}"#, Ok(())),
        (r#"{"alg":"HS256","cty":null}"#, Err(Malformed)),
        (r#"{"alg":"HS256","crit":["exp"],"exp":1}"#, Err(Extension)),
        (r#"{"alg":"HS256","crit":[]}"#, Err(Extension)),
        (r#"{"alg":"HS256","crit":null}"#, Err(Extension)),
        (r#"{"alg":"HS256","crit":["b64"],"b64":false}"#, Err(Extension)),
        (r#"{"alg":"HS256","b64":false}"#, Err(Extension)),
        (r#"{"alg":"HS256","b64":true}"#, Err(Extension)),
        (r#"{"alg":"HS256","\u0063rit":[]}"#, Err(Extension)),
        (r#"{"alg":"HS256","enc":"A128GCM"}"#, Err(Encrypted)),
        (r#"{"alg":"none","alg":"HS256"}"#, Err(Malformed)),
        (r#"{"alg":"HS256","alg":"HS256"}"#, Err(Malformed)),
        (r#"{"alg":"HS256","\u0061lg":"HS256"}"#, Err(Malformed)),
        (r#"{"alg":"HS256","x":{"a":1,"a":2}}"#, Err(Malformed)),
        (r#"{"alg":"HS256","x":[{"a":1,"a":2}]}"#, Err(Malformed)),
        (r#"{"alg":"HS256"}{"alg":"HS256"}"#, Err(Malformed)),
        (r#"{"alg":"HS256"} x"#, Err(Malformed)),
        (r#"{"alg":"HS256",}"#, Err(Malformed)),
        (r#"{'alg':'HS256'}"#, Err(Malformed)),
        (r#"["HS256"]"#, Err(Malformed)),
        (r#""HS256""#, Err(Malformed)),
        ("\u{feff}{\"alg\":\"HS256\"}", Err(Malformed)),
        (r#"{"alg":"HS256","x":"\ud800"}"#, Err(Malformed)),
        ("{\"alg\":\"HS256\",\"x\":\"\n\"}", Err(Malformed)),
    ];
    for (header, expect) in cases {
        assert_eq!(verify(sign(HS, header, CLAIMS)).map(|_| ()), expect, "{header}");
    }
    let deep = format!(r#"{{"alg":"HS256","x":{}{}}}"#, "[".repeat(2000), "]".repeat(2000));
    assert_eq!(verify(sign(HS, &deep, CLAIMS)), Err(Malformed));
    let not_text = [b"{\"alg\":\"HS256\",\"x\":\"".as_slice(), b"\xff", b"\"}"].concat();
    let message = format!("{}.{}", encode(not_text), encode(CLAIMS));
    assert_eq!(verify(format!("{message}.{}", encode(signature(HS, &message)))), Err(Malformed));
    // A policy that requires a specific type.
    let logout = builder().token_type("logout+jwt").build().unwrap();
    let check = |typ: &str| {
        let header = format!(r#"{{"alg":"HS256"{typ}}}"#);
        logout.verify(sign(HS, &header, CLAIMS).as_bytes(), NOW).map(|_| ())
    };
    assert_eq!(check(r#","typ":"logout+jwt""#), Ok(()));
    assert_eq!(check(r#","typ":"application/LOGOUT+jwt""#), Ok(()));
    assert_eq!(check(r#","typ":"JWT""#), Err(TypeWrong));
    assert_eq!(check(""), Err(TypeWrong));
}

#[test]
fn forms() {
    let good = token(HS);
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    let malformed = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        "a".to_owned(),
        format!("{header}.{claims}"),
        format!(".{claims}.{signature}"),
        format!("{header}..{signature}"),
        format!("{header}.{claims}."),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}.{signature}"),
        format!("{good}.{claims}.{signature}.{signature}"),
        format!("{good}="),
        format!("{good}=="),
        format!("{header}=.{claims}.{signature}"),
        format!("{good}\n"),
        format!(" {good}"),
        format!("{good}\0"),
        format!("{good}A"),
        format!("{header}.{claims}.{}", signature.replace(['-', '_'], "+")),
        format!("{header}.{claims}.{}", &signature[..signature.len() - 2]),
        format!("{header}.{claims}.\u{ff0d}"),
    ];
    for token in malformed {
        // A truncated token may still be valid base64url, but its signature is wrong.
        let denied = verify(&token).unwrap_err();
        let expect = [Denied::TokenMalformed, Denied::SignatureWrong];
        assert!(expect.contains(&denied), "{token:?}: {denied:?}");
    }
    assert_eq!(verify(format!("{good}.AAAA.AAAA")), Err(Denied::Encrypted));
    assert_eq!(verify("eyJhbGciOiJkaXIifQ..AAAA.AAAA.AAAA"), Err(Denied::Encrypted));
    let nested = sign(HS, r#"{"alg":"HS256","kid":"hs"}"#, token(HS));
    assert_eq!(verify(nested), Err(Denied::ClaimsMalformed));
}

#[test]
fn cut_anywhere() {
    for algorithm in ALL {
        let (policy, good) = (policy(), token(algorithm));
        for len in 0..good.len() {
            assert!(policy.verify(&good.as_bytes()[..len], NOW).is_err(), "{algorithm:?} {len}");
            assert!(policy.verify(&good.as_bytes()[len + 1..], NOW).is_err(), "{algorithm:?} {len}");
        }
    }
}

#[test]
fn signatures() {
    for algorithm in ALL {
        let good = token(algorithm);
        let (message, signature) = good.rsplit_once('.').unwrap();
        let signature = decode(signature);
        let other = sign(algorithm, &header(algorithm), CLAIMS.replace("alice", "root"));
        let forged = [
            vec![0; signature.len()],
            vec![0xff; signature.len()],
            vec![0],
            signature.iter().copied().rev().collect(),
            [&*signature, &[0]].concat(),
            [&[0], &*signature].concat(),
            signature[1..].to_vec(),
            decode(other.rsplit_once('.').unwrap().1),
            vec![0x41; 6000],
        ];
        for forged in forged {
            let token = format!("{message}.{}", encode(&forged));
            let denied = verify(token).unwrap_err();
            assert!(
                matches!(denied, Denied::SignatureWrong | Denied::TokenTooLong),
                "{algorithm:?} {denied:?}"
            );
        }
        let (other_message, _) = other.rsplit_once('.').unwrap();
        let moved = format!("{other_message}.{}", encode(&signature));
        assert_eq!(verify(moved), Err(Denied::SignatureWrong), "the signature of another text");
    }
    // Invalid signatures: r = s = 0, r = n, and the DER form instead of 64 bytes.
    let good = token(Algorithm::Es256);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let signature = decode(signature);
    let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    let order: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&order[2 * at..2 * at + 2], 16).unwrap()).collect();
    let der = [&[0x30, 0x44, 2, 0x20], &signature[..32], &[2, 0x20], &signature[32..]].concat();
    for forged in [[&*order, &*order].concat(), [&order, &signature[32..]].concat(), der] {
        assert_eq!(verify(format!("{message}.{}", encode(forged))), Err(Denied::SignatureWrong));
    }
}

#[test]
fn lengths() {
    let policy = builder().token_len_max(1000).build().unwrap();
    // In a token, three bytes of claims are encoded as four bytes.
    let sized = |filling: usize| {
        let claims = CLAIMS.replace("{\"iss\"", &format!("{{\"x\":\"{}\",\"iss\"", "x".repeat(filling)));
        sign(HS, r#"{"alg":"HS256"}"#, claims)
    };
    let (mut passed, mut refused) = (0, 0);
    for filling in 0..1000 {
        let token = sized(filling);
        let expect = if token.len() <= 1000 { Ok(()) } else { Err(Denied::TokenTooLong) };
        assert_eq!(policy.verify(token.as_bytes(), NOW).map(|_| ()), expect, "{}", token.len());
        *(if expect.is_ok() { &mut passed } else { &mut refused }) += 1;
    }
    assert!(passed > 100 && refused > 100);
    assert_eq!(verify(sized(8 * 1024)), Err(Denied::TokenTooLong), "8 KiB by default");
    assert_eq!(verify(vec![b'.'; 1 << 20]), Err(Denied::TokenTooLong));
}

#[test]
fn nothing_shows_a_key() {
    let shown = format!("{:?} {:?}", policy(), key(HS));
    let secret = std::str::from_utf8(SECRET).unwrap();
    assert!(!shown.contains(secret) && !shown.contains(&encode(SECRET)), "{shown}");
    assert!(!shown.contains(&format!("{:?}", &SECRET[..8]).replace(['[', ']'], "")), "{shown}");
}
