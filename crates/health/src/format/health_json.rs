//! `application/health+json` as in draft-inadarei-api-health-check.
//!
//! The draft ties `pass` and `warn` to codes of 2xx and 3xx and `fail` to 4xx and 5xx, so the
//! status depends on the code as well as on the state. The key of a check is `NAME:responseTime`. A
//! colon in a name would be read as the separator, so it is written as `%3A`, and a percent sign as
//! `%25`.

use super::body::{Body, REMARK_LEN_MAX, remark};
use super::{Line, Page, json, stamp};
use crate::endpoint::{Class, EndpointState};

pub(super) fn write(out: &mut Vec<u8>, page: &Page<'_>, shown: bool) {
    let status: &[u8] = match page.verdict.state {
        _ if !page.passes() => b"fail",
        EndpointState::Up => b"pass",
        EndpointState::Degraded | EndpointState::Down | EndpointState::Drain | EndpointState::Maintenance => {
            b"warn"
        }
    };
    out.extend_from_slice(b"{\"status\":\"");
    out.extend_from_slice(status);
    out.push(b'"');
    if !shown {
        out.push(b'}');
        return;
    }
    let end_len = b"},\"notes\":[\"\"]}".len() + REMARK_LEN_MAX;
    let mut body = Body::new(out, page.body_len_max, end_len);
    body.fit(|out| {
        out.extend_from_slice(b",\"description\":\"");
        out.extend_from_slice(page.verdict.state.as_str().as_bytes());
        out.extend_from_slice(b" by ");
        out.extend_from_slice(page.verdict.cause.as_str().as_bytes());
        out.push(b'"');
    });
    if !page.note.is_empty() {
        body.fit(|out| {
            out.extend_from_slice(b",\"output\":");
            json::string(out, page.note);
        });
    }
    // After a long reason there may be no room even for an empty `checks` object.
    let opened = body.fit(|out| out.extend_from_slice(b",\"checks\":{"));
    let lines = if opened { page.lines } else { &[] };
    let missing = body.fit_all(lines, page.lines_total, |out, at, line| {
        if at > 0 {
            out.push(b',');
        }
        write_line(out, page, line);
    });
    let out = body.end();
    if opened {
        out.push(b'}');
    }
    if missing > 0 {
        out.extend_from_slice(b",\"notes\":[\"");
        remark(out, missing);
        out.extend_from_slice(b"\"]");
    }
    out.push(b'}');
}

fn write_line(out: &mut Vec<u8>, page: &Page<'_>, line: &Line<'_>) {
    out.push(b'"');
    for piece in line.name.split_inclusive([':', '%']) {
        match (piece.strip_suffix(':'), piece.strip_suffix('%')) {
            (Some(before), _) => {
                json::escaped(out, before);
                out.extend_from_slice(b"%3A");
            }
            (None, Some(before)) => {
                json::escaped(out, before);
                out.extend_from_slice(b"%25");
            }
            (None, None) => json::escaped(out, piece),
        }
    }
    out.extend_from_slice(b":responseTime\":[{\"status\":\"");
    out.extend_from_slice(match line.class {
        Class::Degraded | Class::Maintenance | Class::Unknown => b"warn",
        Class::Down => b"fail",
        Class::Up => b"pass",
    });
    out.push(b'"');
    if let Some((at, latency)) = line.last {
        out.extend_from_slice(b",\"observedValue\":");
        json::millis(out, latency);
        out.extend_from_slice(b",\"observedUnit\":\"ms\"");
        if let Some(unix) = page.unix_at_zero {
            out.extend_from_slice(b",\"time\":\"");
            stamp(out, unix.saturating_add(std::time::Duration::from_nanos(at.as_nanos())));
            out.push(b'"');
        }
    }
    // The draft advises against output for passing checks.
    if line.class != Class::Up {
        out.extend_from_slice(b",\"output\":\"");
        out.extend_from_slice(line.state.as_str().as_bytes());
        if !line.reason.is_empty() {
            out.extend_from_slice(b": ");
            json::escaped(out, line.reason);
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"}]");
}
