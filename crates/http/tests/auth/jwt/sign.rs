//! Creates valid and invalid tokens with the keys in `tests/keys`. Benches and fuzz targets use
//! this file, too.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use doorbell_http::auth::jwt::{Algorithm, JwtBuilder, JwtPolicy, Key};
use jsonwebtoken::EncodingKey;
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;

/// The current time in all tests.
pub(crate) const NOW: i64 = 1_700_000_000;
/// The secret of the key `hs`.
pub(crate) const SECRET: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
/// Claims that are valid at [`NOW`].
pub(crate) const CLAIMS: &str = r#"{"iss":"https://issuer.test","aud":"doorbell","sub":"alice","exp":1700000600,"nbf":1699999990,"scope":"read write","role":["reader","ringer"]}"#;

pub(crate) const RSA_PUBLIC: &str = include_str!("../../keys/rsa.pub.pem");
pub(crate) const P256_PUBLIC: &str = include_str!("../../keys/p256.pub.pem");
pub(crate) const ED25519_PUBLIC: &str = include_str!("../../keys/ed25519.pub.pem");

pub(crate) const ALL: [Algorithm; 4] =
    [Algorithm::Hs256, Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

/// The name of the test key for an algorithm.
pub(crate) fn key_id(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::EdDsa => "ed",
        Algorithm::Es256 => "es",
        Algorithm::Hs256 => "hs",
        Algorithm::Rs256 => "rs",
    }
}

/// The test key for an algorithm, without a name.
pub(crate) fn key(algorithm: Algorithm) -> Key {
    let pem = match algorithm {
        Algorithm::Hs256 => return Key::hmac(SECRET).expect("long enough"),
        Algorithm::EdDsa => ED25519_PUBLIC,
        Algorithm::Es256 => P256_PUBLIC,
        Algorithm::Rs256 => RSA_PUBLIC,
    };
    Key::pem(algorithm, pem.as_bytes()).expect("a good key")
}

/// A policy with the four test keys, the issuer and the audience of [`CLAIMS`], and no leeway.
pub(crate) fn builder() -> JwtBuilder {
    JwtPolicy::builder()
        .keys(ALL.map(|algorithm| key(algorithm).with_id(key_id(algorithm))))
        .issuer("https://issuer.test")
        .audience("doorbell")
        .leeway_secs(0)
}

pub(crate) fn policy() -> JwtPolicy {
    builder().build().expect("a good policy")
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).expect("base64url")
}

/// The header of a token for an algorithm.
pub(crate) fn header(algorithm: Algorithm) -> String {
    format!(r#"{{"alg":"{}","typ":"JWT","kid":"{}"}}"#, algorithm.name(), key_id(algorithm))
}

/// The signature of a message with the private test key.
pub(crate) fn signature(algorithm: Algorithm, message: &str) -> Vec<u8> {
    let (name, key) = match algorithm {
        Algorithm::EdDsa => (
            jsonwebtoken::Algorithm::EdDSA,
            EncodingKey::from_ed_der(&der(include_str!("../../keys/ed25519.pem"))),
        ),
        Algorithm::Es256 => (
            jsonwebtoken::Algorithm::ES256,
            EncodingKey::from_ec_der(&der(include_str!("../../keys/p256.pem"))),
        ),
        Algorithm::Hs256 => return hmac(SECRET, message),
        Algorithm::Rs256 => (
            jsonwebtoken::Algorithm::RS256,
            EncodingKey::from_rsa_der(&der(include_str!("../../keys/rsa.pem"))),
        ),
    };
    sign_with(&name, &key, message)
}

/// The HMAC of a message with the given secret.
pub(crate) fn hmac(secret: &[u8], message: &str) -> Vec<u8> {
    sign_with(&jsonwebtoken::Algorithm::HS256, &EncodingKey::from_secret(secret), message)
}

fn sign_with(name: &jsonwebtoken::Algorithm, key: &EncodingKey, message: &str) -> Vec<u8> {
    let signer = (DEFAULT_PROVIDER.signer_factory)(name, key).expect("a good key");
    signer.try_sign(message.as_bytes()).expect("a signature")
}

/// A correctly signed token with this header and these claims, which may have any content.
pub(crate) fn sign(algorithm: Algorithm, header: &str, claims: impl AsRef<[u8]>) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = encode(signature(algorithm, &message));
    format!("{message}.{signature}")
}

/// A valid token.
pub(crate) fn token(algorithm: Algorithm) -> String {
    sign(algorithm, &header(algorithm), CLAIMS)
}

/// The content of a PEM file.
pub(crate) fn der(pem: &str) -> Vec<u8> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).expect("a good file")
}
