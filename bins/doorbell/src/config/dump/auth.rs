//! `[auth.NAME]` as it is written in a file, with stars in the place of every secret.
//!
//! Does not know about: what a secret is.

use super::super::model::{Auth, Jwt, JwtKey, Secret};
use super::{literal, path_text, text};
use doorbell_config::format_duration;
use serde_json::{Map, Value, json};

pub(super) fn auth_value(auth: &Auth, with_defaults: bool) -> Value {
    let mut value = json!({});
    if with_defaults || auth.realm != Auth::default().realm {
        value["realm"] = text(&auth.realm);
    }
    let tokens: Map<_, _> = auth.tokens.iter().map(|(name, _)| (name.clone(), json!(Secret::MASK))).collect();
    if !tokens.is_empty() {
        value["tokens"] = Value::Object(tokens);
    }
    if let Some(jwt) = &auth.jwt {
        value["jwt"] = jwt_value(jwt, with_defaults);
    }
    value
}

fn jwt_value(jwt: &Jwt, with_defaults: bool) -> Value {
    let names: Vec<_> = jwt.algorithms.iter().map(|algorithm| algorithm.name()).collect();
    let mut value = match &jwt.key {
        JwtKey::Jwks(path) => json!({ "jwks_file": path_text(path) }),
        JwtKey::Pem(path) => json!({ "key_file": path_text(path) }),
        JwtKey::Secret(_) => json!({ "secret": Secret::MASK }),
    };
    value["algorithm"] = match names.as_slice() {
        [name] => json!(name),
        names => json!(names),
    };
    if !jwt.issuers.is_empty() {
        value["issuer"] = literal(&jwt.issuers);
    }
    if !jwt.audiences.is_empty() {
        value["audience"] = literal(&jwt.audiences);
    }
    if with_defaults || jwt.leeway != Jwt::LEEWAY {
        value["leeway"] = json!(format_duration(jwt.leeway));
    }
    if !jwt.require.is_empty() {
        let claims = jwt.require.iter().map(|(name, claim)| (name.clone(), text(claim)));
        value["require"] = Value::Object(claims.collect());
    }
    value
}
