//! The servers that are compared, each set up for the same work: one worker, one route, a reply of its own, nothing logged.
//!
//! Does not know about: loads, figures, where a program of ours or of a peer was built.

mod config;

#[cfg(test)]
mod tests;

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
    config: Option<fn(&Place<'_>) -> String>,
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
    /// `benches/peers/go`, built with the Go toolchain.
    Go {
        /// Folder of the program and its name.
        program: &'static str,
    },
    /// Installed on this machine, from a package of Debian.
    Installed {
        /// The program.
        program: &'static str,
        /// Its package.
        package: &'static str,
    },
    /// `benches/peers`, built with cargo.
    Rust {
        /// Name of the program.
        program: &'static str,
        /// The feature it is built with.
        feature: &'static str,
    },
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
/// How long their connections may idle is left as it is.
const OTHER: Entry = Entry { serves: Serves::AllButIdle, ..DOORBELL };
const NGINX: Entry = Entry {
    program: Program::Installed { program: "nginx", package: "nginx-light" },
    args: &["-c"],
    ..OTHER
};
const HAPROXY: Entry = Entry {
    program: Program::Installed { program: "haproxy", package: "haproxy" },
    args: &["-db", "-f"],
    ..OTHER
};
const BARE: Entry = Entry { program: Program::Rust { program: "bare", feature: "bare" }, args: &[], ..OTHER };

const H2O: Entry = Entry {
    program: Program::Installed { program: "h2o", package: "h2o" },
    args: &["-m", "worker", "-c"],
    ..OTHER
};
/// What is asked of it comes from the ring thread; the pool's work is somebody else's.
const JOBS: Entry = Entry {
    program: Program::Rust { program: "jobs", feature: "jobs" },
    serves: Serves::Keep,
    thread: Some("doorbell-0"),
    ..OTHER
};
const GO: Entry = Entry { args: &[], ..OTHER };

/// All of them: ours first, then the floor, then those of others. `-plain` is without deferred accept, which doorbell has by
/// default and nginx and HAProxy offer.
pub(crate) const CATALOGUE: &[Entry] = &[
    Entry {
        name: "doorbell-uring",
        about: "io_uring driver, defaults",
        config: Some(|place| config::doorbell("io_uring", true, 1, place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-epoll",
        about: "epoll driver, defaults",
        config: Some(|place| config::doorbell("epoll", true, 1, place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-uring-plain",
        about: "io_uring driver, no deferred accept",
        config: Some(|place| config::doorbell("io_uring", false, 1, place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-epoll-plain",
        about: "epoll driver, no deferred accept",
        config: Some(|place| config::doorbell("epoll", false, 1, place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-uring-2w",
        about: "io_uring driver, two workers on the one CPU",
        config: Some(|place| config::doorbell("io_uring", true, 2, place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-epoll-2w",
        about: "epoll driver, two workers on the one CPU",
        config: Some(|place| config::doorbell("epoll", true, 2, place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-uring-guard",
        about: "io_uring driver, a token and a limit by address",
        config: Some(|place| config::doorbell_guarded("io_uring", place)),
        serves: Serves::Token,
        ..DOORBELL
    },
    Entry {
        name: "doorbell-epoll-guard",
        about: "epoll driver, a token and a limit by address",
        config: Some(|place| config::doorbell_guarded("epoll", place)),
        serves: Serves::Token,
        ..DOORBELL
    },
    Entry {
        name: "doorbell-uring-health",
        about: "io_uring driver, the state of a health endpoint",
        config: Some(|place| config::doorbell_health("io_uring", place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-epoll-health",
        about: "epoll driver, the state of a health endpoint",
        config: Some(|place| config::doorbell_health("epoll", place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-uring-same",
        about: "io_uring driver, a fixed reply of the bytes of -health",
        config: Some(|place| config::doorbell_same("io_uring", place)),
        ..DOORBELL
    },
    Entry {
        name: "doorbell-epoll-same",
        about: "epoll driver, a fixed reply of the bytes of -health",
        config: Some(|place| config::doorbell_same("epoll", place)),
        ..DOORBELL
    },
    Entry {
        name: "bare",
        about: "the floor: blocking accept4, recv, send, close; deferred accept; nothing parsed",
        serves: Serves::Close,
        ..BARE
    },
    Entry {
        name: "bare-keep",
        about: "the floor of kept connections: epoll_wait, recv, send; only the ends of requests looked for",
        program: Program::Rust { program: "bare-keep", feature: "bare" },
        serves: Serves::Keep,
        ..BARE
    },
    Entry {
        name: "nginx",
        about: "deferred accept",
        config: Some(|place| config::nginx(true, place)),
        ..NGINX
    },
    Entry {
        name: "nginx-plain",
        about: "no deferred accept",
        config: Some(|place| config::nginx(false, place)),
        ..NGINX
    },
    Entry {
        name: "haproxy",
        about: "deferred accept",
        config: Some(|place| config::haproxy(true, place)),
        ..HAPROXY
    },
    Entry {
        name: "haproxy-plain",
        about: "no deferred accept",
        config: Some(|place| config::haproxy(false, place)),
        ..HAPROXY
    },
    Entry {
        name: "h2o",
        about: "deferred accept, which it has always; a file, as it has no constant reply without a script",
        config: Some(config::h2o),
        beside: Some((config::BODY_FILE, "ok\n")),
        ..H2O
    },
    Entry {
        name: "go-nethttp",
        about: "Go's net/http, one processor",
        program: Program::Go { program: "nethttp" },
        ..GO
    },
    Entry {
        name: "go-goroutine",
        about: "Go, a goroutine for each connection, nothing parsed, one processor",
        program: Program::Go { program: "goroutine" },
        serves: Serves::Close,
        ..GO
    },
    Entry {
        name: "hyper",
        about: "hyper 1 on one thread of Tokio",
        program: Program::Rust { program: "hyper", feature: "hyper" },
        ..BARE
    },
    Entry {
        name: "axum",
        about: "axum on one thread of Tokio",
        program: Program::Rust { program: "axum", feature: "axum" },
        ..BARE
    },
    Entry {
        name: "axum-handed",
        about: "axum on one thread of Tokio, every connection handed over by doorbell's ring thread",
        program: Program::Rust { program: "axum-handed", feature: "axum-handed" },
        ..BARE
    },
    Entry {
        name: "jobs-uring",
        about: "the ring thread of io_uring alone, each request a job of one thread",
        args: &["away", "io_uring"],
        ..JOBS
    },
    Entry {
        name: "jobs-uring-home",
        about: "the same, its work done by the ring thread",
        args: &["home", "io_uring"],
        ..JOBS
    },
    Entry {
        name: "jobs-epoll",
        about: "the ring thread of epoll alone, each request a job of one thread",
        args: &["away", "epoll"],
        ..JOBS
    },
    Entry {
        name: "jobs-epoll-home",
        about: "the same, its work done by the ring thread",
        args: &["home", "epoll"],
        ..JOBS
    },
    Entry {
        name: "monoio",
        about: "monoio-http on monoio, io_uring, one thread",
        program: Program::Rust { program: "monoio", feature: "monoio" },
        ..BARE
    },
    Entry {
        name: "compio",
        about: "httparse on compio, io_uring, one thread",
        program: Program::Rust { program: "compio", feature: "compio" },
        ..BARE
    },
    Entry {
        name: "compio-hyper",
        about: "hyper on compio by cyper-core, io_uring, one thread",
        program: Program::Rust { program: "compio-hyper", feature: "compio-hyper" },
        ..BARE
    },
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

    /// The files it needs inside the guest: paths and contents.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        self.files_at(&Place::GUEST)
    }

    /// The files it needs at `place`.
    pub(crate) fn files_at(&self, place: &Place<'_>) -> Vec<(String, String)> {
        let config = self.config.map(|config| (self.config_path(place), config(place)));
        let beside = self.beside.map(|(name, text)| (format!("{}/{name}", place.folder), text.to_owned()));
        config.into_iter().chain(beside).collect()
    }

    /// How the guest starts it; `program` is the path of the program inside the guest.
    pub(crate) fn server(&self, program: &str) -> Server {
        self.server_at(program, &Place::GUEST)
    }

    /// How it is started at `place`.
    pub(crate) fn server_at(&self, program: &str, place: &Place<'_>) -> Server {
        let mut argv = vec![program.to_owned()];
        argv.extend(self.args.iter().map(|&word| word.to_owned()));
        argv.push(match self.config {
            Some(_) => self.config_path(place),
            None => format!("127.0.0.1:{}", place.port),
        });
        Server { name: self.name.to_owned(), argv, thread: self.thread.map(str::to_owned) }
    }

    fn config_path(&self, place: &Place<'_>) -> String {
        format!("{}/{}.conf", place.folder, self.name)
    }
}

impl Place<'_> {
    /// The guest.
    pub(crate) const GUEST: Place<'static> =
        Place { folder: FOLDER, port: PORT, is_root: true, conns_max: None };
}
