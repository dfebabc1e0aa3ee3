//! Load on doorbell itself, with both of its drivers.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod common;

use std::num::NonZeroU16;

use common::load;
use doorbell::{Engine, Http1, Listen, Server, StaticReply, Status, Workers, service_fn};

/// Starts a doorbell that echoes the path in a header and in the body of `/echo...`, and replies
/// `ok` elsewhere. Returns `None` if the driver does not work here.
fn doorbell(engine: Engine) -> Server {
    let ok = StaticReply::text(Status::OK, "ok\n");
    let service = service_fn(move |request, reply| match request.path() {
        path if path.starts_with("/echo") => {
            reply.status(Status::OK).header("X-Path", path).content(path.as_bytes())
        }
        _ => reply.send(&ok),
    });
    Server::builder()
        .listen(Listen::tcp(([127, 0, 0, 1], 0).into()), Http1::new(service))
        .engine(engine)
        .workers(Workers::Count(NonZeroU16::MIN))
        .start()
        .unwrap()
}

#[test]
fn every_mode_is_clean_on_both_engines() {
    let modes: [(&[&str], bool); 9] = [
        (&["--check", "exact"], false),
        (&["--close", "client"], false),
        (&["--close", "reset"], false),
        (&["--gap", "2ms"], false),
        (&["-k"], false),
        (&["-k", "-p", "16"], false),
        (&["--delayed-ack", "-t", "2"], false),
        (&[], true),
        (&["-k", "-p", "16"], true),
    ];
    for engine in [Engine::Epoll, Engine::IoUring] {
        let server = doorbell(engine);
        let addr = &server.local_addrs()[0];
        for (args, ids) in modes {
            let url = format!("http://{addr}/{}", if ids { "echo/{id}" } else { "livez" });
            let Some(run) = load(&[&["-n", "1000", "-c", "64"], args, &[&url]].concat()) else { return };
            run.assert_clean(1_000);
            assert_eq!(run.json["foreign_bytes"].as_u64(), ids.then_some(0), "{run:#?}");
        }
        server.stop().unwrap();
    }
}

#[test]
fn doorbell_counts_what_we_count() {
    let server = doorbell(Engine::Auto);
    let url = format!("http://{}/livez", server.local_addrs()[0]);
    let Some(run) = load(&["-n", "1000", "-c", "32", &url]) else { return };
    run.assert_clean(1_000);
    assert_eq!(run.number("/connects"), 1_000.0);
    assert_eq!(server.stats().conns_accepted, 1_001, "the preflight adds one connection");
    server.stop().unwrap();
}
