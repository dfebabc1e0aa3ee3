//! The accepted keys, and the errors for others.

use super::sign::{
    ALL, CLAIMS, ED25519_PUBLIC, NOW, P256_PUBLIC, RSA_PUBLIC, SECRET, der, encode, key, sign, token,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use doorbell_http::auth::jwt::{
    Algorithm, Denied, Jwks, JwksError, JwtPolicy, JwtPolicyError, KEYS_MAX, KEYS_TRIED_MAX, Key, KeyError,
};

const RSA_PKCS1: &str = include_str!("../../keys/rsa.pkcs1.pub.pem");
const RSA_1024: &str = include_str!("../../keys/rsa-1024.pub.pem");
const RSA_PRIVATE: &str = include_str!("../../keys/rsa.pem");
const P256_PRIVATE: &str = include_str!("../../keys/p256.pem");
const P384: &str = include_str!("../../keys/p384.pub.pem");
const CERTIFICATE: &str = include_str!("../../keys/rsa.crt.pem");

/// Asserts that a policy with these keys accepts a token of these tests.
fn works(keys: impl IntoIterator<Item = Key>, algorithm: Algorithm) -> Result<(), Denied> {
    let policy = JwtPolicy::builder().keys(keys).audience("doorbell").build().expect("good input");
    policy.verify(token(algorithm).as_bytes(), NOW).map(|_| ())
}

#[test]
fn pem_files() {
    use Algorithm::{EdDsa, Es256, Hs256, Rs256};
    let text_before = format!("Public key of the issuer\r\n{}", RSA_PUBLIC.replace('\n', "\r\n"));
    let twice = RSA_PUBLIC.repeat(2);
    let both = format!("{RSA_PUBLIC}{RSA_PRIVATE}");
    let cut = &RSA_PUBLIC[..RSA_PUBLIC.len() / 2];
    let relabelled = P256_PUBLIC.replace("PUBLIC KEY", "RSA PUBLIC KEY");
    let cases: [(Algorithm, &str, Result<(), KeyError>); 26] = [
        (Rs256, RSA_PUBLIC, Ok(())),
        (Rs256, RSA_PKCS1, Ok(())),
        (Rs256, &text_before, Ok(())),
        (Es256, P256_PUBLIC, Ok(())),
        (EdDsa, ED25519_PUBLIC, Ok(())),
        (Hs256, RSA_PUBLIC, Err(KeyError::HmacHasNoPublicKey)),
        (Rs256, P256_PUBLIC, Err(KeyError::KindWrong(Rs256))),
        (Rs256, ED25519_PUBLIC, Err(KeyError::KindWrong(Rs256))),
        (Es256, RSA_PUBLIC, Err(KeyError::KindWrong(Es256))),
        (Es256, RSA_PKCS1, Err(KeyError::KindWrong(Es256))),
        (EdDsa, P256_PUBLIC, Err(KeyError::KindWrong(EdDsa))),
        (Es256, P384, Err(KeyError::KindUnsupported)),
        (Rs256, RSA_1024, Err(KeyError::RsaTooShort { bits: 1024 })),
        (Rs256, RSA_PRIVATE, Err(KeyError::PrivateKey)),
        (Es256, P256_PRIVATE, Err(KeyError::PrivateKey)),
        (Rs256, &both, Err(KeyError::PrivateKey)),
        (Rs256, CERTIFICATE, Err(KeyError::Certificate)),
        (Rs256, &twice, Err(KeyError::NotPem)),
        (Rs256, cut, Err(KeyError::NotPem)),
        (Rs256, "", Err(KeyError::NotPem)),
        (Rs256, "secret", Err(KeyError::NotPem)),
        (Rs256, "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n", Err(KeyError::Malformed)),
        (Rs256, "-----BEGIN PUBLIC KEY-----\n!!!!\n-----END PUBLIC KEY-----\n", Err(KeyError::NotPem)),
        (Rs256, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END RSA KEY-----\n", Err(KeyError::NotPem)),
        (Rs256, "-----BEGIN SOMETHING-----\nAAAA\n-----END SOMETHING-----\n", Err(KeyError::NotPem)),
        (Rs256, &relabelled, Err(KeyError::Malformed)),
    ];
    for (algorithm, pem, expect) in cases {
        let key = Key::pem(algorithm, pem.as_bytes());
        assert_eq!(key.as_ref().map(|_| ()).map_err(|error| *error), expect, "{algorithm:?} {pem}");
        if let Ok(key) = key {
            assert_eq!(works([key], algorithm), Ok(()), "{algorithm:?}");
        }
    }
    assert!(KeyError::PrivateKey.to_string().contains("openssl pkey -pubout"));
    assert!(KeyError::Certificate.to_string().contains("openssl x509 -pubkey"));
    assert_eq!(Key::pem(Rs256, b"\xff").unwrap_err(), KeyError::NotPem);
}

/// A key in DER that is truncated or has a changed byte causes no panic. If it is accepted, it is
/// another public key of the same kind.
#[test]
fn damaged_files() {
    for (algorithm, pem) in
        [(Algorithm::Rs256, RSA_PUBLIC), (Algorithm::Es256, P256_PUBLIC), (Algorithm::EdDsa, ED25519_PUBLIC)]
    {
        let good = der(pem);
        let write = |der: &[u8]| {
            let body = STANDARD.encode(der);
            Key::pem(
                algorithm,
                format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----").as_bytes(),
            )
        };
        assert!(write(&good).is_ok());
        for place in 0..good.len() {
            assert!(write(&good[..place]).is_err(), "{algorithm:?} cut at {place}");
            for bit in 0..8 {
                let mut other = good.clone();
                other[place] ^= 1 << bit;
                if let Ok(key) = write(&other) {
                    assert_eq!(
                        works([key], algorithm),
                        Err(Denied::SignatureWrong),
                        "{algorithm:?} {place} {bit}"
                    );
                }
            }
        }
        assert!(write(&[&*good, &[0]].concat()).is_err());
    }
}

#[test]
fn secrets() {
    assert_eq!(works([Key::hmac(SECRET).unwrap()], Algorithm::Hs256), Ok(()));
    for len in [0, 1, 31] {
        assert_eq!(Key::hmac(&vec![b'x'; len]).unwrap_err(), KeyError::SecretTooShort { len });
    }
    assert!(Key::hmac(&[0; 32]).is_ok(), "a secret may contain any bytes");
    for public in
        [RSA_PUBLIC, RSA_PKCS1, P256_PUBLIC, P384, RSA_1024, ED25519_PUBLIC, RSA_PRIVATE, CERTIFICATE]
    {
        assert_eq!(Key::hmac(public.as_bytes()).unwrap_err(), KeyError::SecretIsKey);
    }
    for public in [RSA_PUBLIC, RSA_PKCS1, P256_PUBLIC, P384, RSA_1024, ED25519_PUBLIC] {
        assert_eq!(Key::hmac(&der(public)).unwrap_err(), KeyError::SecretIsKey);
    }
}

/// The public keys of these tests as members of a key set.
fn jwk(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::EdDsa => {
            format!(r#""kty":"OKP","crv":"Ed25519","x":"{}""#, encode(&der(ED25519_PUBLIC)[12..]))
        }
        Algorithm::Es256 => {
            let point = &der(P256_PUBLIC)[27..];
            format!(
                r#""kty":"EC","crv":"P-256","x":"{}","y":"{}""#,
                encode(&point[..32]),
                encode(&point[32..])
            )
        }
        Algorithm::Hs256 => format!(r#""kty":"oct","k":"{}""#, encode(SECRET)),
        Algorithm::Rs256 => {
            // A PKCS#1 key of 2048 bits: 9 bytes of headers including a zero, the modulus, 2 bytes
            // of headers, the exponent.
            let key = der(RSA_PKCS1);
            format!(r#""kty":"RSA","n":"{}","e":"{}""#, encode(&key[9..265]), encode(&key[267..]))
        }
    }
}

fn read(keys: &[String], allowed: &[Algorithm]) -> Result<(usize, usize), JwksError> {
    let set = Jwks::read(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes(), allowed)?;
    Ok((set.keys.len(), set.skipped))
}

#[test]
fn key_sets() {
    let entries: Vec<String> =
        ALL.iter().map(|&each| format!(r#"{{{},"kid":"{each:?}"}}"#, jwk(each))).collect();
    let text = format!(r#"{{"keys":[{}],"more":1}}"#, entries.join(","));
    let set = Jwks::read(text.as_bytes(), &ALL).unwrap();
    assert_eq!((set.keys.len(), set.skipped), (4, 0));
    for (key, algorithm) in set.keys.iter().zip(ALL) {
        assert_eq!((key.algorithm(), key.id()), (algorithm, Some(&*format!("{algorithm:?}"))));
        let policy = JwtPolicy::builder().keys(set.keys.clone()).audience("doorbell").build().unwrap();
        let header = format!(r#"{{"alg":"{}","kid":"{algorithm:?}"}}"#, algorithm.name());
        assert!(policy.verify(sign(algorithm, &header, CLAIMS).as_bytes(), NOW).is_ok(), "{algorithm:?}");
        assert_eq!(read(&entries, &[algorithm]), Ok((1, 3)));
    }
    assert!(!format!("{set:?}").contains(&encode(SECRET)));
}

#[test]
fn every_key_of_a_name_is_used() {
    let entry = |algorithm, id: &str| format!(r#"{{{},"kid":"{id}"}}"#, jwk(algorithm));
    // The other key of the name has the same kind, so a token is tried with both.
    let other = encode([7; 32]);
    let mut entries = vec![format!(r#"{{"kty":"oct","k":"{other}","kid":"a"}}"#)];
    entries.extend(ALL.map(|algorithm| entry(algorithm, "a")));
    entries.push(entry(Algorithm::EdDsa, "b"));
    let text = format!(r#"{{"keys":[{}]}}"#, entries.join(","));
    let set = Jwks::read(text.as_bytes(), &ALL).unwrap();
    assert_eq!((set.keys.len(), set.ignored.len(), set.skipped), (6, 0, 0));
    let policy = JwtPolicy::builder().keys(set.keys).audience("doorbell").build().unwrap();
    for (algorithm, id, expect) in [
        (Algorithm::EdDsa, "a", Ok(())),
        (Algorithm::Es256, "a", Ok(())),
        (Algorithm::Hs256, "a", Ok(())),
        (Algorithm::Rs256, "a", Ok(())),
        (Algorithm::EdDsa, "b", Ok(())),
        (Algorithm::Rs256, "b", Err(Denied::AlgorithmRefused)),
        (Algorithm::EdDsa, "c", Err(Denied::KeyUnknown)),
    ] {
        let header = format!(r#"{{"alg":"{}","kid":"{id}"}}"#, algorithm.name());
        let token = sign(algorithm, &header, CLAIMS);
        assert_eq!(policy.verify(token.as_bytes(), NOW).map(drop), expect, "{algorithm:?} {id}");
    }
}

#[test]
fn one_key_too_many_of_a_name_is_ignored() {
    for id in [r#","kid":"a""#, ""] {
        let alike = format!("{{{}{id}}}", jwk(Algorithm::EdDsa));
        let good = format!(r#"{{{},"kid":"a"}}"#, jwk(Algorithm::Rs256));
        let entries = [vec![alike; KEYS_TRIED_MAX + 1], vec![good]].concat();
        let text = format!(r#"{{"keys":[{}]}}"#, entries.join(","));
        let set = Jwks::read(text.as_bytes(), &ALL).unwrap();
        assert_eq!(set.ignored, [JwksError::TooManyAlike { number: KEYS_TRIED_MAX + 1 }], "{id}");
        assert_eq!(set.keys.len(), KEYS_TRIED_MAX + 1, "{id}");
        assert!(JwtPolicy::builder().keys(set.keys).build().is_ok(), "{id}");
    }
}

#[test]
fn keys_passed_over() {
    let rsa = jwk(Algorithm::Rs256);
    let good = format!("{{{rsa}}}");
    for other in [
        format!(r#"{{{rsa},"use":"enc"}}"#),
        format!(r#"{{{rsa},"alg":"RSA-OAEP"}}"#),
        format!(r#"{{{rsa},"alg":"RS512"}}"#),
        format!(r#"{{{rsa},"alg":"HS256"}}"#),
        format!(r#"{{{rsa},"key_ops":["encrypt"]}}"#),
        format!(r#"{{{rsa},"key_ops":[]}}"#),
        format!("{{{}}}", jwk(Algorithm::Hs256)),
        r#"{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}"#.to_owned(),
        r#"{"kty":"EC"}"#.to_owned(),
        r#"{"kty":"OKP","crv":"X25519","x":"AA"}"#.to_owned(),
        r#"{"kty":"AKP","alg":"ML-DSA-44","pub":"AA"}"#.to_owned(),
    ] {
        assert_eq!(read(&[good.clone(), other.clone()], &[Algorithm::Rs256]), Ok((1, 1)), "{other}");
        assert_eq!(
            read(std::slice::from_ref(&other), &[Algorithm::Rs256]),
            Err(JwksError::NothingUsable { skipped: 1 })
        );
    }
    for fine in [
        r#","use":"sig""#,
        r#","alg":"RS256""#,
        r#","key_ops":["verify"]"#,
        r#","key_ops":["sign","verify"]"#,
    ] {
        assert_eq!(read(&[format!("{{{rsa}{fine}}}")], &[Algorithm::Rs256]), Ok((1, 0)), "{fine}");
    }
    assert_eq!(read(&[], &ALL), Err(JwksError::NothingUsable { skipped: 0 }));
}

#[test]
fn wrong_key_sets() {
    let (rsa, ec, ed) = (jwk(Algorithm::Rs256), jwk(Algorithm::Es256), jwk(Algorithm::EdDsa));
    let key = |error| JwksError::Key { number: 2, error };
    let member = |name| JwksError::Member { number: 2, name };
    let modulus_1024 = encode([0xff; 128]);
    let cases = [
        (format!(r#"{{{rsa},"d":"AA"}}"#), key(KeyError::PrivateKey)),
        (format!(r#"{{{ec},"d":"AA"}}"#), key(KeyError::PrivateKey)),
        (format!(r#"{{{ed},"d":"AA","use":"enc"}}"#), key(KeyError::PrivateKey)),
        (
            format!(r#"{{"kty":"RSA","n":"{modulus_1024}","e":"AQAB"}}"#),
            key(KeyError::RsaTooShort { bits: 1024 }),
        ),
        (rsa_with_exponent(&[1]), key(KeyError::RsaExponent)),
        (rsa_with_exponent(&[2]), key(KeyError::RsaExponent)),
        (rsa_with_exponent(&[]), key(KeyError::RsaExponent)),
        (rsa_with_exponent(&[0, 1, 0, 1]), key(KeyError::RsaExponent)),
        (rsa_with_exponent(&[2, 0, 0, 0, 1]), key(KeyError::RsaExponent)),
        (r#"{"kty":"oct","k":"c2hvcnQ"}"#.to_owned(), key(KeyError::SecretTooShort { len: 5 })),
        (r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#.to_owned(), key(KeyError::Malformed)),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"AA"}"#.to_owned(), key(KeyError::Malformed)),
        (r#"{"kty":"oct"}"#.to_owned(), member("k")),
        (r#"{"kty":"oct","k":1}"#.to_owned(), member("k")),
        (r#"{"kty":"oct","k":"AB"}"#.to_owned(), member("k")),
        (r#"{"kty":"oct","k":"AA=="}"#.to_owned(), member("k")),
        ("{}".to_owned(), member("kty")),
        (format!(r#"{{{rsa},"use":1}}"#), member("use")),
        (format!(r#"{{{rsa},"kid":1}}"#), member("kid")),
        (format!(r#"{{{rsa},"key_ops":"1","key_ops":1}}"#), JwksError::NotKeySet),
        (format!(r#"{{{rsa},"key_ops":1}}"#), member("key_ops")),
        ("1".to_owned(), JwksError::NotKeySet),
    ];
    for (entry, expect) in cases {
        let text = format!(r#"{{"keys":[{{{ec}}},{entry}]}}"#);
        let set = Jwks::read(text.as_bytes(), &ALL);
        // The whole set is refused if it is invalid or contains a private key; other errors concern
        // only one key.
        match expect {
            JwksError::NotKeySet | JwksError::Key { error: KeyError::PrivateKey, .. } => {
                assert_eq!(set.unwrap_err(), expect, "{entry}");
            }
            _ => {
                let set = set.unwrap();
                assert_eq!((set.keys.len(), set.ignored, set.skipped), (1, vec![expect], 0), "{entry}");
                assert!(read(std::slice::from_ref(&entry), &ALL).is_err(), "{entry}: no key is usable");
            }
        }
    }
    let weak = format!(r#"{{"kty":"RSA","n":"{modulus_1024}","e":"AQAB"}}"#);
    let error = JwksError::Key { number: 1, error: KeyError::RsaTooShort { bits: 1024 } };
    assert_eq!(
        read(&[weak, format!(r#"{{{rsa},"use":"enc"}}"#)], &ALL),
        Err(error),
        "the error of a key has priority over skipped keys"
    );
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#, RSA_PUBLIC] {
        assert_eq!(Jwks::read(text.as_bytes(), &ALL).unwrap_err(), JwksError::NotKeySet, "{text}");
    }
    assert_eq!(Jwks::read(&vec![b' '; 1 << 20 | 1], &ALL).unwrap_err(), JwksError::TooLong);
}

fn rsa_with_exponent(exponent: &[u8]) -> String {
    format!(r#"{{"kty":"RSA","n":"{}","e":"{}"}}"#, encode([0xff; 256]), encode(exponent))
}

#[test]
fn wrong_policies() {
    let one = || JwtPolicy::builder().key(key(Algorithm::Hs256));
    let numbered = |count: usize| (0..count).map(|_| key(Algorithm::Rs256));
    let named =
        |count: usize| numbered(count).zip(0..).map(|(key, number)| key.with_id(&format!("{number}")));
    let cases = [
        (JwtPolicy::builder(), JwtPolicyError::NoKey),
        (one().keys(named(KEYS_MAX)), JwtPolicyError::TooManyKeys),
        (one().keys(numbered(5)), JwtPolicyError::TooManyKeysAlike(Algorithm::Rs256)),
        (
            one().keys((0..5).map(|_| key(Algorithm::Rs256).with_id("a"))),
            JwtPolicyError::TooManyKeysAlike(Algorithm::Rs256),
        ),
        (one().leeway_secs(601), JwtPolicyError::LeewayTooLong),
        (one().token_len_max(0), JwtPolicyError::TokenLenMax),
        (one().token_len_max(64 * 1024 + 1), JwtPolicyError::TokenLenMax),
        (one().require_scope("a\"b"), JwtPolicyError::Scope("a\"b".into())),
        (one().require_scope("a\r\nb"), JwtPolicyError::Scope("a\r\nb".into())),
    ];
    for (builder, expect) in cases {
        assert_eq!(builder.build().unwrap_err(), expect);
    }
    assert!(one().keys(named(KEYS_MAX - 1)).build().is_ok());
    assert!(one().keys(numbered(4)).build().is_ok());
    assert!(one().build().is_ok_and(|policy| !policy.is_heavy()));
    for algorithm in [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa] {
        assert!(one().key(key(algorithm)).build().unwrap().is_heavy());
    }
}
