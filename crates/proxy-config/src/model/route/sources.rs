//! Hosts, paths, client names and content types of a route, each validated alone.

use super::super::is_field_value;
use doorbell::http::router;
use doorbell_config::{At, Entry, TEXTS};

/// Maximum length of a client name: the engine ignores longer names in certificates.
const CLIENT_NAME_LEN_MAX: usize = 256;

pub(super) fn hosts(entry: &Entry<'_>) -> Option<Vec<At<String>>> {
    list(entry, |entry| {
        let text = entry.string()?;
        router::host::canonical_pattern(&text)
            .or_else(|| entry.refuse("bad-host", format!("{text:?} is not a host"), host_help(&text)))
    })
}

/// Help for an invalid host.
pub(super) fn host_help(text: &str) -> &'static str {
    if text.contains('*') {
        "write \"*.example.com\" for every name below it, or list the hosts"
    } else if text.contains("://") || text.contains('/') {
        "write only the name, without scheme and path"
    } else if text.contains(':') && !text.starts_with('[') {
        "write the name without a port; a route matches the host on any port"
    } else {
        "write a name such as \"example.com\" or an address such as \"192.0.2.1\" or \"[2001:db8::1]\""
    }
}

pub(super) fn paths(entry: &Entry<'_>) -> Option<Vec<At<String>>> {
    list(entry, |entry| {
        let text = entry.string()?;
        let Err(cause) = router::param_names(&text) else { return Some(text) };
        let message = format!("{text:?} is not a path: {cause}");
        entry.refuse("bad-path", message, "write \"/static\", \"/a/{name}/b\" or \"/a/{*rest}\"")
    })
}

pub(super) fn client_names(entry: &Entry<'_>) -> Option<Vec<At<String>>> {
    list(entry, |entry| {
        let name = entry.string()?;
        let has_length = (1..=CLIENT_NAME_LEN_MAX).contains(&name.len());
        let help = match name.contains('*') {
            true => "wildcards are not supported; list every name",
            false if has_length && !name.chars().any(char::is_control) => return Some(name),
            false => "write an alternative name of the certificate, or its common name if it has none",
        };
        entry.refuse("bad-value", format!("{name:?} is not the name of a client"), help)
    })
}

/// Help for an invalid field value.
pub(super) const FIELD_VALUE_HELP: &str =
    "no line breaks or other control characters, no space at either end";

pub(super) fn content_type(entry: &Entry<'_>) -> Option<String> {
    let text = entry.string()?;
    if is_field_value(&text) {
        return Some(text);
    }
    let message = format!("the value of `{}` cannot be sent", entry.name());
    entry.refuse("bad-header", message, FIELD_VALUE_HELP)
}

fn list(entry: &Entry<'_>, read: impl Fn(&Entry<'_>) -> Option<String>) -> Option<Vec<At<String>>> {
    entry.list(TEXTS, |entry| Some(At { value: read(entry)?, span: entry.span() }))
}
