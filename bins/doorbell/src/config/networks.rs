//! Keys with networks in CIDR form.
//!
//! Does not know about: what they are believed with.

use crate::http::forwarded::{Network, NetworkError};
use doorbell_config::{At, Problem, Section};

pub(super) fn read_networks(at: &mut Section<'_>, key: &'static str) -> Option<At<Vec<At<Network>>>> {
    let At { value: texts, span } = at.strings(key)?;
    let read = |At { value: text, span }: At<String>| match text.parse() {
        Ok(value) => Some(At { value, span }),
        Err(error) => {
            let help = match &error {
                NetworkError::HostBits(network) => format!("write \"{network}\""),
                NetworkError::BadAddress | NetworkError::BadLength(_) => {
                    "write \"10.0.0.0/8\", \"fd00::/8\" or one address".to_owned()
                }
            };
            let message = format!("{text:?} is not a network: {error}");
            at.problem(Problem::error("bad-network", span, message).help(help));
            None
        }
    };
    Some(At { value: texts.into_iter().filter_map(read).collect(), span })
}
