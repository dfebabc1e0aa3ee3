//! The state machine of a check: each rule as a table of results and expected states.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const LATENCY: Duration = Duration::from_millis(2);

fn at(secs: u64) -> Time {
    Time::from_secs(secs)
}

/// `+` success, `~` degraded, `-` failure, `t` timeout, `e` error, `m` maintenance,
/// `u` unknown.
fn outcome(mark: char) -> Outcome {
    match mark {
        '+' => Outcome::Success,
        '~' => Outcome::Degraded,
        '-' => Outcome::Failure,
        't' => Outcome::Timeout,
        'e' => Outcome::Error,
        'm' => Outcome::Maintenance,
        'u' => Outcome::Unknown,
        _ => panic!("no outcome for {mark}"),
    }
}

fn short(state: CheckState) -> &'static str {
    match state {
        CheckState::Degraded => "D",
        CheckState::Down => "-",
        CheckState::Flapping => "F",
        CheckState::GoingDown => "\\",
        CheckState::GoingUp => "/",
        CheckState::Maintenance => "M",
        CheckState::Stale => "S",
        CheckState::Unknown => "?",
        CheckState::Up => "+",
    }
}

/// Passes one result per second to a check, starting at second 1; returns the state after each
/// result.
fn states(config: &CheckConfig, results: &str) -> String {
    let mut check = Check::new(config.clone(), Time::ZERO).unwrap();
    let mut seen = short(check.state()).to_owned();
    for (second, mark) in (1..).zip(results.chars()) {
        check.handle_result(&CheckResult::new(outcome(mark), LATENCY, b""), at(second));
        seen.push_str(short(check.state()));
    }
    seen
}

fn with(initial: Initial, rise: u32, fall: u32) -> CheckConfig {
    CheckConfig { initial, rise, fall, ..CheckConfig::default() }
}

#[test]
fn rise_and_fall() {
    let table = [
        // The first result alone decides.
        ("+", "?+"),
        ("-", "?-"),
        ("~", "?D"),
        ("t", "?-"),
        ("e", "?-"),
        // Three consecutive failures of any kind lead to down; a success in between restarts the
        // count.
        ("+-", "?+\\"),
        ("+--", "?+\\\\"),
        ("+---", "?+\\\\-"),
        ("+-te", "?+\\\\-"),
        ("+--+--+", "?+\\\\+\\\\+"),
        // Two consecutive successes, degraded or not, lead to up; a failure in between restarts the
        // count.
        ("-+", "?-/"),
        ("-++", "?-/+"),
        ("-+-+", "?-/-/"),
        ("-+~", "?-/D"),
        ("-~+", "?-/+"),
        // The last success decides whether the check is degraded.
        ("+~+~", "?+D+D"),
        ("~-+", "?D\\+"),
        // A maintenance result counts neither as success nor as failure.
        ("m", "?M"),
        ("m+", "?M+"),
        ("+--m-", "?+\\\\M-"),
        ("-+m+", "?-/M+"),
        // An unknown state counts neither as success nor as failure, and is never up.
        ("u", "??"),
        ("u+", "??+"),
        ("+u", "?+?"),
        ("+u+", "?+?+"),
        ("+--u-", "?+\\\\?-"),
        ("-+u+", "?-/?+"),
    ];
    for (results, expect) in table {
        assert_eq!(states(&with(Initial::Unknown, 2, 3), results), expect, "{results}");
    }
}

#[test]
fn initial_beliefs() {
    let table = [
        (Initial::Unknown, "-", "?-"),
        (Initial::Up, "-", "+-"),
        (Initial::Up, "+-", "++\\"),
        (Initial::FullyUp, "---", "+\\\\-"),
        (Initial::Down, "+", "-+"),
        (Initial::Down, "-+", "--/"),
        (Initial::FullyDown, "++", "-/+"),
    ];
    for (initial, results, expect) in table {
        assert_eq!(states(&with(initial, 2, 3), results), expect, "{initial:?} {results}");
    }
}

#[test]
fn thresholds_of_one() {
    assert_eq!(states(&with(Initial::FullyUp, 1, 1), "-+-"), "+-+-");
}

#[test]
fn the_next_run() {
    let config = CheckConfig {
        interval: 5 * SECOND,
        fast_interval: SECOND,
        down_interval: 10 * SECOND,
        ..CheckConfig::default()
    };
    let mut check = Check::new(config, at(100)).unwrap();
    assert_eq!(check.next_due(), at(100), "at once");
    let mut now = at(100);
    // Outcome, then seconds from the start of its run to the start of the next run.
    for (mark, secs) in [
        ('+', 5),
        ('-', 1),
        ('-', 1),
        ('-', 10),
        ('-', 10),
        ('+', 1),
        ('-', 10),
        ('+', 1),
        ('+', 5),
        ('~', 5),
    ] {
        let started = now;
        now = started.after(LATENCY);
        check.handle_result(&CheckResult::new(outcome(mark), LATENCY, b""), now);
        assert_eq!(check.next_due(), started.after(secs * SECOND), "{mark}: measured from start to start");
        now = check.next_due();
    }
    let ended = now.after(60 * SECOND);
    check.handle_result(&CheckResult::success(60 * SECOND), ended);
    assert_eq!(check.next_due(), ended, "due immediately after an overrun");
    let passive = Check::new(CheckConfig::ttl(SECOND), at(0)).unwrap();
    assert_eq!(passive.next_due(), Time::MAX);
}

#[test]
fn old_results_are_none() {
    let config = CheckConfig { max_age: Some(10 * SECOND), ..with(Initial::Unknown, 2, 3) };
    let mut check = Check::new(config, at(0)).unwrap();
    assert_eq!(check.deadline(), Time::MAX, "no result can expire");
    assert_eq!(check.handle_time(at(99)), None);
    check.handle_result(&CheckResult::success(LATENCY), at(100));
    assert_eq!(check.deadline(), at(110));
    assert_eq!(check.handle_time(Time::from_nanos(at(110).as_nanos() - 1)), None);
    let moved = check.handle_time(at(110)).unwrap();
    assert_eq!((moved.from, moved.to), (CheckState::Up, CheckState::Stale));
    assert_eq!(check.deadline(), Time::MAX);
    assert_eq!(check.interval(), SECOND, "a stale check uses the fast interval");
    // A single result decides, as at the start.
    check.handle_result(&CheckResult::new(Outcome::Failure, LATENCY, b""), at(111));
    assert_eq!((check.state(), check.interval()), (CheckState::Down, 10 * SECOND));
    let mut down = check.clone();
    down.handle_time(at(200));
    assert_eq!((down.state(), down.interval()), (CheckState::Stale, SECOND), "whatever the settled value is");
    // A result that arrives after its predecessor became stale reports both changes.
    let moves = check.handle_result(&CheckResult::success(LATENCY), at(500));
    assert_eq!(moves.map(|moved| moved.map(|one| one.to)), [Some(CheckState::Stale), Some(CheckState::Up)]);
}

#[test]
fn a_belief_grows_old_too() {
    let config = CheckConfig { max_age: Some(10 * SECOND), ..with(Initial::FullyUp, 2, 3) };
    let mut check = Check::new(config, at(0)).unwrap();
    assert_eq!(check.handle_time(at(10)).map(|moved| moved.to), Some(CheckState::Stale));
}

#[test]
fn pushed_results_hold_for_their_time() {
    let mut check = Check::new(CheckConfig::ttl(30 * SECOND), at(0)).unwrap();
    check.handle_result(&CheckResult::success(Duration::ZERO), at(1));
    assert_eq!(check.state(), CheckState::Up);
    assert_eq!(check.handle_time(at(31)).map(|moved| moved.to), Some(CheckState::Stale));
}

#[test]
fn flapping_is_held_down() {
    let flap = FlapRule { window: 20 * SECOND, transitions_max: 2, hold: 5 * SECOND };
    let config = CheckConfig { flap: Some(flap), ..with(Initial::Unknown, 1, 1) };
    // The first result is not a change; the third change within 20 s exceeds the limit.
    assert_eq!(states(&config, "+-+-"), "?+-+F");
    // The hold ends 5 s after the last change: the check is held at seconds 5 to 8, not at 9.
    assert_eq!(states(&config, "+-+-------"), "?+-+FFFFF--");
    // A change during a hold restarts the hold; afterwards the state shows the settled value.
    assert_eq!(states(&config, "+-+-+++++++"), "?+-+FFFFFF++");
    // One more change within the window starts another hold; a change after the window does not.
    assert_eq!(states(&config, "+-+------+"), "?+-+FFFFF-F");
    let calm = format!("+-+-{}+", "-".repeat(25));
    assert!(states(&config, &calm).ends_with("-+"));
    // Slow changes do not count as flapping: any three of them take more than the window of 20 s.
    let slow = ["+".repeat(11), "-".repeat(11)].concat().repeat(4);
    assert!(!states(&config, &slow).contains('F'));
}

#[test]
fn a_hold_ends_by_time_alone() {
    let flap = FlapRule { window: 20 * SECOND, transitions_max: 1, hold: 5 * SECOND };
    let mut check =
        Check::new(CheckConfig { flap: Some(flap), ..with(Initial::Unknown, 1, 1) }, at(0)).unwrap();
    for (second, mark) in (1..).zip("+-+".chars()) {
        check.handle_result(&CheckResult::new(outcome(mark), LATENCY, b""), at(second));
    }
    assert_eq!((check.state(), check.deadline()), (CheckState::Flapping, at(8)));
    assert_eq!(check.handle_time(at(8)).map(|moved| moved.to), Some(CheckState::Up));
}

#[test]
fn maintenance_hides_and_ends() {
    let mut check = Check::new(with(Initial::Unknown, 1, 1), at(0)).unwrap();
    check.handle_result(&CheckResult::success(LATENCY), at(1));
    let moved = check.set_maintenance(Some(Maintenance::new("disks", at(2), Some(at(9)))), at(2)).unwrap();
    assert_eq!((moved.from, moved.to), (CheckState::Up, CheckState::Maintenance));
    assert_eq!(check.reason(), "disks");
    assert_eq!(
        check.handle_result(&CheckResult::new(Outcome::Failure, LATENCY, b"gone"), at(5)),
        [None, None]
    );
    assert_eq!(check.deadline(), at(9));
    assert_eq!(check.handle_time(at(9)).map(|moved| moved.to), Some(CheckState::Down), "results counted");
    assert_eq!(check.reason(), "gone");
    check.set_maintenance(Some(Maintenance::new("", at(9), None)), at(9));
    assert_eq!(check.set_maintenance(None, at(10)).map(|moved| moved.to), Some(CheckState::Down));
}

/// Maintenance that a target reported expires, because a target that no longer responds may not
/// exist any more. Maintenance that an operator declared lasts until the operator ends it.
#[test]
fn maintenance_that_a_target_declared_grows_old() {
    let config = CheckConfig::ttl(Duration::from_secs(10));
    let mut check = Check::new(config, at(0)).unwrap();
    let says = CheckResult::new(Outcome::Maintenance, LATENCY, b"moving");
    check.handle_result(&says, at(1));
    assert_eq!((check.state(), check.deadline()), (CheckState::Maintenance, at(11)));
    assert_eq!(check.handle_time(at(11)).map(|moved| moved.to), Some(CheckState::Stale));
    assert_eq!(check.last_outcome(), Some(Outcome::Maintenance));
    check.handle_result(&says, at(12));
    assert_eq!(check.state(), CheckState::Maintenance, "the target responds again");
    check.set_maintenance(Some(Maintenance::new("disks", at(13), None)), at(13));
    check.handle_time(at(60));
    assert_eq!(check.state(), CheckState::Maintenance);
    assert_eq!(check.set_maintenance(None, at(61)).map(|moved| moved.to), Some(CheckState::Stale));
}

#[test]
fn what_is_remembered() {
    let config = CheckConfig { history_len: 3, ..CheckConfig::default() };
    let mut check = Check::new(config, at(0)).unwrap();
    let seen = |check: &Check| check.history().iter().map(|entry| entry.at).collect::<Vec<_>>();
    assert_eq!(seen(&check), []);
    for second in 1..=5 {
        let reason = format!("try {second}");
        let result = CheckResult::new(Outcome::Timeout, LATENCY * second, reason.as_bytes());
        check.handle_result(&result, at(u64::from(second)));
    }
    assert_eq!(seen(&check), [at(3), at(4), at(5)]);
    let last = *check.history().iter().last().unwrap();
    assert_eq!((last.outcome, last.latency()), (Outcome::Timeout, 5 * LATENCY));
    assert_eq!(check.last().map(|(at, result)| (at, result.latency)), Some((at(5), 5 * LATENCY)));
    assert_eq!(
        (check.reason(), check.consecutive_failures(), check.consecutive_successes()),
        ("try 5", 5, 0)
    );
    assert_eq!((check.state_since(), check.last_success_at()), (at(1), None));
    check.handle_result(&CheckResult::success(Duration::MAX), at(6));
    assert_eq!((check.consecutive_failures(), check.consecutive_successes()), (0, 1));
    assert_eq!((check.last_success_at(), check.reason()), (Some(at(6)), ""));
    let none = Check::new(CheckConfig { history_len: 0, ..CheckConfig::default() }, at(0)).unwrap();
    assert_eq!(none.history().iter().len(), 0);
}

#[test]
fn bad_configurations() {
    let good = CheckConfig::default;
    let flap = |window, transitions_max, hold| CheckConfig {
        flap: Some(FlapRule { window, transitions_max, hold }),
        ..good()
    };
    let table = [
        (CheckConfig { rise: 0, ..good() }, ConfigError::Threshold),
        (CheckConfig { fall: 0, ..good() }, ConfigError::Threshold),
        (CheckConfig { interval: Duration::ZERO, ..good() }, ConfigError::Interval),
        (CheckConfig { fast_interval: Duration::ZERO, ..good() }, ConfigError::Interval),
        (CheckConfig { down_interval: Duration::ZERO, ..good() }, ConfigError::Interval),
        (CheckConfig { max_age: Some(Duration::ZERO), ..good() }, ConfigError::Interval),
        (CheckConfig { history_len: 4097, ..good() }, ConfigError::HistoryLen),
        (flap(Duration::ZERO, 1, SECOND), ConfigError::Flap),
        (flap(SECOND, 0, SECOND), ConfigError::Flap),
        (flap(SECOND, 65, SECOND), ConfigError::Flap),
        (flap(SECOND, 1, Duration::ZERO), ConfigError::Flap),
    ];
    for (config, error) in table {
        assert_eq!(Check::new(config, at(0)).err(), Some(error));
    }
    assert_eq!(good().validate(), Ok(()));
    assert_eq!(good().max_age(), 30 * SECOND, "three times the longest interval");
}

#[test]
fn words() {
    let words = CheckState::ALL.map(CheckState::as_str);
    assert_eq!(words.join(" "), "degraded down flapping going_down going_up maintenance stale unknown up");
    for (at, state) in CheckState::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, at);
    }
}
