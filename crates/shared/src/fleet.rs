//! The description that an instance stores, for a list of all instances.
//!
//! Version 1 is frozen: a change needs another version.

use crate::format::{at_most, decode, encode};
use bitcode::{Decode, Encode};
use doorbell_link::State;

const VERSION: u8 = 1;

/// Maximum size of a description that is decoded.
const ANNOUNCEMENT_LEN_MAX: usize = 64 << 10;

/// Maximum number of listed endpoints; further ones are only counted. Those that are not up are
/// listed first.
const ENDPOINTS_MAX: usize = 64;

/// Maximum length of a text in bytes; the rest is cut off.
const TEXT_LEN_MAX: usize = 256;

/// Description of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Announcement {
    /// Version of the program.
    pub version: String,
    /// Zone; may be empty.
    pub zone: String,
    /// Lifecycle state, such as `ready` or `draining`.
    pub lifecycle: String,
    /// Start of the program in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Hash of its configuration.
    pub config_hash: String,
    /// Its endpoints.
    pub endpoints: Vec<EndpointState>,
    /// Number of endpoints, including those that are not listed.
    pub endpoints_total: u64,
}

/// An endpoint and its state.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct EndpointState {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Note of an operator; may be empty.
    pub note: String,
}

impl Announcement {
    /// Encodes the description; long texts and lists are truncated.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let text = |text: &str| at_most(text, TEXT_LEN_MAX).to_owned();
        let mut endpoints: Vec<&EndpointState> = self.endpoints.iter().collect();
        endpoints.sort_by_key(|one| one.state == State::Up);
        let endpoints = endpoints.into_iter().take(ENDPOINTS_MAX);
        let limited = Self {
            version: text(&self.version),
            zone: text(&self.zone),
            lifecycle: text(&self.lifecycle),
            started_unix_ms: self.started_unix_ms,
            config_hash: text(&self.config_hash),
            endpoints: endpoints
                .map(|one| EndpointState { name: text(&one.name), note: text(&one.note), ..*one })
                .collect(),
            endpoints_total: self.endpoints_total,
        };
        encode(VERSION, &limited)
    }

    /// Decodes a description; `None` if it is invalid or has another version.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        decode(VERSION, ANNOUNCEMENT_LEN_MAX, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hex;

    fn announcement() -> Announcement {
        let states =
            [State::Degraded, State::Down, State::Maintenance, State::Removed, State::Unknown, State::Up];
        let endpoint = |state| EndpointState { name: "readyz".into(), state, note: "upgrade".into() };
        Announcement {
            version: "0.1.0".into(),
            zone: "eu-1".into(),
            lifecycle: "ready".into(),
            started_unix_ms: 1_795_288_003_819,
            config_hash: "0123456789abcdef".into(),
            endpoints: states.map(endpoint).into(),
            endpoints_total: 6,
        }
    }

    /// The description of version 1. Deployed programs send and expect exactly these bytes: never
    /// change them; add a version instead.
    const FROZEN_1: &str = include_str!("frozen_fleet_1.txt");

    #[test]
    fn descriptions_are_frozen() {
        let bytes = announcement().encode();
        assert_eq!(hex(&bytes), FROZEN_1.trim_end());
        assert_eq!(Announcement::decode(&bytes), Some(announcement()));
        for nonsense in [&b""[..], b"\x02", b"\x01nonsense", &bytes[1..], &bytes[..bytes.len() - 1]] {
            assert_eq!(Announcement::decode(nonsense), None);
        }
    }

    #[test]
    fn the_largest_description_can_be_decoded() {
        let long = "\u{e9}".repeat(1_000);
        let endpoint = EndpointState { name: long.clone(), state: State::Up, note: long.clone() };
        let large = Announcement {
            version: long.clone(),
            zone: long,
            endpoints: vec![endpoint; 1_000],
            endpoints_total: 1_000,
            ..announcement()
        };
        let read = Announcement::decode(&large.encode()).expect("it is limited");
        assert_eq!((read.endpoints.len(), read.endpoints_total), (ENDPOINTS_MAX, 1_000));
        assert_eq!(read.zone.len(), TEXT_LEN_MAX);
    }

    #[test]
    fn endpoints_that_are_not_up_are_listed_first() {
        let endpoint = |at: u64| EndpointState {
            name: at.to_string(),
            state: if at % 9 == 8 { State::Down } else { State::Up },
            note: String::new(),
        };
        let all = Announcement { endpoints: (0..72).map(endpoint).collect(), ..announcement() };
        let read = Announcement::decode(&all.encode()).expect("it is valid");
        let names: Vec<&str> = read.endpoints.iter().map(|one| &*one.name).collect();
        assert_eq!(names.len(), ENDPOINTS_MAX);
        assert_eq!(names[..10], ["8", "17", "26", "35", "44", "53", "62", "71", "0", "1"]);
    }
}
