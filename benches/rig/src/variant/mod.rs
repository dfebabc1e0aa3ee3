//! doorbell with non-default settings, as a server to measure.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::RigError;
use crate::image::servers::{Entry, ServerEnvironment, Setup};
use crate::plan::Server;
use crate::tool;

/// Configuration keys with their values in TOML, such as `tuning.accept` with `"poll"` and
/// `tcp.quickack` with `false`. The table is `tuning`, or `tcp` of the listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings(BTreeMap<String, String>);

/// A driver, with the names of `--driver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Driver {
    /// epoll
    Epoll,
    /// io_uring
    IoUring,
}

/// A doorbell server with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The name of the server in rows.
    pub(crate) name: String,
    /// The driver.
    pub(crate) driver: Driver,
    /// The non-default settings.
    pub(crate) settings: Settings,
}

impl Settings {
    /// Creates settings from pairs of key and value.
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// Merges two sets of settings. Those of `other` take precedence.
    #[must_use]
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut settings = self.clone();
        settings.0.extend(other.0.clone());
        settings
    }

    /// The settings that `other` lacks or has with another value.
    #[must_use]
    pub(crate) fn without(&self, other: &Self) -> Self {
        let different = self.0.iter().filter(|(key, value)| other.get(key) != Some(value));
        Self(different.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Whether `other` contains all these settings.
    pub(crate) fn hold_in(&self, other: &Self) -> bool {
        self.0.iter().all(|(key, value)| other.get(key) == Some(value))
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Each key with its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Formats the settings as TOML tables; those of `tcp` belong to the listener `main`.
    fn to_toml(&self) -> String {
        let mut text = String::new();
        for (table, header) in [("tcp", "listener.main.tcp"), ("tuning", "tuning")] {
            let line = |(key, value): (&str, &str)| {
                Some(format!("{} = {value}\n", key.strip_prefix(table)?.strip_prefix('.')?))
            };
            let lines: String = self.iter().filter_map(line).collect();
            if !lines.is_empty() {
                text.push_str(&format!("\n[{header}]\n{lines}"));
            }
        }
        // The peer address of a direct descriptor is unknown, so a cap per address would not work.
        if self.iter().any(|setting| setting == ("tuning.descriptors", "\"direct\"")) {
            text.push_str("\n[connections]\nper_ip_max = \"off\"\n");
        }
        text
    }
}

impl fmt::Display for Settings {
    /// Formats settings as `accept=poll quickack=false`, or as `defaults` if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self
            .iter()
            .map(|(key, value)| {
                format!("{}={}", key.rsplit('.').next().unwrap_or(key), value.trim_matches('"'))
            })
            .collect();
        f.write_str(if words.is_empty() { "defaults".into() } else { words.join(" ") }.as_str())
    }
}

impl Variant {
    /// Returns the setup of `program` at `place`: that of the catalogue, with the settings of this
    /// variant instead of its `tcp` options.
    pub(crate) fn at(&self, program: &str, place: &ServerEnvironment<'_>) -> Setup {
        let entry = match self.driver {
            Driver::Epoll => "doorbell-epoll",
            Driver::IoUring => "doorbell-uring",
        };
        let entry = Entry::named(entry).expect("the catalogue has both drivers");
        let mut files = entry.at(program, place).files;
        let (_, base) = files.pop().expect("doorbell is configured by a file");
        let mut text: String =
            base.lines().filter(|line| !line.starts_with("tcp = ")).map(|line| format!("{line}\n")).collect();
        text.push_str(&self.settings.to_toml());
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let path = format!("{}/{}.toml", place.folder, self.name.chars().map(safe).collect::<String>());
        let argv = [program, "serve", "--config", &path].map(str::to_owned).into();
        Setup { server: Server { name: self.name.clone(), argv, thread: None }, files: vec![(path, text)] }
    }
}

/// The defaults of every setting, as reported by the program itself.
pub(crate) fn defaults(doorbell: &Path) -> Result<Settings, RigError> {
    let program = doorbell.to_string_lossy();
    let args = ["config", "dump", "--with-defaults", "--output", "json"];
    let shown = tool::capture(&program, "doorbell", &args, Path::new("/"))?;
    let dump: Value = serde_json::from_str(&shown).unwrap_or_default();
    let tables = [("tuning", &dump["tuning"]), ("tcp", &dump["listener"]["default"]["tcp"])];
    let mut settings = Settings::default();
    for (table, values) in tables {
        for (key, value) in values.as_object().into_iter().flatten() {
            settings.0.insert(format!("{table}.{key}"), value.to_string());
        }
    }
    if dump["tuning"].is_object() {
        Ok(settings)
    } else {
        Err(RigError::command(program, "its configuration has no [tuning]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_where_they_belong() {
        let settings = Settings::of(&[
            ("tuning.accept", "\"poll\""),
            ("tcp.quickack", "false"),
            ("tuning.wait_min", "\"200us\""),
        ]);
        let expected =
            "\n[listener.main.tcp]\nquickack = false\n\n[tuning]\naccept = \"poll\"\nwait_min = \"200us\"\n";
        assert_eq!(settings.to_toml(), expected);
        assert_eq!(settings.to_string(), "quickack=false accept=poll wait_min=200us");
        assert_eq!(Settings::default().to_toml(), "");
        assert_eq!(Settings::default().to_string(), "defaults");
    }

    #[test]
    fn settings_are_added_and_compared() {
        let one = Settings::of(&[("a.x", "1"), ("a.y", "2")]);
        let two = Settings::of(&[("a.y", "3")]);
        let both = one.with(&two);
        assert_eq!(both, Settings::of(&[("a.x", "1"), ("a.y", "3")]));
        assert!(two.hold_in(&both) && !one.hold_in(&both));
        assert_eq!(both.without(&one), two);
        assert_eq!(one.without(&one), Settings::default());
    }

    #[test]
    fn a_variant_is_the_server_of_the_catalogue_with_other_switches() {
        for driver in [Driver::Epoll, Driver::IoUring] {
            let settings = Settings::of(&[("tcp.defer_accept", "false")]);
            let variant = Variant { name: "x: a=b".into(), driver, settings };
            let Setup { server, files } = variant.at("/p", &ServerEnvironment::GUEST);
            let config = &files[0].1;
            assert!(config.contains(&format!("driver = \"{}\"", crate::plan::name_of(&driver))), "{config}");
            assert!(config.ends_with("[listener.main.tcp]\ndefer_accept = false\n"), "{config}");
            assert!(!config.contains("\ntcp = "), "{config}");
            assert_eq!(server.argv, ["/p", "serve", "--config", "/rig/x__a_b.toml"]);
            let place = ServerEnvironment {
                folder: "/here",
                port: 4321,
                is_root: false,
                conns_max: None,
                has_tls: false,
            };
            let (path, text) = variant.at("/p", &place).files.remove(0);
            assert!(path == "/here/x__a_b.toml" && text.contains("bind = \"127.0.0.1:4321\""), "{text}");
        }
    }
}
