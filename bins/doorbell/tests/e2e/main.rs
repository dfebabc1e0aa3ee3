//! The `doorbell` binary end to end: real clients, signals, failed starts, memory. Tests that
//! depend on the driver run on io_uring and epoll, with the driver in their name; others run once
//! with the default driver.
//!
//! `DOORBELL_BIN` selects another build.

#![expect(clippy::disallowed_methods, reason = "other processes run in real time")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "test helpers may panic, and they report skipped tests"
)]

mod frames;
mod https;
mod pki;
mod plain;
mod support;
mod tunnel;
mod upstream;
mod whole;

mod ab_wrk;
mod access;
mod addresses;
mod admin;
mod agents;
mod alias;
mod alpn;
mod answers;
mod auth;
mod awaited;
mod balance;
mod blackbox;
mod browser;
mod busy;
mod checks;
mod clock;
mod control;
mod control_access;
mod counts;
mod crowd;
mod curl;
mod datagrams;
mod declared;
mod denied;
mod descriptors;
mod drains;
mod exporter;
mod failures;
mod files;
mod floods;
mod gate;
mod generation_limits;
mod generation_parts;
mod generation_refused;
mod generations;
mod grpc;
mod grpc_guards;
mod grpcio;
mod h2spec;
mod haproxy;
mod haproxy_proxy;
mod healthcheck;
mod hellos;
mod history;
mod http2;
mod hung;
mod imitated;
mod jobs;
mod jwt;
mod kept;
mod kills;
mod kinds;
mod kinds_more;
mod life;
mod limit;
mod linked;
mod links;
mod memory;
mod monitors;
mod mounted;
mod moved;
mod mutual;
mod nginx;
mod proxies;
mod quickstart;
mod readme;
mod reload;
mod replies;
mod restart;
mod restart_kept;
mod scraped;
mod sharing;
mod signals;
mod slow;
mod soak;
mod socket_options;
mod stores;
mod systemd;
mod testssl;
mod tls;
mod workers;
