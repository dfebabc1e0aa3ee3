//! Weeks of a whole board on a virtual clock, with scripted outages. The recorded states of the
//! endpoint must match the script.
//!
//! `DOORBELL_HEALTH_WEEKS` sets the number of weeks; default four.

use std::time::Duration;

use doorbell_health::{
    Audience, Board, CheckConfig, CheckIndex, CheckResult, EndpointConfig, EndpointState, Event, FlapRule,
    Format, Outcome, Severity, Time,
};

const SECOND: Duration = Duration::from_secs(1);
const DAY: u64 = 86_400;

/// A multiplicative random number generator with a fixed seed: every run uses the same script.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Outages of a target: start and end in seconds, in order, without overlap.
fn outages(dice: &mut Dice, end: u64) -> Vec<(u64, u64)> {
    let (mut outages, mut at) = (Vec::new(), 0);
    loop {
        let from = at + 3_600 + dice.below(6 * 3_600);
        let to = from + 120 + dice.below(1_800);
        if to + 3_600 > end {
            return outages;
        }
        outages.push((from, to));
        at = to;
    }
}

fn is_out(outages: &[(u64, u64)], at: u64) -> bool {
    let next = outages.partition_point(|&(_, to)| to <= at);
    outages.get(next).is_some_and(|&(from, _)| from <= at)
}

fn days() -> u64 {
    let weeks: Option<u64> = std::env::var("DOORBELL_HEALTH_WEEKS").ok().and_then(|text| text.parse().ok());
    weeks.unwrap_or(4) * 7
}

struct World {
    board: Board,
    checks: Vec<(CheckIndex, Vec<(u64, u64)>)>,
    end: u64,
    runs: u64,
    /// For each endpoint: start of the current outage, total duration of the earlier ones, and
    /// their number.
    down: Vec<(Option<u64>, u64, u64)>,
}

impl World {
    fn new(days: u64) -> Self {
        let (mut dice, end) = (Dice(7), days * DAY);
        let mut builder = Board::builder(Time::ZERO);
        let config = CheckConfig { flap: Some(FlapRule::default()), ..CheckConfig::default() };
        let mut checks = Vec::new();
        for name in ["a", "b", "c", "d"] {
            let check = builder.check(name, config.clone()).expect("the configuration is valid");
            builder
                .endpoint(EndpointConfig::new(name).with(check, Severity::Required))
                .expect("the configuration is valid");
            checks.push((check, outages(&mut dice, end)));
        }
        let all = checks
            .iter()
            .fold(EndpointConfig::new("all"), |all, (check, _)| all.with(*check, Severity::Required));
        builder.endpoint(all).expect("the configuration is valid");
        let down = vec![(Some(0), 0, 1); 5];
        Self { board: builder.build(), checks, end, runs: 0, down }
    }

    /// Runs the checks that are due, and calls `tick` at the board's deadlines.
    fn run(&mut self) {
        loop {
            let next = self
                .checks
                .iter()
                .map(|(check, _)| self.board.next_due(*check))
                .min()
                .expect("there are checks");
            let now = next.min(self.board.deadline());
            if now >= Time::from_secs(self.end) {
                return;
            }
            let secs = now.as_nanos() / 1_000_000_000;
            let changes = self.board.tick(now);
            note(&mut self.down, changes.events, secs);
            for (check, outages) in &self.checks {
                if self.board.next_due(*check) > now {
                    continue;
                }
                let result = if is_out(outages, secs) {
                    CheckResult::new(Outcome::Failure, Duration::ZERO, b"refused")
                } else {
                    CheckResult::success(Duration::ZERO)
                };
                self.runs += 1;
                let changes = self.board.apply(*check, &result, now);
                note(&mut self.down, changes.events, secs);
            }
        }
    }
}

fn note(down: &mut [(Option<u64>, u64, u64)], events: &[Event], secs: u64) {
    for event in events {
        let Event::Endpoint { endpoint, to, .. } = event else { continue };
        let (since, before, times) = &mut down[endpoint.as_usize()];
        match (to.state == EndpointState::Down, *since) {
            (true, None) => (*since, *times) = (Some(secs), *times + 1),
            (false, Some(from)) => (*since, *before) = (None, *before + secs - from),
            (true, Some(_)) | (false, None) => {}
        }
    }
}

#[test]
fn the_account_of_outages_agrees_with_the_script() {
    let days = days();
    let mut world = World::new(days);
    world.run();
    let mut outages_total = 0;
    for (at, (_, outages)) in world.checks.iter().enumerate() {
        let (since, down, times) = world.down[at];
        let (scripted, count) =
            (outages.iter().map(|(from, to)| to - from).sum::<u64>(), outages.len() as u64);
        outages_total += count;
        assert!(count >= 2 * days, "the script contains outages: {count}");
        assert_eq!(
            (since, times),
            (None, count + 1),
            "each outage was detected once, and the time before the first result counts as one"
        );
        // Maximum delay until an outage is detected: one interval and two fast intervals. Maximum
        // delay until its end is detected: one down interval and one fast interval.
        let slack = count * 12;
        assert!(down.abs_diff(scripted) <= slack, "down for {down} s, scripted {scripted} s");
    }
    let counters = world.board.counters();
    // Each of the four checks: unknown to up once, then going down, down, going up, up in each
    // outage.
    assert_eq!(counters.check_transitions, 4 + 4 * outages_total);
    assert_eq!(counters.results, world.runs);
    assert!(world.runs >= 4 * world.end / 10, "{} runs: fewer than with the down interval", world.runs);
    let history = world.board.check(world.checks[0].0).expect("the configuration is valid").history();
    assert_eq!(history.iter().len(), 200, "the history is full");
    let reply = world.board.endpoints()[4].rendered().reply(Audience::Other, Format::Text, true);
    assert_eq!((reply.code, reply.body), (200, b"up\na: up\nb: up\nc: up\nd: up\n".as_slice()));
}

#[test]
fn a_week_of_silence_is_one_change() {
    let mut builder = Board::builder(Time::ZERO);
    let check = builder.check("a", CheckConfig::ttl(30 * SECOND)).expect("the configuration is valid");
    builder
        .endpoint(EndpointConfig::new("e").with(check, Severity::Required))
        .expect("the configuration is valid");
    let mut board = builder.build();
    board.apply(check, &CheckResult::success(Duration::ZERO), Time::from_secs(1));
    let mut transitions = 0;
    for hour in 1..=7 * 24 {
        transitions += board.tick(Time::from_secs(hour * 3_600)).events.len();
    }
    assert_eq!(transitions, 2, "the check and its endpoint");
    assert_eq!(board.deadline(), Time::MAX, "there is no deadline");
}
