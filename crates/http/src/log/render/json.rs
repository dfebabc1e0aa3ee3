//! A line of JSON (RFC 8259): one object.

use super::put::{is_plain, put_addr, put_escaped, put_hex, put_number, put_rfc3339};
use crate::Version;
use crate::log::{Clip, Record};

pub(super) fn line(record: &Record, route: Option<(u16, Option<&str>)>, unix_millis: i64, out: &mut Vec<u8>) {
    put_start(unix_millis, out);
    if let Some(addr) = record.addr() {
        out.extend_from_slice(b"\",\"client\":\"");
        put_addr(addr, out);
    }
    put_clip(b"subject", record.subject(), out);
    if let (Some(method), Some(version)) = (record.method(), record.version()) {
        put_text(b"method", method.as_str().as_bytes(), out);
        put_clip(b"target", record.target(), out);
        let version = match version {
            Version::Http10 => &b"1.0"[..],
            Version::Http11 => b"1.1",
            Version::Http2 => b"2",
        };
        put_text(b"version", version, out);
    }
    put_clip(b"host", record.host(), out);
    put_clip(b"user_agent", record.user_agent(), out);
    if let Some((version, _)) = record.tls() {
        put_text(b"tls", version.as_str().as_bytes(), out);
    }
    if let Some((_, Some(name))) = route {
        put_text(b"route", name.as_bytes(), out);
    }
    if let Some(prober) = record.prober() {
        put_text(b"prober", prober.as_str().as_bytes(), out);
    }
    if let Some(error) = record.error() {
        put_text(b"error", error.to_string().as_bytes(), out);
    }
    // Closes the quotes of the last text.
    out.extend_from_slice(b"\",\"status\":");
    match record.status() {
        Some(status) => put_number(status.code().into(), out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"bytes\":");
    put_number(record.content_len().into(), out);
    if let Some((index, None)) = route {
        out.extend_from_slice(b",\"route\":");
        put_number(index.into(), out);
    }
    put_flags(record, out);
    out.extend_from_slice(b"}\n");
}

pub(super) fn loss(what: &[u8], lines: u64, unix_millis: i64, out: &mut Vec<u8>) {
    put_start(unix_millis, out);
    out.extend_from_slice(b"\",\"");
    out.extend_from_slice(what);
    out.extend_from_slice(b"\":");
    put_number(lines, out);
    out.extend_from_slice(b"}\n");
}

/// Writes the beginning of the object. Each text's closing quote is written by the next element.
fn put_start(unix_millis: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    put_rfc3339(unix_millis, out);
}

fn put_clip(name: &[u8], clip: Clip<'_>, out: &mut Vec<u8>) {
    if !clip.bytes.is_empty() {
        put_text(name, clip.bytes, out);
    }
}

fn put_text(name: &[u8], bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\",\"");
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":\"");
    put_escaped(bytes, is_plain, put_unicode_escape, out);
}

fn put_flags(record: &Record, out: &mut Vec<u8>) {
    let flags: [(bool, &[u8]); 3] = [
        (record.tls().is_some_and(|(_, resumed)| resumed), b",\"tls_resumed\":true"),
        (record.is_probe(), b",\"probe\":true"),
        (record.is_panic(), b",\"panic\":true"),
    ];
    for (_, text) in flags.iter().filter(|(on, _)| *on) {
        out.extend_from_slice(text);
    }
    let clips: [(Clip<'_>, &[u8]); 4] = [
        (record.subject(), b"\"subject\""),
        (record.target(), b"\"target\""),
        (record.host(), b"\"host\""),
        (record.user_agent(), b"\"user_agent\""),
    ];
    let mut start: &[u8] = b",\"cut\":[";
    for (_, name) in clips.iter().filter(|(clip, _)| clip.cut) {
        out.extend_from_slice(start);
        out.extend_from_slice(name);
        start = b",";
    }
    if start == b"," {
        out.push(b']');
    }
}

fn put_unicode_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => {
            out.extend_from_slice(b"\\u00");
            put_hex(byte, out);
        }
    }
}
