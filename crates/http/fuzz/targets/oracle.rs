//! The reference parser: httparse and a strict pass over its result. The parser under test must
//! agree with it.
//!
//! It parses a whole prefix each time. It uses httparse's result and simple searches, so that it
//! shares no code with the parser under test.

use doorbell_http::parse::Framing;
use httparse::{EMPTY_HEADER, Error, Header, Status};
use std::mem::MaybeUninit;

/// The contents of a complete, acceptable head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts<'a> {
    pub(crate) len: usize,
    pub(crate) method: &'a str,
    pub(crate) target: &'a [u8],
    pub(crate) minor: u8,
    pub(crate) framing: Framing,
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) keeps_alive: bool,
    pub(crate) expects_continue: bool,
}

/// The result for a prefix.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    Complete(Facts<'a>),
    Partial,
    Refused,
    /// The version is neither `HTTP/1.0` nor `HTTP/1.1`; httparse gives no details.
    Version,
}

/// Parses `buf` from its start.
pub(crate) fn parse<'a>(buf: &'a [u8], fields_max: usize) -> Verdict<'a> {
    let mut headers: [MaybeUninit<Header<'a>>; 128] = [const { MaybeUninit::uninit() }; 128];
    let Some(headers) = headers.get_mut(..fields_max) else { return Verdict::Refused };
    let mut request = httparse::Request::new(&mut []);
    let len = match request.parse_with_uninit_headers(buf, headers) {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) => return Verdict::Partial,
        Err(Error::Version) => return Verdict::Version,
        Err(_) => return Verdict::Refused,
    };
    strict(buf, len, &request).map_or(Verdict::Refused, Verdict::Complete)
}

/// Checks the rules that httparse does not enforce.
fn strict<'a>(buf: &'a [u8], len: usize, request: &httparse::Request<'_, 'a>) -> Option<Facts<'a>> {
    let head = buf.get(..len)?;
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let bare_lf = memchr::memchr_iter(b'\n', head).any(|at| at == 0 || head.get(at - 1) != Some(&b'\r'));
    if start > 4 || start % 2 == 1 || bare_lf {
        return None;
    }
    let (method, target, minor) = (request.method?, request.path?.as_bytes(), request.version?);
    if method.len() > 32 || !target.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#') {
        return None;
    }
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    if path.contains(&b'\\') || path.windows(3).any(|bytes| bytes == b"%00") {
        return None;
    }
    let mut seen = Seen::default();
    for header in request.headers.iter().take_while(|header| **header != EMPTY_HEADER) {
        seen.field(header.name, header.value, minor)?;
    }
    let authority = target_authority(method, target)?;
    if (minor == 1 && seen.host.is_none())
        || (seen.encoded && seen.length.is_some())
        || (seen.odd_expect && minor == 1)
    {
        return None;
    }
    if let (Some(authority), Some(host)) = (authority, seen.host)
        && with_port(target, authority) != with_port(target, host)
    {
        return None;
    }
    if seen.encoded && !seen.chunked
        || !matches!(method, "GET" | "HEAD" | "OPTIONS" | "POST" | "PUT" | "DELETE" | "PATCH" | "TRACE")
    {
        return None;
    }
    Some(Facts {
        len,
        method,
        target,
        minor,
        framing: match seen.length {
            _ if seen.chunked => Framing::Chunked,
            None | Some(0) => Framing::None,
            Some(length) => Framing::Length(length),
        },
        host: authority.or(seen.host),
        keeps_alive: !seen.close && (minor == 1 || seen.keep_alive),
        expects_continue: seen.expect && minor == 1,
    })
}

#[derive(Default)]
struct Seen<'a> {
    host: Option<&'a [u8]>,
    length: Option<u64>,
    encoded: bool,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expect: bool,
    odd_expect: bool,
}

impl<'a> Seen<'a> {
    fn field(&mut self, name: &str, value: &'a [u8], minor: u8) -> Option<()> {
        let value = value.trim_ascii();
        if value.iter().any(|&byte| byte != b'\t' && (byte < 0x20 || byte == 0x7f)) {
            return None;
        }
        // The lengths of the names below. Most fields have names of other lengths.
        if !matches!(name.len(), 4 | 6 | 10 | 14 | 17) {
            return Some(());
        }
        if name.eq_ignore_ascii_case("host") {
            if self.host.is_some() || !host_ok(value) {
                return None;
            }
            self.host = Some(value);
        } else if name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(value).ok()?;
            let number: u64 = text.parse().ok()?;
            if self.length.is_some()
                || number > 1 << 63
                || text.starts_with('+')
                || (text.starts_with('0') && text != "0")
            {
                return None;
            }
            self.length = Some(number);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if self.encoded || minor == 0 {
                return None;
            }
            self.encoded = true;
            self.chunked = value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if name.eq_ignore_ascii_case("expect") {
            let known = value.eq_ignore_ascii_case(b"100-continue");
            self.odd_expect |= !known || self.expect;
            self.expect |= known;
        } else if name.contains('_') {
            let plain = name.replace('_', "-");
            if plain.eq_ignore_ascii_case("content-length") || plain.eq_ignore_ascii_case("transfer-encoding")
            {
                return None;
            }
        }
        Some(())
    }
}

/// Returns the host and port of an authority in a target.
fn with_port(target: &[u8], authority: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(authority).to_ascii_lowercase();
    let of_scheme = if target.to_ascii_lowercase().starts_with(b"https:") { "443" } else { "80" };
    match text.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, "")) => (host.to_owned(), of_scheme.to_owned()),
        Some((host, port)) => (host.to_owned(), port.to_owned()),
        None => (text.clone(), of_scheme.to_owned()),
    }
}

/// The authority of an absolute target; `None` if the form does not fit the method.
fn target_authority<'a>(method: &str, target: &'a [u8]) -> Option<Option<&'a [u8]>> {
    if target.first() == Some(&b'/') || (target == b"*" && method == "OPTIONS") {
        return Some(None);
    }
    let text = std::str::from_utf8(target).ok()?;
    let (scheme, rest) = text.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let authority = rest.split(['/', '?']).next()?.as_bytes();
    host_ok(authority).then_some(Some(authority))
}

fn host_ok(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text.ends_with(']') => (&text[..colon], &text[colon + 1..]),
        _ => (text, ""),
    };
    let port_ok = port.len() <= 5
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && (port.is_empty() || port.parse::<u32>().is_ok_and(|port| port < 65_536));
    let host_ok = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=%".contains(&byte);
            let escapes = host
                .split('%')
                .skip(1)
                .all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()));
            !host.is_empty() && host.bytes().all(plain) && escapes
        }
    };
    port_ok && host_ok
}
