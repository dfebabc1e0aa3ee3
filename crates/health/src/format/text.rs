//! The text format: the state on the first line, then one line for each check.

use super::body::{Body, REMARK_LEN_MAX, plain, remark};
use super::{Line, Page};

pub(super) fn write(out: &mut Vec<u8>, page: &Page<'_>, shown: bool) {
    out.extend_from_slice(page.verdict.state.as_str().as_bytes());
    out.push(b'\n');
    if !shown {
        return;
    }
    let mut body = Body::new(out, page.body_len_max, REMARK_LEN_MAX + 1);
    if !page.note.is_empty() {
        // A reason that does not fit is omitted; the state remains.
        body.fit(|out| {
            out.extend_from_slice(b"reason: ");
            plain(out, page.note);
            out.push(b'\n');
        });
    }
    let missing = body.fit_all(page.lines, page.lines_total, |out, _, line| write_line(out, line));
    if missing > 0 {
        let out = body.end();
        remark(out, missing);
        out.push(b'\n');
    }
}

fn write_line(out: &mut Vec<u8>, line: &Line<'_>) {
    plain(out, line.name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(line.state.as_str().as_bytes());
    if !line.reason.is_empty() {
        out.extend_from_slice(b" (");
        plain(out, line.reason);
        out.push(b')');
    }
    out.push(b'\n');
}
