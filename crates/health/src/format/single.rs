//! The reply for one check. As text, the reply is the body of `/readyz/NAME` of the Kubernetes API
//! server (`ok` or the failure); as JSON, the reply is the document of that check alone.
//!
//! The time of the last result is omitted, because this reply is rendered again only when the state
//! or reason of the check changes.

use super::{Format, Line, json, spring};
use crate::check::CheckState;

/// Writes the reply into an empty buffer, for clients that see details. The reason must be a single
/// line, as a [`Reason`](crate::Reason) is.
pub(crate) fn write(out: &mut Vec<u8>, line: &Line<'_>, code: u16, format: Format) {
    match format {
        Format::HealthJson => write_health_json(out, line, code),
        Format::Kube | Format::Text => write_text(out, line),
        Format::Spring => spring::write_component(out, line),
    }
}

fn write_text(out: &mut Vec<u8>, line: &Line<'_>) {
    if matches!(line.state, CheckState::Up) {
        out.extend_from_slice(b"ok");
        return;
    }
    out.extend_from_slice(line.state.as_str().as_bytes());
    if !line.reason.is_empty() {
        out.extend_from_slice(b": ");
        out.extend_from_slice(line.reason.as_bytes());
    }
    out.push(b'\n');
}

/// Writes health+json; the draft ties `fail` to codes of 4xx and 5xx.
fn write_health_json(out: &mut Vec<u8>, line: &Line<'_>, code: u16) {
    let status: &[u8] = match line.state {
        _ if code >= 400 => b"fail",
        CheckState::Up => b"pass",
        _ => b"warn",
    };
    out.extend_from_slice(b"{\"status\":\"");
    out.extend_from_slice(status);
    out.extend_from_slice(b"\",\"description\":\"");
    out.extend_from_slice(line.state.as_str().as_bytes());
    out.push(b'"');
    if !line.reason.is_empty() {
        out.extend_from_slice(b",\"output\":");
        json::string(out, line.reason);
    }
    out.push(b'}');
}
