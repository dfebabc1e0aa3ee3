//! Source addresses of connections.

use std::net::{IpAddr, Ipv4Addr};

/// Maximum number of addresses.
const SOURCES_MAX: usize = 65_536;

/// Parses a list such as `127.0.0.2,127.0.1.0/28,127.0.2.1-127.0.2.9,::1`.
///
/// # Errors
/// A description of the error in one sentence.
pub fn parse_sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let mut sources = Vec::new();
    for item in text.split(',').map(str::trim) {
        if let Ok(source) = item.parse() {
            sources.push(source);
            continue;
        }
        let range = match (item.split_once('/'), item.split_once('-')) {
            (Some((base, len)), _) => network(base, len),
            (None, Some((from, to))) => ends(from, to),
            (None, None) => None,
        };
        let range = range.ok_or_else(|| {
            format!(
                "{item:?} is not a list of addresses; write 127.0.0.2, 127.0.1.0/28 or 127.0.2.1-127.0.2.9"
            )
        })?;
        let len = (range.end() - range.start()) as usize + 1;
        if sources.len().saturating_add(len) > SOURCES_MAX {
            return Err(format!("more than {SOURCES_MAX} addresses"));
        }
        sources.extend(range.map(|number| IpAddr::V4(Ipv4Addr::from_bits(number))));
    }
    Ok(sources)
}

/// The addresses of a network without the first and the last, which are not for hosts. A /31 or /32
/// keeps all addresses.
fn network(base: &str, len: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let base: Ipv4Addr = base.parse().ok()?;
    let len: u32 = len.parse().ok().filter(|len| *len <= 32)?;
    let hosts = u32::MAX.checked_shr(len).unwrap_or(0);
    let first = base.to_bits() & !hosts;
    let edge = u32::from(len < 31);
    Some(first + edge..=first + (hosts - edge))
}

fn ends(from: &str, to: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let from: Ipv4Addr = from.trim().parse().ok()?;
    let to: Ipv4Addr = to.trim().parse().ok()?;
    (from <= to).then(|| from.to_bits()..=to.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, want) in [
            ("127.0.0.2", "127.0.0.2"),
            ("127.0.0.2, ::1", "127.0.0.2 ::1"),
            ("127.0.0.5/30", "127.0.0.5 127.0.0.6"),
            ("127.0.0.4/31", "127.0.0.4 127.0.0.5"),
            ("127.0.0.4/32,127.0.0.9", "127.0.0.4 127.0.0.9"),
            ("127.0.0.254-127.0.1.1", "127.0.0.254 127.0.0.255 127.0.1.0 127.0.1.1"),
        ] {
            let sources = parse_sources(text).unwrap();
            let got: Vec<String> = sources.iter().map(IpAddr::to_string).collect();
            assert_eq!(got.join(" "), want, "{text}");
        }
        assert_eq!(parse_sources("127.1.0.0/16").unwrap().len(), 65_534);
    }

    #[test]
    fn what_is_no_list() {
        for text in [
            "",
            "a",
            "127.0.0.1/33",
            "127.0.0.1/x",
            "127.0.0.2-127.0.0.1",
            "::1/64",
            "127.0.0.1,",
            "127.0.0.0/8",
        ] {
            assert!(parse_sources(text).is_err(), "{text:?}");
        }
    }
}
