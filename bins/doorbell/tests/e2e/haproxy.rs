//! HAProxy in front of doorbell: each kind of check, and forwarding.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use doorbell_testkit::peers::{Reply, exchange, wait_until};
use serde_json::Value;

use crate::admin::{get, json, post};
use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, block, frame};
use crate::plain::{request, send_from};
use crate::support::{CONFIG, Doorbell, LIMIT, Process, Scratch, free_port, on_auto, program};

on_auto! {
    the_default_check_and_its_state
    every_check_is_detected_as_haproxy
    only_trusted_balancers_count
    httpchk_plain
    httpchk_http11
    httpchk_http2
    grpc_check
}

/// Starts HAProxy as node `lb-1` with these backends. Returns it with its stats socket.
fn balance(scratch: &Scratch, more: &str) -> Option<(Process, PathBuf)> {
    let (haproxy, socket) = (program("haproxy")?, scratch.path("stats.sock"));
    let config = format!(
        "global\n  node lb-1\n  stats socket {} mode 600 level admin\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n  timeout check 30s\n\
         \x20 default-server check inter 50ms fall 2 rise 2\n{more}",
        socket.display()
    );
    let file = scratch.write("haproxy.cfg", &config);
    Some((Process::spawn(Command::new(&haproxy).args(["-db", "-q", "-f", &file])), socket))
}

/// HAProxy's default check is `OPTIONS /` with HTTP/1.0 and no `Host`. The instance has no
/// configuration file.
fn the_default_check_and_its_state(engine: &str) {
    let own = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--driver", engine];
    let doorbell = Doorbell::try_start(&own).unwrap_or_else(|log| panic!("{log}"));
    let admin = doorbell.addr_of(1);
    let scratch = Scratch::new();
    let backend = format!(
        "frontend front\n  bind 127.0.0.1:{}\n\
         backend back\n  option httpchk\n  http-check send-state\n  server web {}\n",
        free_port(),
        doorbell.addr
    );
    let Some((process, socket)) = balance(&scratch, &backend) else { return };
    let sees_us = |word: &str, view: &str| {
        let says = || state(&socket).is_some_and(|now| now.starts_with(word));
        assert!(wait_until(LIMIT, says).is_some(), "{:?}\n{}", state(&socket), process.log());
        let label = |state: &str| {
            format!("doorbell_lb_view_state{{endpoint=\"readyz\",lb=\"back/web@lb-1\",state={state:?}}}")
        };
        let is_reported = || {
            let metrics = get(admin, "/metrics").1;
            ["up", "down"].into_iter().all(|one| {
                let value = if one == view { "1.0" } else { "0.0" };
                metrics.lines().any(|line| line == format!("{} {value}", label(one)))
            })
        };
        assert!(wait_until(LIMIT, is_reported).is_some(), "{}", get(admin, "/metrics").1);
        let probers = json(admin, "/-/probers");
        let [row] = probers.as_array().unwrap().as_slice() else { panic!("{probers}") };
        assert_eq!((&row["endpoint"], &row["prober"]), (&"readyz".into(), &"haproxy".into()));
        let their_view = row["their_view"].as_str().unwrap();
        assert!(their_view.starts_with(&format!("back/web@lb-1 {view}")), "{their_view}");
    };
    sees_us("UP", "up");
    assert_eq!(post(admin, "/-/drain").0, 200);
    sees_us("DOWN", "down");
}

/// Checks are recognized as HAProxy's without `http-check send-state`.
fn every_check_is_detected_as_haproxy(engine: &str) {
    let forms = [
        ("/", "option httpchk", ""),
        ("/get", "option httpchk GET /get", ""),
        (
            "/1.1",
            "option httpchk\n  http-check send meth GET uri /1.1 ver HTTP/1.1 hdr host web hdr user-agent HAProxy",
            "",
        ),
        (
            "/2",
            "option httpchk\n  http-check send meth GET uri /2 ver HTTP/2 hdr host web hdr user-agent HAProxy",
            "proto h2",
        ),
    ];
    let mut config = "version = 1\n[admin]\nbind = \"127.0.0.1:0\"\n\
         [listener.web]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n"
        .to_owned();
    for (at, (path, ..)) in forms.iter().enumerate() {
        config += &format!("[health.form{at}]\n[route.form{at}]\npath = {path:?}\nhealth = \"form{at}\"\n");
    }
    let doorbell = Doorbell::start_with(engine, &config);
    let admin = doorbell.addr_of(1);
    let mut more = format!("frontend front\n  bind 127.0.0.1:{}\n", free_port());
    for (at, (_, check, server)) in forms.iter().enumerate() {
        more += &format!("backend form{at}\n  {check}\n  server web {} {server}\n", doorbell.addr);
    }
    let scratch = Scratch::new();
    let Some((process, _socket)) = balance(&scratch, &more) else { return };
    let rows = || json(admin, "/-/probers").as_array().unwrap().clone();
    let all_came = || rows().len() >= forms.len() && rows().iter().all(|row| row["count"].as_u64() > Some(3));
    assert!(wait_until(LIMIT, all_came).is_some(), "{:?}\n{}", rows(), process.log());
    let rows = rows();
    let known: BTreeSet<_> =
        rows.iter().map(|row| (row["endpoint"].as_str(), row["prober"].as_str())).collect();
    let names: Vec<String> = (0..forms.len()).map(|at| format!("form{at}")).collect();
    assert_eq!(known, names.iter().map(|name| (Some(name.as_str()), Some("haproxy"))).collect());
}

/// A state field that a client sends through HAProxy does not count as HAProxy's.
fn only_trusted_balancers_count(engine: &str) {
    for (trusted, expected) in [("127.0.0.1", &["back/web@lb-1"][..]), ("10.0.0.0/8", &[])] {
        let doorbell = Doorbell::start_with(
            engine,
            &format!(
                "version = 1\n[admin]\nbind = \"127.0.0.1:0\"\n\
                 [listener.web]\nbind = \"127.0.0.1:0\"\nforwarded = \"x-forwarded-for\"\ntrusted_proxies = {trusted:?}\n\
                 [route.ready]\npath = \"/readyz\"\nhealth = \"readyz\"\n"
            ),
        );
        let (admin, port, scratch) = (doorbell.addr_of(1), free_port(), Scratch::new());
        let more = format!(
            "frontend front\n  bind 127.0.0.1:{port}\n  option forwardfor\n  default_backend back\n\
             backend back\n  option httpchk GET /readyz\n  http-check send-state\n  server web {}\n",
            doorbell.addr
        );
        let Some((process, socket)) = balance(&scratch, &more) else { return };
        let up = wait_until(LIMIT, || state(&socket).is_some_and(|state| state == "UP/L7OK"));
        assert!(up.is_some(), "{}", process.log());
        let field = "X-Haproxy-Server-State: DOWN; name=other/web; node=evil";
        let sent =
            send_from([127, 0, 0, 5].into(), ([127, 0, 0, 1], port).into(), &request("/readyz", &[field]));
        assert_eq!(sent.unwrap().status, 200);
        let line = |start: &str| {
            let (_, metrics) = get(admin, "/metrics");
            metrics.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect::<Vec<_>>()
        };
        let refused = || -> f64 {
            line("doorbell_lb_views_refused_total")[0].split_once(' ').unwrap().1.parse().unwrap()
        };
        // If HAProxy is trusted, only the client's field is refused; otherwise every field is
        // refused.
        let is_as_expected = || if expected.is_empty() { refused() > 3.0 } else { refused() == 1.0 };
        assert!(wait_until(LIMIT, is_as_expected).is_some(), "{trusted}: {}", refused());
        let shown: BTreeSet<String> = line("doorbell_lb_view_state{")
            .iter()
            .filter_map(|line| Some(line.split_once("lb=\"")?.1.split_once('"')?.0.to_owned()))
            .collect();
        assert_eq!(shown, expected.iter().map(|&lb| lb.to_owned()).collect(), "{trusted}");
    }
}

fn httpchk_plain(engine: &str) {
    checked_by_haproxy(engine, "option httpchk GET /readyz");
    checked_by_haproxy(engine, "option httpchk OPTIONS /livez");
}

fn httpchk_http11(engine: &str) {
    checked_by_haproxy(
        engine,
        "option httpchk\n  http-check send meth GET uri /readyz ver HTTP/1.1 hdr host web\n  http-check send-state",
    );
}

/// Both checks and requests use HTTP/2 with prior knowledge.
fn httpchk_http2(engine: &str) {
    let check = "option httpchk\n  http-check send meth GET uri /readyz ver HTTP/2 hdr host web";
    let config = with_admin(&CONFIG.replace("bind = ", "http2 = true\nbind = "));
    let doorbell = Doorbell::start_with(engine, &config);
    let totals = checked(doorbell, check, "proto h2");
    if totals.is_null() {
        return;
    }
    assert!(totals["http2_requests"].as_u64().unwrap() > 200 && totals["requests"] == 0, "{totals}");
}

/// A Check of `grpc.health.v1` as raw bytes. HAProxy sends the request and expects bytes of a
/// SERVING response.
fn grpc_check(engine: &str) {
    let field = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [vec![0], text(name), text(value)].concat()
    };
    let fields = [
        block("POST", "/grpc.health.v1.Health/Check"),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ];
    let asks = [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, &fields.concat()),
        frame(DATA, END_STREAM, 1, &[0; 5]),
    ];
    let hex: String = asks.concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let check = format!(
        "option tcp-check\n  tcp-check connect\n  tcp-check send-binary {hex}\n  tcp-check expect binary 00000000020801"
    );
    let config = with_admin(&CONFIG.replace("bind = ", "http2 = true\nbind = "));
    let totals = checked(Doorbell::start_with(engine, &config), &check, "");
    if totals.is_null() {
        return;
    }
    assert!(totals["http2_requests"].as_u64().unwrap() > 5 && totals["requests"] == 200, "{totals}");
}

fn checked_by_haproxy(engine: &str, check: &str) {
    checked(Doorbell::start_with(engine, &with_admin(CONFIG)), check, "");
}

fn with_admin(config: &str) -> String {
    format!("{config}\n[admin]\nbind = \"127.0.0.1:0\"\n")
}

/// Returns the last line of the log, with totals. The configuration must have an admin address.
fn checked(doorbell: Doorbell, check: &str, server: &str) -> Value {
    let Some(haproxy) = program("haproxy") else { return Value::Null };
    let (scratch, admin) = (Scratch::new(), doorbell.addr_of(1));
    // Without io_uring the start itself logs a warning.
    let logged_by_start = doorbell.process.log().len();
    let socket = scratch.path("stats.sock");
    let port = free_port();
    let config = format!(
        "global\n  stats socket {socket} mode 600 level admin\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 5s\n  timeout server 5s\n  timeout check 30s\n\
         frontend front\n  bind 127.0.0.1:{port}\n  default_backend back\n\
         backend back\n  {check}\n  server web {addr} {server} check inter 50ms fall 2 rise 2\n",
        socket = socket.display(),
        addr = doorbell.addr,
    );
    let file = scratch.write("haproxy.cfg", &config);
    let process = Process::spawn(Command::new(&haproxy).args(["-db", "-q", "-f", &file]));
    let up = wait_until(LIMIT, || {
        state(&socket).is_some_and(|state| state.starts_with("UP") && state.contains("/L7OK"))
    });
    assert!(up.is_some(), "{:?}\n{}", state(&socket), process.log());
    // HAProxy ends each check with a reset. After many of them the server must still be up, without
    // warnings in the log.
    let accepted = || json(admin, "/-/status")["counters"]["conns_accepted"].as_u64().unwrap();
    let first = accepted();
    assert!(wait_until(LIMIT, || accepted() >= first + 10).is_some(), "{}", process.log());
    assert!(state(&socket).unwrap().starts_with("UP"), "{:?}", state(&socket));
    for n in 0..200 {
        let got = exchange(
            ([127, 0, 0, 1], port).into(),
            b"GET /hello HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
        let reply = Reply::parse(&got.bytes, false).unwrap_or_else(|| panic!("request {n}: {got:?}"));
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"hello\n"[..]), "request {n}");
    }
    let log = doorbell.process.log().split_off(logged_by_start);
    assert!(
        !log.contains("ERROR") && !log.contains("WARN"),
        "a reset by a checker must not be logged: {log}"
    );
    let totals = doorbell.totals();
    // Over HTTP/2, HAProxy 2.6 knows only the first GOAWAY of a connection, which permits every stream.
    // A check that crosses the last one, which permits none, waits for its timeout of 30 s.
    let down = wait_until(3 * LIMIT, || state(&socket).is_some_and(|state| state.starts_with("DOWN")));
    assert!(down.is_some(), "{:?}", state(&socket));
    totals
}

/// State and last check of the only server, as `UP/L7OK`.
pub(crate) fn state(socket: &Path) -> Option<String> {
    // HAProxy prefixes the check status with an asterisk while a check runs.
    row(socket, ["status", "check_status"]).map(|fields| fields.join("/").replace("* ", ""))
}

/// Returns these two fields from the statistics of the server.
pub(crate) fn row(socket: &Path, fields: [&str; 2]) -> Option<[String; 2]> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(b"show stat\n").ok()?;
    let mut table = String::new();
    stream.read_to_string(&mut table).ok()?;
    let names: Vec<&str> = table.lines().next()?.trim_start_matches("# ").split(',').collect();
    let row: Vec<&str> = table.lines().find(|line| line.starts_with("back,web,"))?.split(',').collect();
    let field = |name: &str| {
        let at = names.iter().position(|&field| field == name)?;
        row.get(at).map(|field| (*field).to_owned())
    };
    let [first, second] = fields.map(field);
    Some([first?, second?])
}
