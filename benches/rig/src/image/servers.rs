//! The servers that are compared, each set up for the same work: one worker, one route, a reply of its own, nothing logged.
//!
//! Does not know about: loads, modes, figures.

use crate::plan::{PATH, PORT, Server};

/// The body of every reply.
const BODY: &str = "ok\\n";

/// Where configurations and our programs are inside the guest.
pub(crate) const FOLDER: &str = "/rig";

/// One server of the catalogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The name in tables and in `--only`.
    pub(crate) name: &'static str,
    /// What is different about it, for `list`.
    pub(crate) about: &'static str,
    /// Program and package.
    pub(crate) program: Program,
    /// Arguments before and after the path of the configuration.
    args: &'static [&'static str],
    config: fn() -> String,
}

/// Where the program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// This workspace.
    Doorbell,
    /// Installed on this machine, from a package of Debian.
    Installed {
        /// The program.
        program: &'static str,
        /// Its package.
        package: &'static str,
    },
}

const NGINX: Program = Program::Installed { program: "nginx", package: "nginx-light" };
const HAPROXY: Program = Program::Installed { program: "haproxy", package: "haproxy" };

/// All of them: ours first, then those of others. `-plain` is without deferred accept, which doorbell has by default and the others
/// offer.
pub(crate) const CATALOGUE: &[Entry] = &[
    Entry {
        name: "doorbell-uring",
        about: "io_uring driver, defaults",
        program: Program::Doorbell,
        args: &["serve", "--config"],
        config: || doorbell("io_uring", true),
    },
    Entry {
        name: "doorbell-epoll",
        about: "epoll driver, defaults",
        program: Program::Doorbell,
        args: &["serve", "--config"],
        config: || doorbell("epoll", true),
    },
    Entry {
        name: "doorbell-uring-plain",
        about: "io_uring driver, no deferred accept",
        program: Program::Doorbell,
        args: &["serve", "--config"],
        config: || doorbell("io_uring", false),
    },
    Entry {
        name: "doorbell-epoll-plain",
        about: "epoll driver, no deferred accept",
        program: Program::Doorbell,
        args: &["serve", "--config"],
        config: || doorbell("epoll", false),
    },
    Entry { name: "nginx", about: "deferred accept", program: NGINX, args: &["-c"], config: || nginx(true) },
    Entry {
        name: "nginx-plain",
        about: "no deferred accept",
        program: NGINX,
        args: &["-c"],
        config: || nginx(false),
    },
    Entry {
        name: "haproxy",
        about: "deferred accept",
        program: HAPROXY,
        args: &["-db", "-f"],
        config: || haproxy(true),
    },
    Entry {
        name: "haproxy-plain",
        about: "no deferred accept",
        program: HAPROXY,
        args: &["-db", "-f"],
        config: || haproxy(false),
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

    /// Path of the configuration inside the guest.
    pub(crate) fn config_path(&self) -> String {
        format!("{FOLDER}/{}.conf", self.name)
    }

    /// The configuration.
    pub(crate) fn config(&self) -> String {
        (self.config)()
    }

    /// How the guest starts it; `program` is the path of the program inside the guest.
    pub(crate) fn server(&self, program: &str) -> Server {
        let mut argv = vec![program.to_owned()];
        argv.extend(self.args.iter().map(|&word| word.to_owned()));
        argv.push(self.config_path());
        Server { name: self.name.to_owned(), argv }
    }
}

fn doorbell(engine: &str, deferred: bool) -> String {
    format!(
        r#"version = 1

[runtime]
engine = "{engine}"
workers = 1

[log]
level = "warn"

[listener.main]
bind = "127.0.0.1:{PORT}"
keep_alive = {{ max_requests = 1000000000 }}
tcp = {{ defer_accept = {deferred} }}

[route.main]
listener = "main"
path = "{PATH}"
reply = {{ status = 200, content_type = "text/plain", body = "{BODY}" }}
"#
    )
}

fn nginx(deferred: bool) -> String {
    let option = if deferred { " deferred" } else { "" };
    format!(
        r#"daemon off;
user root root;
worker_processes 1;
pid /run/nginx.pid;
error_log stderr warn;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  server {{
    listen 127.0.0.1:{PORT} backlog=4096{option};
    location = {PATH} {{ default_type text/plain; return 200 "{BODY}"; }}
  }}
}}
"#
    )
}

fn haproxy(deferred: bool) -> String {
    let option = if deferred { " defer-accept" } else { "" };
    format!(
        r#"global
  nbthread 1
  maxconn 16384
defaults
  mode http
  timeout client 30s
  timeout http-request 5s
  timeout http-keep-alive 30s
frontend main
  bind 127.0.0.1:{PORT} backlog 4096{option}
  http-request return status 200 content-type text/plain string "{BODY}" if {{ path {PATH} }}
  http-request return status 404
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (at, entry) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[..at].iter().all(|other| other.name != entry.name), "{}", entry.name);
            assert_eq!(Entry::named(entry.name).unwrap().config(), entry.config());
        }
        assert!(Entry::named("doorbell").is_none());
    }

    #[test]
    fn deferred_accept_is_the_only_difference_to_plain() {
        for (name, word) in [("doorbell-uring", "true"), ("nginx", " deferred"), ("haproxy", " defer-accept")]
        {
            let with = Entry::named(name).unwrap().config();
            let without = Entry::named(&format!("{name}-plain")).unwrap().config();
            assert_ne!(with, without);
            assert_eq!(with.replace(word, ""), without.replace("false", ""), "{name}");
        }
    }

    #[test]
    fn a_server_is_started_with_its_own_configuration() {
        let server = Entry::named("haproxy-plain").unwrap().server("/usr/sbin/haproxy");
        assert_eq!(server.argv, ["/usr/sbin/haproxy", "-db", "-f", "/rig/haproxy-plain.conf"]);
    }
}
