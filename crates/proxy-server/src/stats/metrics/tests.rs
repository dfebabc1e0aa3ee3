//! Tests the exact metrics of a sample scrape.

use super::*;
use crate::stats::server::ItemKind;
use crate::supervisor::Supervisor;
use doorbell::http::Time;
use doorbell::http::prober::Prober as Kind;
use doorbell_checks::{CheckCounts, CheckStats, LagCounts, Phase, PhaseTimes};
use doorbell_control::{
    HoldSource, HoldView, Lifecycle, LinkMinuteView, QuantilesView, WaitingView, WorkerView,
};
use doorbell_health::{CheckState, EndpointState, Outcome};
use doorbell_history::Counts;
use doorbell_metrics::{CheckSample, EndpointSample, LastResult};
use doorbell_probes::{LbState, LbView, ProberRow};
use doorbell_shared::{ShareCounters, ShareView, StoreCounters};
use std::time::Duration;

fn endpoint(name: &str, state: EndpointState, is_forced: bool, weight: Option<u32>) -> EndpointSample {
    EndpointSample { name: name.to_owned(), state, is_forced, weight }
}

fn check(name: &str, state: CheckState, last: Option<LastResult>) -> CheckSample {
    let success_at = last.map(|_| Duration::from_secs(5));
    CheckSample { name: name.to_owned(), state, successes: 0, failures: 3, last, success_at }
}

fn check_counts() -> CheckCounts {
    let stats = CheckStats::default();
    let mut spent = PhaseTimes { last: Some(Phase::Connect), ..PhaseTimes::default() };
    spent.took_us[Phase::Connect as usize] = Some(700);
    let ends = Some(Duration::from_secs(1_900_000_000));
    stats.ran(Outcome::Success, Duration::from_millis(3), &spent, ends);
    stats.ran(Outcome::Timeout, Duration::from_millis(3), &spent, None);
    stats.moved_to(CheckState::Down);
    let mut counts = stats.counts();
    (counts.overruns, counts.cache_hits) = (1, 1);
    counts
}

fn requests() -> Vec<(Counted, u64)> {
    let one = |method, code| Counted { listener: "web".into(), route: "old".into(), method, code };
    vec![(one("GET", Some(308)), 5), (one("HEAD", Some(308)), 2), (one("PUT", None), 1)]
}

fn items() -> BTreeMap<Item, u64> {
    BTreeMap::from([
        (Item::new(ItemKind::Accepted, "web", []), 9),
        (Item::new(ItemKind::AcceptError, "web", ["EMFILE"]), 1),
        (Item::new(ItemKind::AccessLost, "queue_full", []), 2),
        (Item::new(ItemKind::Closed, "web", ["done"]), 5),
        (Item::new(ItemKind::Closed, "web", ["header_timeout"]), 1),
        (Item::new(ItemKind::Connect, "connected", []), 29),
        (Item::new(ItemKind::Connect, "refused", []), 1),
        (Item::new(ItemKind::ConnectRetry, "", []), 2),
        (Item::new(ItemKind::Datagrams, "dns", ["replied"]), 15),
        (Item::new(ItemKind::Gated, "lb", ["held"]), 12),
        (Item::new(ItemKind::GateError, "lb", ["listen"]), 1),
        (Item::new(ItemKind::Handshake, "web", ["1.3", "done"]), 6),
        (Item::new(ItemKind::Handshake, "web", ["none", "timed_out"]), 1),
        (Item::new(ItemKind::LimitEviction, "login", []), 1),
        (Item::new(ItemKind::Leased, "login", ["granted"]), 70),
        (Item::new(ItemKind::Leased, "login", ["without_store"]), 3),
        (Item::new(ItemKind::Limited, "login", ["allow"]), 50),
        (Item::new(ItemKind::Limited, "login", ["deny"]), 4),
        (Item::new(ItemKind::Probed, "http_2xx", ["cached"]), 8),
        (Item::new(ItemKind::Proxied, "web", ["v2", "taken"]), 7),
        (Item::new(ItemKind::Resumed, "web", []), 2),
    ])
}

fn link() -> LinkView {
    let quantiles = |us| QuantilesView { p50_us: us, p90_us: 2 * us, p99_us: 3 * us, max_us: 4 * us };
    let counters = [
        ("connections", 3),
        ("frames_lost", 4),
        ("frames_received", 400),
        ("frames_sent", 500),
        ("receipts_dropped", 5),
        ("results_dropped", 6),
        ("transitions_superseded", 7),
    ];
    LinkView {
        name: "eu".to_owned(),
        peer: String::new(),
        connected_ms: Some(1),
        last_end: String::new(),
        waiting: 2,
        subjects: 12,
        round_trip_us: Some(40_000),
        clock_offset_us: Some(-1_500),
        clock_error_us: Some(300),
        minute: Some(LinkMinuteView {
            starts_unix_ms: 1_800_000_000_000,
            frames: 60,
            round_trip: quantiles(20_000),
            one_way: quantiles(10_000),
            one_way_error_us: 300,
            size_correlation: None,
            sent_max_bytes_per_s: 4_200,
            received_max_bytes_per_s: 4_200,
        }),
        counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
    }
}

fn status() -> Status {
    let worker = |failed| WorkerView {
        driver: "epoll".to_owned(),
        why: "seccomp".to_owned(),
        is_fallback: true,
        cause: "seccomp".to_owned(),
        has_failed: failed,
        conns_live: 0,
        requests: 0,
    };
    Status {
        version: "1.2.3".to_owned(),
        pid: 1,
        now_unix_ms: 1_800_000_010_000,
        uptime_ms: 10_000,
        lifecycle: Lifecycle::Draining,
        lifecycle_age_ms: 0,
        reason: String::new(),
        stops_in_ms: None,
        observed_in_ms: None,
        drain_ends_in_ms: None,
        config: "doorbell.toml".to_owned(),
        generation: 2,
        refused_reload: None,
        unsaved: None,
        history_failure: None,
        addresses: Vec::new(),
        waiting: vec![WaitingView { listener: "later".to_owned(), reason: "no such file".to_owned() }],
        ports: BTreeMap::new(),
        workers: vec![worker(false), worker(true)],
        endpoints: Vec::new(),
        checks: BTreeMap::new(),
        drains: Vec::new(),
        maintenance: vec![HoldView {
            target: "db".to_owned(),
            source: HoldSource::Operator,
            reason: "why".to_owned(),
            left_ms: None,
        }],
        counters: BTreeMap::new(),
        event: 0,
    }
}

/// Returns a snapshot in which every counter of the engine has a different value, so that swapped
/// counters are detected.
fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let mut number = 100;
    macro_rules! numbered {
        ($($field:ident)*) => { $(number += 1; snapshot.$field = number;)* };
    }
    numbered! {
        accept_downgrades accept_errors accept_rearms accept_stalls accepts_dropped answers_dropped balance_queue_full bytes_in bytes_out
        conns_accepted conns_live cq_overflows driver_fallbacks enters hand_over_errors hand_over_pauses hand_over_refused
        hand_over_waits handler_misuses handler_panics jobs_cancelled jobs_panicked jobs_queued jobs_refused jobs_timed_out proxy_local
        proxy_refused proxy_v1 proxy_v2 recv_bufs_starved requests stale_completions table_full turns
    }
    snapshot
}

#[test]
fn the_golden_files_distinguish_every_counter_of_the_engine() {
    let mut numbers: Vec<u64> = snapshot().fields().map(|(_, number)| number).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), numbers.contains(&0)), (count, false), "two counters have the same value");
}

fn origin(since_zero_secs: u64) -> Origin {
    Origin::found(Duration::from_secs(1_800_000_010), Duration::from_secs(since_zero_secs))
}

fn health() -> HealthSample {
    let last = LastResult { age: Duration::from_millis(1_500), latency: Duration::from_micros(2_500) };
    let row = |prober, states, interval, last_ms: u64| ProberRow {
        endpoint: "readyz".into(),
        prober,
        states,
        state_last: EndpointState::Up,
        last: Time::from_nanos(last_ms * 1_000_000),
        interval,
    };
    let view = LbView { lb: "b/s1@vm".into(), state: LbState::Nolb, steps: None, at: Time::ZERO };
    let half = Some(Duration::from_millis(500));
    HealthSample {
        endpoints: vec![
            endpoint("readyz", EndpointState::Down, false, Some(40)),
            endpoint("a\"b\\c\n", EndpointState::Up, true, None),
        ],
        checks: vec![check("db", CheckState::Down, Some(last)), check("new", CheckState::Unknown, None)],
        probers: vec![
            row(Some(Kind::Kubelet), [0, 1, 0, 0, 20], half, 1_500),
            row(None, [0, 0, 5, 0, 0], None, 4_000),
        ],
        views: vec![("readyz".to_owned(), view)],
        views_refused: 9,
        counts: BTreeMap::from([("db".into(), check_counts()), ("gone".into(), check_counts())]),
        runs: ["runs", "failed", "waited", "pushed", "pushes_refused", "pushes_without_check"]
            .into_iter()
            .zip(30..)
            .collect(),
        lag: Some(LagCounts { buckets: [1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], sum_us: 1_250_500 }),
        checks_origin: origin(10),
        probers_origin: origin(4),
    }
}

fn history() -> Stats {
    let one = |from: u64| Counts { added: from + 15, written: from, full: 1, refused: 2, ended: 3, live: 9 };
    Stats {
        rows: [50, 60, 70, 72, 74, 80, 90].map(one),
        bytes_live: 4_096,
        batches_failed: 4,
        failure: Some("away".into()),
    }
}

fn sharing() -> SharingSample {
    let view = |is_holder, first| ShareView {
        is_holder,
        counters: ShareCounters {
            runs: first,
            own_runs: first + 1,
            taken: first + 2,
            fenced: first + 3,
            ignored: first + 4,
            leases: first + 5,
        },
        ..ShareView::default()
    };
    SharingSample {
        is_usable: true,
        store: StoreCounters { commands: 90, errors: 2, refused: 5, connections: 3 },
        checks: vec![("db".to_owned(), view(true, 10)), ("cache".to_owned(), view(false, 20))],
        dropped: 1,
    }
}

fn scrape() -> Scrape {
    let mut snapshot = snapshot();
    snapshot.turned = Time::from_nanos(3_500_000_000);
    Scrape {
        program: Program { revision: "c0ffee", rustc: "1.95.0" },
        now: Time::from_nanos(4_000_000_000),
        origins: Origins { workers: origin(4), program: origin(10), checks: origin(10) },
        status: status(),
        links: vec![link()],
        health: health(),
        workers: vec![snapshot, Snapshot::default()],
        refused: BTreeMap::from([("rate_limited", 4)]),
        requests: (requests(), 3),
        items: items(),
        conns_live: BTreeMap::from([("web".into(), 3)]),
        gates_open: BTreeMap::from([("lb".into(), 2)]),
        handshakes_live: BTreeMap::from([("web".into(), 1)]),
        limiter_keys: BTreeMap::from([("login".into(), 17)]),
        certificate_expiries: BTreeMap::from([("main".into(), 1_800_500_000)]),
        http2: Some((1, 8)),
        http2_live: 2,
        config_hash: "00ff".to_owned(),
        reloads: Reloads { done: 3, failed: 1, hurried: 0, has_last_failed: true, since: Time::ZERO },
        log_lost: 6,
        history: Some(history()),
        sharing: Some(sharing()),
        process: Process {
            cpu_secs: Some(1.25),
            start_secs: Some(1.8e9),
            threads: Some(7),
            virtual_bytes: Some(1 << 27),
            resident_bytes: Some(1 << 24),
            open_fds: Some(12),
            max_fds: Some(1024),
        },
    }
}

#[test]
fn unchanged_timestamps_do_not_vary() {
    let ms = Duration::from_millis;
    let found = |unix_ms, now_ms| {
        let origin = Origin::found(ms(unix_ms), ms(now_ms));
        Origins { workers: origin, program: origin, checks: origin }
    };
    let first = found(1_800_000_000_000, 1_000);
    assert_eq!(first.or_previous(None, Duration::ZERO), first);
    // There is always a delay between reading two clocks.
    for (unix_ms, now_ms) in
        [(1_800_000_001_003, 2_000), (1_800_000_061_000, 61_900), (1_800_003_600_001, 3_601_000)]
    {
        assert_eq!(found(unix_ms, now_ms).or_previous(Some(first), ms(1)), first);
    }
    let set = found(1_800_003_601_000, 1_000);
    assert_eq!(set.or_previous(Some(first), ms(1)), set, "the origin follows a step of the time of day");
    assert_eq!(set.or_previous(Some(first), ms(3_600_000)), first, "a thread was stopped between two clocks");
    // Before the first configuration there is no clock of checks.
    let early = Origins { checks: Origin::default(), ..first };
    assert_eq!(first.or_previous(Some(early), ms(1)), first);
    assert!((first.workers.secs(ms(900)) - 1_799_999_999.9).abs() < 1e-6);
}

/// Two scrapes report the same timestamps for past events, on all clocks.
#[test]
fn two_scrapes_report_the_same_past() {
    let operator = Operator::new(Supervisor::without_signals().queue(), Program::default());
    let start = || {
        let text = Exposition::accepted(b"").render(gather(&Scrape::of(&operator)));
        text.lines().find(|line| line.starts_with("doorbell_start_time_seconds")).unwrap().to_owned()
    };
    let first = start();
    for _ in 0..200 {
        assert_eq!(start(), first);
    }
}

/// The output equals the golden files; `DOORBELL_BLESS=1` rewrites them.
#[test]
fn the_golden_files_match() {
    for (accept, name) in [
        (&b"text/plain"[..], "metrics.txt"),
        (b"application/openmetrics-text; version=1.0.0", "metrics.openmetrics.txt"),
    ] {
        let text = Exposition::accepted(accept).render(gather(&scrape()));
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stats/metrics/golden").join(name);
        if std::env::var_os("DOORBELL_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let expect = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expect, "{name}");
    }
}

/// The reference page of metrics is generated from a golden file, which must have every family.
#[test]
fn every_family_has_a_sample_in_the_golden_files() {
    assert_eq!(gather(&scrape()).without_samples(), Vec::<&str>::new());
    let mut poor = scrape();
    poor.items.clear();
    assert!(gather(&poor).without_samples().contains(&"doorbell_connections_accepted"));
}

#[test]
fn names_are_unique_and_every_family_is_explained() {
    let text = Exposition::Text.render(gather(&scrape()));
    let mut families = std::collections::BTreeSet::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split(' ').next().unwrap();
            assert!(families.insert(name.to_owned()), "{name} twice");
            assert!(help.ends_with('.') && !help.ends_with(".."), "{help}");
            assert!(lines.peek().is_some_and(|next| next.starts_with(&format!("# TYPE {name} "))), "{name}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let of_histogram = ["_bucket", "_count", "_sum"].iter().find_map(|part| name.strip_suffix(part));
            let is_known =
                families.contains(name) || of_histogram.is_some_and(|name| families.contains(name));
            assert!(is_known, "{line} before its family");
        }
    }
    assert!(families.len() > 40, "{}", families.len());
}

#[test]
fn phases_are_not_exported_for_thousands_of_checks() {
    let mut scrape = scrape();
    let timed =
        |scrape: &Scrape| Exposition::Text.render(gather(scrape)).contains("doorbell_check_duration_seconds");
    scrape.health.checks.resize_with(1_000, || check("db", CheckState::Up, None));
    assert!(timed(&scrape));
    scrape.health.checks.push(check("db", CheckState::Up, None));
    assert!(!timed(&scrape));
}
