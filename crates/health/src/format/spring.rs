//! The JSON of Spring Boot's actuator: a status, and components with their details.
//!
//! Spring has no status for degraded, which is written as UP; the details of a component contain
//! the state.

use super::body::{Body, REMARK_LEN_MAX, decimal};
use super::{Line, Page, json};
use crate::endpoint::{Class, EndpointState};

pub(super) fn write(out: &mut Vec<u8>, page: &Page<'_>, shown: bool) {
    let status: &[u8] = match page.verdict.state {
        EndpointState::Degraded | EndpointState::Up => b"UP",
        EndpointState::Down => b"DOWN",
        EndpointState::Drain | EndpointState::Maintenance => b"OUT_OF_SERVICE",
    };
    out.extend_from_slice(b"{\"status\":\"");
    out.extend_from_slice(status);
    out.push(b'"');
    if !shown {
        out.push(b'}');
        return;
    }
    let end_len = b"},\"details\":{\"notShown\":}}".len() + REMARK_LEN_MAX;
    let mut body = Body::new(out, page.body_len_max, end_len);
    body.fit(|out| out.extend_from_slice(b",\"components\":{"));
    let missing = body.fit_all(page.lines, page.lines_total, |out, at, line| {
        if at > 0 {
            out.push(b',');
        }
        write_line(out, line);
    });
    let out = body.end();
    out.push(b'}');
    if missing > 0 {
        out.extend_from_slice(b",\"details\":{\"notShown\":");
        decimal(out, missing as u64);
        out.push(b'}');
    }
    out.push(b'}');
}

fn write_line(out: &mut Vec<u8>, line: &Line<'_>) {
    json::string(out, line.name);
    out.push(b':');
    write_component(out, line);
}

/// Writes a component, which is also the document of a single check.
pub(super) fn write_component(out: &mut Vec<u8>, line: &Line<'_>) {
    out.extend_from_slice(b"{\"status\":\"");
    out.extend_from_slice(match line.class {
        Class::Degraded | Class::Up => b"UP".as_slice(),
        Class::Down => b"DOWN",
        Class::Maintenance => b"OUT_OF_SERVICE",
        Class::Unknown => b"UNKNOWN",
    });
    out.extend_from_slice(b"\",\"details\":{\"state\":\"");
    out.extend_from_slice(line.state.as_str().as_bytes());
    out.push(b'"');
    if !line.reason.is_empty() {
        out.extend_from_slice(b",\"reason\":");
        json::string(out, line.reason);
    }
    out.extend_from_slice(b"}}");
}
