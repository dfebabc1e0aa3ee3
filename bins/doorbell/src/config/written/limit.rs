//! `[limit.NAME]` as it was written.
//!
//! Does not know about: routes, whether rate and burst go together.

use super::super::model::{LimitKey, Rate};
use crate::http::limit::{BURST_MAX, KEYS_MAX};
use doorbell_config::{At, Problem, Section};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: At<String>,
    pub(crate) header: Range<usize>,
    pub(crate) key: Option<At<LimitKey>>,
    pub(crate) has_rate: bool,
    pub(crate) rate: Option<At<Rate>>,
    pub(crate) burst: Option<At<u32>>,
    pub(crate) table: Option<At<u32>>,
    pub(crate) exempt_probes: Option<At<bool>>,
    pub(crate) headers: Option<At<bool>>,
}

impl Limit {
    pub(super) fn read(name: At<String>, mut at: Section<'_>) -> Self {
        let key = at.string("key");
        let limit = Self {
            name,
            header: at.span.clone(),
            key: key.and_then(|key| read_key(&at, key)),
            has_rate: at.value("rate").is_some(),
            rate: at.rate("rate"),
            burst: at.limit("burst", BURST_MAX),
            table: at.limit("table", u32::try_from(KEYS_MAX).unwrap_or(u32::MAX)),
            exempt_probes: at.bool("exempt_probes"),
            headers: at.bool("headers"),
        };
        at.finish();
        limit
    }
}

fn read_key(at: &Section<'_>, text: At<String>) -> Option<At<LimitKey>> {
    let At { value: text, span } = text;
    let key = parse_key(&text);
    if key.is_none() {
        let help =
            "one of \"ip\", \"ip/24\", \"ip/24,64\" for IPv4 and IPv6, \"header:X-Api-Key\", \"token\"";
        let message = format!("`key` cannot be {text:?}");
        at.problem(Problem::error("bad-value", span.clone(), message).help(help));
    }
    key.map(|value| At { value, span })
}

fn parse_key(text: &str) -> Option<LimitKey> {
    if let Some(name) = text.strip_prefix("header:") {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let good = !name.is_empty() && name.bytes().all(token);
        return good.then(|| LimitKey::Header(name.to_ascii_lowercase()));
    }
    if let Some(lens) = text.strip_prefix("ip/") {
        let (v4, v6) = lens.split_once(',').map_or((lens, None), |(v4, v6)| (v4, Some(v6)));
        let len = |text: &str, max: u8| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|len| digits && (1..=max).contains(len))
        };
        let v6_len = match v6 {
            Some(v6) => Some(len(v6.trim_start(), 128)?),
            None => None,
        };
        return Some(LimitKey::Prefix { v4_len: len(v4, 32)?, v6_len });
    }
    match text {
        "ip" => Some(LimitKey::Ip),
        "token" => Some(LimitKey::Token),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for (text, shown) in [
            ("ip", "ip"),
            ("ip/24", "ip/24"),
            ("ip/24,56", "ip/24,56"),
            ("ip/24, 56", "ip/24,56"),
            ("ip/32,128", "ip/32,128"),
            ("token", "token"),
            ("header:X-Api-Key", "header:x-api-key"),
        ] {
            assert_eq!(parse_key(text).map(|key| key.to_string()).as_deref(), Some(shown));
            assert_eq!(parse_key(shown), parse_key(text));
        }
        for text in [
            "",
            "IP",
            "ip/",
            "ip/0",
            "ip/33",
            "ip/24,",
            "ip/24,0",
            "ip/24,129",
            "ip/+1",
            "ip/x",
            "header:",
            "header:a b",
            "host",
        ] {
            assert_eq!(parse_key(text), None, "{text}");
        }
    }
}
