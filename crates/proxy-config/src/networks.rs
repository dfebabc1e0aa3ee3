//! Keys with networks in CIDR form.

use doorbell::http::forwarded::{Network, NetworkError};
use doorbell_config::{At, Entry, Json, Key, TEXTS, Value as _, form};

pub(crate) fn read(entry: &Entry<'_>) -> Option<Vec<At<Network>>> {
    entry.list(TEXTS, |entry| {
        let text = entry.string()?;
        let error = match text.parse() {
            Ok(value) => return Some(At { value, span: entry.span() }),
            Err(error) => error,
        };
        let help = match &error {
            NetworkError::HostBits(network) => format!("write \"{network}\""),
            _ => "write \"10.0.0.0/8\", \"fd00::/8\" or one address".to_owned(),
        };
        entry.refuse("bad-network", format!("{text:?} is not a network: {error}"), help)
    })
}

pub(crate) fn dump(networks: &[At<Network>]) -> Option<Json> {
    (!networks.is_empty()).then(|| networks.iter().map(|network| network.to_string()).collect())
}

pub(crate) fn form(key: &Key) -> Json {
    form::one_or_list(&String::form(key))
}
