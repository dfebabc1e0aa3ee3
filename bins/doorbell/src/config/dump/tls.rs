//! `[tls.NAME]` as it is written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::Tls;
use super::super::written::{MODES, UNKNOWN_NAMES, VERSIONS};
use super::{name_of, path_text, text};
use doorbell_config::format_duration;
use serde_json::{Value, json};

pub(super) fn tls_value(tls: &Tls) -> Value {
    let mut client_auth = json!({ "mode": name_of(&MODES, tls.client_auth.mode) });
    if let Some(ca) = &tls.client_auth.ca {
        client_auth["ca"] = path_text(ca);
    }
    if !tls.client_auth.crls.is_empty() {
        client_auth["crl"] = tls.client_auth.crls.iter().map(|crl| path_text(crl)).collect();
        client_auth["expired_crls_hold"] = tls.client_auth.expired_crls_hold.into();
    }
    let mut value = json!({
        "wait_for_certificate": tls.wait_for_certificate,
        "min_version": name_of(&VERSIONS, tls.min_version),
        "client_auth": client_auth,
        "session_resumption": tls.session_resumption,
        "unknown_server_name": name_of(&UNKNOWN_NAMES, tls.unknown_server_name),
        "handshake_timeout": format_duration(tls.handshake_timeout),
        "handshakes_per_ip": tls.handshakes_per_ip.map_or_else(|| "off".to_owned(), |rate| rate.to_string()),
    });
    match tls.certificates.as_slice() {
        [] => {}
        [pair] => {
            value["cert"] = path_text(&pair.cert);
            value["key"] = path_text(&pair.key);
        }
        pairs => {
            let pairs = pairs
                .iter()
                .map(|pair| json!({ "cert": path_text(&pair.cert), "key": path_text(&pair.key) }));
            value["certificates"] = pairs.collect();
        }
    }
    if let Some(hsts) = &tls.hsts {
        value["hsts"] = text(hsts);
    }
    value
}
