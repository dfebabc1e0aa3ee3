//! Signed tokens: a shared secret, a public key in a file, a changing key set; and tokens that must
//! be refused.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use doorbell_testkit::peers::wait_until;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};

use crate::plain::get;
use crate::support::{Doorbell, LIMIT, Scratch, on_auto};

on_auto! {
    a_shared_secret
    a_public_key_in_a_file
    a_key_set_that_changes
    a_key_set_of_all_kinds
    an_unusable_key_is_skipped
    a_missing_right_is_reported_by_the_policy_that_knows_the_token
}

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn serve(engine: &str, jwt: &str) -> Doorbell {
    let config = format!(
        "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\n[auth.api]\nrealm = \"api\"\n[auth.api.jwt]\n{jwt}\n\
         [route.api]\npath = \"/api\"\nauth = \"api\"\nreply = {{ body = \"secret\\n\" }}\n"
    );
    Doorbell::start_with(engine, &config)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that are valid for five minutes.
pub(crate) fn claims() -> Value {
    json!({ "iss": "https://issuer.test", "aud": "doorbell", "sub": "alice", "scope": "status:read x", "exp": now() + 300 })
}

/// The valid claims, with one claim changed or removed.
pub(crate) fn but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    if value.is_null() {
        claims.as_object_mut().unwrap().remove(name);
    } else {
        claims[name] = value;
    }
    claims
}

/// The algorithms with a public key, by their configuration names.
const PUBLIC_KEY: [&str; 3] = ["ES256", "EdDSA", "RS256"];

/// A key pair, and its ID in the key set.
pub(crate) struct Signer {
    id: &'static str,
    algorithm: Algorithm,
    pub(crate) pair: KeyPair,
}

impl Signer {
    pub(crate) fn new(id: &'static str, algorithm: &str) -> Self {
        let (algorithm, kind) = match algorithm {
            "ES256" => (Algorithm::ES256, &rcgen::PKCS_ECDSA_P256_SHA256),
            "EdDSA" => (Algorithm::EdDSA, &rcgen::PKCS_ED25519),
            "RS256" => (Algorithm::RS256, &rcgen::PKCS_RSA_SHA256),
            other => panic!("{other}"),
        };
        Self { id, algorithm, pair: KeyPair::generate_for(kind).unwrap() }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(self.id, claims)
    }

    /// Signs with this key ID, which may be that of another key.
    fn sign_as(&self, id: &str, claims: &Value) -> String {
        let header = Header { kid: Some(id.to_owned()), ..Header::new(self.algorithm) };
        let der = self.pair.serialize_der();
        let key = match self.algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_der(&der),
            Algorithm::EdDSA => EncodingKey::from_ed_der(&der),
            // PKCS #8 around PKCS #1: version, algorithm, key.
            _ => EncodingKey::from_rsa_der(elements(&der)[2]),
        };
        encode(&header, claims, &key).unwrap()
    }

    fn jwk(&self) -> Value {
        let public = self.pair.der_bytes();
        let base64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match self.algorithm {
            Algorithm::ES256 => {
                json!({ "kty": "EC", "alg": "ES256", "crv": "P-256", "x": base64(&public[1..33]), "y": base64(&public[33..]) })
            }
            Algorithm::EdDSA => {
                json!({ "kty": "OKP", "alg": "EdDSA", "crv": "Ed25519", "x": base64(public) })
            }
            _ => {
                let numbers = elements(public);
                // A number whose highest bit is set has a leading zero byte in DER, but not in a
                // key set.
                let [n, e] = [numbers[0].strip_prefix(&[0]).unwrap_or(numbers[0]), numbers[1]];
                json!({ "kty": "RSA", "alg": "RS256", "n": base64(n), "e": base64(e) })
            }
        };
        jwk["kid"] = self.id.into();
        jwk["use"] = "sig".into();
        jwk
    }
}

/// The contents of the elements of a DER sequence.
fn elements(sequence: &[u8]) -> Vec<&[u8]> {
    let (mut rest, _) = element(sequence);
    let mut contents = Vec::new();
    while !rest.is_empty() {
        let (content, after) = element(rest);
        contents.push(content);
        rest = after;
    }
    contents
}

/// The content of the first DER element, and the bytes after the element.
fn element(der: &[u8]) -> (&[u8], &[u8]) {
    let long = usize::from(der[1].saturating_sub(0x80));
    let len = der[2..2 + long].iter().fold(0, |len, &byte| len << 8 | usize::from(byte));
    der[2 + long..].split_at(if long == 0 { usize::from(der[1]) } else { len })
}

pub(crate) fn hs256(claims: &Value, secret: &[u8]) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(secret)).unwrap()
}

fn without_signature(algorithm: &str, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.", part(&json!({ "alg": algorithm, "typ": "JWT" })), part(claims))
}

fn status(server: SocketAddr, token: &str) -> u16 {
    let reply = get(server, "/api", &[&format!("Authorization: Bearer {token}")]);
    let challenge = reply.field("www-authenticate").unwrap_or_default();
    let error = match reply.status {
        200 => "",
        401 => "Bearer realm=\"api\", error=\"invalid_token\"",
        403 => "Bearer realm=\"api\", error=\"insufficient_scope\"",
        other => panic!("{other}: {token}"),
    };
    assert!(challenge.starts_with(error) && challenge.is_empty() == error.is_empty(), "{}", reply.head);
    assert_eq!(reply.status == 200, reply.body == b"secret\n");
    reply.status
}

/// Asserts that attacks are refused. `sign` makes a valid signature.
fn assert_attacks_fail(server: SocketAddr, sign: &dyn Fn(&Value) -> String) {
    assert_eq!(status(server, &sign(&claims())), 200);
    let table = [
        ("expired", but("exp", json!(now() - 300))),
        ("never ends", but("exp", Value::Null)),
        ("not yet", but("nbf", json!(now() + 300))),
        ("another audience", but("aud", json!("other"))),
        ("no audience", but("aud", Value::Null)),
        ("another issuer", but("iss", json!("https://other.test"))),
        ("no issuer", but("iss", Value::Null)),
    ];
    for (what, claims) in table {
        assert_eq!(status(server, &sign(&claims)), 401, "{what}");
    }
    assert_eq!(status(server, &sign(&but("scope", json!("x status:write")))), 403);
    assert_eq!(status(server, &sign(&but("scope", Value::Null))), 403);
    for algorithm in ["none", "None", "NONE", "nOnE", "", "HS256", "ES256", "RS256"] {
        assert_eq!(status(server, &without_signature(algorithm, &claims())), 401, "{algorithm:?}");
    }
    let good = sign(&claims());
    let (head, signature) = good.rsplit_once('.').unwrap();
    // Changed bytes of the signature, a missing signature, and claims other than the signed ones.
    for at in (0..signature.len()).step_by(5) {
        let mut bytes = signature.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = format!("{head}.{}", String::from_utf8(bytes).unwrap());
        assert_eq!(status(server, &changed), 401, "byte {at}");
    }
    assert_eq!(status(server, head.split_once('.').unwrap().0), 401);
    let admin = without_signature("ES256", &but("sub", json!("admin")));
    let swapped =
        format!("{}.{}.{signature}", head.split_once('.').unwrap().0, admin.split('.').nth(1).unwrap());
    assert_eq!(status(server, &swapped), 401);
}

const WANTED: &str = "issuer = \"https://issuer.test\"\naudience = \"doorbell\"\nleeway = \"5s\"\nrequire = { scope = \"status:read\" }\n";

fn a_shared_secret(engine: &str) {
    let scratch = Scratch::new();
    let secret = scratch.write("secret", SECRET);
    let doorbell =
        serve(engine, &format!("algorithm = \"HS256\"\nsecret = \"${{file:{secret}}}\"\n{WANTED}"));
    assert_attacks_fail(doorbell.addr, &|claims| hs256(claims, SECRET.as_bytes()));
    assert_eq!(status(doorbell.addr, &hs256(&claims(), b"another secret of thirty-two byte")), 401);
    for algorithm in PUBLIC_KEY {
        assert_eq!(status(doorbell.addr, &Signer::new("a", algorithm).sign(&claims())), 401);
    }
}

fn a_public_key_in_a_file(engine: &str) {
    PUBLIC_KEY.iter().for_each(|algorithm| with_public_key(engine, algorithm));
}

fn with_public_key(engine: &str, algorithm: &str) {
    let scratch = Scratch::new();
    let signer = Signer::new("a", algorithm);
    let pem = signer.pair.public_key_pem();
    let file = scratch.write("key.pem", &pem);
    let doorbell = serve(engine, &format!("algorithm = {algorithm:?}\nkey_file = {file:?}\n{WANTED}"));
    assert_attacks_fail(doorbell.addr, &|claims| signer.sign(claims));
    // The public key used as a shared secret: as in the file, and decoded.
    for secret in [
        pem.as_bytes(),
        pem.trim().as_bytes(),
        signer.pair.der_bytes(),
        &signer.pair.subject_public_key_info(),
    ] {
        assert_eq!(status(doorbell.addr, &hs256(&claims(), secret)), 401);
    }
    // Keys of other signers, with the same and with other algorithms.
    for other in PUBLIC_KEY {
        assert_eq!(status(doorbell.addr, &Signer::new("a", other).sign(&claims())), 401, "{other}");
    }
}

fn a_key_set_that_changes(engine: &str) {
    let scratch = Scratch::new();
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "ES256"));
    let write = |keys: &[&Signer]| {
        let keys: Vec<Value> = keys.iter().map(|signer| signer.jwk()).collect();
        let fresh = scratch.write("jwks.json.new", &json!({ "keys": keys }).to_string());
        let path = scratch.path("jwks.json");
        std::fs::rename(fresh, &path).unwrap();
        path
    };
    let file = write(&[&old]);
    let doorbell = serve(engine, &format!("algorithm = [\"ES256\"]\njwks_file = {file:?}\n{WANTED}"));
    assert_attacks_fail(doorbell.addr, &|claims| old.sign(claims));
    let both = || [&old, &new].map(|signer| status(doorbell.addr, &signer.sign(&claims())));
    assert_eq!(both(), [200, 401]);
    write(&[&old, &new]);
    assert!(wait_until(LIMIT, || both() == [200, 200]).is_some(), "{}", doorbell.process.log());
    write(&[&new]);
    assert!(wait_until(LIMIT, || both() == [401, 200]).is_some(), "{}", doorbell.process.log());
    // An invalid file leaves the keys unchanged, and is logged once.
    let reports = || doorbell.process.log().matches("keeping the previous version").count();
    scratch.write("jwks.json", "{ \"keys\": [");
    assert!(wait_until(LIMIT, || reports() == 1).is_some(), "{}", doorbell.process.log());
    assert_eq!(both(), [401, 200]);
    assert_attacks_fail(doorbell.addr, &|claims| new.sign(claims));
    assert_eq!(reports(), 1);
}

fn an_unusable_key_is_skipped(engine: &str) {
    let scratch = Scratch::new();
    let good = Signer::new("good", "ES256");
    let weak = json!({ "kty": "RSA", "kid": "weak", "n": "AQAB", "e": "AQAB" });
    let broken = json!({ "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" });
    let set = json!({ "keys": [weak, good.jwk(), broken, { "kty": "PQC" }] });
    let file = scratch.write("jwks.json", &set.to_string());
    let jwt = format!("algorithm = [\"ES256\", \"RS256\"]\njwks_file = {file:?}\n{WANTED}");
    let doorbell = serve(engine, &jwt);
    assert_eq!(status(doorbell.addr, &good.sign(&claims())), 200, "{}", doorbell.process.log());
    let log = doorbell.process.log();
    for number in [1, 3] {
        assert!(log.contains(&format!("jwks.json: key {number} of the set cannot be used: ")), "{log}");
    }
    assert!(!log.contains("key 2 of") && !log.contains("key 4 of"), "{log}");
}

fn a_missing_right_is_reported_by_the_policy_that_knows_the_token(engine: &str) {
    let scratch = Scratch::new();
    let signer = Signer::new("a", "ES256");
    let file = scratch.write("jwks.json", &json!({ "keys": [signer.jwk()] }).to_string());
    // A job verifies the signature for the second policy. The third policy needs no job.
    let second = format!("algorithm = \"ES256\"\njwks_file = {file:?}\n{WANTED}");
    let third = format!("algorithm = \"HS256\"\nsecret = \"{SECRET}\"\n{WANTED}");
    let route = |name: &str, rules: &str| {
        format!("[route.{name}]\npath = \"/{name}\"\nauth = {rules}\nreply = {{ body = \"secret\\n\" }}\n")
    };
    let config = format!(
        "version = 1\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
         [auth.one]\nrealm = \"one\"\ntokens = {{ ops = \"abcdefghijklmnopqrstuvwxyz012345\" }}\n\
         [auth.two]\nrealm = \"two\"\n[auth.two.jwt]\n{second}\n[auth.three]\nrealm = \"three\"\n[auth.three.jwt]\n{third}\n\
         {}{}",
        route("late", "[\"one\", \"two\"]"),
        route("now", "[\"one\", \"three\"]")
    );
    let doorbell = Doorbell::start_with(engine, &config);
    let poor = but("scope", json!("other"));
    for (path, good, poor) in [
        ("/late", signer.sign(&claims()), signer.sign(&poor)),
        ("/now", hs256(&claims(), SECRET.as_bytes()), hs256(&poor, SECRET.as_bytes())),
    ] {
        let ask = |token: &str| {
            let reply = get(doorbell.addr, path, &[&format!("Authorization: Bearer {token}")]);
            (reply.status, reply.field("www-authenticate").unwrap_or_default().to_owned())
        };
        assert_eq!(ask(&good).0, 200, "{path}");
        let (status, challenge) = ask(&poor);
        assert_eq!(status, 403, "{path}: {challenge}");
        assert!(challenge.contains("insufficient_scope") && !challenge.contains("\"one\""), "{challenge}");
        let (status, challenge) = ask("unknown");
        assert_eq!(status, 401, "{path}: {challenge}");
        assert!(challenge.contains("realm=\"one\""), "{path}: {challenge}");
    }
}

fn a_key_set_of_all_kinds(engine: &str) {
    let scratch = Scratch::new();
    let signers = PUBLIC_KEY.map(|algorithm| Signer::new(algorithm, algorithm));
    let keys = json!({ "keys": signers.iter().map(Signer::jwk).collect::<Vec<_>>() });
    let file = scratch.write("jwks.json", &keys.to_string());
    let all = serve(engine, &format!("algorithm = {PUBLIC_KEY:?}\njwks_file = {file:?}\n{WANTED}"));
    for signer in &signers {
        assert_attacks_fail(all.addr, &|claims| signer.sign(claims));
        // The ID of a key with another algorithm; and the public key as a secret.
        for other in signers.iter().filter(|other| other.id != signer.id) {
            let swapped = signer.sign_as(other.id, &claims());
            assert_eq!(status(all.addr, &swapped), 401, "{} as {}", signer.id, other.id);
        }
        assert_eq!(status(all.addr, &hs256(&claims(), signer.pair.der_bytes())), 401);
    }
    // The set has keys for more algorithms than configured. The algorithm comes from the
    // configuration, not from the token or the set.
    for wanted in PUBLIC_KEY {
        let one = serve(engine, &format!("algorithm = [{wanted:?}]\njwks_file = {file:?}\n{WANTED}"));
        for signer in &signers {
            let expected = if signer.id == wanted { 200 } else { 401 };
            assert_eq!(status(one.addr, &signer.sign(&claims())), expected, "{} where {wanted}", signer.id);
        }
    }
}
