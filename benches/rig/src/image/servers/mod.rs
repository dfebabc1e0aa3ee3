//! The servers to compare. Except for variations of doorbell, all are configured for the same work:
//! one worker, one route, a fixed reply, no log.

mod config;

#[cfg(test)]
mod tests;

use config::{BODY_FILE, Config, Doorbell, EPOLL, GUARDED, HEALTH, SAME, URING};

use crate::plan::{Mode, PORT, Server};

/// The folder of configurations and built programs inside the guest.
pub(crate) const FOLDER: &str = "/rig";

/// Suffixes of entries that are variations of another entry.
const VARIATIONS: [&str; 5] = ["-2w", "-guard", "-health", "-plain", "-same"];

/// One server of the catalogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The name in tables and in `--only`.
    pub(crate) name: &'static str,
    /// How the server differs from others, for `list`.
    pub(crate) about: &'static str,
    /// The program, and its source.
    pub(crate) program: Program,
    /// The loads that the server can handle.
    serves: Serves,
    /// Arguments before the last one, which is the path of the configuration, or the address if the
    /// server has no configuration.
    args: &'static [&'static str],
    config: Option<Config>,
    /// Only threads with this name are counted. `None` counts all threads.
    thread: Option<&'static str>,
    /// Whether the entry is measured only if `--only` names it.
    is_on_demand: bool,
}

/// Where a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Built from this workspace.
    Doorbell,
    /// Built from `benches/peers/go` with the Go toolchain. The name is that of the program and of
    /// its folder.
    Go { program: &'static str, linker_flags: &'static str },
    /// Installed on this machine from a Debian package.
    Installed { program: &'static str, package: &'static str },
    /// Built from `benches/peers` by cargo with this feature.
    Rust { program: &'static str, feature: &'static str },
}

/// The environment in which a server runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerEnvironment<'a> {
    /// The folder for the server's files.
    pub(crate) folder: &'a str,
    /// The port of the server on loopback.
    pub(crate) port: u16,
    /// Whether root starts the server. Some servers need an explicit setting to keep that user.
    pub(crate) is_root: bool,
    /// Maximum number of connections of doorbell. `None` means its default.
    pub(crate) conns_max: Option<u32>,
    /// Whether the server uses TLS with the files `cert.pem`, `key.pem` and `both.pem` (both
    /// combined) in the folder.
    pub(crate) has_tls: bool,
}

/// A server with its command and files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    /// The command that starts the server.
    pub(crate) server: Server,
    /// The files that the server needs, with paths and contents.
    pub(crate) files: Vec<(String, String)>,
}

/// The loads that a server can handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    /// All loads, including idle connections of any duration.
    All,
    /// All loads except idle connections, which the server closes.
    AllButIdle,
    /// Only loads with new connections, because the server closes after each reply.
    Close,
    /// Only loads with kept connections.
    Keep,
    /// Only loads with the token, which the server requires.
    Token,
}

const DOORBELL: Entry = Entry {
    name: "",
    about: "",
    program: Program::Doorbell,
    serves: Serves::All,
    args: &["serve", "--config"],
    config: None,
    thread: None,
    is_on_demand: false,
};

const fn doorbell(name: &'static str, about: &'static str, one: Doorbell) -> Entry {
    Entry { name, about, config: Some(Config::Doorbell(one)), ..DOORBELL }
}

/// An entry for doorbell with a token and a limit.
const fn guarded(name: &'static str, about: &'static str, one: Doorbell) -> Entry {
    doorbell(name, about, Doorbell { reply: GUARDED, ..one }).serving(Serves::Token)
}

/// An entry for an installed server from a Debian package, which closes idle connections after a
/// timeout.
const fn installed(
    name: &'static str,
    about: &'static str,
    [program, package]: [&'static str; 2],
    args: &'static [&'static str],
    config: Config,
) -> Entry {
    let program = Program::Installed { program, package };
    Entry { args, config: Some(config), ..peer(name, about, program) }
}

const fn peer(name: &'static str, about: &'static str, program: Program) -> Entry {
    Entry { name, about, program, serves: Serves::AllButIdle, args: &[], ..DOORBELL }
}

/// An entry for a program of `benches/peers` with its own feature.
const fn rust(name: &'static str, about: &'static str) -> Entry {
    peer(name, about, Program::Rust { program: name, feature: name })
}

const fn go(name: &'static str, about: &'static str, program: &'static str) -> Entry {
    peer(name, about, Program::Go { program, linker_flags: "" })
}

/// An entry for doorbell with jobs. Only the ring thread is counted, not the thread that runs the
/// jobs.
const fn jobs(name: &'static str, about: &'static str, args: &'static [&'static str]) -> Entry {
    let program = Program::Rust { program: "jobs", feature: "jobs" };
    let thread = Some("doorbell-0");
    Entry { args, serves: Serves::Keep, thread, is_on_demand: true, ..peer(name, about, program) }
}

// Gain calls private functions of the standard library, which Go 1.23 refuses by default.
const GAIN: Program = Program::Go { program: "gain", linker_flags: "-checklinkname=0" };
const NGINX: [&str; 2] = ["nginx", "nginx-light"];
const HAPROXY: [&str; 2] = ["haproxy", "haproxy"];

/// All entries: first doorbell, then the floors, then the other servers. `-plain` means without
/// deferred accept. Deferred accept is doorbell's default and an option of nginx and HAProxy.
pub(crate) const CATALOGUE: &[Entry] = &[
    doorbell("doorbell-uring", "io_uring driver, defaults", URING),
    doorbell("doorbell-epoll", "epoll driver, defaults", EPOLL),
    doorbell("doorbell-uring-plain", "no deferred accept", Doorbell { deferred: false, ..URING }),
    doorbell("doorbell-epoll-plain", "no deferred accept", Doorbell { deferred: false, ..EPOLL }),
    doorbell("doorbell-uring-2w", "two workers on the one CPU", Doorbell { workers: 2, ..URING }),
    doorbell("doorbell-epoll-2w", "two workers on the one CPU", Doorbell { workers: 2, ..EPOLL }),
    guarded("doorbell-uring-guard", "a token and a limit by address", URING),
    guarded("doorbell-epoll-guard", "a token and a limit by address", EPOLL),
    doorbell("doorbell-uring-health", "the state of a health endpoint", Doorbell { reply: HEALTH, ..URING }),
    doorbell("doorbell-epoll-health", "the state of a health endpoint", Doorbell { reply: HEALTH, ..EPOLL }),
    doorbell(
        "doorbell-uring-same",
        "a fixed reply with the bytes of doorbell-uring-health",
        Doorbell { reply: SAME, ..URING },
    ),
    doorbell(
        "doorbell-epoll-same",
        "a fixed reply with the bytes of doorbell-epoll-health",
        Doorbell { reply: SAME, ..EPOLL },
    ),
    rust("bare", "the floor: blocking accept4, recv, send, close; deferred accept; nothing parsed")
        .serving(Serves::Close),
    peer(
        "bare-keep",
        "the floor of kept connections: epoll_wait, recv, send; searches only for the ends of requests",
        Program::Rust { program: "bare-keep", feature: "bare" },
    )
    .serving(Serves::Keep),
    installed("nginx", "deferred accept", NGINX, &["-c"], Config::Nginx(true)),
    installed("nginx-plain", "no deferred accept", NGINX, &["-c"], Config::Nginx(false)),
    installed("haproxy", "deferred accept", HAPROXY, &["-db", "-f"], Config::Haproxy(true)),
    installed("haproxy-plain", "no deferred accept", HAPROXY, &["-db", "-f"], Config::Haproxy(false)),
    installed(
        "h2o",
        "deferred accept, which is always on; serves a file, because a constant reply needs a script",
        ["h2o", "h2o"],
        &["-m", "worker", "-c"],
        Config::H2o,
    ),
    go("go-nethttp", "Go's net/http, one processor", "nethttp"),
    go("go-goroutine", "Go, a goroutine for each connection, nothing parsed, one processor", "goroutine")
        .serving(Serves::Close),
    go("gnet", "gnet 2 (Go), one event loop, searches only for the ends of requests", "gnet"),
    // With some loads Gain stops replying, which would end the measurement of all.
    Entry {
        is_on_demand: true,
        ..peer("gain", "Gain (Go, io_uring), one worker, searches only for ends of requests", GAIN)
    },
    rust("hyper", "hyper 1 on one thread of Tokio"),
    rust("axum", "axum on one thread of Tokio"),
    rust(
        "axum-handed",
        "axum on one thread of Tokio, every connection handed over by doorbell's ring thread",
    ),
    jobs("jobs-uring", "one ring thread, each request is a job on one other thread", &["away", "io_uring"]),
    jobs("jobs-uring-home", "as jobs-uring, but the ring thread does the work", &["home", "io_uring"]),
    jobs("jobs-epoll", "one ring thread, each request is a job on one other thread", &["away", "epoll"]),
    jobs("jobs-epoll-home", "as jobs-epoll, but the ring thread does the work", &["home", "epoll"]),
    rust("monoio", "monoio-http on monoio, io_uring, one thread"),
    rust("compio", "httparse on compio, io_uring, one thread"),
    rust("compio-hyper", "hyper on compio by cyper-core, io_uring, one thread"),
];

impl Entry {
    const fn serving(self, serves: Serves) -> Self {
        Self { serves, ..self }
    }

    /// Returns the entry with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        CATALOGUE.iter().find(|entry| entry.name == name)
    }

    /// Whether the entry is doorbell.
    pub(crate) fn is_ours(&self) -> bool {
        self.program == Program::Doorbell
    }

    /// Whether the entry is a variation of another entry, by its suffix.
    pub(crate) fn is_variation(&self) -> bool {
        VARIATIONS.iter().any(|end| self.name.ends_with(end))
    }

    /// Whether the entry is measured only on request.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.is_on_demand || (self.is_ours() && self.is_variation())
    }

    /// Whether the entry is a floor, which only makes system calls.
    pub(crate) fn is_floor(&self) -> bool {
        matches!(self.program, Program::Rust { feature: "bare", .. })
    }

    /// Whether the server supports this load.
    pub(crate) fn serves(&self, mode: Mode) -> bool {
        match self.serves {
            Serves::All => true,
            Serves::AllButIdle => mode.idle_conns() == 0,
            Serves::Close => !mode.keeps() && mode.idle_conns() == 0,
            Serves::Keep => mode.keeps(),
            Serves::Token => mode == Mode::KeepToken,
        }
    }

    /// Returns the setup of `program` at `place`.
    pub(crate) fn at(&self, program: &str, place: &ServerEnvironment<'_>) -> Setup {
        let inside = |name: &str| format!("{}/{name}", place.folder);
        let path = inside(&format!("{}.conf", self.name));
        let config = self.config.map(|config| (path.clone(), config.text(place)));
        let last = if config.is_some() { path } else { format!("127.0.0.1:{}", place.port) };
        let argv = [program].iter().chain(self.args).map(|&word| word.to_owned()).chain([last]).collect();
        let beside = matches!(self.config, Some(Config::H2o)).then(|| (inside(BODY_FILE), "ok\n".to_owned()));
        Setup {
            server: Server { name: self.name.to_owned(), argv, thread: self.thread.map(str::to_owned) },
            files: config.into_iter().chain(beside).collect(),
        }
    }
}

impl ServerEnvironment<'_> {
    /// The environment in the guest.
    pub(crate) const GUEST: ServerEnvironment<'static> =
        ServerEnvironment { folder: FOLDER, port: PORT, is_root: true, conns_max: None, has_tls: false };
}
