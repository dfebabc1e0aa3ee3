//! What can be turned, and to what.
//!
//! Does not know about: walks, what is good.

use serde::{Deserialize, Serialize};

use super::walk::Point;
use crate::variant::{Engine, Settings};

/// Keys of the configuration with the values that are tried, as they are written there.
const ON_BOTH: &[(&str, &[&str])] = &[
    ("tcp.defer_accept", &["true", "false"]),
    ("tcp.quickack", &["true", "false"]),
    ("tuning.send_more", &["true", "false"]),
];

const ON_URING: &[(&str, &[&str])] = &[
    ("tuning.accept", &["\"multishot\"", "\"poll\"", "\"single-shot\""]),
    ("tuning.coop_taskrun", &["true", "false"]),
    ("tuning.defer_taskrun", &["true", "false"]),
    ("tuning.descriptors", &["\"ordinary\"", "\"direct\""]),
    ("tuning.direct_calls", &["true", "false"]),
    ("tuning.no_sqarray", &["true", "false"]),
    ("tuning.poll_first", &["true", "false"]),
    ("tuning.receive", &["\"poll\"", "\"single-shot\""]),
    ("tuning.registered_ring", &["true", "false"]),
    ("tuning.single_issuer", &["true", "false"]),
    ("tuning.skip_success", &["false", "true"]),
    (
        "tuning.wait_min",
        &["\"0s\"", "\"20us\"", "\"50us\"", "\"100us\"", "\"200us\"", "\"500us\"", "\"1ms\""],
    ),
];

/// One parameter.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Parameter {
    /// The key.
    pub(super) key: String,
    /// The values; the first is the default.
    pub(super) values: Vec<String>,
}

/// All of them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Space(pub(super) Vec<Parameter>);

impl Space {
    /// What `engine` has; `defaults` are where a walk begins. A key that the program does not know is left out.
    pub(super) fn new(engine: Engine, defaults: &Settings) -> Self {
        let more = if engine == Engine::IoUring { ON_URING } else { &[] };
        let parameters = ON_BOTH.iter().chain(more).filter_map(|(key, values)| {
            let default = defaults.get(key)?;
            let others = values.iter().filter(|value| **value != default).map(|&value| value.to_owned());
            let values = std::iter::once(default.to_owned()).chain(others).collect();
            Some(Parameter { key: (*key).to_owned(), values })
        });
        Self(parameters.collect())
    }

    /// How many values each has.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.0.iter().map(|parameter| parameter.values.len()).collect()
    }

    /// Every default.
    pub(super) fn start(&self) -> Point {
        vec![0; self.0.len()]
    }

    /// All keys with their values at `point`.
    pub(super) fn settings(&self, point: &Point) -> Settings {
        self.settings_where(point, |_| true)
    }

    /// Only what is not the default.
    pub(super) fn changes(&self, point: &Point) -> Settings {
        self.settings_where(point, |value| value > 0)
    }

    fn settings_where(&self, point: &Point, keep: impl Fn(usize) -> bool) -> Settings {
        let chosen = self.0.iter().zip(point).filter(|&(_, &value)| keep(value));
        let pairs: Vec<(&str, &str)> = chosen
            .map(|(parameter, &value)| (parameter.key.as_str(), parameter.values[value].as_str()))
            .collect();
        Settings::of(&pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Settings {
        let pairs: Vec<(&str, &str)> =
            ON_BOTH.iter().chain(ON_URING).map(|(key, values)| (*key, values[0])).collect();
        Settings::of(&pairs)
    }

    #[test]
    fn a_walk_begins_at_the_defaults_whatever_they_are() {
        let defaults =
            defaults().with(&Settings::of(&[("tuning.accept", "\"poll\""), ("tuning.wait_min", "\"70us\"")]));
        let space = Space::new(Engine::IoUring, &defaults);
        assert_eq!(space.settings(&space.start()), defaults);
        assert_eq!(space.changes(&space.start()), Settings::default());
        let accept = space.0.iter().find(|parameter| parameter.key == "tuning.accept").unwrap();
        assert_eq!(accept.values, ["\"poll\"", "\"multishot\"", "\"single-shot\""]);
        let wait_min = space.0.iter().find(|parameter| parameter.key == "tuning.wait_min").unwrap();
        assert_eq!((wait_min.values[0].as_str(), wait_min.values.len()), ("\"70us\"", 8));
    }

    #[test]
    fn epoll_has_less_to_turn_and_unknown_keys_are_left_out() {
        let space = Space::new(Engine::Epoll, &defaults());
        assert_eq!(space.counts(), [2, 2, 2]);
        let one = Space::new(Engine::IoUring, &Settings::of(&[("tcp.quickack", "true")]));
        assert_eq!(one.0.len(), 1);
    }

    #[test]
    fn a_point_is_settings() {
        let space = Space::new(Engine::Epoll, &defaults());
        assert_eq!(space.changes(&vec![0, 1, 0]).to_string(), "quickack=false");
    }
}
