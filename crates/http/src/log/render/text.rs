//! A line of text: the combined log format, followed by pairs.

use super::put::{is_plain, put_addr, put_combined, put_escaped, put_hex, put_number, put_rfc3339};
use crate::Version;
use crate::log::{Clip, Record};

pub(super) fn line(record: &Record, route: Option<(u16, Option<&str>)>, unix_millis: i64, out: &mut Vec<u8>) {
    match record.addr() {
        Some(addr) => put_addr(addr, out),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b" - ");
    put_name(record.subject(), out);
    out.extend_from_slice(b" [");
    put_combined(unix_millis, out);
    out.extend_from_slice(b"] \"");
    put_request_line(record, out);
    out.extend_from_slice(b"\" ");
    match record.status() {
        Some(status) => put_number(status.code().into(), out),
        None => out.extend_from_slice(b"000"),
    }
    out.push(b' ');
    put_number(record.content_len().into(), out);
    out.extend_from_slice(b" \"-\" \"");
    match record.user_agent() {
        Clip { bytes: [], .. } => out.push(b'-'),
        user_agent => put_clip(user_agent, out),
    }
    out.push(b'"');
    put_pairs(record, route, out);
    out.push(b'\n');
}

pub(super) fn loss(what: &[u8], lines: u64, unix_millis: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"# ");
    put_rfc3339(unix_millis, out);
    out.push(b' ');
    put_number(lines, out);
    out.extend_from_slice(what);
}

fn put_request_line(record: &Record, out: &mut Vec<u8>) {
    let (Some(method), Some(version)) = (record.method(), record.version()) else {
        out.push(b'-');
        return;
    };
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    put_clip(record.target(), out);
    out.extend_from_slice(match version {
        Version::Http10 => b" HTTP/1.0",
        Version::Http11 => b" HTTP/1.1",
        Version::Http2 => b" HTTP/2.0",
    });
}

fn put_pairs(record: &Record, route: Option<(u16, Option<&str>)>, out: &mut Vec<u8>) {
    if !record.host().bytes.is_empty() {
        out.extend_from_slice(b" host=\"");
        put_clip(record.host(), out);
        out.push(b'"');
    }
    if let Some((version, resumed)) = record.tls() {
        out.extend_from_slice(b" tls=");
        out.extend_from_slice(version.as_str().as_bytes());
        if resumed {
            out.extend_from_slice(b" resumed=yes");
        }
    }
    if let Some((index, name)) = route {
        out.extend_from_slice(b" route=");
        match name {
            Some(name) => {
                out.push(b'"');
                put_clip(Clip { bytes: name.as_bytes(), cut: false }, out);
                out.push(b'"');
            }
            None => put_number(index.into(), out),
        }
    }
    if record.is_probe() {
        out.extend_from_slice(b" probe=");
        out.extend_from_slice(record.prober().map_or("yes", |prober| prober.as_str()).as_bytes());
    }
    if let Some(error) = record.error() {
        out.extend_from_slice(b" error=\"");
        put_clip(Clip { bytes: error.to_string().as_bytes(), cut: false }, out);
        out.push(b'"');
    }
    if record.is_panic() {
        out.extend_from_slice(b" panic=yes");
    }
}

/// Writes a text without quotes; spaces and the bracket of the time are escaped as well.
fn put_name(clip: Clip<'_>, out: &mut Vec<u8>) {
    if clip.bytes.is_empty() {
        out.push(b'-');
        return;
    }
    put_escaped(
        clip.bytes,
        |byte| is_plain(byte) && !matches!(byte, b' ' | b'[' | b']'),
        put_hex_escape,
        out,
    );
    put_mark(clip, out);
}

fn put_clip(clip: Clip<'_>, out: &mut Vec<u8>) {
    put_escaped(clip.bytes, is_plain, put_hex_escape, out);
    put_mark(clip, out);
}

fn put_mark(clip: Clip<'_>, out: &mut Vec<u8>) {
    if clip.cut {
        out.extend_from_slice(b"\\...");
    }
}

fn put_hex_escape(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    put_hex(byte, out);
}
