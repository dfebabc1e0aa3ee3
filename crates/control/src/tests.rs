//! Tests round trips, the digest of the layout, and invalid bytes.

use super::frame::{
    FrameError, HELLO_LEN, REQUEST_LEN_MAX, RESPONSE_LEN_MAX, VERSION, check_hello, decode, frame, frame_len,
    hello,
};
use super::*;
use allocation_counter::measure;
use proptest::prelude::*;
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;

fn requests() -> Vec<Request> {
    let text = || "text".to_owned();
    vec![
        Request::Checks { name: None, history: true },
        Request::Checks { name: Some(text()), history: false },
        Request::Drain { target: text(), reason: text(), for_ms: Some(60_000), is_kept: true },
        Request::Drain { target: text(), reason: text(), for_ms: None, is_kept: false },
        Request::Events { since: 7, follow: true },
        Request::Links,
        Request::Maintain { target: text(), reason: text(), for_ms: Some(1_800_000) },
        Request::Maintain { target: text(), reason: text(), for_ms: None },
        Request::Probers,
        Request::Quit { now: true },
        Request::Ready { target: text() },
        Request::Reload,
        Request::RunCheck { name: text() },
        Request::Status,
        Request::Undrain { target: text() },
    ]
}

fn events() -> Vec<Event> {
    let text = || "text".to_owned();
    let what = [
        EventKind::Check { name: text(), from: CheckWord::Up, to: CheckWord::GoingDown, reason: text() },
        EventKind::Drain { endpoint: text(), on: true, reason: text(), until_unix_ms: Some(3) },
        EventKind::Endpoint {
            name: text(),
            from: EndpointWord::Up,
            to: EndpointWord::Maintenance,
            cause: CauseWord::Maintenance,
            note: text(),
        },
        EventKind::Lifecycle { from: Lifecycle::Ready, to: Lifecycle::Draining, reason: text() },
        EventKind::Maintenance {
            target: text(),
            source: HoldSource::Window,
            on: true,
            reason: text(),
            until_unix_ms: Some(2),
        },
        EventKind::Reload { ok: false, text: text() },
        EventKind::Worker { worker: 3, text: text() },
    ];
    (1..)
        .zip(what)
        .map(|(number, what)| Event { number, at_unix_ms: 1_795_288_003_819, at_uptime_ms: 7, what })
        .collect()
}

fn check() -> CheckView {
    let result = ResultView { age_ms: 900, outcome: OutcomeWord::Timeout, latency_us: 1_250 };
    CheckView {
        name: "db".into(),
        kind: "tcp".into(),
        from: Some("web-2".into()),
        state: CheckWord::Flapping,
        age_ms: 3_000,
        last: Some(result),
        reason: "connection refused".into(),
        last_success_age_ms: Some(61_000),
        successes: 0,
        failures: 1,
        interval_ms: 5_000,
        next_in_ms: None,
        history: vec![result; 3],
    }
}

fn status() -> Status {
    Status {
        version: "0.1.0".into(),
        pid: 7,
        now_unix_ms: 1_795_288_003_819,
        uptime_ms: 1,
        lifecycle: Lifecycle::Stopping,
        lifecycle_age_ms: 2,
        reason: "SIGTERM".into(),
        stops_in_ms: Some(3),
        observed_in_ms: Some(4),
        drain_ends_in_ms: Some(5),
        config: "doorbell.toml".into(),
        generation: 4,
        refused_reload: Some(RefusedReloadView { reason: "line 3".into(), age_ms: 8 }),
        unsaved: Some("disk full".into()),
        addresses: vec!["127.0.0.1:1".into()],
        waiting: vec![WaitingView { listener: "tls".into(), reason: "no such file".into() }],
        ports: [("admin".to_owned(), vec!["127.0.0.1:9130".to_owned()])].into(),
        workers: vec![WorkerView {
            driver: "epoll".into(),
            why: "forced".into(),
            is_fallback: true,
            cause: "seccomp".into(),
            has_failed: false,
            conns_live: 5,
            requests: 6,
        }],
        endpoints: vec![EndpointView {
            name: "readyz".into(),
            state: EndpointWord::Degraded,
            cause: CauseWord::FailOpen,
            note: "note".into(),
            age_ms: 7,
            answers: vec![AnswerView { audience: AudienceWord::Kubelet, state: EndpointWord::Up, code: 200 }],
            weight: Some(8),
            uses: vec![UseView {
                check: "db".into(),
                severity: SeverityWord::Info,
                in_quorum: true,
                weight: 9,
                class: ClassWord::Unknown,
            }],
        }],
        checks: [("up".to_owned(), 10)].into(),
        drains: vec![DrainView {
            endpoint: "readyz".into(),
            reason: "d".into(),
            observed_in_ms: 6,
            left_ms: None,
        }],
        maintenance: vec![HoldView {
            target: "all".into(),
            source: HoldSource::File,
            reason: "r".into(),
            left_ms: None,
        }],
        counters: [("requests".to_owned(), 11)].into(),
        history_failure: Some("connection refused".into()),
        event: 12,
    }
}

fn link() -> LinkView {
    let quantiles = QuantilesView { p50_us: 1, p90_us: 2, p99_us: 3, max_us: 4 };
    LinkView {
        name: "eu".into(),
        peer: "eu.test:7443".into(),
        connected_ms: Some(5),
        last_end: "closed".into(),
        waiting: 6,
        subjects: 7,
        round_trip_us: Some(8),
        clock_offset_us: Some(-9),
        clock_error_us: Some(10),
        minute: Some(LinkMinuteView {
            starts_unix_ms: 11,
            frames: 12,
            round_trip: quantiles,
            one_way: quantiles,
            one_way_error_us: 13,
            size_correlation: Some(0.5),
            sent_max_bytes_per_s: 15,
            received_max_bytes_per_s: 16,
        }),
        counters: [("frames_sent".to_owned(), 14)].into(),
    }
}

fn responses() -> Vec<Response> {
    let prober = ProberView {
        endpoint: "readyz".into(),
        prober: "kubelet".into(),
        count: 1,
        age_ms: 2,
        interval_ms: Some(3),
        verdict: EndpointWord::Drain,
        their_view: Some("UP".into()),
    };
    vec![
        Response::Checks(vec![check(), check()]),
        Response::Done("done".into()),
        Response::Events { events: events(), missed: 13 },
        Response::Links(vec![link()]),
        Response::Probers(vec![prober]),
        Response::Refused(Refusal::new(RefusalKind::TooLate, "late")),
        Response::Status(Box::new(status())),
    ]
}

fn body<T: bitcode::Encode>(value: &T, max: usize) -> Vec<u8> {
    let bytes = frame(value, max).unwrap();
    let (prefix, body) = bytes.split_first_chunk().unwrap();
    assert_eq!(frame_len(*prefix, max), Ok(body.len()));
    body.to_vec()
}

#[test]
fn everything_survives_a_round_trip() {
    for request in requests() {
        assert_eq!(decode(&body(&request, REQUEST_LEN_MAX)), Ok(request));
    }
    for response in responses() {
        assert_eq!(decode(&body(&response, RESPONSE_LEN_MAX)), Ok(response));
    }
}

/// The layout is unchanged. If a type was changed, increment [`VERSION`] and update the digest.
#[test]
fn the_layout_is_that_of_this_version() {
    let mut digest = SipHasher24::new();
    requests().iter().for_each(|request| digest.write(&bitcode::encode(request)));
    responses().iter().for_each(|response| digest.write(&bitcode::encode(response)));
    assert_eq!(
        (VERSION, digest.finish()),
        (11, 16_021_205_250_443_451_709),
        "the layout of the control protocol changed"
    );
}

#[test]
fn a_greeting_shows_whether_the_versions_match() {
    assert_eq!(hello().len(), HELLO_LEN);
    assert_eq!(check_hello(hello()), Ok(()));
    let mut other = hello();
    other[8] = 99;
    assert_eq!(check_hello(other), Err(FrameError::Version { theirs: 99 }));
    assert_eq!(check_hello(*b"GET / HTTP/1"), Err(FrameError::NotDoorbell));
    let mut later = hello();
    later[10] = 1;
    assert_eq!(check_hello(later), Ok(()), "the last two bytes are reserved");
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_both_sides() {
    let long = Request::Ready { target: "x".repeat(REQUEST_LEN_MAX) };
    assert!(matches!(frame(&long, REQUEST_LEN_MAX), Err(FrameError::TooLong { max: REQUEST_LEN_MAX, .. })));
    let max = u32::try_from(REQUEST_LEN_MAX).unwrap();
    assert_eq!(frame_len(max.to_le_bytes(), REQUEST_LEN_MAX), Ok(REQUEST_LEN_MAX));
    for len in [max + 1, u32::MAX] {
        assert!(matches!(frame_len(len.to_le_bytes(), REQUEST_LEN_MAX), Err(FrameError::TooLong { .. })));
    }
}

/// Returns the memory allocated by decoding bytes as a request. A request has at most three
/// strings.
fn cost_of(bytes: &[u8]) -> u64 {
    measure(|| drop(decode::<Request>(bytes))).bytes_max
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_harmless(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _either: (Result<Request, _>, Result<Response, _>) = (decode(&bytes), decode(&bytes));
        prop_assert!(cost_of(&bytes) <= 4096 + 16 * bytes.len() as u64, "{} bytes", cost_of(&bytes));
    }

    #[test]
    fn a_good_frame_with_some_bytes_changed_is_harmless(
        which in 0..64_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let (requests, responses) = (requests(), responses());
        let mut all: Vec<Vec<u8>> = requests.iter().map(|request| body(request, REQUEST_LEN_MAX)).collect();
        all.extend(responses.iter().map(|response| body(response, RESPONSE_LEN_MAX)));
        let mut bytes = all.swap_remove(which % all.len());
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
            let _either: (Result<Request, _>, Result<Response, _>) = (decode(bytes), decode(bytes));
            prop_assert!(cost_of(bytes) <= 4096 + 16 * bytes.len() as u64, "{} bytes", cost_of(bytes));
        }
    }
}

/// Decoding lengths beyond the data allocates little memory: the worst case of a frame of the
/// maximum size.
#[test]
fn no_request_takes_more_than_its_cap_allows() {
    for fill in [0x00, 0x01, 0x0f, 0x10, 0x7f, 0x80, 0xfe, 0xff] {
        for first in 0..=u8::MAX {
            let mut bytes = vec![fill; REQUEST_LEN_MAX];
            bytes[0] = first;
            assert!(cost_of(&bytes) <= 32 * REQUEST_LEN_MAX as u64, "{first} {fill}: {}", cost_of(&bytes));
        }
    }
}

/// The page, `doorbell status` and `doorbell drain` show the same numbers.
#[test]
fn sums_cover_all_protocols() {
    let counters = [("conns_live", 3), ("http2_conns_live", 4), ("requests", 50), ("http2_requests", 600)];
    let of = |len: usize| {
        let counters = counters[..len].iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Status { counters, ..status() }
    };
    assert_eq!((of(4).conns_open(), of(4).requests()), (7, 650));
    assert_eq!((of(1).conns_open(), of(1).requests()), (3, 0), "without HTTP/2");
}
