//! Numbers, times and addresses as bytes.

use crate::date::civil;
use std::io::Write as _;
use std::net::IpAddr;

pub(super) fn put_number(value: u64, out: &mut Vec<u8>) {
    let (mut digits, mut rest) = ([0; 20], value);
    let mut len = 0;
    for place in digits.iter_mut().rev() {
        *place = digit(rest);
        rest /= 10;
        len += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(20 - len..).unwrap_or_default());
}

pub(super) fn put_addr(addr: IpAddr, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = match addr.to_canonical() {
        IpAddr::V4(addr) => write!(out, "{addr}"),
        IpAddr::V6(addr) => write!(out, "{addr}"),
    };
}

/// Writes `1994-11-06T08:49:37.000Z`.
pub(super) fn put_rfc3339(unix_millis: i64, out: &mut Vec<u8>) {
    let moment = Moment::new(unix_millis);
    put_digits(moment.year, 4, out);
    out.push(b'-');
    put_digits(moment.month, 2, out);
    out.push(b'-');
    put_digits(moment.day, 2, out);
    out.push(b'T');
    moment.put_clock(out);
    out.push(b'.');
    put_digits(unix_millis.rem_euclid(1000), 3, out);
    out.push(b'Z');
}

/// Writes `06/Nov/1994:08:49:37 +0000`.
pub(super) fn put_combined(unix_millis: i64, out: &mut Vec<u8>) {
    const MONTHS: [&[u8]; 12] = [
        b"/Jan/", b"/Feb/", b"/Mar/", b"/Apr/", b"/May/", b"/Jun/", b"/Jul/", b"/Aug/", b"/Sep/", b"/Oct/",
        b"/Nov/", b"/Dec/",
    ];
    let moment = Moment::new(unix_millis);
    let month = usize::try_from(moment.month - 1).ok().and_then(|index| MONTHS.get(index));
    put_digits(moment.day, 2, out);
    out.extend_from_slice(month.copied().unwrap_or(b"/???/"));
    put_digits(moment.year, 4, out);
    out.push(b':');
    moment.put_clock(out);
    out.extend_from_slice(b" +0000");
}

/// A moment in UTC.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    /// Second of the day.
    second: i64,
}

impl Moment {
    /// Creates a moment; a time outside the years 1 to 9999 becomes the nearest time of that range.
    fn new(unix_millis: i64) -> Self {
        let secs = unix_millis.div_euclid(1000).clamp(-62_135_596_800, 253_402_300_799);
        let (year, month, day) = civil(secs.div_euclid(86_400));
        Self { year, month, day, second: secs.rem_euclid(86_400) }
    }

    /// Writes `08:49:37`.
    fn put_clock(&self, out: &mut Vec<u8>) {
        put_digits(self.second / 3600, 2, out);
        out.push(b':');
        put_digits(self.second / 60 % 60, 2, out);
        out.push(b':');
        put_digits(self.second % 60, 2, out);
    }
}

fn put_digits(value: i64, width: usize, out: &mut Vec<u8>) {
    let (mut digits, mut rest) = ([b'0'; 4], value.unsigned_abs());
    for place in digits.iter_mut().rev() {
        *place = digit(rest);
        rest /= 10;
    }
    out.extend_from_slice(digits.get(4 - width..).unwrap_or_default());
}

fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or(0)
}

/// Writes two hexadecimal digits.
pub(super) fn put_hex(byte: u8, out: &mut Vec<u8>) {
    for nibble in [byte >> 4, byte & 15] {
        out.push(if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 });
    }
}

/// Appends `bytes`, but passes each byte for which `is_plain` is false to `escape`.
pub(super) fn put_escaped(
    bytes: &[u8],
    is_plain: impl Fn(u8) -> bool,
    escape: impl Fn(u8, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| !is_plain(byte)) {
        let Some((plain, [odd, after @ ..])) = rest.split_at_checked(at) else { break };
        out.extend_from_slice(plain);
        escape(*odd, out);
        rest = after;
    }
    out.extend_from_slice(rest);
}

/// Whether a byte is printable ASCII and not a quoting character of either format.
pub(super) const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}
