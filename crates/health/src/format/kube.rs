//! The `?verbose` text of the Kubernetes API server: one line for each check, and the result on the
//! last line. With `?exclude=NAME`, a check is shown as excluded; a separate line lists names that
//! match no check.
//!
//! The line of a failed check contains its reason; the API server writes `reason withheld` instead.
//! If the checks are not the cause of a failure, such as in a drain, the first line is the
//! operator's reason or the name of the cause.

use super::body::{Body, REMARK_LEN_MAX, plain, remark};
use super::{Line, Page};
use crate::endpoint::{Cause, Severity};

pub(super) fn write(out: &mut Vec<u8>, page: &Page<'_>, shown: bool) {
    let end_len = b"warn: \n".len() + REMARK_LEN_MAX + page.name.len() + b" check passed\n".len();
    let room = page.body_len_max.saturating_sub(end_len);
    let unmatched = if shown { unmatched(page.unknown, room / 2) } else { Vec::new() };
    let mut body = Body::new(out, page.body_len_max, end_len + unmatched.len());
    let mut missing = 0;
    if shown {
        let note = note(page);
        if !note.is_empty() {
            body.fit(|out| {
                out.extend_from_slice(b"warn: ");
                plain(out, note);
                out.push(b'\n');
            });
        }
        missing = body.fit_all(page.lines, page.lines_total, |out, _, line| write_line(out, line));
    }
    let out = body.end();
    if missing > 0 {
        out.extend_from_slice(b"warn: ");
        remark(out, missing);
        out.push(b'\n');
    }
    out.extend_from_slice(&unmatched);
    plain(out, page.name);
    out.extend_from_slice(if page.passes() { b" check passed\n" } else { b" check failed\n" });
}

/// The operator's reason. Without one: the name of the cause if the endpoint fails for a cause
/// other than its checks, otherwise empty.
fn note<'a>(page: &Page<'a>) -> &'a str {
    let cause = page.verdict.cause;
    if page.note.is_empty() && cause != Cause::Checks && !page.passes() { cause.as_str() } else { page.note }
}

/// Returns the line with the names that match no check, as many as fit; empty if there are none.
fn unmatched(unknown: &[&str], len_max: usize) -> Vec<u8> {
    let mut line = Vec::new();
    let mut body = Body::new(&mut line, len_max, 1);
    let names = body.fit_all(unknown, unknown.len(), |out, at, name| {
        let start: &[u8] = match at {
            0 => b"warn: some health checks cannot be excluded: no matches for \"",
            _ => b",\"",
        };
        out.extend_from_slice(start);
        plain(out, &name.replace(['"', '\\'], "?"));
        out.push(b'"');
    });
    if names < unknown.len() {
        body.end().push(b'\n');
    }
    line
}

fn write_line(out: &mut Vec<u8>, line: &Line<'_>) {
    if line.left_out {
        out.extend_from_slice(b"[+]");
        plain(out, line.name);
        out.extend_from_slice(b" excluded: ok\n");
        return;
    }
    let serving = line.class.is_serving();
    out.extend_from_slice(if serving { b"[+]" } else { b"[-]" });
    plain(out, line.name);
    if serving {
        out.extend_from_slice(b" ok");
        if !line.reason.is_empty() {
            out.extend_from_slice(b": ");
            plain(out, line.reason);
        }
    } else {
        out.extend_from_slice(b" failed");
        if line.severity != Severity::Required {
            out.extend_from_slice(b" (");
            out.extend_from_slice(line.severity.as_str().as_bytes());
            out.push(b')');
        }
        out.extend_from_slice(b": ");
        plain(out, if line.reason.is_empty() { line.state.as_str() } else { line.reason });
    }
    out.push(b'\n');
}
