//! The rules of endpoints: each rule as a table of classes and expected verdicts.

use std::time::Duration;

use super::*;
use crate::board::CheckIndex;
use crate::check::{CheckConfig, CheckResult, CheckState, Initial, Outcome};
use crate::error::ConfigError;
use crate::{Board, Command, Details, EndpointIndex, Target};

const SECOND: Duration = Duration::from_secs(1);

fn at(secs: u64) -> Time {
    Time::from_secs(secs)
}

/// A board with some checks, each decided by its last result, and one endpoint.
struct Bench {
    board: Board,
    endpoint: EndpointIndex,
    checks: Vec<CheckIndex>,
}

impl Bench {
    fn new(checks: usize, configure: impl FnOnce(&[CheckIndex]) -> EndpointConfig) -> Self {
        let mut builder = Board::builder(Time::ZERO);
        let config = CheckConfig { rise: 1, fall: 1, max_age: Some(100 * SECOND), ..CheckConfig::default() };
        let checks: Vec<_> =
            (0..checks).map(|at| builder.check(&format!("c{at}"), config.clone()).unwrap()).collect();
        let endpoint = builder.endpoint(configure(&checks)).unwrap();
        Self { board: builder.build(), endpoint, checks }
    }

    /// Passes one result to each check: `+` success, `~` degraded, `-` failure, `m` maintenance,
    /// `u` unknown, `?` no result.
    fn feed(&mut self, marks: &str, secs: u64) {
        for (&check, mark) in self.checks.iter().zip(marks.chars()) {
            let outcome = match mark {
                '+' => Outcome::Success,
                '~' => Outcome::Degraded,
                '-' => Outcome::Failure,
                'm' => Outcome::Maintenance,
                'u' => Outcome::Unknown,
                _ => continue,
            };
            self.board.apply(check, &CheckResult::new(outcome, Duration::ZERO, b""), at(secs));
        }
    }

    fn endpoint(&self) -> &Endpoint {
        self.board.endpoint(self.endpoint).unwrap()
    }

    fn said(&self) -> (EndpointState, Cause) {
        let verdict = self.endpoint().verdict();
        (verdict.state, verdict.cause)
    }

    fn deciding(&self) -> Vec<usize> {
        let endpoint = self.endpoint();
        endpoint.deciding(endpoint.verdict()).map(|one| one.check.as_usize()).collect()
    }

    fn tick(&mut self, secs: u64) {
        self.board.tick(at(secs));
    }

    fn command(&mut self, secs: u64, command: Command) {
        self.board.command(command, at(secs));
    }

    fn code(&self, audience: Audience) -> u16 {
        self.endpoint().answer(audience).1
    }
}

use Cause::{Checks, FailOpen as Open, Latch, Quorum as ByQuorum};
use EndpointState::{Degraded, Down, Drain, Maintenance as Maint, Up};

#[test]
fn severities() {
    // A required, a degrading and an info check.
    let table = [
        ("+++", Up, vec![]),
        ("++-", Up, vec![]),
        ("++?", Up, vec![]),
        ("++m", Up, vec![]),
        ("+-+", Degraded, vec![1]),
        ("+~+", Degraded, vec![1]),
        ("+?+", Degraded, vec![1]),
        ("+m+", Degraded, vec![1]),
        ("~++", Degraded, vec![0]),
        ("~-+", Degraded, vec![0, 1]),
        ("-++", Down, vec![0]),
        ("---", Down, vec![0]),
        ("?++", Down, vec![0]),
        ("m++", Maint, vec![0]),
        ("m-+", Maint, vec![0]),
    ];
    for (marks, state, deciding) in table {
        let mut bench = Bench::new(3, |c| {
            EndpointConfig::new("e")
                .with(c[0], Severity::Required)
                .with(c[1], Severity::Degrading)
                .with(c[2], Severity::Info)
        });
        bench.feed(marks, 1);
        assert_eq!(bench.said(), (state, Checks), "{marks}");
        assert_eq!(bench.deciding(), deciding, "{marks}");
    }
}

#[test]
fn nothing_required_is_up() {
    assert_eq!(Bench::new(0, |_| EndpointConfig::new("livez")).said(), (Up, Checks));
}

#[test]
fn one_down_beats_one_in_maintenance() {
    let mut bench = Bench::new(2, |c| {
        EndpointConfig::new("e").with(c[0], Severity::Required).with(c[1], Severity::Required)
    });
    bench.feed("m-", 1);
    assert_eq!((bench.said(), bench.deciding()), ((Down, Checks), vec![1]));
}

#[test]
fn quorums() {
    // Three members: the first degrades the endpoint when it is down, the others count only for the
    // quorum.
    let table = [
        (Quorum::Count(2), "+++", Up, Checks),
        (Quorum::Count(2), "++-", Up, Checks),
        (Quorum::Count(2), "-++", Degraded, Checks),
        (Quorum::Count(2), "+--", Down, ByQuorum),
        (Quorum::Count(2), "+-~", Up, Checks),
        (Quorum::Count(2), "+-?", Down, ByQuorum),
        (Quorum::Count(2), "+-m", Maint, ByQuorum),
        (Quorum::Count(2), "--m", Down, ByQuorum),
        (Quorum::Count(3), "++-", Down, ByQuorum),
        (Quorum::Percent(60), "++-", Up, Checks),
        (Quorum::Percent(67), "++-", Down, ByQuorum),
        (Quorum::Percent(1), "+--", Up, Checks),
        (Quorum::Percent(1), "---", Down, ByQuorum),
        (Quorum::Percent(100), "+++", Up, Checks),
    ];
    for (quorum, marks, state, cause) in table {
        let mut bench = Bench::new(3, |c| {
            let config = EndpointConfig::new("e")
                .with_member(c[0], Severity::Degrading)
                .with_member(c[1], Severity::Info)
                .with_member(c[2], Severity::Info);
            EndpointConfig { quorum: Some(quorum), ..config }
        });
        bench.feed(marks, 1);
        assert_eq!(bench.said(), (state, cause), "{quorum:?} {marks}");
        if cause == ByQuorum {
            let bad: Vec<_> = (0..3).filter(|&at| "-?m".contains(&marks[at..=at])).collect();
            assert_eq!(bench.deciding(), bad, "{quorum:?} {marks}");
        }
    }
}

#[test]
fn weights_add_up_what_serves() {
    let mut bench = Bench::new(2, |c| {
        let weigh = |check, weight| Use { weight, ..Use::new(check, Severity::Degrading) };
        EndpointConfig { uses: vec![weigh(c[0], 60), weigh(c[1], 40)], ..EndpointConfig::new("e") }
    });
    for (marks, weight) in [("??", 0), ("+?", 60), ("?~", 100), ("-?", 40), ("?m", 0), ("++", 100)] {
        bench.feed(marks, 1);
        assert_eq!(bench.endpoint().weight(), Some(weight), "{marks}");
    }
    let plain = Bench::new(1, |c| EndpointConfig::new("e").with(c[0], Severity::Required));
    assert_eq!(plain.endpoint().weight(), None, "no check has one");
}

/// A required check with weight 60 and an info check with weight 40.
fn weighed(c: &[CheckIndex]) -> EndpointConfig {
    let weigh = |check, severity, weight| Use { weight, ..Use::new(check, severity) };
    EndpointConfig {
        uses: vec![weigh(c[0], Severity::Required, 60), weigh(c[1], Severity::Info, 40)],
        ..EndpointConfig::new("e")
    }
}

#[test]
fn what_serves_whatever_its_checks_say_has_all_its_weight() {
    let fail_open = Some(FailOpen { max_age: 30 * SECOND, max_healthy: 0 });
    let mut opens = Bench::new(2, |c| EndpointConfig { fail_open, ..weighed(c) });
    opens.feed("++", 1);
    opens.feed("--", 2);
    assert_eq!((opens.said(), opens.endpoint().weight()), ((Degraded, Open), Some(100)));
    opens.tick(32);
    assert_eq!((opens.said(), opens.endpoint().weight()), ((Down, Checks), Some(0)));

    let mut latched = Bench::new(2, |c| EndpointConfig { latch: true, ..weighed(c) });
    latched.feed("+-", 1);
    assert_eq!((latched.said(), latched.endpoint().weight()), ((Up, Checks), Some(60)));
    latched.feed("--", 2);
    assert_eq!((latched.said(), latched.endpoint().weight()), ((Up, Latch), Some(100)));
    latched.command(3, Command::Drain { target: Target::All, reason: Some(Reason::default()) });
    assert_eq!(
        (latched.said().0, latched.endpoint().weight()),
        (Drain, Some(100)),
        "the verdict without a drain"
    );

    let mut forced = Bench::new(2, weighed);
    forced.feed("--", 1);
    for (state, weight) in [(ForcedState::Up, 100), (ForcedState::Degraded, 100), (ForcedState::Down, 0)] {
        forced.command(2, force(state, None));
        assert_eq!(forced.endpoint().weight(), Some(weight), "{state:?}");
    }
}

#[test]
fn what_is_not_known_within_grace_has_its_weight() {
    let grace = Some(Grace { duration: 10 * SECOND });
    let mut bench = Bench::new(2, |c| EndpointConfig { grace, ..weighed(c) });
    assert_eq!((bench.said(), bench.endpoint().weight()), ((Up, Checks), Some(100)));
    bench.feed("?-", 1);
    assert_eq!((bench.said(), bench.endpoint().weight()), ((Up, Checks), Some(60)));
    bench.tick(10);
    assert_eq!((bench.said(), bench.endpoint().weight()), ((Down, Checks), Some(0)));
}

fn open(c: &[CheckIndex]) -> EndpointConfig {
    let config = EndpointConfig::new("e").with(c[0], Severity::Required).with(c[1], Severity::Required);
    EndpointConfig { fail_open: Some(FailOpen { max_age: 30 * SECOND, max_healthy: 0 }), ..config }
}

#[test]
fn stays_open_for_a_while_when_all_are_down() {
    let mut bench = Bench::new(2, open);
    bench.feed("++", 1);
    bench.feed("-?", 2);
    assert_eq!(bench.said(), (Down, Checks), "only one of the two checks is down");
    bench.feed("?-", 3);
    assert_eq!((bench.said(), bench.deciding()), ((Degraded, Open), vec![0, 1]));
    assert_eq!(bench.board.deadline(), at(33));
    bench.tick(32);
    assert_eq!(bench.said(), (Degraded, Open));
    bench.tick(33);
    assert_eq!(bench.said(), (Down, Checks), "the time limit has passed");
    bench.feed("--", 40);
    assert_eq!(bench.said(), (Down, Checks), "the same outage");
    bench.feed("+?", 41);
    bench.feed("-?", 42);
    assert_eq!(bench.said(), (Degraded, Open), "another outage");
}

#[test]
fn groups_that_are_failed_as_a_whole() {
    for (max_healthy, down, members, expected) in [
        (0, 0, 0, false),
        (0, 0, 2, false),
        (0, 1, 2, false),
        (0, 2, 2, true),
        (50, 0, 2, false),
        (50, 1, 2, true),
        (50, 1, 3, false),
        (50, 2, 3, true),
        (33, 2, 3, false),
        (34, 2, 3, true),
        (99, 1, 100, true),
        (99, 1, 101, false),
        (99, u32::MAX / 100, u32::MAX, false),
        (99, u32::MAX / 100 + 1, u32::MAX, true),
    ] {
        assert_eq!(
            FailOpen::covers(max_healthy, down, members),
            expected,
            "{max_healthy} % {down}/{members}"
        );
    }
    let config = EndpointConfig::new("e");
    let rule = |max_healthy| Some(FailOpen { max_age: SECOND, max_healthy });
    assert_eq!(EndpointConfig { fail_open: rule(99), ..config.clone() }.validate(), Ok(()));
    let error = EndpointConfig { fail_open: rule(100), ..config }.validate();
    assert_eq!(error, Err(ConfigError::FailOpen));
}

/// Three of four members are down, as with a panic threshold of 25 %.
#[test]
fn opens_while_few_are_healthy() {
    let fail_open = Some(FailOpen { max_age: 30 * SECOND, max_healthy: 25 });
    let required = |c: &[CheckIndex]| {
        let config = EndpointConfig::new("e");
        let config = c.iter().fold(config, |config, &check| config.with(check, Severity::Required));
        EndpointConfig { fail_open, ..config }
    };
    let mut bench = Bench::new(4, required);
    bench.feed("++++", 1);
    bench.feed("--++", 2);
    assert_eq!(bench.said(), (Down, Checks), "half of the checks are healthy");
    bench.feed("--+-", 3);
    assert_eq!((bench.said(), bench.deciding()), ((Degraded, Open), vec![0, 1, 3]));
    bench.feed("--m-", 4);
    assert_eq!(bench.said(), (Maint, Checks));
    bench.feed("----", 5);
    assert_eq!(bench.said(), (Degraded, Open));
    bench.tick(32);
    assert_eq!(bench.said(), (Degraded, Open));
    bench.tick(33);
    assert_eq!(bench.said(), (Down, Checks), "the time limit counts from the third check");

    let mut bench = Bench::new(4, |c| {
        let config = EndpointConfig::new("e");
        let config = c.iter().fold(config, |config, &check| config.with_member(check, Severity::Info));
        EndpointConfig { quorum: Some(Quorum::Count(1)), fail_open, ..config }
    });
    bench.feed("++++", 1);
    bench.feed("--+-", 2);
    assert_eq!(bench.said(), (Up, Checks), "the quorum is reached");
    bench.feed("----", 60);
    assert_eq!(bench.said(), (Degraded, Open), "the time limit counts from the missed quorum");
    bench.tick(90);
    assert_eq!(bench.said(), (Down, ByQuorum));
}

#[test]
fn does_not_open_what_never_was_up_nor_for_what_is_unknown() {
    let mut bench = Bench::new(2, open);
    bench.feed("--", 1);
    assert_eq!(bench.said(), (Down, Checks), "the endpoint was never up");
    let mut bench = Bench::new(2, |c| EndpointConfig { on_stale: OnStale::Unknown, ..open(c) });
    bench.feed("++", 1);
    bench.feed("-?", 90);
    bench.tick(101);
    assert_eq!(bench.said(), (Down, Checks), "down and unknown");
    bench.feed("?m", 102);
    assert_eq!(bench.said(), (Down, Checks), "down and in maintenance");
    bench.feed("?-", 103);
    assert_eq!(bench.said(), (Degraded, Open), "all down by their results");
}

#[test]
fn an_open_quorum_does_not_cover_what_is_required() {
    let mut bench = Bench::new(3, |c| {
        let config = EndpointConfig::new("e")
            .with(c[0], Severity::Required)
            .with_member(c[1], Severity::Degrading)
            .with_member(c[2], Severity::Degrading);
        let fail_open = Some(FailOpen { max_age: 30 * SECOND, max_healthy: 0 });
        EndpointConfig { quorum: Some(Quorum::Count(1)), fail_open, ..config }
    });
    bench.feed("+++", 1);
    bench.feed("+--", 2);
    assert_eq!(bench.said(), (Degraded, Open));
    bench.feed("-??", 3);
    assert_eq!((bench.said(), bench.deciding()), ((Down, Checks), vec![0]));
    bench.feed("m??", 4);
    assert_eq!(bench.said(), (Maint, Checks));
}

#[test]
fn a_latch_holds_what_was_earned() {
    let mut bench = Bench::new(1, |c| EndpointConfig {
        latch: true,
        grace: Some(Grace { duration: 10 * SECOND }),
        ..EndpointConfig::new("startupz").with(c[0], Severity::Required)
    });
    assert_eq!(bench.said(), (Down, Checks), "an endpoint with a latch has no grace period");
    bench.feed("-", 1);
    assert_eq!(bench.said(), (Down, Checks));
    bench.feed("~", 2);
    assert_eq!(bench.said(), (Degraded, Checks));
    bench.feed("-", 3);
    assert_eq!(bench.said(), (Up, Latch));
    bench.tick(500);
    assert_eq!(bench.said(), (Up, Latch), "stale or not");
    bench.command(501, force(ForcedState::Down, None));
    assert_eq!(bench.said(), (Down, Cause::Forced), "operators have priority");
}

#[test]
fn grace_ends() {
    let grace = Some(Grace { duration: 10 * SECOND });
    let mut bench = Bench::new(2, |c| EndpointConfig { grace, ..open(c) });
    assert_eq!(bench.said(), (Up, Checks));
    bench.feed("+?", 1);
    assert_eq!((bench.said(), bench.board.deadline()), ((Up, Checks), at(10)));
    bench.tick(10);
    assert_eq!((bench.said(), bench.deciding()), ((Down, Checks), vec![1]));
}

#[test]
fn stale_checks() {
    let table = [
        (OnStale::Down, "+", Down),
        (OnStale::Unknown, "+", Down),
        (OnStale::Degraded, "+", Degraded),
        (OnStale::Degraded, "-", Degraded),
        (OnStale::Down, "m", Down),
        (OnStale::Keep, "m", EndpointState::Maintenance),
        (OnStale::Keep, "+", Up),
        (OnStale::Keep, "~", Degraded),
        (OnStale::Keep, "-", Down),
        (OnStale::Keep, "u", Down),
    ];
    for (on_stale, marks, state) in table {
        let mut bench = Bench::new(1, |c| EndpointConfig {
            on_stale,
            ..EndpointConfig::new("e").with(c[0], Severity::Required)
        });
        bench.feed(marks, 1);
        bench.tick(101);
        assert_eq!(bench.board.check(bench.checks[0]).unwrap().state(), CheckState::Stale);
        assert_eq!(bench.said().0, state, "{on_stale:?} {marks}");
    }
}

#[test]
fn going_down_serves_and_keeps_its_complaint() {
    let mut builder = Board::builder(Time::ZERO);
    let config = CheckConfig { initial: Initial::FullyUp, ..CheckConfig::default() };
    let check = builder.check("c", config).unwrap();
    let endpoint = builder.endpoint(EndpointConfig::new("e").with(check, Severity::Required)).unwrap();
    let mut bench = Bench { board: builder.build(), endpoint, checks: vec![check] };
    for (mark, state) in [
        ("+", Up),
        ("-", Up),
        ("~", Degraded),
        ("-", Degraded),
        ("-", Degraded),
        ("-", Down),
        ("+", Down),
        ("+", Up),
    ] {
        bench.feed(mark, 1);
        assert_eq!(bench.said().0, state);
    }
}

fn drain(draining: bool) -> Command {
    Command::Drain { target: Target::All, reason: draining.then(Reason::default) }
}

fn force(state: ForcedState, until: Option<Time>) -> Command {
    let forced = Forced { state, reason: Reason::new(b"by hand"), until };
    Command::Force { target: Target::All, forced: Some(forced) }
}

fn maintain(until: Option<Time>) -> Command {
    let maintenance = Some(Maintenance::new("patching", Time::ZERO, until));
    Command::Maintain { target: Target::All, maintenance }
}

#[test]
fn a_drain_says_different_things_to_different_audiences() {
    let [kubelet, balancer, other] = Audience::ALL;
    let mut bench = Bench::new(1, |c| EndpointConfig {
        on_drain: [OnDrain::Ignore, OnDrain::Report, OnDrain::Code(299)],
        ..EndpointConfig::new("e").with(c[0], Severity::Required)
    });
    bench.feed("+", 1);
    bench.command(2, drain(true));
    assert_eq!(bench.said(), (Drain, Cause::Drain));
    assert_eq!((bench.code(kubelet), bench.code(balancer), bench.code(other)), (200, 503, 299));
    bench.feed("-", 3);
    assert_eq!((bench.code(kubelet), bench.code(balancer), bench.code(other)), (503, 503, 299));
    assert_eq!(bench.endpoint().verdict_without_drain().state, Down);
    bench.feed("+", 4);
    bench.command(5, drain(false));
    assert_eq!((bench.said(), bench.code(balancer)), ((Up, Checks), 200));
}

#[test]
fn order_of_precedence() {
    let mut bench = Bench::new(1, |c| EndpointConfig::new("e").with(c[0], Severity::Required));
    bench.feed("-", 1);
    bench.command(2, force(ForcedState::Up, None));
    assert_eq!(bench.said(), (Up, Cause::Forced));
    bench.command(3, drain(true));
    assert_eq!(bench.said(), (Drain, Cause::Drain), "an endpoint forced up still drains");
    bench.command(4, maintain(None));
    assert_eq!(bench.said(), (Maint, Cause::Maintenance));
    assert_eq!(bench.endpoint().note(bench.endpoint().verdict()), "patching");
    bench.command(5, Command::Maintain { target: Target::All, maintenance: None });
    bench.command(6, drain(false));
    assert_eq!(bench.said(), (Up, Cause::Forced));
    assert_eq!(bench.endpoint().note(bench.endpoint().verdict()), "by hand");
    bench.command(7, force(ForcedState::Degraded, None));
    assert_eq!(bench.said(), (Degraded, Cause::Forced));
    bench.command(8, Command::Force { target: Target::All, forced: None });
    assert_eq!(bench.said(), (Down, Checks));
}

#[test]
fn another_reason_is_news_also_where_replies_do_not_tell_it() {
    let said = |reason: &str| {
        let target = Target::All;
        let reason = Reason::new(reason.as_bytes());
        let maintenance =
            Some(Maintenance { reason: reason.clone(), ..Maintenance::new("", Time::ZERO, None) });
        let forced = Some(Forced { state: ForcedState::Down, reason: reason.clone(), until: None });
        [
            Command::Force { target, forced },
            Command::Drain { target, reason: Some(reason) },
            Command::Maintain { target, maintenance },
        ]
    };
    let mut bench = Bench::new(0, |_| EndpointConfig { details: Details::Never, ..EndpointConfig::new("e") });
    for place in 0..3 {
        for (reason, is_news) in [("disks", true), ("disks", false), ("kernel", true)] {
            let (endpoint, command) = (bench.endpoint, said(reason)[place].clone());
            let changes = bench.board.command(command, at(1));
            assert_eq!(changes.rendered.contains(&endpoint), is_news, "{place}: {reason}");
        }
    }
}

#[test]
fn what_was_said_for_a_time_ends() {
    let mut bench = Bench::new(0, |_| EndpointConfig::new("e"));
    bench.command(1, maintain(Some(at(10))));
    bench.command(1, force(ForcedState::Down, Some(at(20))));
    for (secs, expect) in [(9, Cause::Maintenance), (10, Cause::Forced), (19, Cause::Forced), (20, Checks)] {
        bench.tick(secs);
        assert_eq!(bench.said().1, expect, "{secs}");
    }
    assert_eq!(bench.endpoint().state_since(), at(20));
}

#[test]
fn codes() {
    let all = Codes { degraded: 201, down: 501, drain: 502, maintenance: 503, up: 202 };
    let mut bench = Bench::new(2, |c| {
        let coded = |check, code| Use { code, ..Use::new(check, Severity::Required) };
        EndpointConfig {
            codes: all,
            uses: vec![coded(c[0], None), coded(c[1], Some(551))],
            ..EndpointConfig::new("e")
        }
    });
    for (marks, code) in [("++", 202), ("~+", 201), ("-+", 501), ("--", 551), ("+-", 551), ("m+", 503)] {
        bench.feed(marks, 1);
        assert_eq!(bench.code(Audience::Other), code, "{marks}");
    }
    bench.feed("++", 2);
    bench.command(3, drain(true));
    assert_eq!(bench.code(Audience::Other), 502);
}

#[test]
fn bad_configurations() {
    let good = || EndpointConfig::new("e");
    let codes = Codes::default();
    let mut builder = Board::builder(Time::ZERO);
    let check = builder.check("c", CheckConfig::default()).unwrap();
    let member = || good().with_member(check, Severity::Info);
    let coded = Use { code: Some(600), ..Use::new(check, Severity::Info) };
    let table = [
        (EndpointConfig::new(""), ConfigError::NameLen),
        (EndpointConfig::new("x".repeat(129)), ConfigError::NameLen),
        (EndpointConfig { body_len_max: 255, ..good() }, ConfigError::BodyLen),
        (EndpointConfig { body_len_max: 65_537, ..good() }, ConfigError::BodyLen),
        (member(), ConfigError::Quorum),
        (EndpointConfig { quorum: Some(Quorum::Count(1)), ..good() }, ConfigError::Quorum),
        (EndpointConfig { quorum: Some(Quorum::Count(0)), ..member() }, ConfigError::Quorum),
        (EndpointConfig { quorum: Some(Quorum::Count(2)), ..member() }, ConfigError::Quorum),
        (EndpointConfig { quorum: Some(Quorum::Percent(0)), ..member() }, ConfigError::Quorum),
        (EndpointConfig { quorum: Some(Quorum::Percent(101)), ..member() }, ConfigError::Quorum),
        (EndpointConfig { codes: Codes { up: 400, ..codes }, ..good() }, ConfigError::Code),
        (EndpointConfig { codes: Codes { degraded: 199, ..codes }, ..good() }, ConfigError::Code),
        (EndpointConfig { codes: Codes { down: 600, ..codes }, ..good() }, ConfigError::Code),
        (EndpointConfig { codes: Codes { drain: 0, ..codes }, ..good() }, ConfigError::Code),
        (EndpointConfig { codes: Codes { maintenance: 1000, ..codes }, ..good() }, ConfigError::Code),
        (EndpointConfig { on_drain: [OnDrain::Code(100); 3], ..good() }, ConfigError::Code),
        (EndpointConfig { uses: vec![coded], ..good() }, ConfigError::Code),
    ];
    for (config, error) in table {
        assert_eq!(builder.endpoint(config.clone()).err(), Some(error), "{config:?}");
    }
    assert!(builder.endpoint(good()).is_ok());
}

#[test]
fn words() {
    assert_eq!(EndpointState::ALL.map(EndpointState::as_str).join(" "), "degraded down drain maintenance up");
    for (at, state) in EndpointState::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, at);
    }
    for (at, audience) in Audience::ALL.into_iter().enumerate() {
        assert_eq!(audience as usize, at);
    }
}
