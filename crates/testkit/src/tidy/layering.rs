//! Which room of the core may see which: the import table of `crates/doorbell/src`.
//!
//! Does not know about: packages. A path through a re-export of the crate root counts as the room it comes from.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaint, Source};

/// One room and the rooms it must not import.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// Top-level module of the core crate.
    pub module: &'static str,
    /// Modules it must not import.
    pub never: &'static [&'static str],
}

/// `driver` and `conn` never meet below `worker`; what lies at the bottom sees nothing above it.
pub const LAYERS: &[Layer] = &[
    Layer {
        module: "access_log",
        never: &["conn", "control", "driver", "handler", "net", "protocol", "server", "stats", "worker"],
    },
    Layer {
        module: "config",
        never: &["conn", "control", "driver", "handler", "protocol", "server", "worker"],
    },
    Layer {
        module: "conn",
        never: &["control", "driver", "handler", "net", "offload", "protocol", "server", "worker"],
    },
    Layer { module: "control", never: &["conn", "protocol", "server"] },
    Layer {
        module: "driver",
        never: &["conn", "control", "handler", "offload", "protocol", "server", "worker"],
    },
    Layer {
        module: "error",
        never: &["conn", "control", "driver", "handler", "protocol", "server", "worker"],
    },
    Layer {
        module: "hand_over",
        never: &[
            "config", "conn", "control", "driver", "error", "handler", "net", "protocol", "server", "stats",
            "time", "worker",
        ],
    },
    Layer { module: "handler", never: &["conn", "control", "driver", "net", "server", "worker"] },
    Layer {
        module: "id",
        never: &[
            "config", "conn", "control", "driver", "error", "handler", "net", "protocol", "server", "stats",
            "time", "worker",
        ],
    },
    Layer {
        module: "manual",
        never: &[
            "config", "conn", "control", "driver", "error", "handler", "id", "net", "protocol", "server",
            "stats", "time", "worker",
        ],
    },
    Layer { module: "net", never: &["conn", "control", "driver", "handler", "protocol", "server", "worker"] },
    Layer {
        module: "offload",
        never: &[
            "config", "conn", "control", "handler", "net", "protocol", "server", "stats", "time", "worker",
        ],
    },
    Layer { module: "protocol", never: &["conn", "control", "driver", "net", "server", "worker"] },
    Layer {
        module: "panics",
        never: &[
            "config", "conn", "control", "driver", "error", "handler", "id", "net", "protocol", "server",
            "stats", "time", "worker",
        ],
    },
    Layer { module: "server", never: &["conn"] },
    Layer { module: "stats", never: &["conn", "control", "handler", "net", "protocol", "server", "worker"] },
    Layer {
        module: "sync",
        never: &[
            "config", "conn", "control", "driver", "error", "handler", "id", "net", "protocol", "server",
            "stats", "time", "worker",
        ],
    },
    Layer {
        module: "time",
        never: &[
            "config", "conn", "control", "driver", "error", "handler", "net", "protocol", "server", "stats",
            "worker",
        ],
    },
    Layer {
        module: "tls",
        never: &["conn", "control", "driver", "handler", "net", "protocol", "server", "worker"],
    },
    Layer {
        module: "tuning",
        never: &[
            "config", "conn", "control", "driver", "error", "handler", "id", "net", "protocol", "server",
            "stats", "time", "worker",
        ],
    },
    Layer { module: "worker", never: &["server"] },
];

const ROOT: &str = "crates/doorbell/src/";

/// Complains about every import the table forbids and about modules it does not list.
pub fn module_layers(sources: &[Source], layers: &[Layer]) -> Vec<Complaint> {
    let reexports = sources
        .iter()
        .find(|source| source.path == format!("{ROOT}lib.rs"))
        .map(|source| reexports(&source.masked.code))
        .unwrap_or_default();
    let mut complaints = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        let Some(inner) = source.path.strip_prefix(ROOT) else { continue };
        let module = inner.split(['/', '.']).next().unwrap_or_default();
        if module == "lib" {
            continue;
        }
        let Some(layer) = layers.iter().find(|layer| layer.module == module) else {
            complaints.push(Complaint::new(
                &source.path,
                0,
                format!("module {module} is in no row of the import table"),
            ));
            continue;
        };
        for (name, line) in imports(&source.code_without_tests(), depth(inner)) {
            let from = reexports.get(&name).cloned().unwrap_or(name);
            if layer.never.contains(&from.as_str()) {
                complaints.push(Complaint::new(
                    &source.path,
                    line,
                    format!("{module} must not import {from}"),
                ));
            }
        }
    }
    complaints
}

/// How many `super::` reach the crate root: 1 for `id.rs` and `conn/mod.rs`, 2 for `conn/table.rs`.
fn depth(inner: &str) -> usize {
    let parts = inner.split('/').count();
    if inner.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// What `code` names directly below the crate root, each with the one-based line: through `crate::` or enough `super::`.
pub fn imports(code: &str, depth: usize) -> BTreeSet<(String, usize)> {
    let climb = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for start in ["crate::", climb.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c == '_' || c == ':' || c == '$' || c.is_alphanumeric()) {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let rest = &code[at + start.len()..];
            found.extend(first_names(rest).into_iter().map(|name| (name, line)));
        }
    }
    found
}

/// The first segment of a path, or of each branch of a `{..}` group.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else { return word(rest).into_iter().collect() };
    let (mut names, mut depth, mut at_branch) = (Vec::new(), 0_usize, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_branch = true,
            _ if at_branch && !c.is_whitespace() => {
                names.extend(word(&group[at..]));
                at_branch = false;
            }
            _ => {}
        }
    }
    names
}

fn word(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|&c| c == '_' || c.is_alphanumeric()).collect();
    (!word.is_empty()).then_some(word)
}

/// `pub use room::path::{A, B as C};` of the crate root: from the public name to the room.
fn reexports(code: &str) -> BTreeMap<String, String> {
    let mut map = BTreeMap::new();
    for (at, _) in code.match_indices("use ") {
        let statement = code[at + 4..].split(';').next().unwrap_or_default();
        let statement = statement.trim_start_matches("crate::").trim_start_matches("self::");
        let Some((room, items)) = statement.split_once("::") else { continue };
        for item in items.split([',', '{', '}']) {
            let name = item.rsplit(" as ").next().unwrap_or_default();
            let name = name.rsplit("::").next().unwrap_or_default().trim();
            if !name.is_empty() {
                map.insert(name.to_owned(), room.trim().to_owned());
            }
        }
    }
    map
}
