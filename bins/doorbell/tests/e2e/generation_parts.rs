//! Continuity across reloads, part by part: HTTP/2 and gRPC, other ports, checks, prober
//! statistics, counters. Also reloads that are triggered in several ways at once.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use doorbell_testkit::peers::{Reply, exchange, wait_until};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::Signal;
use serde_json::Value;
use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::generations::{Reloaded, ask, config, kept};
use crate::support::{LIMIT, Scratch, StopAtEnd, on_auto};
use crate::upstream::{Does, Upstream};

on_auto! {
    http2_gets_goaway_and_its_streams_finish
    a_watch_ends_and_the_next_one_is_the_new_configurations
    other_ports_stay_open
    a_gate_follows_the_current_registry
    counters_never_decrease
    the_state_of_checks_survives_a_reload
    the_last_file_wins_however_the_reload_is_triggered
    a_token_and_a_level_are_reloaded_and_fixed_keys_are_logged_once
}

/// A listener with HTTP/2, and gRPC health for one service.
const HTTP2: &str = "http2 = true\n[grpc]\nservices = { shop = \"readyz\" }\n";

impl Reloaded {
    fn http2(engine: &str) -> Self {
        let reloaded = Self::start(engine, "");
        reloaded.write_http2("1");
        reloaded.say(&["reload"]);
        reloaded
    }

    fn write_http2(&self, hello: &str) {
        let large =
            format!("[route.large]\npath = \"/large\"\nreply = {{ body = \"{}\" }}\n", hello.repeat(60_000));
        let text = config(&self.scratch.path(""), hello, &large);
        fs::write(&self.file, text.replace("[route.hello]", &format!("{HTTP2}[route.hello]"))).unwrap();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

type Sender = http2::SendRequest<Full<Bytes>>;

/// Connects an HTTP/2 client with a small window. Returns it with the task of its connection.
async fn connect(addr: SocketAddr) -> (Sender, tokio::task::JoinHandle<hyper::Result<()>>) {
    let stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(20_000).initial_connection_window_size(70_000);
    let (sender, conn) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(conn))
}

async fn fetch(sender: &mut Sender, addr: SocketAddr, path: &str) -> hyper::Response<hyper::body::Incoming> {
    let request = hyper::Request::get(format!("http://{addr}{path}")).body(Full::default()).unwrap();
    sender.send_request(request).await.unwrap()
}

async fn body(response: hyper::Response<hyper::body::Incoming>) -> Bytes {
    tokio::time::timeout(LIMIT, response.into_body().collect()).await.unwrap().unwrap().to_bytes()
}

fn http2_gets_goaway_and_its_streams_finish(engine: &str) {
    let reloaded = Reloaded::http2(engine);
    let addr = reloaded.doorbell.addr;
    block_on(async {
        let (mut idle, idle_end) = connect(addr).await;
        assert_eq!(body(fetch(&mut idle, addr, "/hello").await).await, "1");
        let (mut busy, busy_end) = connect(addr).await;
        // The client does not read yet, so its window closes after a third of the reply.
        let begun = fetch(&mut busy, addr, "/large").await;
        reloaded.write_http2("2");
        reloaded.say(&["reload"]);
        // After GOAWAY there are no new requests, and the idle connection ends without an error.
        let ended = tokio::time::timeout(LIMIT, idle_end).await.expect("the connection ends").unwrap();
        assert!(ended.is_ok(), "{ended:?}");
        // A request from before the reload gets its whole reply from the old generation.
        assert_eq!(body(begun).await, "1".repeat(60_000));
        let ended = tokio::time::timeout(LIMIT, busy_end).await.expect("the connection ends").unwrap();
        assert!(ended.is_ok(), "{ended:?}");
        let (mut next, _end) = connect(addr).await;
        assert_eq!(body(fetch(&mut next, addr, "/hello").await).await, "2");
    });
    assert!(wait_until(LIMIT, || !reloaded.doorbell.process.log().contains("did not end in time")).is_some());
}

/// A Watch does not report NOT_SERVING at a reload. Its stream ends as at a server shutdown, and a
/// new call on the same channel gets the new configuration.
fn a_watch_ends_and_the_next_one_is_the_new_configurations(engine: &str) {
    let reloaded = Reloaded::http2(engine);
    let request = |service: &str| HealthCheckRequest { service: service.to_owned() };
    block_on(async {
        let endpoint = Endpoint::from_shared(reloaded.doorbell.url("")).unwrap().connect_timeout(LIMIT);
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        for round in 2..5 {
            let mut streams = Vec::new();
            for (service, first) in [("", ServingStatus::Serving), ("shop", ServingStatus::Serving)] {
                let mut stream = client.watch(request(service)).await.unwrap().into_inner();
                let said: HealthCheckResponse = stream.message().await.unwrap().unwrap();
                assert_eq!(said.status(), first, "{service:?} in round {round}");
                streams.push(stream);
            }
            reloaded.write_http2(&round.to_string());
            reloaded.say(&["reload"]);
            for stream in &mut streams {
                let next = tokio::time::timeout(LIMIT, stream.message()).await.expect("an end in time");
                assert_eq!(next.unwrap_err().code(), Code::Unavailable, "round {round}");
            }
            let said = client.check(request("shop")).await.unwrap().into_inner();
            assert_eq!(said.status(), ServingStatus::Serving, "on the same channel");
        }
    });
    assert_eq!(ask(reloaded.doorbell.addr, "/hello").1, "4");
}

fn more_ports(gates: &[u16], probes: &[u16], timeout: &str) -> String {
    let list = |ports: &[u16]| {
        ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect::<Vec<_>>().join(", ")
    };
    format!(
        "[tcp_gate.g]\nbind = [{}]\n[blackbox]\nbind = [{}]\ntargets = [\"127.0.0.0/8\"]\ntimeout = \"{timeout}\"\n\
         [agent.a]\nbind = \"127.0.0.1:0\"\n",
        list(gates),
        list(probes)
    )
}

/// A port that is in both configurations is never closed, whatever else changes.
fn other_ports_stay_open(engine: &str) {
    let port = crate::support::free_port;
    let (gate, probes, other) = (port(), port(), port());
    let reloaded = Reloaded::start(engine, &more_ports(&[gate], &[probes], "5s"));
    let agent: SocketAddr = reloaded.status()["addresses"][1].as_str().unwrap().parse().unwrap();
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    assert!(wait_until(LIMIT, || TcpStream::connect(at(gate)).is_ok()).is_some());
    let (going, asked) = (AtomicBool::new(true), AtomicUsize::new(0));
    let ask_until = |ask: &(dyn Fn() + Sync)| {
        while going.load(Ordering::Relaxed) {
            ask();
            asked.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
    };
    let knock = || drop(TcpStream::connect(at(gate)).expect("the gate is open"));
    let probe = || {
        let request = b"GET /-/healthy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let got = exchange(at(probes), request).expect("the port for probes is open");
        assert!(got.bytes.starts_with(b"HTTP/1.1 200"), "{}", got.bytes.escape_ascii());
    };
    let check = || assert_eq!(exchange(agent, b"").expect("the agent").bytes, b"up ready 100%\n");
    thread::scope(|scope| {
        let end = StopAtEnd(&going);
        scope.spawn(|| ask_until(&knock));
        scope.spawn(|| ask_until(&probe));
        scope.spawn(|| ask_until(&check));
        for round in 1..=12 {
            let gates = if round % 3 == 0 { vec![other, gate] } else { vec![gate] };
            let more = more_ports(&gates, &[probes], if round % 2 == 0 { "5s" } else { "4s" });
            reloaded.write(&round.to_string(), &more);
            reloaded.say(&["reload"]);
            assert_eq!(reloaded.hello(), round.to_string());
            let expected = round % 3 == 0;
            assert!(wait_until(LIMIT, || TcpStream::connect(at(other)).is_ok() == expected).is_some());
        }
        drop(end);
    });
    assert!(asked.into_inner() > 100);
    reloaded.write("none", "");
    reloaded.say(&["reload"]);
    for addr in [at(gate), at(probes), agent] {
        assert!(
            wait_until(LIMIT, || TcpStream::connect(addr).is_err()).is_some(),
            "{addr} is no longer configured, but open"
        );
    }
}

/// The old registry lives as long as its connections, and becomes stale. The gate must ignore it.
fn a_gate_follows_the_current_registry(engine: &str) {
    let port = crate::support::free_port();
    let gate = format!(
        "[tcp_gate.g]\nbind = \"127.0.0.1:{port}\"\n[route.r]\npath = \"/readyz\"\nhealth = \"readyz\"\n"
    );
    let check = "[check.a]\ntype = \"ttl\"\nttl = \"2s\"\ninitial = \"fully-up\"\n[health.readyz]\nrequire = [\"a\"]\n";
    let reloaded = Reloaded::start(engine, &format!("{check}{gate}"));
    let connected = std::cell::Cell::new(0);
    let is_open = || {
        let is_open = TcpStream::connect(("127.0.0.1", port)).is_ok();
        connected.set(connected.get() + u32::from(is_open));
        is_open
    };
    assert!(wait_until(LIMIT, is_open).is_some());
    let mut old = kept(reloaded.doorbell.addr);
    // A check that runs often advances the time of both registries.
    let own = "[check.b]\ntype = \"file\"\npath = \"/proc/self/status\"\ninterval = \"100ms\"\nrise = 1\n[health.readyz]\nrequire = [\"b\"]\n";
    reloaded.write("1", &format!("{own}{gate}"));
    reloaded.say(&["reload"]);
    assert!(wait_until(LIMIT, is_open).is_some());
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        assert_eq!((is_open(), ask(reloaded.doorbell.addr, "/readyz").0), (true, 200));
        thread::sleep(Duration::from_millis(50));
    }
    old.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // Connections without a request are counted as probes, summed over both registries.
    let is_all = || {
        let counted: Value = serde_json::from_str(&reloaded.say(&["probers", "-o", "json"])).unwrap();
        let row = counted.as_array().unwrap().iter().find(|row| row["prober"] == "tcp").cloned();
        let is_up = |row: &Value| row["endpoint"] == "readyz" && row["verdict"] == "up";
        row.is_some_and(|row| is_up(&row) && row["count"] == connected.get())
    };
    let said = || reloaded.say(&["probers", "-o", "json"]);
    assert!(wait_until(LIMIT, is_all).is_some(), "{} connected: {}", connected.get(), said());
}

/// Prober statistics and counters must not decrease across reloads and when generations end.
fn counters_never_decrease(engine: &str) {
    let admin = crate::support::free_port();
    let more = |n: usize| {
        format!(
            "[admin]\nbind = \"127.0.0.1:{admin}\"\n[check.self]\ntype = \"file\"\npath = \"/proc/self/status\"\ninterval = \"100ms\"\n\
             [route.r]\npath = \"/readyz\"\nhealth = \"readyz\"\nconcurrent = {}\n[limit.l]\nrate = \"1/h\"\nburst = 1\n\
             [route.l]\npath = \"/l\"\nlimit = \"l\"\nreply = {{}}\n",
            1 + n % 2
        )
    };
    let reloaded = Reloaded::start(engine, &more(0));
    let place = reloaded.doorbell.addr;
    let metrics = || {
        let (status, text) = ask(SocketAddr::from(([127, 0, 0, 1], admin)), "/metrics");
        assert_eq!(status, 200);
        let counts = text.lines().filter(|line| !line.starts_with('#'));
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse::<f64>().ok()?))
        };
        counts.filter_map(pair).collect::<std::collections::BTreeMap<_, _>>()
    };
    let is_count = |name: &str| name.split('{').next().is_some_and(|name| name.ends_with("_total"));
    let mut last = metrics();
    for round in 1..8 {
        let _lives_on = kept(place);
        for _ in 0..3 {
            ask(place, "/readyz");
            ask(place, "/l");
        }
        reloaded.write(&round.to_string(), &more(round));
        reloaded.say(&["reload"]);
        for _ in 0..5 {
            let now = metrics();
            for (name, value) in last.iter().filter(|(name, _)| is_count(name)) {
                let counted = now.get(name).copied();
                assert!(counted.is_some_and(|now| now >= *value), "{name}: {value}, then {counted:?}");
            }
            last = now;
        }
    }
    let count = |name: &str| {
        last.iter().filter(|(key, _)| key.starts_with(name)).map(|(_, value)| value).sum::<f64>()
    };
    let limited = last.iter().find(|(name, _)| name.contains("rate_limited")).map(|(_, value)| *value);
    // One request was admitted, counted over all generations together.
    assert_eq!(limited, Some(20.0), "{last:?}");
    assert!(
        count("doorbell_probes_total") >= 21.0 || count("doorbell_prober_requests_total") >= 21.0,
        "{last:?}"
    );
}

/// Files are swapped, signals are sent and commands run at the same moment.
fn the_last_file_wins_however_the_reload_is_triggered(engine: &str) {
    let scratch = Scratch::new();
    let volume = scratch.path("config");
    fs::create_dir(&volume).unwrap();
    let home = scratch.path("");
    let text = |hello: usize| {
        config(&home, &hello.to_string(), "")
            .replace("reload = \"SIGHUP\"", "reload = [\"SIGHUP\", \"file\"]")
    };
    let swap = |version: usize| {
        let folder = format!("..2026_11_21.{version}");
        fs::create_dir(volume.join(&folder)).unwrap();
        fs::write(volume.join(&folder).join("doorbell.toml"), text(version)).unwrap();
        symlink(&folder, volume.join("..data_tmp")).unwrap();
        fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    };
    swap(0);
    symlink("..data/doorbell.toml", volume.join("doorbell.toml")).unwrap();
    let file = volume.join("doorbell.toml");
    let reloaded = Reloaded { doorbell: Reloaded::serve(engine, &file), file, scratch };
    let log = || reloaded.doorbell.process.log();
    let rounds = 12;
    let mut version = 0;
    for _ in 0..rounds {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| reloaded.say(&["reload"]));
            }
            for _ in 0..3 {
                version += 1;
                swap(version);
                reloaded.doorbell.process.signal(Signal::HUP);
            }
        });
        let expected = version.to_string();
        assert!(wait_until(LIMIT, || reloaded.hello() == expected).is_some(), "{expected}: {}", log());
    }
    // After the last version, no older version may be loaded.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(reloaded.hello(), version.to_string());
    assert!(!log().contains("reload failed"), "{}", log());
    let status: Value = reloaded.status();
    let done = status["counters"]["reloads"].as_u64().unwrap();
    assert_eq!(status["generation"].as_u64().unwrap(), done + 1);
    assert!((rounds as u64..=3 * rounds as u64).contains(&done), "{done} reloads for {version} files");
}

/// The file is watched, as in a container, and no reload command runs.
fn a_token_and_a_level_are_reloaded_and_fixed_keys_are_logged_once(engine: &str) {
    let scratch = Scratch::new();
    let tokens = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"];
    let token = scratch.write("token", tokens[0]);
    let text = |hello: &str, more: &str| {
        let admin = format!("[admin]\nbind = \"127.0.0.1:0\"\ntoken = \"${{file:{token}}}\"\n");
        config(&scratch.path(""), hello, &format!("{admin}{more}")).replace("reload = \"SIGHUP\"\n", "")
    };
    let file = scratch.path("doorbell.toml");
    fs::write(&file, text("0", "")).unwrap();
    let doorbell = Reloaded::serve(engine, &file);
    let (addr, admin) = (doorbell.addr, doorbell.addr_of(1));
    let status = |token: &str| {
        let request = format!(
            "POST /-/undrain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        Reply::parse(&exchange(admin, request.as_bytes()).unwrap().bytes, false).unwrap().status
    };
    let log = || doorbell.process.log();
    let holds = |what: &dyn Fn() -> bool| assert!(wait_until(LIMIT, what).is_some(), "{}", log());
    assert_eq!(tokens.map(status), [200, 401]);
    fs::write(&token, tokens[1]).unwrap();
    holds(&|| tokens.map(status) == [401, 200]);
    let is_chatty = || log().contains("DEBUG");
    assert!(!is_chatty());
    fs::write(&file, text("0", "[log]\nlevel = \"debug\"\n")).unwrap();
    holds(&is_chatty);
    let said = || log().matches("log.format cannot change").count();
    for hello in ["0", "1"] {
        // The first time, only the fixed key changes.
        fs::write(&file, text(hello, "[log]\nlevel = \"debug\"\nformat = \"text\"\n")).unwrap();
        holds(&|| said() > 0 && ask(addr, "/hello").1 == hello);
    }
    let warned = log().lines().filter(|line| line.contains("WARN") && line.contains("log.format")).count();
    assert_eq!(warned, 1, "{}", log());
}

/// Removes a directory on drop, also if the test fails.
struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(self.0);
    }
}

/// A gauge between its thresholds keeps its state. A file with a future modification time does not
/// become fresh again. A fresh result of an on-demand check causes no run.
fn the_state_of_checks_survives_a_reload(engine: &str) {
    // Uses a small file system with one driver at a time, so that its number of free files is
    // stable.
    static FILES: Mutex<()> = Mutex::new(());
    let _turn = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let held = PathBuf::from(format!("/dev/shm/doorbell-gauge-{}-{engine}", std::process::id()));
    fs::create_dir_all(&held).unwrap();
    let _gone = Gone(&held);
    let fill = |from: u32, to: u32| (from..to).for_each(|n| fs::write(held.join(n.to_string()), "").unwrap());
    let empty =
        |from: u32, to: u32| (from..to).for_each(|n| fs::remove_file(held.join(n.to_string())).unwrap());
    let upstream = Upstream::start(Does::reply(200, ""));
    let url = upstream.url("/");
    let free = rustix::fs::statvfs(&held).unwrap().f_favail;
    let reloaded = Reloaded::start(engine, "");
    let beat = reloaded.scratch.path("beat");
    fs::write(&beat, "").unwrap();
    let ahead = SystemTime::now() + Duration::from_hours(1);
    fs::File::options().write(true).open(&beat).unwrap().set_modified(ahead).unwrap();
    let paths: String = ["room", "beat"]
        .map(|name| format!("[health.{name}]\nrequire = [\"{name}\"]\n[route.{name}]\npath = \"/{name}\"\nhealth = \"{name}\"\n"))
        .concat();
    let pace =
        "interval = \"100ms\"\nfast_interval = \"100ms\"\ndown_interval = \"100ms\"\nrise = 1\nfall = 1\n";
    let checks = format!(
        "[check.room]\ntype = \"gauge\"\nmetric = \"inodes_free\"\npath = {held:?}\ndown_below = \"{}\"\nup_above = \"{}\"\n{pace}\
         [check.beat]\ntype = \"file\"\npath = {beat:?}\nexpect = {{ max_age = \"1s\" }}\n{pace}\
         [check.asked]\ntype = \"http\"\nurl = {url:?}\ncache = \"1h\"\nfast_interval = \"100ms\"\n{paths}",
        free - 3_000,
        free - 1_000,
    );
    fill(0, 4_000);
    reloaded.write("1", &checks);
    reloaded.say(&["reload"]);
    let place = reloaded.doorbell.addr;
    let becomes = |path: &str, status: u16| {
        let is_so = wait_until(LIMIT, || ask(place, path).0 == status).is_some();
        assert!(is_so, "{path}: {}", reloaded.say(&["checks"]));
    };
    let says = |reason: &str| {
        let is_said = wait_until(LIMIT, || reloaded.say(&["checks"]).contains(reason)).is_some();
        assert!(is_said, "{reason}: {}", reloaded.say(&["checks"]));
    };
    says("above the maximum of 1s");
    says("down below");
    empty(2_000, 4_000);
    says("up again above");
    for hello in ["2", "3"] {
        reloaded.write(hello, &checks);
        reloaded.say(&["reload"]);
        assert_eq!(reloaded.hello(), hello);
        // Long enough for several runs of each check.
        let until = Instant::now() + Duration::from_millis(400);
        while Instant::now() < until {
            assert_eq!(
                (ask(place, "/room").0, ask(place, "/beat").0),
                (503, 503),
                "{}",
                reloaded.say(&["checks"])
            );
        }
    }
    assert_eq!(upstream.conns(), 1);
    // A check with a changed rule is a new check.
    reloaded.write("4", &checks.replace("max_age = \"1s\"", "max_age = \"1m\""));
    reloaded.say(&["reload"]);
    becomes("/beat", 200);
    empty(0, 2_000);
    becomes("/room", 200);
}
