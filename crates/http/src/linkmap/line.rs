//! One line of a link map.

use super::{HEADER_LEN, LINK_BYTES_MAX, LinkProblem};
use crate::redirect::RedirectStatus;

/// A validated link; path and location are as written in its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'t> {
    pub(super) path: &'t str,
    pub(super) location: &'t str,
    /// Index in [`STATUSES`].
    status: u8,
}

impl Line<'_> {
    /// Appends the entry for this link.
    pub(super) fn write(&self, entries: &mut Vec<u8>) {
        let len = |text: &str| u16::try_from(text.len()).expect("at most LINK_BYTES_MAX").to_le_bytes();
        let [[a, b], [c, d]] = [len(self.path), len(self.location)];
        let header: [u8; HEADER_LEN] = [a, b, c, d, self.status, 0];
        entries.extend_from_slice(&header);
        entries.extend_from_slice(self.path.as_bytes());
        entries.extend_from_slice(self.location.as_bytes());
    }
}

/// Parses a line; `None` if the line is empty or a comment.
pub(super) fn parse(line: &str) -> Result<Option<Line<'_>>, LinkProblem> {
    let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
    let Some(path) = words.next().filter(|word| !word.starts_with('#')) else { return Ok(None) };
    let location = words.next().ok_or(LinkProblem::NoLocation)?;
    let status = words.next();
    if words.next().is_some() {
        return Err(LinkProblem::TooManyWords);
    }
    if path.len() > LINK_BYTES_MAX || location.len() > LINK_BYTES_MAX {
        return Err(LinkProblem::TooLong);
    }
    // The path of a request ends before `?` and contains only visible ASCII without `#`.
    if !path.starts_with('/')
        || !path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'))
    {
        return Err(LinkProblem::BadPath);
    }
    if !is_location(location) {
        return Err(LinkProblem::BadLocation);
    }
    let status = match status {
        None => DEFAULT,
        Some(word) => STATUSES.iter().position(|(code, _)| *code == word).ok_or(LinkProblem::BadStatus)?,
    };
    let status = u8::try_from(status).expect("five statuses");
    Ok(Some(Line { path, location, status }))
}

/// Whether a location is an absolute URL with a host, or a path on the same server. Two slashes or
/// a backslash at the start would lead to another server.
fn is_location(location: &str) -> bool {
    if !location.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\')) {
        return false;
    }
    let host = ["https://", "http://"].iter().find_map(|scheme| {
        let (start, rest) = location.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| rest.split(['/', '?', '#']).next().unwrap_or_default())
    });
    match host {
        Some(host) => crate::parse::is_host(host.as_bytes()),
        None => location.starts_with('/') && !location.starts_with("//"),
    }
}

/// The statuses allowed in a line.
pub(super) const STATUSES: [(&str, RedirectStatus); 5] = [
    ("301", RedirectStatus::MovedPermanently),
    ("302", RedirectStatus::Found),
    ("303", RedirectStatus::SeeOther),
    ("307", RedirectStatus::TemporaryRedirect),
    ("308", RedirectStatus::PermanentRedirect),
];
/// Index of 308, the default status of every redirect.
const DEFAULT: usize = 4;
