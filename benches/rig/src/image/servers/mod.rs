//! The servers that are compared, each set up for the same work: one worker, one route, a reply of its own, nothing logged.
//!
//! Does not know about: loads, figures, where a program of ours or of a peer was built.

mod config;

#[cfg(test)]
mod tests;

use config::{Doorbell, EPOLL, URING};

use crate::plan::{Mode, PORT, Server};

/// Where configurations and built programs are inside the guest.
pub(crate) const FOLDER: &str = "/rig";

/// How the names of servers end that are others with one thing changed.
const VARIATIONS: [&str; 5] = ["-2w", "-guard", "-health", "-plain", "-same"];

/// One server of the catalogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The name in tables and in `--only`.
    pub(crate) name: &'static str,
    /// What is different about it, for `list`.
    pub(crate) about: &'static str,
    /// Program and package.
    pub(crate) program: Program,
    /// The loads it can serve.
    serves: Serves,
    /// Arguments before the last, which is the path of the configuration, or the address where there is none.
    args: &'static [&'static str],
    config: Option<Config>,
    /// The threads of this name are counted and no others.
    thread: Option<&'static str>,
    /// A file its configuration names, and the content.
    beside: Option<(&'static str, &'static str)>,
}

/// Where the program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// This workspace.
    Doorbell,
    /// `benches/peers/go`, built with the Go toolchain: the folder of the program, which is its name.
    Go { program: &'static str },
    /// Installed on this machine, from a package of Debian.
    Installed { program: &'static str, package: &'static str },
    /// `benches/peers`, built by cargo with a feature.
    Rust { program: &'static str, feature: &'static str },
}

/// Where a server runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The folder its files are in.
    pub(crate) folder: &'a str,
    /// The port it listens on, on loopback.
    pub(crate) port: u16,
    /// Whether it is started by root, which some servers want to be told to stay.
    pub(crate) is_root: bool,
    /// Connections it may hold; `None` is the server's own default.
    pub(crate) conns_max: Option<u32>,
    /// Whether it speaks TLS, with the certificate and key that are `cert.pem`, `key.pem` and, in one file, `both.pem` of the folder.
    pub(crate) has_tls: bool,
}

/// A server set up for a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    /// How it is started.
    pub(crate) server: Server,
    /// The files it needs: paths and contents.
    pub(crate) files: Vec<(String, String)>,
}

/// Which loads a server can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    /// All that is asked of it, beside connections that stay open for as long as they like.
    All,
    /// The same, and it ends connections that idle.
    AllButIdle,
    /// It closes after each reply, asked or not.
    Close,
    /// It never closes.
    Keep,
    /// It answers those who have the token.
    Token,
}

type Config = fn(&Place<'_>) -> String;

const DOORBELL: Entry = Entry {
    name: "",
    about: "",
    program: Program::Doorbell,
    serves: Serves::All,
    args: &["serve", "--config"],
    config: None,
    thread: None,
    beside: None,
};

const fn doorbell(name: &'static str, about: &'static str, config: Config) -> Entry {
    Entry { name, about, config: Some(config), ..DOORBELL }
}

/// From a package of Debian. How long its connections may idle is left as it is.
const fn installed(
    name: &'static str,
    about: &'static str,
    [program, package]: [&'static str; 2],
    args: &'static [&'static str],
    config: Config,
) -> Entry {
    let program = Program::Installed { program, package };
    Entry { program, serves: Serves::AllButIdle, args, ..doorbell(name, about, config) }
}

const fn peer(name: &'static str, about: &'static str, program: Program) -> Entry {
    Entry { name, about, program, serves: Serves::AllButIdle, args: &[], ..DOORBELL }
}

/// A program of `benches/peers` with a feature of its own.
const fn rust(name: &'static str, about: &'static str) -> Entry {
    peer(name, about, Program::Rust { program: name, feature: name })
}

const fn go(name: &'static str, about: &'static str, program: &'static str) -> Entry {
    peer(name, about, Program::Go { program })
}

/// What is asked of it comes from the ring thread, which alone is counted; the work of the pool is not.
const fn jobs(name: &'static str, about: &'static str, args: &'static [&'static str]) -> Entry {
    let program = Program::Rust { program: "jobs", feature: "jobs" };
    Entry { args, serves: Serves::Keep, thread: Some("doorbell-0"), ..peer(name, about, program) }
}

const NGINX: [&str; 2] = ["nginx", "nginx-light"];
const HAPROXY: [&str; 2] = ["haproxy", "haproxy"];

/// All of them: ours first, then the floor, then those of others. `-plain` is without deferred accept, which doorbell has by
/// default and nginx and HAProxy offer.
pub(crate) const CATALOGUE: &[Entry] = &[
    doorbell("doorbell-uring", "io_uring driver, defaults", |at| config::doorbell(URING, at)),
    doorbell("doorbell-epoll", "epoll driver, defaults", |at| config::doorbell(EPOLL, at)),
    doorbell("doorbell-uring-plain", "io_uring driver, no deferred accept", |at| {
        config::doorbell(Doorbell { deferred: false, ..URING }, at)
    }),
    doorbell("doorbell-epoll-plain", "epoll driver, no deferred accept", |at| {
        config::doorbell(Doorbell { deferred: false, ..EPOLL }, at)
    }),
    doorbell("doorbell-uring-2w", "io_uring driver, two workers on the one CPU", |at| {
        config::doorbell(Doorbell { workers: 2, ..URING }, at)
    }),
    doorbell("doorbell-epoll-2w", "epoll driver, two workers on the one CPU", |at| {
        config::doorbell(Doorbell { workers: 2, ..EPOLL }, at)
    }),
    Entry {
        serves: Serves::Token,
        ..doorbell("doorbell-uring-guard", "io_uring driver, a token and a limit by address", |at| {
            config::doorbell_guarded(URING, at)
        })
    },
    Entry {
        serves: Serves::Token,
        ..doorbell("doorbell-epoll-guard", "epoll driver, a token and a limit by address", |at| {
            config::doorbell_guarded(EPOLL, at)
        })
    },
    doorbell("doorbell-uring-health", "io_uring driver, the state of a health endpoint", |at| {
        config::doorbell_health(URING, at)
    }),
    doorbell("doorbell-epoll-health", "epoll driver, the state of a health endpoint", |at| {
        config::doorbell_health(EPOLL, at)
    }),
    doorbell("doorbell-uring-same", "io_uring driver, a fixed reply of the bytes of -health", |at| {
        config::doorbell(Doorbell { reply: config::SAME, ..URING }, at)
    }),
    doorbell("doorbell-epoll-same", "epoll driver, a fixed reply of the bytes of -health", |at| {
        config::doorbell(Doorbell { reply: config::SAME, ..EPOLL }, at)
    }),
    Entry {
        serves: Serves::Close,
        ..rust("bare", "the floor: blocking accept4, recv, send, close; deferred accept; nothing parsed")
    },
    Entry {
        program: Program::Rust { program: "bare-keep", feature: "bare" },
        serves: Serves::Keep,
        ..rust(
            "bare-keep",
            "the floor of kept connections: epoll_wait, recv, send; only the ends of requests looked for",
        )
    },
    installed("nginx", "deferred accept", NGINX, &["-c"], |at| config::nginx(true, at)),
    installed("nginx-plain", "no deferred accept", NGINX, &["-c"], |at| config::nginx(false, at)),
    installed("haproxy", "deferred accept", HAPROXY, &["-db", "-f"], |at| config::haproxy(true, at)),
    installed("haproxy-plain", "no deferred accept", HAPROXY, &["-db", "-f"], |at| {
        config::haproxy(false, at)
    }),
    Entry {
        beside: Some((config::BODY_FILE, "ok\n")),
        ..installed(
            "h2o",
            "deferred accept, which it has always; a file, as it has no constant reply without a script",
            ["h2o", "h2o"],
            &["-m", "worker", "-c"],
            config::h2o,
        )
    },
    go("go-nethttp", "Go's net/http, one processor", "nethttp"),
    Entry {
        serves: Serves::Close,
        ..go(
            "go-goroutine",
            "Go, a goroutine for each connection, nothing parsed, one processor",
            "goroutine",
        )
    },
    rust("hyper", "hyper 1 on one thread of Tokio"),
    rust("axum", "axum on one thread of Tokio"),
    rust(
        "axum-handed",
        "axum on one thread of Tokio, every connection handed over by doorbell's ring thread",
    ),
    jobs(
        "jobs-uring",
        "the ring thread of io_uring alone, each request a job of one thread",
        &["away", "io_uring"],
    ),
    jobs("jobs-uring-home", "the same, its work done by the ring thread", &["home", "io_uring"]),
    jobs(
        "jobs-epoll",
        "the ring thread of epoll alone, each request a job of one thread",
        &["away", "epoll"],
    ),
    jobs("jobs-epoll-home", "the same, its work done by the ring thread", &["home", "epoll"]),
    rust("monoio", "monoio-http on monoio, io_uring, one thread"),
    rust("compio", "httparse on compio, io_uring, one thread"),
    rust("compio-hyper", "hyper on compio by cyper-core, io_uring, one thread"),
];

impl Entry {
    /// The entry of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        CATALOGUE.iter().find(|entry| entry.name == name)
    }

    /// Whether it is ours.
    pub(crate) fn is_ours(&self) -> bool {
        self.program == Program::Doorbell
    }

    /// Whether it is another with one thing changed, which the end of its name tells.
    pub(crate) fn is_variation(&self) -> bool {
        VARIATIONS.iter().any(|end| self.name.ends_with(end))
    }

    /// Whether it is measured only when it is asked for.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.thread.is_some() || (self.is_ours() && self.is_variation())
    }

    /// Whether it is the floor: system calls and nothing else.
    pub(crate) fn is_floor(&self) -> bool {
        matches!(self.program, Program::Rust { feature: "bare", .. })
    }

    /// Whether it can answer this load.
    pub(crate) fn serves(&self, mode: Mode) -> bool {
        match self.serves {
            Serves::All => true,
            Serves::AllButIdle => mode.idle_conns() == 0,
            Serves::Close => !mode.keeps() && mode.idle_conns() == 0,
            Serves::Keep => mode.keeps(),
            Serves::Token => mode == Mode::KeepToken,
        }
    }

    /// How `program` is set up at `place`.
    pub(crate) fn at(&self, program: &str, place: &Place<'_>) -> Setup {
        let inside = |name: &str| format!("{}/{name}", place.folder);
        let path = inside(&format!("{}.conf", self.name));
        let config = self.config.map(|config| (path.clone(), config(place)));
        let last = if config.is_some() { path } else { format!("127.0.0.1:{}", place.port) };
        let argv = [program].iter().chain(self.args).map(|&word| word.to_owned()).chain([last]).collect();
        let beside = self.beside.map(|(name, text)| (inside(name), text.to_owned()));
        Setup {
            server: Server { name: self.name.to_owned(), argv, thread: self.thread.map(str::to_owned) },
            files: config.into_iter().chain(beside).collect(),
        }
    }
}

impl Place<'_> {
    /// The guest.
    pub(crate) const GUEST: Place<'static> =
        Place { folder: FOLDER, port: PORT, is_root: true, conns_max: None, has_tls: false };
}
