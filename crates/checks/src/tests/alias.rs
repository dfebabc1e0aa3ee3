//! Checks that follow another state: each state of this program, and each reply of another
//! doorbell.

use super::kinds::is;
use super::*;
use doorbell_health::{
    Board, CheckConfig, CheckResult, Class, Command, EndpointConfig, Format, Maintenance, Reason, Severity,
    Target, Time,
};
use options::{AliasCheck, Followed, cycles};
use std::sync::Mutex;

/// The state of the check `db`.
#[derive(Debug)]
struct Db(Mutex<Option<Class>>);

impl StateReader for Db {
    fn read(&self, followed: Followed<'_>) -> Option<(Class, String)> {
        let state = (*self.0.lock().unwrap()).filter(|_| followed == Followed::Check("db"));
        state.map(|class| (class, "why".to_owned()))
    }
}

fn local(states: Option<&Arc<Db>>, followed: Followed<'_>) -> Result<Runner, String> {
    let shared = SharedResources::new(connector());
    let mut shared = match states {
        Some(states) => shared.with_states(Arc::clone(states) as Arc<dyn StateReader>),
        None => shared,
    };
    Runner::build(&Check::new("a", AliasCheck::of(followed)), &mut shared).map(Option::unwrap)
}

#[test]
fn a_state_of_this_program_is_followed() {
    let db = Arc::new(Db(Mutex::new(Some(Class::Up))));
    let runner = local(Some(&db), Followed::Check("db")).unwrap();
    for (state, outcome, reason) in [
        (Some(Class::Up), Outcome::Success, ""),
        (Some(Class::Degraded), Outcome::Degraded, "why"),
        (Some(Class::Down), Outcome::Failure, "why"),
        (Some(Class::Maintenance), Outcome::Maintenance, "why"),
        (Some(Class::Unknown), Outcome::Unknown, "why"),
        (None, Outcome::Error, "the followed state is gone"),
    ] {
        *db.0.lock().unwrap() = state;
        let finding = block_on(runner.run());
        assert_eq!((finding.outcome, finding.reason.as_str()), (outcome, reason), "{state:?}");
    }
    *db.0.lock().unwrap() = Some(Class::Up);
    for (states, followed, why) in [
        (Some(&db), Followed::Check("bd"), "check a: there is no check `bd`"),
        (Some(&db), Followed::Endpoint("db"), "check a: there is no endpoint `db`"),
        (None, Followed::Check("db"), "check a: the state of check `db` cannot be read here"),
    ] {
        assert_eq!(local(states, followed).unwrap_err(), why);
    }
    let nothing = Check::new("a", AliasCheck::default());
    let built = Runner::build(&nothing, &mut SharedResources::new(connector()));
    assert_eq!(built.unwrap_err(), "check a: nothing to follow");
}

/// A state of this program is read as often while it is down: this spares no target.
#[test]
fn a_state_of_this_program_is_read_at_one_interval() {
    use doorbell_config::{ExternalValues, Overrides, Program, Source, load};
    let overrides = Overrides::default();
    let external = ExternalValues {
        env: &|_| None,
        read_secret: &|_| Err("no files".to_owned()),
        overrides: &overrides,
    };
    let secs = Duration::from_secs;
    for (keys, interval, down_interval, max_age) in [
        ("check = \"db\"", 1, 1, 3),
        ("health = \"shop\"\ninterval = \"4s\"", 4, 4, 12),
        ("check = \"db\"\ndown_interval = \"5s\"", 1, 5, 15),
        // The reply of another doorbell is a target.
        ("url = \"http://192.0.2.1/readyz\"", 5, 10, 30),
    ] {
        let source = Source { name: "a".to_owned(), text: format!("type = \"alias\"\n{keys}\n") };
        let outcome = load::<Check>(Program::NONE, &source, external);
        assert!(outcome.problems.is_empty(), "{keys}: {:?}", outcome.problems);
        let pace = outcome.value.unwrap().pace;
        let found = [pace.interval, pace.down_interval, pace.max_age];
        assert_eq!(found, [interval, down_interval, max_age].map(secs), "{keys}");
        if keys == "check = \"db\"" {
            assert_eq!(pace, Pace::following());
        }
    }
}

/// A server that sends this reply; the check follows it.
fn replies(code: u16, body: &[u8]) -> AliasCheck {
    let head = format!("HTTP/1.1 {code} X\r\nContent-Length: {}\r\n\r\n", body.len());
    let addr = kinds::says([head.as_bytes(), body].concat());
    AliasCheck::at(url(format!("http://{addr}/readyz")))
}

/// Replies as doorbell renders them, of an endpoint with two checks and of one of them.
#[test]
fn the_replies_of_another_doorbell_are_read() {
    let mut builder = Board::builder(Time::ZERO);
    let quick = || CheckConfig { rise: 1, fall: 1, ..CheckConfig::default() };
    let [disk, db] = ["a:disk", "db"].map(|name| builder.check(name, quick()).unwrap());
    let config = EndpointConfig::new("readyz").with(disk, Severity::Info).with(db, Severity::Required);
    let endpoint = builder.endpoint(config).unwrap();
    let mut board = builder.build();
    let now = Time::from_secs(1);
    let result = |outcome| CheckResult::new(outcome, Duration::ZERO, b"50% \"full\"");
    board.apply(disk, &result(Outcome::Failure), now);
    let follow = |board: &Board, with_details, (outcome, reason): (Outcome, &str)| {
        let reply = board.reply(endpoint, doorbell_health::Audience::Other, Format::HealthJson, with_details);
        let reply = reply.unwrap();
        is(replies(reply.code, reply.body), outcome, reason);
    };
    for (outcome, public, shown, single) in [
        (
            Outcome::Unknown,
            (Outcome::Failure, "status 503, fail"),
            (Outcome::Failure, "db unknown (50% \"full\")"),
            Outcome::Unknown,
        ),
        (Outcome::Success, (Outcome::Success, ""), (Outcome::Success, ""), Outcome::Success),
        (
            Outcome::Degraded,
            (Outcome::Degraded, "status 200, warn"),
            (Outcome::Degraded, "db degraded (50% \"full\")"),
            Outcome::Degraded,
        ),
        (
            Outcome::Maintenance,
            (Outcome::Failure, "status 503, fail"),
            (Outcome::Maintenance, "db maintenance (50% \"full\")"),
            Outcome::Maintenance,
        ),
        (
            Outcome::Failure,
            (Outcome::Failure, "status 503, fail"),
            (Outcome::Failure, "db down (50% \"full\")"),
            Outcome::Failure,
        ),
    ] {
        board.apply(db, &result(outcome), now);
        follow(&board, false, public);
        follow(&board, true, shown);
        let mut body = Vec::new();
        let reply = board.check_reply(endpoint, 1, Format::HealthJson, &mut body).unwrap();
        is(
            replies(reply.code, reply.body),
            single,
            if single == Outcome::Success { "" } else { "50% \"full\"" },
        );
    }
    board.command(Command::Drain { target: Target::All, reason: Some(Reason::new(b"moving")) }, now);
    follow(&board, true, (Outcome::Maintenance, "moving"));
    let maintenance = Some(Maintenance::new("disks", now, None));
    board.command(Command::Maintain { target: Target::All, maintenance }, now);
    follow(&board, true, (Outcome::Maintenance, "disks"));
    follow(&board, false, (Outcome::Failure, "status 503, fail"));
}

#[test]
fn other_replies_are_never_up() {
    let json = "content is not health+json";
    let long = format!("{{\"status\":\"pass\",\"x\":\"{}\"}}", "x".repeat(64 << 10));
    for (code, body, outcome, reason) in [
        (200, "up\ndb: up\n", Outcome::Failure, json),
        (200, "", Outcome::Failure, json),
        (200, "{}", Outcome::Failure, json),
        (404, "not found", Outcome::Failure, "status 404, and the content is not health+json"),
        (200, "{\"status\":\"pass\"", Outcome::Failure, json),
        (200, long.as_str(), Outcome::Failure, json),
        (200, "{\"status\":\"UP\"}", Outcome::Failure, "status 200 contradicts the state \"UP\""),
        (503, "{\"status\":\"pass\"}", Outcome::Failure, "status 503 contradicts the state \"pass\""),
        (200, "{\"status\":\"fail\"}", Outcome::Failure, "status 200 contradicts the state \"fail\""),
        (503, "{\"status\":\"fail\",\"description\":\"up by checks\"}", Outcome::Failure, "up by checks"),
        (200, "{\"status\":\"warn\",\"description\":\"down by checks\"}", Outcome::Failure, "down by checks"),
        (200, "{\"status\":\"warn\",\"description\":\"going_down\"}", Outcome::Success, ""),
        (503, "{\"status\":\"fail\",\"description\":\"stale\"}", Outcome::Unknown, "stale"),
        (200, "{\"status\":\"pass\",\"description\":\"health of a shop\"}", Outcome::Success, ""),
    ] {
        is(replies(code, body.as_bytes()), outcome, reason);
    }
    // The reason is short, and does not repeat the token.
    let token = "0123456789abcdef";
    let output = format!("{{\"status\":\"fail\",\"output\":\"{}{token}\"}}", "y".repeat(100));
    let check = AliasCheck { bearer: Some(Secret::new(token.to_owned())), ..replies(503, output.as_bytes()) };
    let finding = block_on(runner(check).run());
    assert!(finding.reason.len() <= 128 && finding.reason.ends_with("y***"), "{finding:?}");
}

#[test]
fn another_doorbell_is_asked_by_http() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let bearer = Some(Secret::new("token".to_owned()));
    let check =
        AliasCheck { bearer, address: Some(address(addr)), ..AliasCheck::at(url("http://a.test/x?y")) };
    let request = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let len = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{\"status\":\"pass\"}").unwrap();
        String::from_utf8(head[..len].to_vec()).unwrap().to_lowercase()
    });
    is(check.clone(), Outcome::Success, "");
    let head = request.join().unwrap();
    for line in [
        "get /x?y&format=health+json http/1.1",
        "host: a.test",
        "accept: application/health+json",
        "authorization: bearer token",
    ] {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
    is(check, Outcome::Failure, "connection refused");
}

#[test]
fn cycles_of_a_graph_are_found() {
    type Lists<'a> = &'a [&'a [usize]];
    let table: [(Lists<'_>, Lists<'_>); 6] = [
        (&[], &[]),
        (&[&[0]], &[&[0]]),
        (&[&[1], &[2], &[]], &[]),
        (&[&[1], &[2], &[0]], &[&[0, 1, 2]]),
        // Two paths to one node are no cycle.
        (&[&[1, 2], &[3], &[3], &[]], &[]),
        // A path that leads to a cycle is not part of it.
        (&[&[1], &[2], &[1], &[3, 0]], &[&[1, 2], &[3]]),
    ];
    for (graph, expected) in table {
        assert_eq!(cycles(graph.len(), |node| graph[node].to_vec()), expected, "{graph:?}");
    }
    // A long path takes neither a deep stack nor much time.
    const LEN: usize = 100_000;
    assert_eq!(cycles(LEN, |node| vec![(node + 1) % LEN])[0].len(), LEN);
}
