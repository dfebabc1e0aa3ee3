//! Bodies by example, and their limits for any bytes in names and reasons.

use std::time::Duration;

use super::{Details, Format};
use crate::check::{CheckConfig, CheckResult, Outcome};
use crate::endpoint::{Audience, EndpointConfig, Forced, ForcedState, OnDrain, Quorum, Severity};
use crate::{Board, Command, EndpointIndex, Maintenance, Reason, Target, Time};

const MS: Duration = Duration::from_millis(1);

/// `app` is required and up, `db` is degrading and down, `disk` is an info check without a result,
/// `queue` is in the quorum and slow.
fn board(details: Details) -> (Board, EndpointIndex) {
    let mut builder = Board::builder(Time::ZERO).unix_at_zero(Duration::from_secs(1_795_255_658));
    let mut check =
        |name| builder.check(name, CheckConfig { rise: 1, fall: 1, ..CheckConfig::default() }).unwrap();
    let (app, db, disk, queue) = (check("app"), check("db"), check("disk"), check("queue"));
    let config = EndpointConfig::new("readyz")
        .with(app, Severity::Required)
        .with(db, Severity::Degrading)
        .with(disk, Severity::Info)
        .with_member(queue, Severity::Degrading);
    let on_drain = [OnDrain::Code(200), OnDrain::Report, OnDrain::Ignore];
    let endpoint = builder
        .endpoint(EndpointConfig { quorum: Some(Quorum::Count(1)), details, on_drain, ..config })
        .unwrap();
    let mut board = builder.build();
    let now = Time::from_secs(2);
    board.apply(app, &CheckResult::success(3 * MS), now);
    board.apply(db, &CheckResult::new(Outcome::Failure, Duration::from_micros(1_012), b"refused \"x\""), now);
    board.apply(queue, &CheckResult::new(Outcome::Degraded, 900 * MS, b"slow"), now);
    (board, endpoint)
}

fn body(board: &Board, endpoint: EndpointIndex, format: Format, authenticated: bool) -> (u16, String) {
    said_to(board, endpoint, Audience::LoadBalancer, format, authenticated)
}

fn said_to(
    board: &Board,
    endpoint: EndpointIndex,
    audience: Audience,
    format: Format,
    authenticated: bool,
) -> (u16, String) {
    let reply = board.reply(endpoint, audience, format, authenticated).unwrap();
    assert_eq!(reply.content_type, format.content_type());
    (reply.code, String::from_utf8(reply.body.to_vec()).unwrap())
}

#[test]
fn every_format_with_details() {
    let (board, endpoint) = board(Details::Authenticated);
    let expect =
        |format, text: &str| assert_eq!(body(&board, endpoint, format, true), (200, text.to_owned()));
    expect(
        Format::Text,
        "degraded\ndb: down (refused \"x\")\nqueue: degraded (slow)\ndisk: unknown\napp: up\n",
    );
    expect(
        Format::Kube,
        "[-]db failed (degrading): refused \"x\"\n[+]queue ok: slow\n[-]disk failed (info): unknown\n[+]app ok\nreadyz check passed\n",
    );
    expect(
        Format::HealthJson,
        concat!(
            r#"{"status":"warn","description":"degraded by checks","checks":{"#,
            r#""db:responseTime":[{"status":"fail","observedValue":1.012,"observedUnit":"ms","time":"2026-11-21T10:07:40Z","output":"down: refused \"x\""}],"#,
            r#""queue:responseTime":[{"status":"warn","observedValue":900,"observedUnit":"ms","time":"2026-11-21T10:07:40Z","output":"degraded: slow"}],"#,
            r#""disk:responseTime":[{"status":"warn","output":"unknown"}],"#,
            r#""app:responseTime":[{"status":"pass","observedValue":3,"observedUnit":"ms","time":"2026-11-21T10:07:40Z"}]}}"#,
        ),
    );
    expect(
        Format::Spring,
        concat!(
            r#"{"status":"UP","components":{"#,
            r#""db":{"status":"DOWN","details":{"state":"down","reason":"refused \"x\""}},"#,
            r#""queue":{"status":"UP","details":{"state":"degraded","reason":"slow"}},"#,
            r#""disk":{"status":"UNKNOWN","details":{"state":"unknown"}},"#,
            r#""app":{"status":"UP","details":{"state":"up"}}}}"#,
        ),
    );
}

#[test]
fn details_by_client() {
    let hidden = ["{\"status\":\"warn\"}", "readyz check passed\n", "{\"status\":\"UP\"}", "degraded\n"];
    for (details, seen) in
        [(Details::Never, [false; 2]), (Details::Authenticated, [false, true]), (Details::Always, [true; 2])]
    {
        let (board, endpoint) = board(details);
        for (format, hidden) in Format::ALL.into_iter().zip(hidden) {
            for authenticated in [false, true] {
                let (_, text) = body(&board, endpoint, format, authenticated);
                let shown = seen[usize::from(authenticated)];
                assert_eq!(text.contains("refused"), shown, "{details:?} {format:?} {authenticated}");
                assert!(shown || text == hidden, "{details:?} {format:?}: {text}");
            }
        }
    }
}

#[test]
fn every_state_in_every_format() {
    let force = |state| Command::Force {
        target: Target::All,
        forced: Some(Forced { state, reason: Reason::new(b"by hand"), until: None }),
    };
    let maintenance = Some(Maintenance::new("patching", Time::ZERO, None));
    let table = [
        (force(ForcedState::Up), 200, "pass", "UP", "up", "passed"),
        (force(ForcedState::Degraded), 200, "warn", "UP", "degraded", "passed"),
        (force(ForcedState::Down), 503, "fail", "DOWN", "down", "failed"),
        (
            Command::Drain { target: Target::All, reason: Some(Reason::default()) },
            503,
            "fail",
            "OUT_OF_SERVICE",
            "drain",
            "failed",
        ),
        (
            Command::Maintain { target: Target::All, maintenance },
            503,
            "fail",
            "OUT_OF_SERVICE",
            "maintenance",
            "failed",
        ),
    ];
    for (command, code, json, spring, text, kube) in table {
        let (mut board, endpoint) = board(Details::Authenticated);
        board.command(command, Time::from_secs(3));
        let said = |format| body(&board, endpoint, format, false);
        assert_eq!(said(Format::HealthJson), (code, format!("{{\"status\":\"{json}\"}}")));
        assert_eq!(said(Format::Spring), (code, format!("{{\"status\":\"{spring}\"}}")));
        assert_eq!(said(Format::Text), (code, format!("{text}\n")));
        assert_eq!(said(Format::Kube), (code, format!("readyz check {kube}\n")));
    }
}

#[test]
fn an_operators_words_are_details() {
    let (mut board, endpoint) = board(Details::Authenticated);
    let maintenance = Some(Maintenance::new("patching\n[+]x ok", Time::ZERO, None));
    board.command(Command::Maintain { target: Target::All, maintenance }, Time::from_secs(3));
    assert!(
        body(&board, endpoint, Format::Text, true).1.starts_with("maintenance\nreason: patching [+]x ok\n")
    );
    assert!(body(&board, endpoint, Format::Kube, true).1.starts_with("warn: patching [+]x ok\n"));
    assert!(body(&board, endpoint, Format::HealthJson, true).1.contains(r#""output":"patching [+]x ok""#));
    for format in Format::ALL {
        assert!(!body(&board, endpoint, format, false).1.contains("patching"));
    }
}

#[test]
fn a_drain_renders_for_each_audience() {
    let (mut board, endpoint) = board(Details::Authenticated);
    board
        .command(Command::Drain { target: Target::All, reason: Some(Reason::default()) }, Time::from_secs(3));
    let said = |audience, format| said_to(&board, endpoint, audience, format, false);
    assert_eq!(said(Audience::Kubelet, Format::Text), (200, "drain\n".to_owned()));
    // The draft ties the status to the code: with 200 it cannot be `fail`.
    assert_eq!(said(Audience::Kubelet, Format::HealthJson), (200, "{\"status\":\"warn\"}".to_owned()));
    assert_eq!(said(Audience::Kubelet, Format::Kube), (200, "readyz check passed\n".to_owned()));
    assert_eq!(said(Audience::LoadBalancer, Format::HealthJson), (503, "{\"status\":\"fail\"}".to_owned()));
    assert_eq!(said(Audience::Other, Format::Text), (200, "degraded\n".to_owned()));
}

#[test]
fn the_kube_format_names_a_cause_that_no_check_shows() {
    let (mut board, endpoint) = board(Details::Authenticated);
    board
        .command(Command::Drain { target: Target::All, reason: Some(Reason::default()) }, Time::from_secs(3));
    let said = |audience| said_to(&board, endpoint, audience, Format::Kube, true).1;
    assert!(said(Audience::LoadBalancer).starts_with("warn: drain\n[-]db failed"));
    assert!(said(Audience::Kubelet).starts_with("[-]db failed"), "it passes");
}

#[test]
fn what_does_not_fit_is_counted() {
    for body_len_max in [256, 300, 512, 1024, 4096] {
        let mut builder = Board::builder(Time::ZERO);
        let mut config =
            EndpointConfig { body_len_max, details: Details::Always, ..EndpointConfig::new("e") };
        for at in 0..1_000 {
            let check = builder
                .check(&format!("check-{at:04}"), CheckConfig { history_len: 0, ..CheckConfig::default() })
                .unwrap();
            config = config.with(check, Severity::Required);
        }
        let endpoint = builder.endpoint(config).unwrap();
        let board = builder.build();
        for (format, remark) in [
            (Format::Text, "more checks not shown\n"),
            (Format::Kube, "more checks not shown\ne check failed\n"),
            (Format::HealthJson, "more checks not shown\"]}"),
            (Format::Spring, "}}"),
        ] {
            let (_, text) = body(&board, endpoint, format, false);
            assert!(text.len() <= body_len_max && text.ends_with(remark), "{format:?}: {text}");
            let shown = text.matches("check-").count();
            assert!(shown > 0 && shown < 1_000, "{format:?} shows {shown}");
            assert!(
                text.contains(&(1_000 - shown).to_string()),
                "{format:?} counts the missing checks: {text}"
            );
            // Another line would not have fitted.
            assert!(text.len() + 160 > body_len_max, "{format:?} has room for another line: {}", text.len());
        }
    }
}

#[test]
fn a_colon_is_no_separator() {
    let mut builder = Board::builder(Time::ZERO);
    let names = ["a:b", "a%3Ab", "%", ":", "a%", "::"];
    let checks = names.map(|name| builder.check(name, CheckConfig::default()).unwrap());
    let config =
        checks.into_iter().fold(EndpointConfig::new("e"), |config, check| config.with(check, Severity::Info));
    let endpoint = builder.endpoint(EndpointConfig { details: Details::Always, ..config }).unwrap();
    let board = builder.build();
    let (_, text) = body(&board, endpoint, Format::HealthJson, false);
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut keys: Vec<_> = parsed["checks"].as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let expect = [
        "%25:responseTime",
        "%3A%3A:responseTime",
        "%3A:responseTime",
        "a%253Ab:responseTime",
        "a%25:responseTime",
        "a%3Ab:responseTime",
    ];
    assert_eq!(keys, expect);
}

#[test]
fn single_checks() {
    let (mut board, endpoint) = board(Details::Authenticated);
    let single = |board: &Board, place, format| {
        let mut out = b"of another reply".to_vec();
        let reply = board.check_reply(endpoint, place, format, &mut out).unwrap();
        (reply.code, reply.content_type, String::from_utf8(reply.body.to_vec()).unwrap())
    };
    let table = [
        (
            0,
            200,
            "ok",
            r#"{"status":"pass","description":"up"}"#,
            r#"{"status":"UP","details":{"state":"up"}}"#,
        ),
        (
            1,
            503,
            "down: refused \"x\"\n",
            r#"{"status":"fail","description":"down","output":"refused \"x\""}"#,
            r#"{"status":"DOWN","details":{"state":"down","reason":"refused \"x\""}}"#,
        ),
        (
            2,
            503,
            "unknown\n",
            r#"{"status":"fail","description":"unknown"}"#,
            r#"{"status":"UNKNOWN","details":{"state":"unknown"}}"#,
        ),
        (
            3,
            200,
            "degraded: slow\n",
            r#"{"status":"warn","description":"degraded","output":"slow"}"#,
            r#"{"status":"UP","details":{"state":"degraded","reason":"slow"}}"#,
        ),
    ];
    for (place, code, text, json, spring) in table {
        for (format, kind, body) in [
            (Format::Text, "text/plain; charset=utf-8", text),
            (Format::Kube, "text/plain; charset=utf-8", text),
            (Format::HealthJson, "application/health+json", json),
            (Format::Spring, "application/vnd.spring-boot.actuator.v3+json", spring),
        ] {
            assert_eq!(single(&board, place, format), (code, kind, body.to_owned()), "{format:?}");
        }
    }
    assert_eq!(board.check_reply(endpoint, 4, Format::Text, &mut Vec::new()), None);
    let app = board.check_named("app").unwrap();
    let maintenance = Some(Maintenance::new("disks", Time::ZERO, None));
    let changes = board.command(Command::MaintainCheck { check: app, maintenance }, Time::from_secs(3));
    assert_eq!((changes.checks, changes.rendered), ([app].as_slice(), [endpoint].as_slice()));
    let (code, _, text) = single(&board, 0, Format::Text);
    assert_eq!((code, text.as_str()), (503, "maintenance: disks\n"));
}

#[test]
fn places_of_formats() {
    for (at, format) in Format::ALL.into_iter().enumerate() {
        assert_eq!(format as usize, at);
    }
}
