//! A copy of one endpoint at a moment, for replies with some of its checks excluded.
//!
//! A snapshot is immutable, so threads may share it.

use std::time::Duration;

use crate::check::CheckState;
use crate::endpoint::{Audience, Class, Endpoint, EndpointState, Severity};
use crate::format::{Format, Line, Page, write};
use crate::time::Time;

/// A copy of an endpoint and of the checks that a body can show.
#[derive(Debug)]
pub struct Snapshot {
    endpoint: Endpoint,
    lines: Vec<LineData>,
    unix_at_zero: Option<Duration>,
}

/// The data of one check's line in a body.
#[derive(Debug)]
struct LineData {
    place: usize,
    name: Box<str>,
    state: CheckState,
    class: Class,
    severity: Severity,
    reason: Box<str>,
    last: Option<(Time, Duration)>,
}

/// The checks that a request excludes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Excluded<'a> {
    /// Checks, by their position among the endpoint's uses. Duplicates and unknown positions are
    /// allowed.
    pub out: &'a [usize],
    /// Names that match no check of the endpoint.
    pub unknown: &'a [&'a str],
}

impl Snapshot {
    pub(crate) fn new(
        endpoint: &Endpoint,
        lines: &[(usize, Line<'_>)],
        unix_at_zero: Option<Duration>,
    ) -> Self {
        let keep = |(place, line): &(usize, Line<'_>)| LineData {
            place: *place,
            name: line.name.into(),
            state: line.state,
            class: line.class,
            severity: line.severity,
            reason: line.reason.into(),
            last: line.last,
        };
        Self { endpoint: endpoint.without_replies(), lines: lines.iter().map(keep).collect(), unix_at_zero }
    }

    /// Returns the weight of the endpoint, as in [`Endpoint::weight`]; excluded checks do not
    /// change the weight.
    pub fn weight(&self) -> Option<u32> {
        self.endpoint.weight()
    }

    /// Clears `out` and writes the body for a client that sees details; returns the reported state
    /// and the code. The cost is that of rendering one body. If the endpoint is down, the checks
    /// with a status code of their own are visited as well.
    pub fn reply_without(
        &self,
        excluded: &Excluded<'_>,
        audience: Audience,
        format: Format,
        out: &mut Vec<u8>,
    ) -> (EndpointState, u16) {
        let config = self.endpoint.config();
        let mut left_out: Vec<usize> =
            excluded.out.iter().copied().filter(|&place| place < config.uses.len()).collect();
        left_out.sort_unstable();
        left_out.dedup();
        let (verdict, code) = self.endpoint.answer_without(&left_out, audience);
        // Only the Kubernetes format can show excluded checks.
        let shows_excluded = format == Format::Kube;
        let lines: Vec<Line<'_>> = self
            .lines
            .iter()
            .map(|kept| kept.line(left_out.binary_search(&kept.place).is_ok()))
            .filter(|line| shows_excluded || !line.left_out)
            .collect();
        let page = Page {
            name: &config.name,
            verdict,
            code,
            note: self.endpoint.note(verdict),
            lines: &lines,
            lines_total: config.uses.len() - if shows_excluded { 0 } else { left_out.len() },
            unknown: excluded.unknown,
            details: config.details,
            body_len_max: config.body_len_max,
            unix_at_zero: self.unix_at_zero,
        };
        out.clear();
        write(out, &page, format, true);
        (verdict.state, code)
    }
}

impl LineData {
    fn line(&self, left_out: bool) -> Line<'_> {
        Line {
            name: &self.name,
            state: self.state,
            class: self.class,
            severity: self.severity,
            reason: &self.reason,
            left_out,
            last: self.last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{CheckConfig, CheckResult, Outcome};
    use crate::endpoint::{EndpointConfig, OnDrain, Quorum};
    use crate::{Board, CheckIndex, Command, EndpointIndex, Reason, Target};

    const NAMES: [&str; 4] = ["app", "db", "disk", "queue"];

    fn build(
        config: impl FnOnce(EndpointConfig, [CheckIndex; 4]) -> EndpointConfig,
    ) -> (Board, EndpointIndex) {
        let mut builder = Board::builder(Time::ZERO);
        let quick = || CheckConfig { rise: 1, fall: 1, ..CheckConfig::default() };
        let checks = NAMES.map(|name| builder.check(name, quick()).unwrap());
        let endpoint = builder.endpoint(config(EndpointConfig::new("readyz"), checks)).unwrap();
        (builder.build(), endpoint)
    }

    fn tell(board: &mut Board, name: &str, outcome: Outcome) {
        let check = board.check_named(name).unwrap();
        board.apply(check, &CheckResult::new(outcome, Duration::ZERO, b"x"), Time::from_secs(1));
    }

    fn says(
        board: &Board,
        endpoint: EndpointIndex,
        excluded: &Excluded<'_>,
        format: Format,
    ) -> (u16, String) {
        let mut body = b"what was there".to_vec();
        let snapshot = board.snapshot(endpoint).unwrap();
        let (_, code) = snapshot.reply_without(excluded, Audience::Other, format, &mut body);
        (code, String::from_utf8(body).unwrap())
    }

    fn without(board: &Board, endpoint: EndpointIndex, out: &[usize]) -> (u16, String) {
        says(board, endpoint, &Excluded { out, unknown: &[] }, Format::Kube)
    }

    #[test]
    fn what_is_left_out_counts_as_well() {
        let (mut board, endpoint) = build(|config, [app, db, disk, queue]| {
            let config = config.with(app, Severity::Required).with(db, Severity::Required);
            config.with(disk, Severity::Info).with(queue, Severity::Degrading)
        });
        for (name, outcome) in
            NAMES.into_iter().zip([Outcome::Success, Outcome::Failure, Outcome::Success, Outcome::Failure])
        {
            tell(&mut board, name, outcome);
        }
        let queue = "[-]queue failed (degrading): x\n";
        let rest = "[+]app ok: x\n[+]disk ok: x\n";
        let down = format!("[-]db failed: x\n{queue}{rest}readyz check failed\n");
        assert_eq!(without(&board, endpoint, &[]), (503, down.clone()));
        assert_eq!(board.reply(endpoint, Audience::Other, Format::Kube, true).unwrap().body, down.as_bytes());
        let up = format!("[+]db excluded: ok\n{queue}{rest}readyz check passed\n");
        assert_eq!(without(&board, endpoint, &[1]), (200, up.clone()));
        assert_eq!(without(&board, endpoint, &[1, 9, 1]), (200, up));
        // The other formats omit excluded checks.
        let excluded = Excluded { out: &[3, 1], unknown: &["nobody"] };
        assert_eq!(
            says(&board, endpoint, &excluded, Format::Text),
            (200, "up\napp: up (x)\ndisk: up (x)\n".to_owned())
        );
        let json = says(&board, endpoint, &excluded, Format::HealthJson);
        assert!(
            json.0 == 200 && json.1.starts_with("{\"status\":\"pass\"") && !json.1.contains("db"),
            "{json:?}"
        );
        // A drain still applies when a check is excluded.
        board.command(
            Command::Drain { target: Target::All, reason: Some(Reason::default()) },
            Time::from_secs(2),
        );
        assert_eq!(without(&board, endpoint, &[1]).0, 503);
    }

    #[test]
    fn a_quorum_that_counts_it_is_not_missed_for_good() {
        let (mut board, endpoint) = build(|config, [app, db, disk, queue]| {
            let config = [app, db, disk, queue]
                .into_iter()
                .fold(config, |config, check| config.with_member(check, Severity::Degrading));
            EndpointConfig { quorum: Some(Quorum::Count(4)), on_drain: [OnDrain::Ignore; 3], ..config }
        });
        for name in ["app", "disk", "queue"] {
            tell(&mut board, name, Outcome::Success);
        }
        tell(&mut board, "db", Outcome::Failure);
        assert_eq!(
            [&[][..], &[0], &[1], &[1, 2]].map(|out| without(&board, endpoint, out).0),
            [503, 503, 200, 200]
        );
        // With the drain ignored, the excluded check still counts as up for the quorum.
        board.command(
            Command::Drain { target: Target::All, reason: Some(Reason::default()) },
            Time::from_secs(2),
        );
        assert_eq!(without(&board, endpoint, &[1]).0, 200);
    }

    #[test]
    fn unknown_names_are_listed_as_far_as_there_is_room() {
        let (board, endpoint) = build(|config, [app, ..]| EndpointConfig {
            body_len_max: 256,
            ..config.with(app, Severity::Required)
        });
        let (_, body) =
            says(&board, endpoint, &Excluded { out: &[0], unknown: &["a\nb", "c\"d"] }, Format::Kube);
        let warning = "warn: some health checks cannot be excluded: no matches for \"a?b\",\"c?d\"\n";
        assert_eq!(body, format!("[+]app excluded: ok\n{warning}readyz check passed\n"));
        let many: Vec<String> = (0..40).map(|number| format!("name-{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (_, body) = says(&board, endpoint, &Excluded { out: &[0], unknown: &many }, Format::Kube);
        assert!(
            body.len() <= 256 && body.contains("\"name-1\"") && body.ends_with("\"\nreadyz check passed\n"),
            "{body}"
        );
        let long = "x".repeat(300);
        let (_, body) = says(&board, endpoint, &Excluded { out: &[0], unknown: &[&long] }, Format::Kube);
        assert_eq!(body, "[+]app excluded: ok\nreadyz check passed\n");
    }

    #[test]
    fn what_an_answer_without_it_would_tell_is_news() {
        // A line with this reason does not fit into a body, and `app` alone makes the endpoint
        // down. So a result of `db` changes only replies that exclude `app`.
        let (mut board, endpoint) = build(|config, [app, db, ..]| {
            let config = config.with(app, Severity::Required).with(db, Severity::Required);
            EndpointConfig { body_len_max: 256, ..config }
        });
        let (app, db) = (board.check_named("app").unwrap(), board.check_named("db").unwrap());
        let reason = [b'x'; 256];
        let failure = CheckResult::new(Outcome::Failure, Duration::ZERO, &reason);
        board.apply(app, &failure, Time::from_secs(1));
        let body = |board: &Board| {
            Format::ALL
                .map(|format| board.reply(endpoint, Audience::Other, format, true).unwrap().body.to_vec())
        };
        let before = body(&board);
        let changes = board.apply(db, &failure, Time::from_secs(1));
        assert_eq!(changes.rendered, [endpoint]);
        assert_eq!(body(&board), before);
        assert!(board.apply(db, &failure, Time::from_secs(1)).is_empty());
    }
}
