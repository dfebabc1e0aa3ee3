//! Validates `[tls.NAME]` against the listeners that refer to it.

use super::super::bind::Bind;
use super::super::model::Config;
use doorbell_config::{Places, Problem, Problems};

/// Reports listeners that cannot wait for their certificate: a passed socket is already open, or
/// every listener would wait.
pub(super) fn check_waits(config: &Config, places: &Places, problems: &Problems) {
    let waits = |listener: usize| config.tls_of(listener).is_some_and(|tls| tls.wait_for_certificate);
    for (position, listener) in config.listeners.iter().enumerate().filter(|(position, _)| waits(*position)) {
        let open = listener.binds.iter().find(|bind| matches!(bind.value, Bind::Fd(_) | Bind::Systemd(_)));
        if let Some(bind) = open {
            let name = config.tls_of(position).map_or("", |tls| &tls.name);
            let message = format!(
                "`wait_for_certificate` of [tls.{name}] keeps listeners closed, but this socket is open before doorbell starts"
            );
            problems.add(
                Problem::error("contradiction", bind.span.clone(), message)
                    .label("clients would connect and wait")
                    .help("bind an address and a port, or remove `wait_for_certificate`"),
            );
        }
    }
    let mut waiting = config.tls.iter().filter(|tls| tls.wait_for_certificate);
    let key = |name: &str| places.get(&format!("tls.{name}.wait_for_certificate"));
    if let Some(place) = waiting.find_map(|tls| key(&tls.name))
        && (0..config.listeners.len()).all(waits)
    {
        let message = "every listener may wait for its certificate, so none would be open";
        problems.add(
            Problem::error("contradiction", place, message)
                .help("add a [listener.NAME] without `tls`, for example on port 80 for ACME HTTP-01"),
        );
    }
}
