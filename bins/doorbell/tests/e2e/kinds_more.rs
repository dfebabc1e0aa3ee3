//! More kinds of checks: certificates, Redis, DNS, programs, gauges, Unix sockets, watches, and
//! on-demand checks.

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell_testkit::figures;
use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;

use crate::checks::{BASE, ask, ask_with, await_answer, start};
use crate::pki::{ca, localhost};
use crate::support::{Doorbell, LIMIT, Scratch, binary, on_auto};
use crate::upstream::{Does, Upstream};

on_auto! {
    servers_of_other_kinds_are_checked
    programs_run_only_where_they_may
    gauges_and_sockets_of_this_machine
    a_watch_reports_immediately
    a_watch_of_a_hung_server_ends
    a_probe_gets_the_last_result_and_triggers_the_next_run
    rare_probes_find_a_fresh_result
}

fn servers_of_other_kinds_are_checked(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let trusted = scratch.write("ca.crt", &ca().pem());
    let web = Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[tls.web]\ncert = {cert:?}\nkey = {key:?}\n[listener.web]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n"
        ),
    );
    let redis = Upstream::start(Does::Echoes {
        wanted: b"*1\r\n$4\r\nPING\r\n*2\r\n$6\r\nEXISTS\r\n$1\r\nm\r\n".to_vec(),
        says: b"+PONG\r\n:0\r\n".to_vec(),
    });
    let maint = Upstream::start(Does::Echoes {
        wanted: b"*1\r\n$4\r\nPING\r\n*2\r\n$6\r\nEXISTS\r\n$1\r\nm\r\n".to_vec(),
        says: b"+PONG\r\n:1\r\n".to_vec(),
    });
    let postgres = Upstream::start(Does::Echoes {
        wanted: b"\0\0\0\x31\0\x03\0\0user\0doorbell\0application_name\0doorbell\0\0".to_vec(),
        says: b"E\0\0\0\x30C57P03\0Mthe database system is starting up\0\0".to_vec(),
    });
    let names = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = names.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((len, from)) = names.recv_from(&mut bytes) {
            let end = 12 + bytes[12..len].iter().position(|byte| *byte == 0).unwrap() + 5;
            let mut answer = bytes[..end].to_vec();
            answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
            let _gone = names.send_to(&answer, from);
        }
    });
    let port = web.addr.port();
    let more = format!(
        "[check.cert]\ntype = \"tls\"\naddress = \"localhost:{port}\"\ntls = {{ ca = {trusted:?} }}\nexpect = {{ certificate_expires_after = \"1s\" }}\n\
         [check.ends]\ntype = \"tls\"\naddress = \"localhost:{port}\"\ntls = {{ ca = {trusted:?} }}\ndegraded = {{ certificate_expires_within = \"3650d\" }}\nseverity = \"degrading\"\n\
         [check.stranger]\ntype = \"tls\"\naddress = \"127.0.0.1:{port}\"\ntls = {{ ca = {trusted:?}, server_name = \"example.com\" }}\nseverity = \"degrading\"\n\
         [check.redis]\ntype = \"redis\"\naddress = \"{redis}\"\nexpect = {{ maintenance_key = \"m\" }}\n\
         [check.maint]\ntype = \"redis\"\naddress = \"{maint}\"\nexpect = {{ maintenance_key = \"m\" }}\nseverity = \"info\"\n\
         [check.db]\ntype = \"postgres\"\naddress = \"{postgres}\"\nseverity = \"degrading\"\n\
         [check.names]\ntype = \"dns\"\nserver = \"{server}\"\nname = \"db.example\"\nexpect = {{ contains = [\"192.0.2.7\"] }}\n\
         [check.other]\ntype = \"dns\"\nserver = \"{server}\"\nname = \"db.example\"\nexpect = {{ contains = [\"192.0.2.8\"] }}\nseverity = \"degrading\"\n",
        postgres = postgres.addr,
        redis = redis.addr,
        maint = maint.addr,
    );
    let doorbell = start(engine, &more);
    for (name, status, text) in [
        ("cert", 200, "ok"),
        ("stranger", 503, "down: TLS: invalid peer certificate: "),
        ("ends", 200, "degraded: the certificate expires in "),
        ("redis", 200, "ok"),
        ("maint", 503, "maintenance"),
        ("db", 503, "down: the database system is starting up (57P03)\n"),
        ("names", 200, "ok"),
        ("other", 503, "down: 192.0.2.8 is not among the answers: 192.0.2.7\n"),
    ] {
        await_answer(&doorbell, &format!("/readyz/{name}"), (status, text));
    }
}

fn programs_run_only_where_they_may(engine: &str) {
    let scratch = Scratch::new();
    let marker = scratch.path("well");
    let script = format!("if [ -e {} ]; then exit 0; else echo not yet; exit 1; fi", marker.display());
    let config = scratch.write(
        "doorbell.toml",
        &format!("{BASE}[check.app]\ntype = \"exec\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\ndegraded = {{ exit_code = 1 }}\n"),
    );
    let args = ["serve", "-c", &config, "--driver", engine];
    let refused = Doorbell::try_start(&args).unwrap_err();
    assert!(
        refused.contains("check app runs a program, which is not allowed: start with --allow-exec"),
        "{refused}"
    );
    let doorbell = Doorbell::try_start_command(Command::new(binary()).args(args).arg("--allow-exec"));
    let doorbell = doorbell.unwrap_or_else(|log| panic!("{log}"));
    await_answer(&doorbell, "/readyz/app", (200, "degraded: exit code 1: not yet\n"));
    std::fs::write(&marker, "").unwrap();
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
}

fn gauges_and_sockets_of_this_machine(engine: &str) {
    let scratch = Scratch::new();
    let path = scratch.path("a.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _len = stream.read(&mut [0; 1024]);
            let _gone =
                stream.write_all(b"HTTP/1.1 200 OK\r\nServer: app/3\r\nContent-Length: 5\r\n\r\nok 12");
        }
    });
    let path = path.display();
    let more = format!(
        "[check.app]\ntype = \"http\"\nurl = \"http://app/healthz\"\naddress = \"unix:{path}\"\nexpect = {{ body_matches = '^ok \\d+$', headers = {{ Server = '^app/' }} }}\n\
         [check.open]\ntype = \"tcp\"\naddress = \"unix:{path}\"\n\
         [check.disk]\ntype = \"gauge\"\nmetric = \"disk_free\"\npath = \"/\"\ndown_below = \"1B\"\n\
         [check.full]\ntype = \"gauge\"\nmetric = \"disk_free\"\npath = \"/\"\ndown_below = \"101%\"\nseverity = \"degrading\"\n"
    );
    let doorbell = start(engine, &more);
    for (name, status, text) in
        [("app", 200, "ok"), ("open", 200, "ok"), ("disk", 200, "ok"), ("full", 503, ", down below 101%\n")]
    {
        await_answer(&doorbell, &format!("/readyz/{name}"), (status, text));
    }
}

fn a_watch_reports_immediately(engine: &str) {
    let upstream = Doorbell::start_with(
        engine,
        "version = 1\n[runtime]\nworkers = 1\n[listener.plain]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n\
         [check.cart]\ntype = \"ttl\"\nttl = \"1m\"\n[route.push]\npath = \"/-/checks/{check}/{result}\"\npush = true\n",
    );
    let tell = |result: &str| {
        let head = format!("PUT /-/checks/cart/{result} HTTP/1.1\r\nHost: a");
        assert_eq!(ask_with(&upstream, &head).status, 204);
    };
    tell("pass");
    let more = format!(
        "[check.cart]\ntype = \"grpc\"\nmode = \"watch\"\naddress = \"{addr}\"\ninterval = \"1m\"\ntimeout = \"900ms\"\nmax_age = \"10m\"\n\
         [check.nobody]\ntype = \"grpc\"\nmode = \"watch\"\naddress = \"{addr}\"\nservice = \"nobody\"\nseverity = \"degrading\"\n",
        addr = upstream.addr
    );
    let doorbell = start(engine, &more);
    await_answer(&doorbell, "/readyz/cart", (200, "ok"));
    await_answer(&doorbell, "/readyz/nobody", (503, "down: the server does not know this service\n"));
    for _ in 0..5 {
        // The change arrives long before the next run.
        tell("fail");
        await_answer(&doorbell, "/readyz/cart", (503, "down: NOT_SERVING\n"));
        tell("pass");
        await_answer(&doorbell, "/readyz/cart", (200, "ok"));
    }
    drop(upstream);
    await_answer(&doorbell, "/readyz/cart", (503, "connection refused\n"));
}

/// The kernel of a stopped server still accepts data and the connection stays open, so only the
/// `Check` call of a run detects the failure.
fn a_watch_of_a_hung_server_ends(engine: &str) {
    let upstream = Doorbell::start_with(
        engine,
        "version = 1\n[runtime]\nworkers = 1\n[listener.plain]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n",
    );
    let addr = upstream.addr;
    let doorbell = start(
        engine,
        &format!(
            "[check.app]\ntype = \"grpc\"\nmode = \"watch\"\naddress = \"{addr}\"\ninterval = \"400ms\"\nfast_interval = \"400ms\"\ntimeout = \"300ms\"\n"
        ),
    );
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
    for _ in 0..3 {
        upstream.process.signal(Signal::STOP);
        await_answer(&doorbell, "/readyz/app", (503, "within 300ms\n"));
        upstream.process.signal(Signal::CONT);
        await_answer(&doorbell, "/readyz/app", (200, "ok"));
    }
}

fn a_probe_gets_the_last_result_and_triggers_the_next_run(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    // The timeout is long enough for a busy machine, also while the server hangs.
    let more = format!(
        "[check.app]\ntype = \"http\"\nurl = \"{}\"\ncache = \"300ms\"\ntimeout = \"5s\"\nmax_age = \"10m\"\n",
        upstream.url("/")
    );
    let doorbell = start(engine, &more);
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
    // Without probes no check runs, apart from a run that was requested earlier.
    let quiet = || {
        let before = upstream.conns();
        std::thread::sleep(Duration::from_millis(1500));
        upstream.conns() == before
    };
    assert!(wait_until(LIMIT, quiet).is_some(), "checks must not run without a probe");
    let quiet = upstream.conns();
    // Many probes cause at most one run per cache time.
    let from = Instant::now();
    let mut asked = 0;
    while from.elapsed() < Duration::from_millis(1500) || upstream.conns() == quiet {
        assert_eq!(ask(&doorbell, "/readyz").0, 200);
        asked += 1;
    }
    let most = from.elapsed().as_millis() / 300 + 2;
    let runs = upstream.conns() - quiet;
    assert!(runs <= usize::try_from(most).unwrap(), "{runs} runs for {asked} probes, at most {most}");
    // A hung server does not delay probes: many get replies while few runs start.
    upstream.now(Does::Hang);
    await_answer(&doorbell, "/readyz/app", (503, "down: no response within 5s\n"));
    let (before, mut longest) = (upstream.conns(), Duration::ZERO);
    for _ in 0..100 {
        let from = Instant::now();
        assert_eq!(ask(&doorbell, "/readyz").0, 503);
        longest = longest.max(from.elapsed());
    }
    let runs = upstream.conns() - before;
    assert!(runs < 50, "{runs} runs while 100 were answered");
    figures::at_most("an answer while a server hangs", longest, Duration::from_millis(400));
    upstream.now(Does::reply(200, ""));
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
}

/// The result does not become stale without probes, and the check runs no more than necessary.
fn rare_probes_find_a_fresh_result(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let url = upstream.url("/");
    let more = format!(
        "[check.app]\ntype = \"http\"\nurl = \"{url}\"\ncache = \"100ms\"\nmax_age = \"6s\"\ntimeout = \"5s\"\n"
    );
    let doorbell = start(engine, &more);
    await_answer(&doorbell, "/readyz/app", (200, "ok"));
    let (from, before) = (Instant::now(), upstream.conns());
    // No probe is sent meanwhile.
    assert!(wait_until(LIMIT, || upstream.conns() >= before + 3).is_some());
    assert_eq!(ask(&doorbell, "/readyz"), (200, "up\napp: up\n".to_owned()));
    // One run for each half of the maximum age, and the runs that probes requested.
    let (runs, most) = (upstream.conns() - before, from.elapsed().as_millis() / 3_000 + 3);
    assert!(runs <= usize::try_from(most).unwrap(), "{runs} runs, at most {most}");
}
