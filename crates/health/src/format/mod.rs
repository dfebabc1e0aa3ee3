//! Replies to probes, rendered when a state changes and not when a probe arrives.
//!
//! | format | content type | source |
//! |---|---|---|
//! | text | `text/plain` | the state first, then a line for each check |
//! | health+json | `application/health+json` | draft-inadarei-api-health-check: pass, warn, fail; the status agrees with the code |
//! | kube | `text/plain` | `?verbose` of the Kubernetes API server: `[+]name ok` |
//! | spring | `application/vnd.spring-boot.actuator.v3+json` | Spring Boot actuator: UP, DOWN, `OUT_OF_SERVICE`, UNKNOWN |
//!
//! A body never exceeds its limit. Checks that decided the verdict come first. Lines that do not
//! fit are omitted as a whole and counted in a remark, so that JSON stays valid. Reasons and
//! latencies are those at the last rendering.

mod body;
mod health_json;
mod json;
mod kube;
mod single;
mod spring;
mod stamp;
#[cfg(test)]
mod tests;
mod text;

use std::time::Duration;

pub use stamp::stamp;

pub(crate) use single::write as write_single;

use crate::check::CheckState;
use crate::endpoint::{Audience, Class, Details, Severity, Verdict};
use crate::time::Time;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `application/health+json`.
    HealthJson,
    /// The `?verbose` text of the Kubernetes API server.
    Kube,
    /// Spring Boot actuator.
    Spring,
    /// The state, then one line for each check.
    Text,
}

impl Format {
    /// All formats, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::HealthJson, Self::Kube, Self::Spring, Self::Text];

    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::HealthJson => "application/health+json",
            Self::Kube | Self::Text => "text/plain; charset=utf-8",
            Self::Spring => "application/vnd.spring-boot.actuator.v3+json",
        }
    }
}

/// The parts of a reply that depend on health: status code, content type and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The status code.
    pub code: u16,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: &'a [u8],
}

/// The data for one line of a body, which shows one check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) state: CheckState,
    pub(crate) class: Class,
    pub(crate) severity: Severity,
    pub(crate) reason: &'a str,
    /// Whether the request excludes this check.
    pub(crate) left_out: bool,
    /// Arrival of the last result, and duration of its run.
    pub(crate) last: Option<(Time, Duration)>,
}

/// Inputs of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) name: &'a str,
    pub(crate) verdict: Verdict,
    pub(crate) code: u16,
    /// The operator's reason.
    pub(crate) note: &'a str,
    /// The first lines of the endpoint's checks, at least as many as can fit.
    pub(crate) lines: &'a [Line<'a>],
    pub(crate) lines_total: usize,
    /// Names in the request's exclusions that match no check.
    pub(crate) unknown: &'a [&'a str],
    pub(crate) details: Details,
    pub(crate) body_len_max: usize,
    /// Unix time at the origin of [`Time`], when known.
    pub(crate) unix_at_zero: Option<Duration>,
}

impl Page<'_> {
    /// Whether the code reports success.
    const fn passes(&self) -> bool {
        self.code < 400
    }
}

/// Length of the shortest line in any format. A body cannot contain more lines than its maximum
/// length divided by this length.
pub(crate) const LINE_LEN_MIN: usize = 6;

/// One reply in all formats.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    verdict: Verdict,
    code: u16,
    /// The bodies of each format: the public one, and the one for authenticated clients.
    bodies: [[Vec<u8>; 2]; 4],
}

/// The replies of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// One view for all audiences, or up to three during a drain if the audiences get different
    /// replies.
    views: Vec<View>,
    by_audience: [usize; 3],
}

impl Rendered {
    /// Returns the reply to a probe. The cost is two look-ups.
    pub fn reply(&self, audience: Audience, format: Format, authenticated: bool) -> Reply<'_> {
        let Some(view) = self.views.get(self.by_audience[audience as usize]) else {
            // Cannot happen: a board renders its replies before it is shared.
            return Reply { code: 503, content_type: format.content_type(), body: b"" };
        };
        let body = &view.bodies[format as usize][usize::from(authenticated)];
        Reply { code: view.code, content_type: format.content_type(), body }
    }

    /// Renders the replies from one page per audience; returns whether anything changed.
    pub(crate) fn render(&mut self, pages: &[Page<'_>; 3]) -> bool {
        let before = std::mem::take(self);
        for (audience, page) in pages.iter().enumerate() {
            let same = |view: &View| view.verdict == page.verdict && view.code == page.code;
            self.by_audience[audience] = self.views.iter().position(same).unwrap_or_else(|| {
                self.views.push(View { verdict: page.verdict, code: page.code, bodies: bodies(page) });
                self.views.len() - 1
            });
        }
        *self != before
    }
}

fn bodies(page: &Page<'_>) -> [[Vec<u8>; 2]; 4] {
    Format::ALL.map(|format| {
        [false, true].map(|authenticated| {
            let shown = page.details.shown_to(authenticated);
            let mut out = Vec::new();
            write(&mut out, page, format, shown);
            out
        })
    })
}

/// Writes a page into an empty buffer.
pub(crate) fn write(out: &mut Vec<u8>, page: &Page<'_>, format: Format, shown: bool) {
    match format {
        Format::HealthJson => health_json::write(out, page, shown),
        Format::Kube => kube::write(out, page, shown),
        Format::Spring => spring::write(out, page, shown),
        Format::Text => text::write(out, page, shown),
    }
    debug_assert!(out.len() <= page.body_len_max, "the body exceeds its limit");
}
