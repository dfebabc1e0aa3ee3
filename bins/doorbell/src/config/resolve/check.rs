//! `[check.NAME]` resolved: defaults from `[check_defaults]` and from the interval, what is missing, what contradicts.
//!
//! Does not know about: endpoints.

use super::super::model::{
    CHECKS_MAX, Check, CheckKind, ClientTls, FileCheck, GrpcCheck, HttpCheck, HttpDegraded, HttpExpect, Pace,
    Resolve, Secret, Severity, TcpCheck,
};
use super::super::problem::{Problem, Problems};
use super::super::section::At;
use super::super::units::format_duration;
use super::super::written;
use super::action::check_fields;
use super::or;
use std::ops::Range;
use std::time::Duration;

/// Fields that every request has anyway, or that would break it.
const OWN_FIELDS: [&str; 4] = ["connection", "content-length", "transfer-encoding", "upgrade"];

/// All checks. One that is not complete is reported, and there all the same so that endpoints find its name.
pub(super) fn resolve(file: &written::File, problems: &Problems) -> Vec<Check> {
    if let Some(extra) = file.checks.get(CHECKS_MAX) {
        let message = format!("more than {CHECKS_MAX} checks");
        let problem = Problem::error("out-of-range", extra.name.span.clone(), message);
        problems.add(problem.help("share them among several doorbells"));
    }
    let mut told = Vec::new();
    file.checks.iter().map(|check| one(check, &file.check_defaults, &mut told, problems)).collect()
}

/// `told` are the mistakes of `[check_defaults]` that were told: each is told once, however many checks have it.
fn one(
    written: &written::Check,
    defaults: &written::Pace,
    told: &mut Vec<(&'static str, Range<usize>)>,
    problems: &Problems,
) -> Check {
    let kind = written.kind.as_ref().and_then(|kind| kind_of(written, kind, problems));
    // Only after an error, which stops everything.
    let kind = kind.unwrap_or(CheckKind::Ttl(Duration::from_secs(1)));
    let mut pace = pace(&written.pace, defaults);
    if let CheckKind::Ttl(ttl) = kind {
        find_of_no_use(&written.pace, problems);
        pace = of_pushes(&written.pace, ttl, pace);
    } else {
        let problem = wrong_times(&written.pace, defaults, &pace);
        for problem in problem.into_iter().flatten() {
            let key = (problem.code, problem.span.clone());
            if !told.contains(&key) {
                told.push(key);
                problems.add(problem);
            }
        }
    }
    Check {
        name: written.name.value.clone(),
        severity: or(&written.severity, Severity::Required),
        pace,
        kind,
    }
}

fn pace(own: &written::Pace, defaults: &written::Pace) -> Pace {
    let interval = pick(&own.interval, &defaults.interval).unwrap_or_else(|| Pace::default().interval);
    let default = Pace::every(interval);
    let timeout = pick(&own.timeout, &defaults.timeout).unwrap_or_else(|| default.timeout.min(interval));
    let mut pace = Pace {
        interval,
        fast_interval: pick(&own.fast_interval, &defaults.fast_interval).unwrap_or(default.fast_interval),
        down_interval: pick(&own.down_interval, &defaults.down_interval).unwrap_or(default.down_interval),
        timeout,
        connect_timeout: pick(&own.connect_timeout, &defaults.connect_timeout).unwrap_or(timeout),
        jitter: pick(&own.jitter, &defaults.jitter).unwrap_or(default.jitter),
        rise: pick(&own.rise, &defaults.rise).unwrap_or(default.rise),
        fall: pick(&own.fall, &defaults.fall).unwrap_or(default.fall),
        initial: pick(&own.initial, &defaults.initial).unwrap_or(default.initial),
        max_age: Duration::ZERO,
        flap: pick(&own.flap, &defaults.flap).unwrap_or(default.flap),
        history: pick(&own.history, &defaults.history).unwrap_or(default.history),
    };
    pace.max_age = pick(&own.max_age, &defaults.max_age).unwrap_or_else(|| pace.default_max_age());
    pace
}

/// Of a check whose results are pushed: the last one decides alone unless the check itself says otherwise, and nothing runs.
fn of_pushes(own: &written::Pace, ttl: Duration, pace: Pace) -> Pace {
    let default = Pace::told(ttl);
    Pace {
        rise: or(&own.rise, default.rise),
        fall: or(&own.fall, default.fall),
        initial: pace.initial,
        flap: pace.flap,
        history: pace.history,
        ..default
    }
}

fn pick<T: Clone>(own: &Option<At<T>>, default: &Option<At<T>>) -> Option<T> {
    own.as_ref().or(default.as_ref()).map(|at| at.value.clone())
}

/// Times that only make sense in one order. Told where the check writes one of them, else where the defaults do.
fn wrong_times(own: &written::Pace, defaults: &written::Pace, pace: &Pace) -> [Option<Problem>; 3] {
    let place = |keys: [&Option<At<Duration>>; 4]| {
        keys.into_iter().flatten().next().map_or(0..0, |at| at.span.clone())
    };
    let longest = pace.interval.max(pace.fast_interval).max(pace.down_interval);
    let timeout = (pace.timeout > pace.interval).then(|| {
        let message = format!(
            "a run may take {}, and the next is due after {}",
            format_duration(pace.timeout),
            format_duration(pace.interval)
        );
        let at = place([&own.timeout, &own.interval, &defaults.timeout, &defaults.interval]);
        Problem::warning("timeout-over-interval", at, message)
            .help("a check never runs twice at once: runs come late; make `timeout` shorter")
    });
    let connect = (pace.connect_timeout > pace.timeout).then(|| {
        let at = place([&own.connect_timeout, &own.timeout, &defaults.connect_timeout, &defaults.timeout]);
        let message = "`connect_timeout` is longer than `timeout`, which holds for all of a run";
        Problem::warning("no-effect", at, message).help("remove it, or make it shorter")
    });
    let max_age = (pace.max_age < longest).then(|| {
        let message = format!(
            "a result is too old after {}, and the next may come after {}",
            format_duration(pace.max_age),
            format_duration(longest)
        );
        let at = place([&own.max_age, &defaults.max_age, &own.interval, &own.down_interval]);
        Problem::warning("max-age-under-interval", at, message)
            .help("the check would be stale between its runs; make `max_age` longer")
    });
    [timeout, connect, max_age]
}

/// Nothing of a check runs whose results are pushed.
fn find_of_no_use(pace: &written::Pace, problems: &Problems) {
    let durations = [
        ("interval", &pace.interval),
        ("fast_interval", &pace.fast_interval),
        ("down_interval", &pace.down_interval),
        ("timeout", &pace.timeout),
        ("connect_timeout", &pace.connect_timeout),
        ("max_age", &pace.max_age),
    ];
    let durations = durations.into_iter().filter_map(|(key, at)| Some((key, at.as_ref()?.span.clone())));
    let jitter = pace.jitter.iter().map(|at| ("jitter", at.span.clone()));
    for (key, span) in durations.chain(jitter) {
        let message = format!("`{key}` has no effect on a check whose results are pushed");
        problems.add(
            Problem::warning("no-effect", span, message)
                .help("remove it; `ttl` says how long a result holds"),
        );
    }
}

fn missing(key: &str, example: &str, check: &written::Check, problems: &Problems) {
    let message = format!("check `{}` has no `{key}`", check.name.value);
    let problem = Problem::error("missing-key", check.header.clone(), message);
    problems.add(problem.help(format!("add `{key} = \"{example}\"`")));
}

fn kind_of(check: &written::Check, kind: &written::Kind, problems: &Problems) -> Option<CheckKind> {
    match kind {
        written::Kind::File(file) => {
            if !file.has_path {
                missing("path", "/run/app/ready", check, problems);
            }
            file_check(file, problems).map(CheckKind::File)
        }
        written::Kind::Grpc(grpc) => {
            if !grpc.has_address {
                missing("address", "127.0.0.1:50051", check, problems);
            }
            grpc_check(grpc, problems).map(|grpc| CheckKind::Grpc(Box::new(grpc)))
        }
        written::Kind::Http(http) => {
            if !http.has_url {
                missing("url", "http://127.0.0.1:3000/healthz", check, problems);
            }
            http_check(http, problems).map(|http| CheckKind::Http(Box::new(http)))
        }
        written::Kind::Tcp(tcp) => {
            if !tcp.has_address {
                missing("address", "127.0.0.1:5432", check, problems);
            }
            tcp_check(tcp, problems).map(CheckKind::Tcp)
        }
        written::Kind::Ttl(None) => {
            missing("ttl", "30s", check, problems);
            None
        }
        written::Kind::Ttl(Some(ttl)) => Some(CheckKind::Ttl(ttl.value)),
    }
}

fn file_check(written: &written::FileWatched, problems: &Problems) -> Option<FileCheck> {
    let default = FileCheck::of(written.path.as_ref()?.value.clone());
    let exists = or(&written.exists, default.exists);
    let contents = written.contains.iter().map(|at| ("contains", &at.span));
    let ages = written.max_age.iter().map(|at| ("max_age", &at.span));
    for (key, span) in contents.chain(ages).filter(|_| !exists) {
        let message = format!("`{key}` of a file that must not be there");
        problems.add(
            Problem::error("contradiction", span.clone(), message).help("remove it, or `exists = false`"),
        );
    }
    Some(FileCheck {
        exists,
        contains: written.contains.as_ref().map(|at| at.value.clone()),
        max_age: written.max_age.as_ref().map(|at| at.value),
        ..default
    })
}

fn grpc_check(written: &written::GrpcAsked, problems: &Problems) -> Option<GrpcCheck> {
    let default = GrpcCheck::of(written.address.as_ref()?.value.clone());
    check_latencies(&written.max_latency, &written.degraded_latency, problems);
    Some(GrpcCheck {
        service: or(&written.service, default.service.clone()),
        tls: written.tls.as_ref().map(|tls| tls_of(tls, problems)),
        max_latency: written.max_latency.as_ref().map(|at| at.value),
        degraded_latency: written.degraded_latency.as_ref().map(|at| at.value),
        resolve: resolve_of(&written.resolve),
        ..default
    })
}

fn http_check(written: &written::HttpAsked, problems: &Problems) -> Option<HttpCheck> {
    check_fields(&written.headers, &OWN_FIELDS, problems);
    if let Some(bearer) = &written.bearer {
        check_bearer(bearer, &written.headers, problems);
    }
    let url = written.url.as_ref()?;
    let default = HttpCheck::of(url.value.clone());
    if let (Some(tls), false) = (&written.tls, url.value.is_https) {
        let problem = Problem::warning("no-effect", tls.span.clone(), "`tls` has no effect on an `http` URL");
        problems.add(problem.also(url.span.clone(), "not https").help("write \"https://\", or remove `tls`"));
    }
    let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
    let time = |at: &Option<At<Duration>>| at.as_ref().map(|at| at.value);
    let json = |pairs: &[(At<String>, At<String>)]| {
        pairs.iter().map(|(pointer, value)| (pointer.value.clone(), value.value.clone())).collect()
    };
    let (expect, degraded) = (&written.expect, &written.degraded);
    check_latencies(&expect.max_latency, &degraded.max_latency, problems);
    Some(HttpCheck {
        method: or(&written.method, default.method),
        headers: written
            .headers
            .iter()
            .map(|(name, value)| (name.value.clone(), value.value.clone()))
            .collect(),
        bearer: written.bearer.as_ref().map(|at| at.value.clone()),
        follow_redirects: or(&written.follow_redirects, default.follow_redirects),
        body_bytes: or(&written.body_bytes, default.body_bytes),
        tls: written.tls.as_ref().map(|tls| tls_of(tls, problems)).unwrap_or_default(),
        resolve: resolve_of(&written.resolve),
        expect: HttpExpect {
            status: or(&expect.status, default.expect.status.clone()),
            body_contains: text(&expect.body_contains),
            json: json(&expect.json),
            max_latency: time(&expect.max_latency),
        },
        degraded: HttpDegraded {
            status: or(&degraded.status, default.degraded.status.clone()),
            body_contains: text(&degraded.body_contains),
            json: json(&degraded.json),
            max_latency: time(&degraded.max_latency),
        },
        ..default
    })
}

/// What is wrong with a token is said without showing it.
fn check_bearer(bearer: &At<Secret>, headers: &[(At<String>, At<String>)], problems: &Problems) {
    let text = bearer.value.reveal();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = Problem::error("bad-token", bearer.span.clone(), "this cannot be sent as a token");
        problems.add(problem.help("a token has letters, digits and signs, no spaces and no line breaks"));
    }
    let is_other = |name: &At<String>| name.value.eq_ignore_ascii_case("authorization");
    if let Some((name, _)) = headers.iter().find(|(name, _)| is_other(name)) {
        let problem = Problem::error("contradiction", name.span.clone(), "`Authorization` is written twice");
        problems.add(problem.also(bearer.span.clone(), "as `bearer`").help("remove one of them"));
    }
}

/// What is too slow to be well can no more be slow but well.
fn check_latencies(expect: &Option<At<Duration>>, degraded: &Option<At<Duration>>, problems: &Problems) {
    if let (Some(expect), Some(degraded)) = (expect, degraded)
        && degraded.value >= expect.value
    {
        let message = "what is slower is down already, and never degraded";
        problems.add(
            Problem::error("contradiction", degraded.span.clone(), message)
                .also(expect.span.clone(), "down from here on")
                .help("make `max_latency` of `degraded` the shorter one"),
        );
    }
}

fn tls_of(written: &written::CheckTls, problems: &Problems) -> ClientTls {
    let default = ClientTls::default();
    let path = |at: &At<std::path::PathBuf>| at.value.clone();
    let identity = match (&written.cert, &written.key) {
        (Some(cert), Some(key)) => Some((path(cert), path(key))),
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => {
            let problem =
                Problem::error("missing-key", one.span.clone(), "a certificate and its key are two files");
            problems.add(problem.help("write both `cert` and `key`"));
            None
        }
    };
    let verify = or(&written.verify, default.verify);
    if let (Some(ca), false) = (&written.ca, verify) {
        contradiction(&ca.span, problems);
    }
    ClientTls {
        ca: written.ca.as_ref().map(path),
        identity,
        server_name: written.server_name.as_ref().map(|at| at.value.clone()),
        verify,
    }
}

fn contradiction(ca: &Range<usize>, problems: &Problems) {
    let message = "with `verify = false` nobody looks who signed the certificate";
    problems
        .add(Problem::error("contradiction", ca.clone(), message).help("remove `ca`, or `verify = false`"));
}

fn tcp_check(written: &written::TcpAsked, problems: &Problems) -> Option<TcpCheck> {
    let default = TcpCheck::of(written.address.as_ref()?.value.clone());
    check_latencies(&written.max_latency, &written.degraded_latency, problems);
    Some(TcpCheck {
        send: bytes(&written.send, &written.send_hex, problems),
        contains: bytes(&written.contains, &written.contains_hex, problems),
        max_latency: written.max_latency.as_ref().map(|at| at.value),
        degraded_latency: written.degraded_latency.as_ref().map(|at| at.value),
        resolve: resolve_of(&written.resolve),
        ..default
    })
}

/// Text or hexadecimal, not both.
fn bytes(text: &Option<At<String>>, hex: &Option<At<Vec<u8>>>, problems: &Problems) -> Vec<u8> {
    if let (Some(text), Some(hex)) = (text, hex) {
        let problem = Problem::error("contradiction", hex.span.clone(), "the same bytes twice");
        problems.add(problem.also(text.span.clone(), "as text").help("remove one of them"));
    }
    let text = text.as_ref().map(|at| at.value.clone().into_bytes());
    text.or_else(|| hex.as_ref().map(|at| at.value.clone())).unwrap_or_default()
}

fn resolve_of(written: &written::Addresses) -> Resolve {
    let default = Resolve::default();
    Resolve { prefer: or(&written.prefer, default.prefer), ttl: or(&written.ttl, default.ttl) }
}
