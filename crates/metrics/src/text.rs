//! The two text formats of Prometheus.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::family::Families;

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Text,
}

impl Exposition {
    /// Selects the format for a client with this `Accept` field, which is empty if absent:
    /// OpenMetrics if the field names it with a quality above 0, otherwise the text format.
    #[must_use]
    pub fn accepted(accept: &[u8]) -> Self {
        let is_named = accept.split(|&byte| byte == b',').any(|range| {
            let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let named =
                parts.next().is_some_and(|name| name.eq_ignore_ascii_case(b"application/openmetrics-text"));
            named && !parts.any(|part| matches!(part, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"))
        });
        if is_named { Self::OpenMetrics } else { Self::Text }
    }

    /// The value of `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Renders the families.
    #[must_use]
    pub fn render(self, families: Families) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(families));
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _always = encode(&mut text, &registry);
        match self {
            Self::OpenMetrics => text,
            Self::Text => older(&text),
        }
    }
}

/// Converts OpenMetrics to the text format: counter names with `_total`, HELP before TYPE, no EOF.
fn older(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        match line.split_once(' ').and_then(|(start, rest)| (start == "#").then_some(rest)) {
            Some(rest) if rest.starts_with("HELP ") => help = rest.strip_prefix("HELP "),
            Some(rest) if rest.starts_with("TYPE ") => {
                let (name, kind) =
                    rest.trim_start_matches("TYPE ").split_once(' ').unwrap_or((rest, "untyped"));
                let total = if kind == "counter" { "_total" } else { "" };
                if let Some((_, help)) = help.take().and_then(|help: &str| help.split_once(' ')) {
                    lines.extend(["# HELP ", name, total, " ", help, "\n"]);
                }
                lines.extend(["# TYPE ", name, total, " ", kind, "\n"]);
            }
            // Drops `EOF` and `UNIT`.
            Some(_) => {}
            None => lines.extend([line, "\n"]),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_the_accept_field() {
        for (accept, expect) in [
            ("", Exposition::Text),
            ("*/*", Exposition::Text),
            ("text/plain;version=0.0.4", Exposition::Text),
            ("application/openmetrics-text", Exposition::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0; q=0.5, text/plain;q=0.4", Exposition::OpenMetrics),
            ("application/openmetrics-text;q=0, text/plain", Exposition::Text),
            ("application/openmetrics-text2", Exposition::Text),
        ] {
            assert_eq!(Exposition::accepted(accept.as_bytes()), expect, "{accept}");
        }
    }
}
