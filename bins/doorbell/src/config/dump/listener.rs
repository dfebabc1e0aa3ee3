//! `[listener.NAME]` as it is written in a file.
//!
//! Does not know about: what is the default.

use super::super::model::{Config, Listener, Protocol, Tcp, Timeouts};
use super::super::written::{FORWARDED, PROXY_PROTOCOLS};
use super::{literal, name_of, text};
use doorbell_config::{format_duration, format_size};
use serde_json::{Value, json};

pub(super) fn listener_value(listener: &Listener, config: &Config) -> Value {
    let Timeouts { header, body, write, linger } = listener.timeouts;
    let Tcp { backlog, defer_accept, nodelay, quickack } = listener.tcp;
    let binds: Vec<String> = listener.binds.iter().map(ToString::to_string).collect();
    let mut value = json!({
        "bind": literal(&binds),
        "timeouts": {
            "header": format_duration(header),
            "body": format_duration(body),
            "write": format_duration(write),
            "linger": format_duration(linger),
        },
        "tls": listener.tls.and_then(|position| config.tls.get(position)).map(|tls| &tls.name),
        "proxy_protocol": name_of(&PROXY_PROTOCOLS, listener.proxy_protocol),
        "trusted_proxies": listener.trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "limits": { "connections_per_ip": listener.connections_per_ip.map_or_else(|| json!("off"), |count| json!(count)) },
        "tcp": { "backlog": backlog, "defer_accept": defer_accept, "nodelay": nodelay, "quickack": quickack },
    });
    match &listener.protocol {
        Protocol::Http1(http1) => {
            value["protocol"] = json!("http1");
            value["keep_alive"] = json!({
                "enabled": http1.keep_alive,
                "idle": format_duration(http1.idle),
                "max_requests": http1.max_requests,
                "max_age": http1.max_age.map_or_else(|| json!("off"), |age| json!(format_duration(age))),
            });
            value["http2"] = json!(http1.http2);
            value["forwarded"] = json!(name_of(&FORWARDED, http1.forwarded));
            value["limits"]["header_bytes"] = json!(format_size(http1.header_bytes.into()));
            value["limits"]["headers"] = json!(http1.headers);
            value["limits"]["requests_in_flight"] =
                http1.requests_in_flight.map_or_else(|| json!("off"), |count| json!(count));
            value["limits"]["body_bytes"] = json!(format_size(http1.body_bytes.into()));
        }
        Protocol::Raw { reply, speaks_first } => {
            value["protocol"] = json!("raw");
            value["reply"] = text(reply);
            value["speaks_first"] = json!(speaks_first);
        }
    }
    if listener.tls.is_none()
        && let Some(table) = value.as_object_mut()
    {
        table.remove("tls");
    }
    value
}
