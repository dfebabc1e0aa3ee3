//! Records as log lines.
//!
//! Whatever a request contains, a record becomes one line that ends with `\n`: every byte that is
//! not printable ASCII is escaped, as are `"` and `\`.
//!
//! **Text** is the combined log format of NCSA and Apache, in which `Referer` is always `-`.
//! `name=value` pairs for known values follow:
//!
//! ```text
//! 192.0.2.7 - alice [06/Nov/1994:08:49:37 +0000] "GET /a?b HTTP/1.1" 200 3 "-" "curl/8.9" host="example.org" tls=1.3 route="api"
//! ```
//!
//! Unknown values are `-`. A status of `000` means that there was no reply. Escaped bytes are
//! `\xHH`; a truncated text ends with `\...`, which no request can produce. The pairs are `host`,
//! `tls` (`1.2` or `1.3`), `resumed=yes` (a TLS session), `route`, `probe` (`yes`, or the prober's
//! name), `error` (why a request was refused) and `panic=yes` (of the handler).
//!
//! **JSON** is an object per line, with the members `time` (RFC 3339, milliseconds), `client`,
//! `subject`, `method`, `target`, `version`, `status` (`null`: no reply), `bytes`, `host`,
//! `user_agent`, `tls`, `tls_resumed`, `route`, `probe`, `prober`, `error`, `panic` and `cut` (the
//! names of truncated members). Members other than `time`, `status` and `bytes` are omitted if
//! unknown, empty or false. A byte above 0x7F is written as the character with that number
//! (`\u00HH`), so every byte can be recovered.
//!
//! Lines that report lost lines begin with `# ` in text. In JSON they are objects with the members
//! `time` and `dropped` or `failed`.

mod json;
mod put;
mod text;

use super::Record;
use crate::Time;

/// The format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// A JSON object per line.
    Json,
    /// Combined log format, with further pairs.
    #[default]
    Text,
}

/// Converts records to lines.
#[derive(Clone, Debug, Default)]
pub struct Renderer {
    format: Format,
    routes: Vec<String>,
}

/// The Unix time at the origin of [`Time`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    unix_nanos: i64,
}

impl Epoch {
    /// Creates an epoch from readings of both clocks at one moment. `unix_nanos` is in nanoseconds
    /// since 1970-01-01 UTC.
    pub fn new(now: Time, unix_nanos: i64) -> Self {
        Self { unix_nanos: unix_nanos.saturating_sub(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)) }
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub fn unix_millis(self, at: Time) -> i64 {
        let nanos = self.unix_nanos.saturating_add(i64::try_from(at.as_nanos()).unwrap_or(i64::MAX));
        nanos.div_euclid(1_000_000)
    }
}

impl Renderer {
    /// A renderer without route names: routes are shown by index.
    pub const fn new(format: Format) -> Self {
        Self { format, routes: Vec::new() }
    }

    /// Sets the names of routes by index.
    #[must_use]
    pub fn routes(mut self, names: Vec<String>) -> Self {
        self.routes = names;
        self
    }

    /// Appends one line.
    pub fn render(&self, record: &Record, epoch: Epoch, out: &mut Vec<u8>) {
        let route = record.route().map(|index| (index, self.routes.get(usize::from(index))));
        let route = route.map(|(index, name)| (index, name.map(String::as_str)));
        let unix_millis = epoch.unix_millis(record.at());
        match self.format {
            Format::Json => json::line(record, route, unix_millis, out),
            Format::Text => text::line(record, route, unix_millis, out),
        }
    }

    /// Appends a line that reports `lines` dropped because the queue was full.
    pub fn render_dropped(&self, lines: u64, unix_millis: i64, out: &mut Vec<u8>) {
        match self.format {
            Format::Json => json::loss(b"dropped", lines, unix_millis, out),
            Format::Text => text::loss(b" lines dropped: too many at once\n", lines, unix_millis, out),
        }
    }

    /// Appends a line that reports `lines` that could not be written.
    pub fn render_failed(&self, lines: u64, unix_millis: i64, out: &mut Vec<u8>) {
        match self.format {
            Format::Json => json::loss(b"failed", lines, unix_millis, out),
            Format::Text => text::loss(b" lines lost: they could not be written\n", lines, unix_millis, out),
        }
    }
}
