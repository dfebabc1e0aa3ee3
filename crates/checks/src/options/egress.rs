//! `[check_defaults] egress`: source addresses and ports of the connections of checks.

use doorbell_config::{Entry, TEXTS, Table};
use doorbell_egress::PortChoice;
use std::net::IpAddr;

/// Source addresses and ports of the connections of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
pub struct EgressOptions {
    /// Source address, or a list of addresses that are used in turn. Only addresses of the target's
    /// family are used. Default: the kernel chooses.
    #[key(name = "source", with = sources)]
    pub sources: Vec<IpAddr>,
    /// Choice of local ports: auto (the best method that the kernel supports), off (the kernel
    /// chooses), or the number of ports of a random window (IP_LOCAL_PORT_RANGE, Linux 6.3).
    #[key(name = "port_window", default = "auto", with = port_window)]
    pub ports: PortChoice,
}

/// Form of the source addresses: one address or a list.
mod sources {
    use super::{Entry, IpAddr, TEXTS};
    use doorbell_config::{Json, Key, Value as _};

    pub(super) fn read(entry: &Entry<'_>) -> Option<Vec<IpAddr>> {
        entry.list(TEXTS, |entry| {
            let text = entry.string()?;
            let ip: Option<IpAddr> = text.parse().ok();
            ip.filter(|ip| !ip.is_unspecified() && !ip.is_multicast()).or_else(|| {
                let message = format!("{text:?} is not an address to connect from");
                let help = "write addresses of this machine, as in [\"192.0.2.10\", \"2001:db8::10\"]";
                entry.refuse("bad-value", message, help)
            })
        })
    }

    pub(super) fn dump(sources: &[IpAddr]) -> Option<Json> {
        (!sources.is_empty()).then(|| sources.iter().map(ToString::to_string).collect())
    }

    pub(super) fn form(key: &Key) -> Json {
        Vec::<String>::form(key)
    }
}

/// Form of the port choice: a word, or the number of ports of a window.
mod port_window {
    use super::{Entry, PortChoice};
    use doorbell_config::{Json, Key};
    use doorbell_egress::Strategy;
    use serde_json::json;
    use std::num::NonZeroU16;

    pub(super) fn read(entry: &Entry<'_>) -> Option<PortChoice> {
        if entry.raw().as_integer().is_some() {
            let width = u16::try_from(entry.integer(&(1..=65_535))?).ok().and_then(NonZeroU16::new)?;
            return Some(PortChoice::Only(Strategy::Window(width)));
        }
        if !entry.raw().is_str() {
            return entry.wrong_type("\"auto\", \"off\" or a number of ports");
        }
        let text = entry.string()?;
        let message = format!("`port_window` cannot be {text:?}");
        text.parse().map_or_else(|help: &str| entry.refuse("bad-value", message, help), Some)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by the `Table` derive")]
    pub(super) fn dump(ports: &PortChoice) -> Option<Json> {
        Some(match ports {
            PortChoice::Only(Strategy::Window(width)) => json!(width.get()),
            PortChoice::Only(Strategy::Kernel) => json!("off"),
            other => json!(other.to_string()),
        })
    }

    pub(super) fn form(_: &Key) -> Json {
        json!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": 65_535 }, { "type": "string" }] })
    }
}
