//! The text of `?verbose` as the Kubernetes API server writes it: a line for each check, the result on the last one.
//!
//! Does not know about: other formats. `reason withheld` is what that server says when it names no reason.

use super::body::{Body, REMARK_LEN_MAX, plain, remark};
use super::{Line, Page};
use crate::endpoint::Severity;

pub(super) fn write(out: &mut Vec<u8>, page: &Page<'_>, shown: bool) {
    let end_len = b"warn: \n".len() + REMARK_LEN_MAX + page.name.len() + b" check passed\n".len();
    let mut body = Body::new(out, page.body_len_max, end_len);
    let mut missing = 0;
    if shown {
        if !page.note.is_empty() {
            body.fit(|out| {
                out.extend_from_slice(b"warn: ");
                plain(out, page.note);
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
    plain(out, page.name);
    out.extend_from_slice(if page.passes() { b" check passed\n" } else { b" check failed\n" });
}

fn write_line(out: &mut Vec<u8>, line: &Line<'_>) {
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
