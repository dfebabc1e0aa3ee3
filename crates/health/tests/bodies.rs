//! Every body is within its limit, is one document and has one line for each check, for any bytes
//! in names and reasons.

use std::collections::HashSet;
use std::time::Duration;

use doorbell_health::{
    Audience, Board, CheckConfig, CheckResult, Command, Details, EndpointConfig, Format, Maintenance,
    OnDrain, Outcome, Reason, Severity, Target, Time,
};
use proptest::collection::{hash_set, vec};
use proptest::prelude::*;
use serde_json::Value;

/// Hostile names: quotes, backslashes, control characters, line ends, any other character.
fn name() -> impl Strategy<Value = String> {
    let nasty = prop_oneof![
        Just('"'),
        Just('\\'),
        Just('\n'),
        Just('\r'),
        Just('\0'),
        Just('\u{1f}'),
        Just('\u{7f}'),
        Just('\u{2028}'),
        Just(':'),
        Just('%'),
        Just('{'),
        Just(']'),
        any::<char>(),
        prop::char::range('a', 'z'),
    ];
    vec(nasty, 1..24).prop_map(|chars| chars.into_iter().collect())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop::sample::select(vec![
        Outcome::Degraded,
        Outcome::Error,
        Outcome::Failure,
        Outcome::Maintenance,
        Outcome::Success,
        Outcome::Timeout,
    ])
}

fn severity() -> impl Strategy<Value = Severity> {
    prop::sample::select(vec![Severity::Degrading, Severity::Info, Severity::Required])
}

fn text_of(board: &Board, audience: Audience, format: Format, authenticated: bool) -> (u16, String) {
    let endpoint = board.endpoints().len() - 1;
    let rendered = board.endpoints()[endpoint].rendered();
    let reply = rendered.reply(audience, format, authenticated);
    (reply.code, String::from_utf8(reply.body.to_vec()).expect("a body is text"))
}

fn look_at_health_json(code: u16, text: &str, checks: usize) {
    let json: Value = serde_json::from_str(text).expect("health+json is JSON");
    let status = json["status"].as_str().expect("the only required field");
    assert!(["pass", "warn", "fail"].contains(&status));
    assert_eq!(status == "fail", code >= 400, "the draft ties the status to the code");
    if let Some(shown) = json.get("checks") {
        let shown = shown.as_object().expect("an object").len();
        let missing = json["notes"][0].as_str().map_or(0, |note| {
            note.split(' ')
                .next()
                .and_then(|count| count.parse().ok())
                .expect("the remark begins with a number")
        });
        assert_eq!(shown + missing, checks, "shown or counted: {text}");
    }
}

fn look_at_spring(text: &str, checks: usize) {
    let json: Value = serde_json::from_str(text).expect("the actuator's format is JSON");
    assert!(
        ["UP", "DOWN", "OUT_OF_SERVICE", "UNKNOWN"].contains(&json["status"].as_str().expect("a status"))
    );
    if let Some(shown) = json.get("components") {
        let missing = json["details"]["notShown"].as_u64().unwrap_or_default();
        assert_eq!(shown.as_object().expect("an object").len() as u64 + missing, checks as u64);
    }
}

fn look_at_lines(format: Format, text: &str, checks: usize) {
    assert!(text.ends_with('\n') && !text.contains(['\0', '\r']), "{text:?}");
    let lines: Vec<&str> = text.lines().collect();
    let remarks = if format == Format::Kube {
        lines.iter().filter(|line| !line.starts_with("[+]") && !line.starts_with("[-]")).count()
    } else {
        // Lines without a check: the state, an operator's reason, and the remark about omitted
        // checks.
        3
    };
    assert!(lines.len() <= checks + remarks.max(1), "a name does not start another line: {text:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_name_and_reason(
        names in hash_set(name(), 0..24),
        endpoint_name in name(),
        reasons in vec(vec(any::<u8>(), 0..300), 24),
        outcomes in vec(outcome(), 24),
        severities in vec(severity(), 24),
        latency_us in any::<u64>(),
        body_len_max in 256_usize..2000,
        said in 0..3_u8,
        unix in any::<u64>(),
    ) {
        let mut builder = Board::builder(Time::ZERO).unix_at_zero(Duration::from_secs(unix));
        let mut config = EndpointConfig {
            body_len_max,
            details: Details::Always,
            on_drain: [OnDrain::Code(200), OnDrain::Report, OnDrain::Ignore],
            ..EndpointConfig::new(endpoint_name)
        };
        let mut checks = Vec::new();
        for (name, severity) in names.iter().zip(severities) {
            let check = builder.check(name, CheckConfig { rise: 1, fall: 1, ..CheckConfig::default() }).unwrap();
            config = config.with(check, severity);
            checks.push(check);
        }
        builder.endpoint(config).unwrap();
        let mut board = builder.build();
        for ((check, outcome), reason) in checks.iter().zip(outcomes).zip(&reasons) {
            let result = CheckResult::new(outcome, Duration::from_micros(latency_us), reason);
            board.apply(*check, &result, Time::from_secs(1));
        }
        let words = String::from_utf8_lossy(&reasons[0]);
        match said {
            1 => { board.command(Command::Drain { target: Target::All, reason: Some(Reason::default()) }, Time::ZERO); }
            2 => {
                let maintenance = Some(Maintenance::new(&words, Time::ZERO, None));
                board.command(Command::Maintain { target: Target::All, maintenance }, Time::ZERO);
            }
            _ => {}
        }
        let mut seen = HashSet::new();
        for audience in Audience::ALL {
            for format in Format::ALL {
                let (code, text) = text_of(&board, audience, format, true);
                prop_assert!(text.len() <= body_len_max);
                match format {
                    Format::HealthJson => look_at_health_json(code, &text, checks.len()),
                    Format::Spring => look_at_spring(&text, checks.len()),
                    Format::Kube | Format::Text => look_at_lines(format, &text, checks.len()),
                }
                seen.insert((format, text));
            }
        }
        prop_assert!(seen.len() >= 4, "each format has its own body");
    }
}
