//! Tests of the statistics: requests as probers send them, and the resulting counters.

use super::view::{NAME_LEN_MAX, REPORT_AGE_MAX, VIEWS_MAX, Views};
use super::*;
use doorbell_http::parse::Head;
use doorbell_http::prober::prober_of;
use doorbell_http::{Limits, Peer};
use std::collections::BTreeMap;

fn prober_stats() -> ProberStats {
    ProberStats::new(["readyz", "livez"].into_iter(), 2)
}

fn probe(probe_counters: &ProbeCounters, bytes: &[u8], state: EndpointState, now: Time) {
    let mut head = Head::new();
    assert_eq!(head.parse(bytes, &Limits::default()), Ok(Some(bytes.len())), "{}", bytes.escape_ascii());
    let client = doorbell_http::Client::UNKNOWN;
    let request = Request::new(bytes, &head, b"").from_client(&client, now, 0);
    probe_counters.own().count(prober_of(&request), state, now);
    probe_counters.note_reported(&request, &Networks::default());
}

fn secs(secs: u64) -> Time {
    Time::from_nanos(secs * 1_000_000_000)
}

/// Every request, captured from a real prober or taken from its documentation, is counted for that
/// prober.
#[test]
fn probers_by_what_they_send() {
    let rows: [(&[u8], &str); 19] = [
        (
            b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:18181\r\nUser-Agent: kube-probe/1.34\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            "kubelet",
        ),
        (b"GET /drain HTTP/1.1\r\nHost: 10.1.2.3:8080\r\nUser-Agent: kube-lifecycle/1.34\r\nAccept: */*\r\n\r\n", "kube-lifecycle"),
        (b"OPTIONS / HTTP/1.0\r\n\r\n", "haproxy"),
        (b"GET /readyz HTTP/1.0\r\n\r\n", "haproxy"),
        (b"GET /readyz HTTP/1.1\r\nhost: web\r\nuser-agent: HAProxy\r\nconnection: close\r\n\r\n", "haproxy"),
        (
            b"GET /readyz HTTP/1.1\r\nhost: web\r\nx-haproxy-server-state: UP 1/3; address=127.0.0.1; port=18181; name=b/s1; node=vm; weight=1/1; scur=0/0; qcur=0\r\nconnection: close\r\n\r\n",
            "haproxy",
        ),
        (
            b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:1\r\nUser-Agent: Blackbox Exporter/0.23.0\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
            "blackbox",
        ),
        (
            b"GET /readyz HTTP/1.1\r\nHost: 10.0.12.34:8080\r\nConnection: close\r\nUser-Agent: ELB-HealthChecker/2.0\r\nAccept-Encoding: gzip, compressed\r\n\r\n",
            "elb",
        ),
        (b"GET /readyz HTTP/1.1\r\nHost: 10.0.0.1\r\nUser-Agent: GoogleHC/1.0\r\nConnection: Keep-alive\r\n\r\n", "gcp"),
        (b"GET /readyz HTTP/1.1\r\nHost: 10.0.0.1:80\r\nUser-Agent: Load Balancer Agent\r\nConnection: Keep-Alive\r\n\r\n", "azure"),
        (b"GET /readyz HTTP/1.1\r\nhost: doorbell\r\nuser-agent: Envoy/HC\r\n\r\n", "envoy"),
        (b"GET /readyz HTTP/1.1\r\nHost: a\r\nUser-Agent: Consul Health Check\r\nAccept: text/plain, text/*, */*\r\nConnection: close\r\n\r\n", "consul"),
        (b"GET /readyz HTTP/1.1\r\nHost: a\r\nUser-Agent: Amazon-Route53-Health-Check-Service (ref 1; report http://amzn.to/1)\r\n\r\n", "route53"),
        (b"GET /readyz HTTP/1.0\r\nUser-Agent: KeepAliveClient\r\nHost: a\r\n\r\n", "keepalived"),
        (b"GET /readyz HTTP/1.1\r\nHost: a\r\nUser-Agent: doorbell/0.1.0\r\n\r\n", "doorbell"),
        (b"GET /readyz HTTP/1.1\r\nHost: a\r\nUser-Agent: doorbell-healthcheck/0.1.0\r\nConnection: close\r\n\r\n", "doorbell"),
        (b"HEAD /readyz HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n", "other"),
        (b"GET /readyz HTTP/1.0\r\nHost: a\r\n\r\n", "other"),
        (b"GET /readyz HTTP/1.1\r\nHost: a\r\nUser-Agent: x kube-probe/1.34\r\n\r\n", "other"),
    ];
    let prober_stats = prober_stats();
    let probe_counters = prober_stats.probe_counters(0).unwrap();
    let mut expect: BTreeMap<&str, u64> = BTreeMap::new();
    for (at, (bytes, prober)) in rows.into_iter().enumerate() {
        probe(probe_counters, bytes, EndpointState::Up, secs(at as u64));
        *expect.entry(prober).or_default() += 1;
        let rows = prober_stats.rows();
        let counts: BTreeMap<_, _> = rows.iter().map(|row| (row.prober_name(), row.count())).collect();
        assert_eq!(counts, expect, "{}", bytes.escape_ascii());
        assert!(rows.iter().all(|row| &*row.endpoint == "readyz"));
    }
}

#[test]
fn states_and_times_of_replies() {
    use EndpointState::{Degraded, Down, Drain, Maintenance, Up};
    let prober_stats = prober_stats();
    let probe_counters = prober_stats.probe_counters(1).unwrap();
    assert_eq!(prober_stats.rows(), []);
    for (at, state) in [Up, Up, Degraded, Down, Maintenance, Up, Drain].into_iter().enumerate() {
        probe_counters.own().count(Some(Prober::Kubelet), state, secs(10 + 5 * at as u64));
    }
    let [row] = &*prober_stats.rows() else { panic!("one prober at one endpoint") };
    assert_eq!((&*row.endpoint, row.prober_name(), row.count()), ("livez", "kubelet", 7));
    assert_eq!(EndpointState::ALL, [Degraded, Down, Drain, Maintenance, Up]);
    assert_eq!((row.states, row.state_last, row.last), ([1, 1, 1, 1, 3], Drain, secs(40)));
    assert_eq!(row.interval.map(|interval| interval.as_millis()), Some(5_000));
}

#[test]
fn a_thread_without_a_shard_counts_too() {
    let prober_stats = ProberStats(vec![Arc::new(ProbeCounters::new("readyz", 0))]);
    let probe_counters = prober_stats.probe_counters(0).unwrap();
    probe_counters.own().count(Some(Prober::Kubelet), EndpointState::Up, secs(1));
    probe_counters.own().count(Some(Prober::Kubelet), EndpointState::Down, secs(2));
    let [row] = &*prober_stats.rows() else { panic!("one prober at one endpoint") };
    assert_eq!((row.prober_name(), row.count(), row.state_last), ("kubelet", 2, EndpointState::Down));
}

/// The interval adapts to a new rate within a few probes; for irregular probes it is the mean.
#[test]
fn intervals_follow() {
    let prober_stats = prober_stats();
    let probe_counters = prober_stats.probe_counters(0).unwrap();
    let mut now = secs(1);
    let mut run = |gaps: &[u64]| {
        for &gap in gaps {
            now = now.after(Duration::from_millis(gap));
            probe_counters.own().count(Some(Prober::Elb), EndpointState::Up, now);
        }
        prober_stats.rows().first().and_then(|row| row.interval).unwrap_or_default().as_millis()
    };
    assert_eq!(run(&[1000]), 0, "one probe has no interval");
    assert_eq!(run(&[1000; 3]), 1000);
    let slower = run(&[10_000; 40]);
    assert!((9_900..=10_000).contains(&slower), "{slower}");
    let irregular = run(&[500, 1500].repeat(40));
    assert!((850..1_150).contains(&irregular), "{irregular}");
}

/// The mean interval is computed from the number of probes, so it includes probes within one step
/// of the clock.
#[test]
fn floods_and_bursts_have_intervals_too() {
    use EndpointState::{Down, Up};
    let interval = |gaps_us: &[u64], state: &dyn Fn(usize) -> EndpointState| {
        let prober_stats = prober_stats();
        let mut now = secs(1);
        for (at, &gap) in gaps_us.iter().enumerate() {
            now = now.after(Duration::from_micros(gap));
            prober_stats.probe_counters(0).unwrap().own().count(Some(Prober::Haproxy), state(at), now);
        }
        prober_stats.rows()[0].interval.unwrap_or_default().as_micros()
    };
    let steps: Vec<u64> = [4_000].into_iter().chain([0; 499]).collect();
    assert_eq!(interval(&steps.repeat(20), &|_| Up), 8, "500 in 4 ms");
    assert_eq!(interval(&[3_000_000, 0, 0].repeat(9), &|_| Up), 1_000_000, "three of them every 3 s");
    assert_eq!(interval(&[5_000_000; 20], &|at| [Up, Down][at % 2]), 5_000_000);
    let turned = interval(&steps.repeat(20), &|at| if at < 9_400 { Down } else { Up });
    assert!((8..12).contains(&turned), "{turned}");
}

/// A reader sees correct intervals while another thread counts probes.
#[test]
fn intervals_are_whole_while_probes_come() {
    const PROBES: u64 = 200_000;
    let prober_stats = ProberStats::new(["readyz"].into_iter(), 1);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let own = prober_stats.0[0].own();
            for at in 1..=PROBES {
                own.count(Some(Prober::Envoy), EndpointState::Up, Time::from_nanos(at * 2_000_000));
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            for row in prober_stats.rows() {
                let millis = row.interval.map(|interval| interval.as_millis());
                // A note torn by a concurrent write would shorten the interval.
                assert!(millis.is_none_or(|millis| millis >= 2), "{millis:?}");
            }
        }
    });
    assert_eq!(prober_stats.rows()[0].interval, Some(Duration::from_millis(2)));
}

/// When probes move to another thread, as after a reload with new workers, the measured rate does
/// not double.
#[test]
fn a_shard_that_probes_left_does_not_count() {
    let prober_stats = prober_stats();
    let probe_counters = prober_stats.probe_counters(0).unwrap();
    let come = |from: u64, count: u64| {
        for at in 0..count {
            probe_counters.own().count(Some(Prober::Elb), EndpointState::Up, secs(from + 5 * at));
        }
    };
    let interval = || {
        let [row] = &*prober_stats.rows() else { panic!("one prober at one endpoint") };
        row.interval.unwrap_or_default().as_millis()
    };
    come(5, 20);
    assert_eq!(interval(), 5_000);
    std::thread::scope(|scope| {
        // This thread keeps its shard, so the new thread gets another.
        scope.spawn(|| come(105, 200));
    });
    let now = interval();
    assert!((4_900..=5_000).contains(&now), "{now}");
}

/// No count is lost when threads count concurrently.
#[test]
fn threads_count_for_themselves() {
    const PROBES: u64 = 2_000;
    let prober_stats = ProberStats::new(["readyz"].into_iter(), 1);
    let threads = EXTRA_SHARDS;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let own = prober_stats.0[0].own();
                for at in 1..=PROBES {
                    let state = if at % 2 == 0 { EndpointState::Up } else { EndpointState::Down };
                    own.count(Some(Prober::Envoy), state, Time::from_nanos(at * 1_000_000));
                }
            });
        }
    });
    let [row] = &*prober_stats.rows() else { panic!("one prober") };
    let half = threads as u64 * PROBES / 2;
    assert_eq!(row.states, [0, half, 0, 0, half]);
    assert_eq!(row.last, Time::from_nanos(PROBES * 1_000_000));
}

#[test]
fn shards_are_given_back() {
    let shard = || std::thread::spawn(|| [(); 2].map(|()| shard::current())).join().unwrap();
    // Other tests use shards, too. Without reuse, the 1,000 threads would exceed 500 shards.
    assert!((0..1_000).map(|_| shard()).all(|[first, again]| first < 500 && first == again));
}

type ReportedState<'a> = Option<(LbState, Option<(u16, u16)>, &'a str)>;

#[test]
fn states_of_haproxy() {
    use LbState::{Down, Drain, Maint, Nolb, Other, Up};
    let long = "s".repeat(NAME_LEN_MAX);
    let at_most = format!("UP; name={long}; node=n");
    let too_long = format!("UP; name={long}s; node=n");
    let rows: [(&str, ReportedState<'_>); 19] = [
        (
            "UP 1/3; address=127.0.0.1; port=80; name=b/s1; node=vm; weight=1/1; scur=0/0; qcur=0",
            Some((Up, Some((1, 3)), "b/s1@vm")),
        ),
        ("UP; name=b/s1; node=vm", Some((Up, None, "b/s1@vm"))),
        ("DOWN 1/2; name=b/s1; node=vm", Some((Down, Some((1, 2)), "b/s1@vm"))),
        ("DOWN; name=b/s1", Some((Down, None, "b/s1@"))),
        ("NOLB 2/3; node=lb-2; name=b/s1", Some((Nolb, Some((2, 3)), "b/s1@lb-2"))),
        ("DRAIN; name=b/s1; node=vm", Some((Drain, None, "b/s1@vm"))),
        ("MAINT; name=b/s1; node=vm", Some((Maint, None, "b/s1@vm"))),
        ("no check; name=b/s1; node=vm", Some((Other, None, "b/s1@vm"))),
        ("UP 70000/3; name=b/s1; node=vm", Some((Up, None, "b/s1@vm"))),
        ("; name=b/s1; node=vm", Some((Other, None, "b/s1@vm"))),
        (&at_most, Some((Up, None, &at_most[9..9 + NAME_LEN_MAX]))),
        (&too_long, None),
        ("UP", None),
        ("UP; node=vm", None),
        ("UP; name=; node=vm", None),
        ("UP; name=<script>; node=vm", None),
        ("UP; name=b/s1; node=a@b", None),
        ("UP; name=b/s1; node=\u{e9}", None),
        ("", None),
    ];
    for (field, expect) in rows {
        let views = Views::default();
        views.note(field.as_bytes(), secs(7));
        let all = views.all(secs(7));
        assert_eq!(views.refused(), u64::from(expect.is_none()), "{field}");
        match (expect, &*all) {
            (None, []) => {}
            (Some((state, steps, name)), [view]) => {
                let lb = &*view.lb;
                assert_eq!((view.state, view.steps, view.at), (state, steps, secs(7)), "{field}");
                assert!(lb == name || lb == format!("{name}@n"), "{lb} of {field}");
            }
            other => panic!("{field}: {other:?}"),
        }
    }
    let views = Views::default();
    views.note(b"\xff", secs(7));
    assert_eq!((views.refused(), views.all(secs(7)).len()), (1, 0));
}

#[test]
fn load_balancers_are_few() {
    let prober_stats = prober_stats();
    let probe_counters = prober_stats.probe_counters(0).unwrap();
    for round in 1..=2 {
        for at in 0..VIEWS_MAX + 3 {
            let state = if round == 1 { "UP 1/3" } else { "DOWN" };
            let request = format!(
                "GET / HTTP/1.1\r\nhost: a\r\nx-haproxy-server-state: {state}; name=b/s{at}; node=vm\r\n\r\n"
            );
            probe(probe_counters, request.as_bytes(), EndpointState::Up, secs(round));
        }
        let views: BTreeMap<_, _> = prober_stats.views(secs(round)).collect();
        let [readyz, livez] = ["readyz", "livez"].map(|name| &views[name]);
        assert_eq!((readyz.len(), livez.len()), (VIEWS_MAX, 0));
        let state = if round == 1 { "b/s9@vm up 1/3" } else { "b/s9@vm down" };
        let view = readyz.iter().find(|view| &*view.lb == "b/s9@vm").unwrap();
        assert_eq!((view.to_string().as_str(), view.at), (state, secs(round)));
        if round == 1 {
            assert_eq!(prober_stats.views_refused(), 3, "one for each displaced load balancer");
        }
    }
}

/// Any client may send the field if no trusted addresses are set. A load balancer that reported
/// twice stays visible.
#[test]
fn invented_names_do_not_hide_a_load_balancer() {
    let views = Views::default();
    let say = |name: &str, at: u64| views.note(format!("UP; name=b/{name}; node=n").as_bytes(), secs(at));
    let is_seen = |at: u64| views.all(secs(at)).iter().any(|view| &*view.lb == "b/real@n");
    // Invented names that were reported repeatedly fill all places before the real load balancer
    // first reports.
    for at in 1..=3 {
        (0..VIEWS_MAX).for_each(|invented| say(&format!("x{invented}"), at));
    }
    say("real", 4);
    assert!(is_seen(4));
    say("real", 6);
    // Further invented names do not displace it.
    for invented in 0..10_000 {
        say(&format!("y{invented}"), 7);
    }
    assert!(is_seen(7));
    assert_eq!(views.all(secs(7)).len(), VIEWS_MAX);
    assert!(views.refused() >= 10_000 - VIEWS_MAX as u64);
}

#[test]
fn load_balancers_that_are_gone_make_room() {
    let views = Views::default();
    let say = |name: &str, at: u64| views.note(format!("UP; name=b/{name}; node=n").as_bytes(), secs(at));
    let known = |at: u64| -> Vec<String> {
        views.all(secs(at)).iter().filter_map(|view| Some(view.lb.strip_suffix("@n")?.to_owned())).collect()
    };
    for at in 0..VIEWS_MAX {
        say(&format!("s{at}"), 1);
    }
    say("s3", 3_000);
    let over = 1 + REPORT_AGE_MAX.as_secs();
    assert_eq!(known(over - 1).len(), VIEWS_MAX);
    assert_eq!(known(over), ["b/s3"], "the others did not report for an hour");
    say("new", over);
    assert_eq!(known(over), ["b/new", "b/s3"]);
    // An expired entry keeps its place until another name needs the place.
    say("s5", over);
    assert_eq!(known(over), ["b/new", "b/s3", "b/s5"]);
    assert_eq!(views.refused(), 0);
}

#[test]
fn load_balancers_that_come_at_once_have_a_place_each() {
    for _ in 0..50 {
        let views = Views::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let views = &views;
                scope.spawn(move || {
                    for at in 0..VIEWS_MAX / 4 {
                        views.note(format!("UP; name=b/s{thread}.{at}; node=n").as_bytes(), secs(1));
                        views.note(b"DOWN; name=b/s0.0; node=n", secs(1));
                    }
                });
            }
        });
        assert_eq!((views.refused(), views.all(secs(1)).len()), (0, VIEWS_MAX));
    }
}

#[test]
fn only_trusted_load_balancers_are_believed_where_there_are_some() {
    let bytes = b"GET / HTTP/1.0\r\nx-haproxy-server-state: UP; name=b/s1; node=n\r\n\r\n";
    let mut head = Head::new();
    head.parse(bytes, &Limits::default()).unwrap();
    let at = |addr: &str| Peer::Addr(addr.parse().unwrap());
    for (trusted, peer, is_believed) in [
        (&[][..], at("192.0.2.1"), true),
        (&[][..], Peer::Unknown, true),
        (&["10.0.0.0/8"][..], at("10.1.2.3"), true),
        (&["10.0.0.0/8"][..], at("::ffff:10.1.2.3"), true),
        (&["10.0.0.0/8"][..], at("192.0.2.1"), false),
        (&["10.0.0.0/8"][..], Peer::Unix, true),
        (&["10.0.0.0/8"][..], Peer::Unknown, false),
    ] {
        let prober_stats = prober_stats();
        let trusted = Networks::parse(trusted.iter().copied()).unwrap();
        let client = doorbell_http::Client::new(peer);
        let request = Request::new(bytes, &head, b"").from_client(&client, secs(1), 0);
        prober_stats.probe_counters(0).unwrap().note_reported(&request, &trusted);
        let (_, views) = prober_stats.views(secs(1)).next().unwrap();
        assert_eq!(
            (views.len(), prober_stats.views_refused()),
            (is_believed.into(), (!is_believed).into()),
            "{peer:?}"
        );
    }
}
