//! Reads configuration files in TOML; each key is declared by one field.
//!
//! A struct is a table, and each of its fields is a key, with its documentation, default and range.
//!
//! ```
//! use doorbell_config::{ExternalValues, Overrides, Program, Source, Table, Words};
//! use std::time::Duration;
//!
//! /// An example.
//! #[derive(Clone, Debug, Table)]
//! struct File {
//!     /// Where the program listens.
//!     listener: Listener,
//! }
//!
//! /// One listening socket.
//! #[derive(Clone, Debug, Table)]
//! struct Listener {
//!     /// Address and port.
//!     #[key(required = "\"127.0.0.1:8080\"")]
//!     bind: String,
//!     /// Protocol of the connections.
//!     #[key(default = "http1")]
//!     protocol: Protocol,
//!     /// Maximum time from the first byte of a request to the end of its head.
//!     #[key(default = "5s", range = "100ms..=1h")]
//!     header_timeout: Duration,
//! }
//!
//! #[derive(Clone, Copy, Debug, PartialEq, Words)]
//! enum Protocol {
//!     Http1,
//!     Raw,
//! }
//!
//! let text = "[listener]\nbind = \":80\"\nprotocol = \"htp1\"\nheader_timeot = \"1s\"\n";
//! let source = Source { name: "example.toml".into(), text: text.into() };
//! let overrides = Overrides::default();
//! let external =
//!     ExternalValues { env: &|_| None, read_secret: &|_| Err("none".into()), overrides: &overrides };
//! let outcome = doorbell_config::load::<File>(Program::NONE, &source, external);
//! let help: Vec<_> = outcome.problems.iter().filter_map(|problem| problem.help.as_deref()).collect();
//! assert_eq!(help, ["did you mean `http1`?", "did you mean `header_timeout`?"]);
//! assert_eq!(File::default().to_json(true)["listener"]["header_timeout"], "5s");
//! assert_eq!(File::schema()["properties"]["listener"]["properties"]["protocol"]["default"], "http1");
//! ```
//!
//! A wrong value is reported with its place and replaced by its default, so that all problems of a
//! file are reported at once. A file with errors is not used ([`Outcome::is_valid`]). Secrets are
//! never shown.
//!
//! | task | items |
//! |---|---|
//! | declare a table, and the words of a key | [`macro@Table`], [`macro@Words`] |
//! | read a file, with variables, secret files and overrides | [`load`], [`Source`], [`ExternalValues`], [`Overrides`] |
//! | report a problem of a key or of several keys | [`Problem`], [`Section`], [`Places`] |
//! | form of a value: of any type, or written as a string | [`Value`], [`Text`], [`At`], [`Secret`] |
//! | names that the user chooses, and references to them | [`Map`], [`Named`], [`Link`] |
#![forbid(unsafe_code)]

extern crate self as doorbell_config;

mod broken_lines;
mod clean;
mod entry;
mod expand;
pub mod form;
mod key;
mod line;
mod link;
mod map;
mod named;
mod overrides;
mod place;
mod problem;
mod program;
mod read;
pub mod secret;
mod secret_names;
mod secret_places;
mod section;
mod table;
mod units;
mod value;
mod words;

pub use doorbell_config_derive::{Table, Words};
pub use entry::{Entry, TABLES, TEXTS};
pub use expand::{Env, ReadSecret};
pub use key::{Key, Literal};
pub use link::{Link, Names};
pub use map::Map;
pub use named::{NAME_LEN_MAX, Named};
pub use overrides::Overrides;
pub use place::{At, Places};
pub use problem::{Problem, Problems, Severity, Source};
pub use program::Program;
pub use read::{Document, ExternalValues, Outcome, load, read};
pub use secret::Secret;
pub use secret_names::{is_credential, is_like_secret};
pub use secret_places::secret_spans;
pub use section::Section;
pub use serde_json::Value as Json;
pub use table::{Dump, Table, default_by, default_of, properties_of};
pub use units::{Rate, format_duration, format_size, parse_duration, parse_rate, parse_size};
pub use value::{Text, Value, Words, literal, word_of, words_form};
pub use words::{did_you_mean, quoted};

/// Keys of a table as JSON.
pub type JsonMap = serde_json::Map<String, Json>;
