//! For each event in a running instance: exactly which metric series change, and by how much.
//!
//! Families that no event of this table changes are listed with a reason. A new family fails the
//! test until it has a row or a reason.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use doorbell_testkit::peers::{misbehave, wait_until};

use crate::control::Controlled;
use crate::plain::{get, request, send};
use crate::support::{LIMIT, on_both_engines, program, run};

on_both_engines! {
    an_event_moves_its_series_and_no_other
}

const CONFIG: &str = r#"
[runtime]
workers = 2

[lifecycle]
drain_delay = "0s"
reload = "SIGHUP"

[admin]
bind = "127.0.0.1:0"

[limit.few]
key = "ip"
rate = "2/h"

[listener.web]
bind = "127.0.0.1:0"
http2 = true

[check.app]
type = "ttl"
ttl = "1h"
rise = 1
fall = 1

[health.readyz]
require = ["app"]

[route.ready]
listener = "web"
path = "/readyz"
health = "readyz"

[route.push]
listener = "web"
path = "/push/{check}/{result}"
push = true

[route.hello]
listener = "web"
path = "/hello"
reply = { body = "hello\n" }

[route.few]
listener = "web"
path = "/few"
limit = "few"
reply = { body = "few\n" }

[route.old]
listener = "web"
path = "/old"
redirect = { scheme = "https", host = "new.test" }
"#;

/// Families that change with time or kernel scheduling: no event changes them by a known amount.
const BY_THEMSELVES: [&str; 17] = [
    "doorbell_check_age_seconds",
    "doorbell_check_last_duration_seconds",
    "doorbell_check_last_success_timestamp_seconds",
    "doorbell_config_info",
    "doorbell_config_last_reload_success_timestamp_seconds",
    "doorbell_prober_interval_seconds",
    "doorbell_prober_last_seen_timestamp_seconds",
    "doorbell_received_bytes_total",
    "doorbell_ring_enters_total",
    "doorbell_sent_bytes_total",
    "doorbell_start_time_seconds",
    "doorbell_worker_last_loop_timestamp_seconds",
    "doorbell_worker_turns_total",
    "doorbell_accept_rearms_total",
    "doorbell_worker_connections_accepted_total",
    "doorbell_worker_connections_active",
    "process_",
];

/// Families that no event of this table changes, with the reason.
const NOT_HERE: [(&str, &[&str]); 4] = [
    (
        "constant while the process runs",
        &[
            "doorbell_build_info",
            "doorbell_driver_info",
            "doorbell_worker_up",
            "doorbell_endpoint_weight",
            "doorbell_accept_downgrades_total",
        ],
    ),
    (
        "need another configuration; covered by other tests",
        &[
            "doorbell_access_log_dropped_total",
            "doorbell_accept_errors_total",
            "doorbell_blackbox_probes_total",
            "doorbell_check_cache_hits_total",
            "doorbell_check_certificate_not_after_timestamp_seconds",
            "doorbell_check_coalesced_total",
            "doorbell_check_duration_seconds",
            "doorbell_check_failures_total",
            "doorbell_check_overruns_total",
            "doorbell_check_runs_total",
            "doorbell_check_schedule_lag_seconds",
            "doorbell_datagrams_total",
            "doorbell_egress_connects_total",
            "doorbell_history_batches_failed_total",
            "doorbell_history_buffer_bytes",
            "doorbell_history_rows_buffered",
            "doorbell_history_rows_dropped_total",
            "doorbell_history_rows_written_total",
            "doorbell_history_up",
            "doorbell_http_requests_uncounted_total",
            "doorbell_jobs_queued_total",
            "doorbell_lb_view_state",
            "doorbell_lb_views_refused_total",
            "doorbell_link_clock_error_seconds",
            "doorbell_link_clock_offset_seconds",
            "doorbell_link_connections_total",
            "doorbell_link_dropped_total",
            "doorbell_link_frames_total",
            "doorbell_link_one_way_seconds",
            "doorbell_link_round_trip_seconds",
            "doorbell_link_subjects",
            "doorbell_link_up",
            "doorbell_link_waiting",
            "doorbell_listener_waiting",
            "doorbell_proxy_protocol_total",
            "doorbell_rate_limit_leases_total",
            "doorbell_shared_check_holder",
            "doorbell_shared_check_results_total",
            "doorbell_shared_check_runs_total",
            "doorbell_shared_commands_total",
            "doorbell_shared_connections_total",
            "doorbell_shared_dropped_total",
            "doorbell_shared_errors_total",
            "doorbell_shared_up",
            "doorbell_tcp_gate_connections_total",
            "doorbell_tcp_gate_listeners",
            "doorbell_tls_certificate_not_after_timestamp_seconds",
            "doorbell_tls_handshakes_active",
            "doorbell_tls_handshakes_resumed_total",
            "doorbell_tls_handshakes_total",
        ],
    ),
    (
        "need more load than this test creates",
        &[
            "doorbell_accept_stalls_total",
            "doorbell_balance_queue_full_total",
            "doorbell_check_pushes_refused_total",
            "doorbell_check_waits_total",
            "doorbell_hand_over_pauses_total",
            "doorbell_hand_over_waits_total",
            "doorbell_jobs_refused_total",
            "doorbell_log_lost_total",
            "doorbell_rate_limit_evictions_total",
            "doorbell_ring_buffer_starved_total",
            "doorbell_ring_cq_overflow_total",
            "doorbell_stale_completions_total",
            "doorbell_table_full_total",
        ],
    ),
    (
        "need a kernel or handler fault; covered by the engine's own tests",
        &[
            "doorbell_accepts_dropped_total",
            "doorbell_answers_dropped_total",
            "doorbell_driver_fallbacks_total",
            "doorbell_egress_port_window_retries_total",
            "doorbell_hand_over_errors_total",
            "doorbell_hand_over_refused_total",
            "doorbell_handler_misuses_total",
            "doorbell_handler_panics_total",
            "doorbell_jobs_cancelled_total",
            "doorbell_jobs_panicked_total",
            "doorbell_jobs_timed_out_total",
            "doorbell_tcp_gate_errors_total",
        ],
    ),
];

struct Stand {
    control: Controlled,
    web: SocketAddr,
    admin: SocketAddr,
    config: String,
    curl: std::path::PathBuf,
    /// A connection that stays open until a later event.
    kept: RefCell<Option<TcpStream>>,
}

/// The changes of series that an event causes, summed over workers.
type Moves = &'static [(&'static str, f64)];

struct Row {
    event: &'static str,
    act: fn(&Stand),
    moves: Moves,
}

/// The changes that one request on a new connection causes.
const SERVED: Moves = &[
    ("doorbell_connections_accepted_total{listener=\"web\"}", 1.0),
    ("doorbell_connections_closed_total{listener=\"web\",reason=\"done\"}", 1.0),
    ("doorbell_requests_total{protocol=\"http1\"}", 1.0),
];

const ROWS: &[Row] = &[
    Row {
        event: "a request",
        act: |stand| served(stand, "/hello"),
        moves: &[(
            "doorbell_http_requests_total{listener=\"web\",route=\"hello\",method=\"GET\",code=\"200\"}",
            1.0,
        )],
    },
    Row {
        event: "a request without a route",
        act: |stand| served(stand, "/missing"),
        moves: &[(
            "doorbell_http_requests_total{listener=\"web\",route=\"\",method=\"GET\",code=\"404\"}",
            1.0,
        )],
    },
    Row {
        event: "a redirect",
        act: |stand| served(stand, "/old"),
        moves: &[
            ("doorbell_http_requests_total{listener=\"web\",route=\"old\",method=\"GET\",code=\"308\"}", 1.0),
            ("doorbell_redirects_total{route=\"old\",code=\"308\"}", 1.0),
        ],
    },
    Row {
        event: "the first request of a limit",
        act: |stand| served(stand, "/few"),
        moves: &[
            ("doorbell_http_requests_total{listener=\"web\",route=\"few\",method=\"GET\",code=\"200\"}", 1.0),
            ("doorbell_rate_limit_decisions_total{limiter=\"few\",decision=\"allow\"}", 1.0),
            ("doorbell_rate_limit_keys{limiter=\"few\"}", 1.0),
        ],
    },
    Row {
        event: "the second request of a limit",
        act: |stand| served(stand, "/few"),
        moves: &[
            ("doorbell_http_requests_total{listener=\"web\",route=\"few\",method=\"GET\",code=\"200\"}", 1.0),
            ("doorbell_rate_limit_decisions_total{limiter=\"few\",decision=\"allow\"}", 1.0),
        ],
    },
    Row {
        event: "a request over its limit",
        act: |stand| served(stand, "/few"),
        moves: &[
            ("doorbell_http_requests_total{listener=\"web\",route=\"few\",method=\"GET\",code=\"429\"}", 1.0),
            ("doorbell_rate_limit_decisions_total{limiter=\"few\",decision=\"deny\"}", 1.0),
            ("doorbell_refused_total{reason=\"rate_limited\"}", 1.0),
        ],
    },
    Row {
        event: "a probe of a check without a result",
        act: |stand| served(stand, "/readyz"),
        moves: &[("doorbell_probes_total{endpoint=\"readyz\",prober=\"other\",verdict=\"down\"}", 1.0)],
    },
    Row {
        event: "a first result",
        act: |stand| pushed(stand, "app/pass"),
        moves: &[
            PUSHED,
            ("doorbell_check_attempts_total{check=\"app\",result=\"success\",reason=\"none\"}", 1.0),
            ("doorbell_check_consecutive_results{check=\"app\",result=\"success\"}", 1.0),
            ("doorbell_check_pushes_total", 1.0),
            ("doorbell_check_state{check=\"app\",state=\"unknown\"}", -1.0),
            ("doorbell_check_state{check=\"app\",state=\"up\"}", 1.0),
            ("doorbell_check_transitions_total{check=\"app\",to=\"up\"}", 1.0),
            ("doorbell_check_up{check=\"app\"}", 1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"up\"}", 1.0),
            ("doorbell_endpoint_up{endpoint=\"readyz\"}", 1.0),
        ],
    },
    Row {
        event: "a kubelet's probe",
        act: |stand| {
            let reply = get(stand.web, "/readyz", &["User-Agent: kube-probe/1.34"]);
            assert_eq!(reply.status, 200);
        },
        moves: &[("doorbell_probes_total{endpoint=\"readyz\",prober=\"kubelet\",verdict=\"up\"}", 1.0)],
    },
    Row {
        event: "a result that is degraded",
        act: |stand| pushed(stand, "app/warn"),
        moves: &[
            PUSHED,
            ("doorbell_check_attempts_total{check=\"app\",result=\"degraded\",reason=\"verdict\"}", 1.0),
            ("doorbell_check_consecutive_results{check=\"app\",result=\"success\"}", 1.0),
            ("doorbell_check_pushes_total", 1.0),
            ("doorbell_check_state{check=\"app\",state=\"up\"}", -1.0),
            ("doorbell_check_state{check=\"app\",state=\"degraded\"}", 1.0),
            ("doorbell_check_transitions_total{check=\"app\",to=\"degraded\"}", 1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"up\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"degraded\"}", 1.0),
        ],
    },
    Row {
        event: "a failure",
        act: |stand| pushed(stand, "app/fail"),
        moves: &[
            PUSHED,
            ("doorbell_check_attempts_total{check=\"app\",result=\"failure\",reason=\"verdict\"}", 1.0),
            ("doorbell_check_consecutive_results{check=\"app\",result=\"success\"}", -2.0),
            ("doorbell_check_consecutive_results{check=\"app\",result=\"failure\"}", 1.0),
            ("doorbell_check_pushes_total", 1.0),
            ("doorbell_check_state{check=\"app\",state=\"degraded\"}", -1.0),
            ("doorbell_check_state{check=\"app\",state=\"down\"}", 1.0),
            ("doorbell_check_transitions_total{check=\"app\",to=\"down\"}", 1.0),
            ("doorbell_check_up{check=\"app\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"degraded\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", 1.0),
            ("doorbell_endpoint_up{endpoint=\"readyz\"}", -1.0),
        ],
    },
    Row {
        event: "a result for a check that is not configured",
        act: |stand| {
            let reply = send(stand.web, &push_of("nobody/pass")).unwrap();
            assert_eq!(reply.status, 404);
        },
        moves: &[(
            "doorbell_http_requests_total{listener=\"web\",route=\"push\",method=\"POST\",code=\"404\"}",
            1.0,
        )],
    },
    Row {
        event: "a request that is malformed",
        act: |stand| {
            let reply = send(stand.web, b"GET /hello HTTP/1.1\r\nHost : a\r\n\r\n").unwrap();
            assert_eq!(reply.status, 400);
        },
        moves: &[
            ("doorbell_requests_total{protocol=\"http1\"}", -1.0),
            ("doorbell_connections_closed_total{listener=\"web\",reason=\"done\"}", -1.0),
            ("doorbell_connections_closed_total{listener=\"web\",reason=\"protocol_error\"}", 1.0),
            ("doorbell_refused_total{reason=\"field\"}", 1.0),
        ],
    },
    Row {
        event: "a client that disconnects after its reply",
        act: |stand| {
            let mut kept = TcpStream::connect(stand.web).unwrap();
            kept.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            misbehave::read_replies(&mut kept, 1, false).unwrap();
        },
        moves: &[
            ("doorbell_connections_closed_total{listener=\"web\",reason=\"done\"}", -1.0),
            ("doorbell_connections_closed_total{listener=\"web\",reason=\"client_fin\"}", 1.0),
            (
                "doorbell_http_requests_total{listener=\"web\",route=\"hello\",method=\"GET\",code=\"200\"}",
                1.0,
            ),
        ],
    },
    Row {
        event: "a request by HTTP/2",
        act: |stand| {
            let url = format!("http://{}/hello", stand.web);
            assert!(run(&stand.curl, &["-s", "--http2-prior-knowledge", &url]).status.success());
        },
        moves: &[
            ("doorbell_requests_total{protocol=\"http1\"}", -1.0),
            ("doorbell_requests_total{protocol=\"http2\"}", 1.0),
            ("doorbell_connections_closed_total{listener=\"web\",reason=\"done\"}", -1.0),
            ("doorbell_connections_closed_total{listener=\"web\",reason=\"handed_over\"}", 1.0),
            ("doorbell_http2_connections_total", 1.0),
            (
                "doorbell_http_requests_total{listener=\"web\",route=\"hello\",method=\"GET\",code=\"200\"}",
                1.0,
            ),
        ],
    },
];

/// Events without a request.
const COMMANDS: &[Row] = &[
    Row {
        event: "a connection that stays open",
        act: |stand| {
            let mut kept = TcpStream::connect(stand.web).unwrap();
            kept.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            misbehave::read_replies(&mut kept, 1, false).unwrap();
            stand.kept.replace(Some(kept));
        },
        moves: &[
            ("doorbell_connections_accepted_total{listener=\"web\"}", 1.0),
            ("doorbell_connections_active{listener=\"web\"}", 1.0),
            ("doorbell_requests_total{protocol=\"http1\"}", 1.0),
            (
                "doorbell_http_requests_total{listener=\"web\",route=\"hello\",method=\"GET\",code=\"200\"}",
                1.0,
            ),
        ],
    },
    Row {
        event: "its end",
        act: |stand| drop(stand.kept.take()),
        moves: &[
            ("doorbell_connections_active{listener=\"web\"}", -1.0),
            ("doorbell_connections_closed_total{listener=\"web\",reason=\"client_fin\"}", 1.0),
        ],
    },
    Row {
        event: "a drain of the program",
        act: |stand| drop(stand.control.say(&["drain"])),
        moves: &[
            ("doorbell_lifecycle_state{state=\"ready\"}", -1.0),
            ("doorbell_lifecycle_state{state=\"draining\"}", 1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"drain\"}", 1.0),
            // A drain does not change the reply of livez, but the metrics show the drain.
            ("doorbell_endpoint_state{endpoint=\"livez\",state=\"up\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"livez\",state=\"drain\"}", 1.0),
            ("doorbell_endpoint_up{endpoint=\"livez\"}", -1.0),
        ],
    },
    Row {
        event: "its end",
        act: |stand| drop(stand.control.say(&["undrain"])),
        moves: &[
            ("doorbell_lifecycle_state{state=\"ready\"}", 1.0),
            ("doorbell_lifecycle_state{state=\"draining\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", 1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"drain\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"livez\",state=\"up\"}", 1.0),
            ("doorbell_endpoint_state{endpoint=\"livez\",state=\"drain\"}", -1.0),
            ("doorbell_endpoint_up{endpoint=\"livez\"}", 1.0),
        ],
    },
    Row {
        event: "maintenance",
        act: |stand| drop(stand.control.say(&["maint", "readyz"])),
        moves: &[
            ("doorbell_endpoint_forced{endpoint=\"readyz\",mode=\"maintenance\"}", 1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"maintenance\"}", 1.0),
            ("doorbell_maintenance{target=\"readyz\",source=\"operator\"}", 1.0),
        ],
    },
    Row {
        event: "its end",
        act: |stand| drop(stand.control.say(&["ready", "readyz"])),
        moves: &[
            ("doorbell_endpoint_forced{endpoint=\"readyz\",mode=\"maintenance\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"maintenance\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", 1.0),
            ("doorbell_maintenance{target=\"readyz\",source=\"operator\"}", -1.0),
        ],
    },
    Row {
        event: "a drain",
        act: |stand| drop(stand.control.say(&["drain", "readyz"])),
        moves: &[
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"drain\"}", 1.0),
        ],
    },
    Row {
        event: "its end",
        act: |stand| drop(stand.control.say(&["undrain", "readyz"])),
        moves: &[
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"drain\"}", -1.0),
            ("doorbell_endpoint_state{endpoint=\"readyz\",state=\"down\"}", 1.0),
        ],
    },
    Row {
        event: "a reload of a file that cannot be used",
        act: |stand| reloaded(stand, "nonsense = 1\n", false),
        moves: &[
            ("doorbell_config_reloads_total{result=\"failed\"}", 1.0),
            ("doorbell_config_last_reload_successful", -1.0),
        ],
    },
    Row {
        event: "a reload",
        act: |stand| {
            reloaded(
                stand,
                "[route.new]\nlistener = \"web\"\npath = \"/new\"\nreply = { body = \"new\\n\" }\n",
                true,
            )
        },
        moves: &[
            ("doorbell_config_generation", 1.0),
            ("doorbell_config_reloads_total{result=\"done\"}", 1.0),
            ("doorbell_config_last_reload_successful", 1.0),
        ],
    },
];

const PUSHED: (&str, f64) =
    ("doorbell_http_requests_total{listener=\"web\",route=\"push\",method=\"POST\",code=\"204\"}", 1.0);

fn served(stand: &Stand, path: &str) {
    send(stand.web, &request(path, &[])).unwrap_or_else(|what| panic!("{path}: {what}"));
}

fn push_of(what: &str) -> Vec<u8> {
    format!("POST /push/{what} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

fn pushed(stand: &Stand, what: &str) {
    assert_eq!(send(stand.web, &push_of(what)).unwrap().status, 204, "{what}");
}

fn reloaded(stand: &Stand, more: &str, good: bool) {
    fs::write(&stand.config, crate::control::config(&stand.control.scratch, &format!("{CONFIG}{more}")))
        .unwrap();
    assert_eq!(stand.control.run(&["reload"]).status.success(), good);
}

/// All series with deterministic values, summed over workers.
fn series(admin: SocketAddr) -> BTreeMap<String, f64> {
    let text = String::from_utf8(get(admin, "/metrics", &[]).body).unwrap();
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        if BY_THEMSELVES.iter().any(|family| name.starts_with(family)) {
            continue;
        }
        *found.entry(without_worker(name)).or_insert(0.0) += value.parse::<f64>().unwrap();
    }
    found
}

fn without_worker(series: &str) -> String {
    let Some((before, rest)) = series.split_once("worker=\"") else { return series.to_owned() };
    let (_, after) = rest.split_once('"').unwrap();
    format!("{before}{}", after.trim_start_matches(',')).replace("{}", "")
}

/// The differences between two scrapes. A missing series counts as zero.
fn moved(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let of = |all: &BTreeMap<String, f64>, name: &String| all.get(name).copied().unwrap_or_default();
    let moves = names.into_iter().map(|name| (name.clone(), of(after, name) - of(before, name)));
    moves.filter(|(_, by)| *by != 0.0).collect()
}

fn an_event_moves_its_series_and_no_other(engine: &str) {
    let Some(curl) = program("curl") else { return };
    let control = Controlled::start(engine, CONFIG);
    let (web, admin) = (control.doorbell.addr_of(1), control.doorbell.addr_of(2));
    let config = config_file(&control);
    let stand = Stand { control, web, admin, config, curl, kept: RefCell::default() };
    let before = series(stand.admin);
    let mut expected = BTreeMap::new();
    let requests = ROWS.iter().map(|row| (row, SERVED));
    for (row, more) in requests.chain(COMMANDS.iter().map(|row| (row, &[][..]))) {
        (row.act)(&stand);
        for (name, by) in row.moves.iter().chain(more) {
            *expected.entry((*name).to_owned()).or_insert(0.0) += by;
        }
        expected.retain(|_, by| *by != 0.0);
        let mut found = BTreeMap::new();
        // A connection is counted shortly after its client has seen the end. Late or repeated
        // changes appear in the next event.
        let is_so = wait_until(LIMIT, || {
            found = moved(&before, &series(stand.admin));
            found == expected
        });
        let differs = || {
            let wrong: Vec<_> = moved(&expected, &found).into_iter().collect();
            format!("{}: unexpected changes {wrong:?}", row.event)
        };
        assert!(is_so.is_some(), "{}\n{}", differs(), stand.control.doorbell.process.log());
    }
}

/// Checks the names of all families.
#[test]
fn every_family_has_a_row_or_a_reason() {
    let text = include_str!("../../../../crates/proxy-server/src/stats/metrics/golden/metrics.txt");
    let families: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let rows = ROWS.iter().chain(COMMANDS).flat_map(|row| row.moves).chain(SERVED);
    let moved: BTreeSet<&str> = rows.map(|(series, _)| series.split('{').next().unwrap()).collect();
    let mut listed: BTreeSet<&str> = NOT_HERE.iter().flat_map(|(_, names)| *names).copied().collect();
    let twice: Vec<_> = listed.intersection(&moved).collect();
    assert!(twice.is_empty(), "in a row and in NOT_HERE: {twice:?}");
    listed.extend(&moved);
    let by_itself = |family: &&&str| BY_THEMSELVES.iter().any(|name| family.starts_with(name));
    let missing: Vec<_> = families.difference(&listed).filter(|family| !by_itself(family)).collect();
    assert!(missing.is_empty(), "neither in a row nor in NOT_HERE: {missing:?}");
    let unknown: Vec<_> = listed.difference(&families).collect();
    assert!(unknown.is_empty(), "no such family: {unknown:?}");
}

/// Path of the configuration file that the instance uses.
fn config_file(control: &Controlled) -> String {
    let pid = control.doorbell.process.pid();
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let mut words = line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words.find(|word| word.ends_with(".toml")).expect("the instance has a configuration file")
}
