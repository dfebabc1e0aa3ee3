//! What a probe is answered, rendered when something changes and never when a probe arrives.
//!
//! Does not know about: how a request chooses the format, who is authenticated, or why the state is what it is.
//!
//! | format | content type | source |
//! |---|---|---|
//! | text | `text/plain` | the state first, then a line for each check |
//! | health+json | `application/health+json` | draft-inadarei-api-health-check: pass, warn, fail; the status agrees with the code |
//! | kube | `text/plain` | `?verbose` of the Kubernetes API server: `[+]name ok` |
//! | spring | `application/vnd.spring-boot.actuator.v3+json` | Spring Boot actuator: UP, DOWN, `OUT_OF_SERVICE`, UNKNOWN |
//!
//! A body keeps within its limit: checks that decided come first, and what does not fit is left out whole and counted in a remark, so that JSON stays
//! valid. Reasons and latencies in it are those of the moment of the last change.

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
    /// As `?verbose` of the Kubernetes API server.
    Kube,
    /// Spring Boot actuator.
    Spring,
    /// The state, then a line for each check.
    Text,
}

impl Format {
    /// All of them, in the order of their discriminants.
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

/// A reply, ready but for the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The status code.
    pub code: u16,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: &'a [u8],
}

/// One check as a body shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) state: CheckState,
    pub(crate) class: Class,
    pub(crate) severity: Severity,
    pub(crate) reason: &'a str,
    /// Whether it counts for nothing because whoever asks does not want it.
    pub(crate) left_out: bool,
    /// When the last result came, and how long its run took.
    pub(crate) last: Option<(Time, Duration)>,
}

/// All that a body is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) name: &'a str,
    pub(crate) verdict: Verdict,
    pub(crate) code: u16,
    /// An operator's words.
    pub(crate) note: &'a str,
    /// The first of its checks; as many as can fit are enough.
    pub(crate) lines: &'a [Line<'a>],
    pub(crate) lines_total: usize,
    /// What was to be left out and is not there.
    pub(crate) unknown: &'a [&'a str],
    pub(crate) details: Details,
    pub(crate) body_len_max: usize,
    /// Unix time at the origin of [`Time`], when known.
    pub(crate) unix_at_zero: Option<Duration>,
}

impl Page<'_> {
    /// Whether the code says that all is well enough.
    const fn passes(&self) -> bool {
        self.code < 400
    }
}

/// The shortest line of any format; a page needs no more lines than fit.
pub(crate) const LINE_LEN_MIN: usize = 6;

/// One answer in all formats.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    verdict: Verdict,
    code: u16,
    /// By format; first what everybody sees, then what the authenticated see.
    bodies: [[Vec<u8>; 2]; 4],
}

/// The replies of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// One for all audiences, up to three while a drain tells them apart.
    views: Vec<View>,
    by_audience: [usize; 3],
}

impl Rendered {
    /// What a prober gets. Costs two look-ups.
    pub fn reply(&self, audience: Audience, format: Format, authenticated: bool) -> Reply<'_> {
        let Some(view) = self.views.get(self.by_audience[audience as usize]) else {
            // A board renders before anybody can see it.
            return Reply { code: 503, content_type: format.content_type(), body: b"" };
        };
        let body = &view.bodies[format as usize][usize::from(authenticated)];
        Reply { code: view.code, content_type: format.content_type(), body }
    }

    /// Renders anew, with one page for each audience. Whether anything is different.
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

/// Writes a page into what is empty.
pub(crate) fn write(out: &mut Vec<u8>, page: &Page<'_>, format: Format, shown: bool) {
    match format {
        Format::HealthJson => health_json::write(out, page, shown),
        Format::Kube => kube::write(out, page, shown),
        Format::Spring => spring::write(out, page, shown),
        Format::Text => text::write(out, page, shown),
    }
    debug_assert!(out.len() <= page.body_len_max, "a body keeps within its limit");
}
