//! Signed tokens: a shared secret, a public key in a file, a key set that changes; and tokens that must not get in.
//!
//! Does not know about: how a signature is verified.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use doorbell_testkit::peers::wait_until;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};

use crate::plain::get;
use crate::support::{Doorbell, LIMIT, Scratch, on_both_engines};

on_both_engines! {
    a_shared_secret
    a_public_key_in_a_file
    a_key_set_that_changes
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

/// Good for five minutes.
fn claims() -> Value {
    json!({ "iss": "https://issuer.test", "aud": "doorbell", "sub": "alice", "scope": "status:read x", "exp": now() + 300 })
}

/// The good claims with one of them other, or none.
fn but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    if value.is_null() {
        claims.as_object_mut().unwrap().remove(name);
    } else {
        claims[name] = value;
    }
    claims
}

/// An ECDSA key with its name in the key set.
struct Signer {
    id: &'static str,
    pair: KeyPair,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        Self { id, pair: KeyPair::generate().unwrap() }
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(Algorithm::ES256) };
        encode(&header, claims, &EncodingKey::from_ec_der(&self.pair.serialize_der())).unwrap()
    }

    fn jwk(&self) -> Value {
        let point = self.pair.der_bytes();
        let coordinate = |from: usize| URL_SAFE_NO_PAD.encode(&point[from..from + 32]);
        json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": self.id, "x": coordinate(1), "y": coordinate(33) })
    }
}

fn hs256(claims: &Value, secret: &[u8]) -> String {
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

/// None of these gets in, whatever the signature; `sign` makes a good one.
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
    // Each byte of the signature changed, the whole signature gone, and the claims of somebody else under it.
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
    assert_eq!(status(doorbell.addr, &Signer::new("a").sign(&claims())), 401);
}

fn a_public_key_in_a_file(engine: &str) {
    let scratch = Scratch::new();
    let signer = Signer::new("a");
    let pem = signer.pair.public_key_pem();
    let file = scratch.write("key.pem", &pem);
    let doorbell = serve(engine, &format!("algorithm = \"ES256\"\nkey_file = {file:?}\n{WANTED}"));
    assert_attacks_fail(doorbell.addr, &|claims| signer.sign(claims));
    // The public key taken for a shared secret, as it stands in the file and without its wrapping.
    for secret in [
        pem.as_bytes(),
        pem.trim().as_bytes(),
        signer.pair.der_bytes(),
        &signer.pair.subject_public_key_info(),
    ] {
        assert_eq!(status(doorbell.addr, &hs256(&claims(), secret)), 401);
    }
    assert_eq!(status(doorbell.addr, &Signer::new("a").sign(&claims())), 401);
}

fn a_key_set_that_changes(engine: &str) {
    let scratch = Scratch::new();
    let (old, new) = (Signer::new("old"), Signer::new("new"));
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
    // A file that cannot be used leaves the keys as they are, and is told of once.
    let told = || doorbell.process.log().matches("what was there before stays in use").count();
    scratch.write("jwks.json", "{ \"keys\": [");
    assert!(wait_until(LIMIT, || told() == 1).is_some(), "{}", doorbell.process.log());
    assert_eq!(both(), [401, 200]);
    assert_attacks_fail(doorbell.addr, &|claims| new.sign(claims));
    assert_eq!(told(), 1);
}
