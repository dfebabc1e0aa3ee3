//! The dependencies between packages, read from the `Cargo.toml` of each member.

use super::complaint::Complaint;
use super::source::Source;

/// Permitted dependencies of one package within the workspace.
#[derive(Clone, Copy, Debug)]
pub struct Arrow {
    /// Folder of the package, relative to the workspace root.
    pub folder: &'static str,
    /// Allowed in every dependency section.
    pub may: &'static [&'static str],
    /// Also allowed in `[dev-dependencies]`.
    pub may_in_tests: &'static [&'static str],
}

/// The permitted dependencies. `testkit` is for tests only.
pub const ARROWS: &[Arrow] = &[
    Arrow {
        folder: "benches",
        may: &["doorbell-http"],
        may_in_tests: &["doorbell", "doorbell-health", "doorbell-ring", "doorbell-testkit"],
    },
    // The parser is compared with other servers. The engine is not involved.
    Arrow { folder: "benches/differential", may: &["doorbell-http"], may_in_tests: &["doorbell-testkit"] },
    // The commands. What they do in a running program is behind `doorbell-control` and
    // `doorbell-proxy-server`.
    Arrow {
        folder: "bins/doorbell",
        may: &[
            "doorbell",
            "doorbell-checks",
            "doorbell-control",
            "doorbell-egress",
            "doorbell-health",
            "doorbell-history",
            "doorbell-link",
            "doorbell-prober",
            "doorbell-proxy-config",
            "doorbell-proxy-server",
            "doorbell-shared",
        ],
        may_in_tests: &["doorbell-testkit"],
    },
    // The bare accept loops, which show the minimum cost of a connection, set a socket option
    // through the ring crate, because the call needs `unsafe`. `doorbell-tokio` is needed to
    // compare axum behind doorbell with axum alone.
    Arrow {
        folder: "benches/peers",
        may: &["doorbell", "doorbell-ring", "doorbell-tokio"],
        may_in_tests: &[],
    },
    // In its virtual machine, the rig runs the self-test of the ring crate and uses the seccomp
    // filter of that crate.
    Arrow { folder: "benches/rig", may: &["doorbell-ring"], may_in_tests: &[] },
    // The load tool uses the ring crate, but the engine only in tests, so that a fault of the
    // engine cannot affect both the tool and the measured server.
    Arrow {
        folder: "bins/load",
        may: &["doorbell-egress", "doorbell-ring"],
        may_in_tests: &["doorbell", "doorbell-testkit"],
    },
    // Active checks, for the binary and other applications; does not depend on the engine.
    Arrow {
        folder: "crates/checks",
        may: &["doorbell-config", "doorbell-egress", "doorbell-health"],
        may_in_tests: &["doorbell-testkit"],
    },
    // Reads configuration files of any program; knows no configuration key of doorbell.
    Arrow { folder: "crates/config", may: &["doorbell-config-derive"], may_in_tests: &[] },
    Arrow { folder: "crates/config-derive", may: &[], may_in_tests: &[] },
    // The protocol of the control socket, for the program and for its clients.
    Arrow { folder: "crates/control", may: &["doorbell-egress", "doorbell-health"], may_in_tests: &[] },
    Arrow {
        folder: "crates/doorbell",
        may: &["doorbell-http", "doorbell-ring"],
        may_in_tests: &["doorbell-testkit"],
    },
    // Sockets for outgoing connections, for any runtime.
    Arrow { folder: "crates/egress", may: &["doorbell-ring"], may_in_tests: &["doorbell-testkit"] },
    // gRPC health, for the binary and for programs that embed the engine. No sockets.
    Arrow {
        folder: "crates/grpc",
        may: &["doorbell", "doorbell-health", "doorbell-probes"],
        may_in_tests: &[],
    },
    // Health is pure logic; `crates/probes` connects it with HTTP.
    Arrow { folder: "crates/health", may: &[], may_in_tests: &[] },
    // Writes rows to a database; depends on neither checks nor configuration.
    Arrow { folder: "crates/history", may: &[], may_in_tests: &["doorbell-testkit"] },
    Arrow { folder: "crates/http", may: &[], may_in_tests: &[] },
    // HTTP/2 for connections that were handed over. Reads requests ahead as `doorbell-tokio` does.
    Arrow {
        folder: "crates/http2",
        may: &["doorbell", "doorbell-grpc", "doorbell-probes", "doorbell-tokio"],
        may_in_tests: &["doorbell-testkit"],
    },
    // Links between instances; does not depend on health, the engine or configuration.
    Arrow { folder: "crates/link", may: &[], may_in_tests: &["doorbell-testkit"] },
    // Metrics, for the binary and for programs that embed the engine.
    Arrow {
        folder: "crates/metrics",
        may: &["doorbell", "doorbell-checks", "doorbell-health", "doorbell-probes"],
        may_in_tests: &[],
    },
    // The models include the modelled sources by path, and need no other part of the engine.
    Arrow { folder: "crates/models", may: &["doorbell-http"], may_in_tests: &[] },
    // Probes as other programs send them. The engine knows the same programs by their requests.
    Arrow {
        folder: "crates/prober",
        may: &["doorbell-checks", "doorbell-config", "doorbell-egress", "doorbell-health"],
        may_in_tests: &["doorbell-http", "doorbell-testkit"],
    },
    // Pre-rendered replies to health probes, for the binary and for programs that embed the engine:
    // no socket, no runtime.
    Arrow { folder: "crates/probes", may: &["doorbell-health", "doorbell-http"], may_in_tests: &[] },
    // The configuration of the program: the options of every library that it configures.
    Arrow {
        folder: "crates/proxy-config",
        may: &[
            "doorbell",
            "doorbell-checks",
            "doorbell-config",
            "doorbell-grpc",
            "doorbell-health",
            "doorbell-history",
            "doorbell-probes",
            "doorbell-shared",
        ],
        may_in_tests: &[],
    },
    // The running program: what all libraries become with a configuration.
    Arrow {
        folder: "crates/proxy-server",
        may: &[
            "doorbell",
            "doorbell-checks",
            "doorbell-config",
            "doorbell-control",
            "doorbell-grpc",
            "doorbell-health",
            "doorbell-history",
            "doorbell-http2",
            "doorbell-link",
            "doorbell-metrics",
            "doorbell-prober",
            "doorbell-probes",
            "doorbell-proxy-config",
            "doorbell-shared",
            "doorbell-tokio",
        ],
        may_in_tests: &["doorbell-benches", "doorbell-testkit"],
    },
    Arrow { folder: "crates/ring", may: &[], may_in_tests: &["doorbell-testkit"] },
    // State that instances share. Uses the states and the reconnect delay of `doorbell-link`, and
    // the leases of limits of `doorbell-http`; depends on neither health nor configuration.
    Arrow {
        folder: "crates/shared",
        may: &["doorbell-http", "doorbell-link"],
        may_in_tests: &["doorbell-testkit"],
    },
    // Embedding: connects the engine and health to a Tokio runtime.
    Arrow {
        folder: "crates/tokio",
        may: &[
            "doorbell",
            "doorbell-checks",
            "doorbell-grpc",
            "doorbell-health",
            "doorbell-metrics",
            "doorbell-probes",
        ],
        may_in_tests: &["doorbell-testkit", "doorbell-tokio"],
    },
    Arrow {
        folder: "crates/testkit",
        may: &["doorbell", "doorbell-http", "doorbell-ring"],
        may_in_tests: &[],
    },
];

/// Runtimes, and libraries for configuration, metrics and logs, that the core must not depend on.
const FOREIGN_TO_CORE: &[&str] =
    &["async-std", "mio", "prometheus", "serde", "smol", "tokio", "toml", "tracing"];
const CORE: &[&str] =
    &["crates/doorbell", "crates/egress", "crates/health", "crates/http", "crates/probes", "crates/ring"];

/// Reports forbidden dependencies, unknown members, and members that do not inherit the workspace
/// lints.
pub fn package_arrows(sources: &[Source]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let members =
        sources.iter().filter_map(|source| Some((source, source.path.strip_suffix("/Cargo.toml")?)));
    for (source, folder) in members.filter(|(_, folder)| !folder.ends_with("/fuzz")) {
        let Some(arrow) = ARROWS.iter().find(|arrow| arrow.folder == folder) else {
            complaints.push(Complaint::new(&source.path, 0, "is in no row of the package table"));
            continue;
        };
        complaints.extend(check_member(source, arrow));
    }
    complaints
}

fn check_member(source: &Source, arrow: &Arrow) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut inherits_lints = false;
    let mut section = String::new();
    for (index, line) in source.text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_matches(['[', ']']).to_owned();
        }
        inherits_lints |= section == "lints" && line.replace(' ', "") == "workspace=true";
        let Some(package) = dependency(&section, line) else { continue };
        let in_tests = section.starts_with("dev-dependencies");
        let ours = package == "doorbell" || package.starts_with("doorbell-");
        if ours && !arrow.may.contains(&package) && !(in_tests && arrow.may_in_tests.contains(&package)) {
            let text = format!("{} must not depend on {package}", arrow.folder);
            complaints.push(Complaint::new(&source.path, index + 1, text));
        }
        if CORE.contains(&arrow.folder) && !in_tests && FOREIGN_TO_CORE.contains(&package) {
            complaints.push(Complaint::new(
                &source.path,
                index + 1,
                format!("the core must not depend on {package}"),
            ));
        }
    }
    if !inherits_lints {
        complaints.push(Complaint::new(&source.path, 0, "does not inherit the workspace lints"));
    }
    complaints
}

/// The dependency in a manifest line: `name = ..`, `name.workspace = ..`, or the header
/// `[dependencies.name]`.
fn dependency<'a>(section: &'a str, line: &'a str) -> Option<&'a str> {
    let table = section.rsplit_once("dependencies").map(|(_, name)| name)?;
    if line.starts_with('[') {
        return table.strip_prefix('.');
    }
    if !table.is_empty() || line.is_empty() {
        return None;
    }
    line.split(['=', '.']).next().map(|name| name.trim().trim_matches('"'))
}
