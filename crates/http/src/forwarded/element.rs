//! One element of a list of proxies: an address in `X-Forwarded-For`, or the pairs of `Forwarded`.

use super::Origin;
use crate::scheme::Scheme;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The elements of a `Forwarded` line, from right to left. The last item is `None` if a quoted
/// string has no opening quote.
///
/// Commas inside quoted strings do not separate elements. Because parsing starts at the right, a
/// string without a closing quote from a client cannot hide the elements that a proxy added.
pub(super) fn rightmost_first(line: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let mut quoted = false;
        let mut after: &[u8] = b"";
        for (at, &byte) in text.iter().enumerate().rev() {
            let before = text.get(..at).unwrap_or_default();
            match byte {
                b'"' if quoted => quoted = is_escaped(before),
                b'"' => quoted = true,
                b',' if !quoted => {
                    rest = Some(before);
                    return Some(Some(after));
                }
                _ => {}
            }
            after = text.get(at..).unwrap_or_default();
        }
        Some((!quoted).then_some(text))
    })
}

/// Whether the byte after `before` is escaped by a backslash.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Parses an element such as `for=192.0.2.1;proto=https;by=_x`. `None` if it has no address, a
/// malformed pair, or a repeated `for` or `proto`.
pub(super) fn forwarded(element: &[u8]) -> Option<Origin> {
    let (mut addr, mut proto) = (None, None);
    let mut rest = element;
    while !rest.is_empty() {
        let (name, value);
        (name, value, rest) = pair(rest)?;
        let place = match name {
            _ if name.eq_ignore_ascii_case(b"for") => &mut addr,
            _ if name.eq_ignore_ascii_case(b"proto") => &mut proto,
            _ => continue,
        };
        if place.replace(value).is_some() {
            return None;
        }
    }
    Some(Origin { addr: node(addr?)?, scheme: proto.and_then(scheme) })
}

/// The first pair as `name` and `value`, and the text after its `;`. Name and value are empty for
/// an empty pair, which the grammar allows.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let (name, after) = token(text);
    let (value, after) = match after {
        _ if name.is_empty() => (name, after),
        [b'=', b'"', after @ ..] => quoted(after)?,
        [b'=', after @ ..] => token(after),
        _ => return None,
    };
    match after.trim_ascii_start() {
        [] => Some((name, value, b"")),
        [b';', rest @ ..] => Some((name, value, rest)),
        _ => None,
    }
}

fn token(text: &[u8]) -> (&[u8], &[u8]) {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let len = text.iter().take_while(|byte| is_token(byte)).count();
    text.split_at_checked(len).unwrap_or((text, b""))
}

/// The content of a quoted string, and the text after the string. Escapes are not decoded, because
/// neither addresses nor schemes need them.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'"' => return Some((text.get(..at)?, text.get(at + 1..)?)),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Parses an address in `X-Forwarded-For`. The field has no standard, and some proxies add a port.
pub(super) fn addr(element: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(element).ok()?;
    text.parse().ok().map(|addr: IpAddr| addr.to_canonical()).or_else(|| node(element))
}

/// Parses a node of RFC 7239 section 6 that is an address, with IPv6 in brackets and the port
/// ignored. `None` for `unknown` and obfuscated nodes.
fn node(value: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(value).ok()?;
    let (addr, port) = match text.strip_prefix('[') {
        Some(text) => {
            let (addr, port) = text.split_once(']')?;
            (IpAddr::V6(addr.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let (addr, port) = text.split_at_checked(text.find(':').unwrap_or(text.len()))?;
            (IpAddr::V4(addr.parse::<Ipv4Addr>().ok()?), port)
        }
    };
    let port = port.strip_prefix(':').unwrap_or(if port.is_empty() { "0" } else { "" });
    let digits = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let hidden = |port: &str| port.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let fine = !port.is_empty()
        && (digits || port.strip_prefix('_').is_some_and(|port| !port.is_empty() && hidden(port)));
    fine.then(|| addr.to_canonical())
}

/// Parses `http` or `https`, ignoring case.
pub(super) fn scheme(text: &[u8]) -> Option<Scheme> {
    match () {
        () if text.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
        () if text.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
        () => None,
    }
}
