//! Limits across reloads: clients get no second budget, and refusals are counted once.

use std::fs;

use doorbell_testkit::peers::wait_until;

use crate::frames::{self, Peer};
use crate::generations::{Reloaded, config, kept};
use crate::https::Https;
use crate::pki::localhost;
use crate::plain::get;
use crate::support::{LIMIT, on_both_engines};

on_both_engines! {
    a_budget_that_is_spent_stays_spent
    handshake_counts_continue
    http2_connection_counts_continue
    http2_connection_counts_by_address_continue
}

fn limit(more: &str) -> String {
    format!(
        "[limit.few]\nkey = \"ip\"\nrate = \"1/h\"\nburst = 3\n{more}\n\
         [route.few]\npath = \"/few\"\nlimit = \"few\"\nreply = {{ body = \"few\" }}\n"
    )
}

/// Value of this counter of refused requests, from the log.
fn refused(reloaded: &Reloaded, name: &str) -> Option<u64> {
    let log = reloaded.doorbell.process.log();
    let at = log.rfind(&format!("{name}="))?;
    let digits = log[at + name.len() + 1..].chars().take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().ok()
}

fn a_budget_that_is_spent_stays_spent(engine: &str) {
    let mut reloaded = Reloaded::start(engine, &limit(""));
    let addr = reloaded.doorbell.addr;
    let statuses = |count: usize| (0..count).map(|_| get(addr, "/few", &[]).status).collect::<Vec<_>>();
    assert_eq!(statuses(2), [200; 2]);
    // A kept connection keeps a generation alive that shares the table.
    let _old = kept(addr);
    let mut asked = 1;
    for (hello, more) in [("1", ""), ("2", "headers = false"), ("3", "exempt_probes = true")] {
        reloaded.write(hello, &limit(more));
        reloaded.say(&["reload"]);
        assert_eq!(reloaded.hello(), hello);
        let expected = if hello == "1" { 200 } else { 429 };
        assert_eq!(statuses(1), [expected], "only three requests are allowed, generation {hello}");
        asked += 1;
    }
    assert_eq!(asked, 4);
    // A changed burst is a new limit, with new counts.
    reloaded.write("4", &limit("").replace("burst = 3", "burst = 4"));
    reloaded.say(&["reload"]);
    assert_eq!(statuses(5), [200, 200, 200, 200, 429]);
    reloaded.doorbell.process.signal(rustix::process::Signal::TERM);
    assert_eq!(reloaded.doorbell.process.wait().0.code(), Some(0));
    assert!(wait_until(LIMIT, || refused(&reloaded, "rate_limited").is_some()).is_some());
    assert_eq!(refused(&reloaded, "rate_limited"), Some(3), "each refusal must be counted once");
}

fn handshake_counts_continue(engine: &str) {
    let reloaded = Reloaded::start(engine, "");
    let (cert, key) = localhost().write(&reloaded.scratch, "tls");
    let write = |hello: &str, rate: &str| {
        let tls = format!("[tls.web]\ncert = {cert:?}\nkey = {key:?}\nhandshakes_per_ip = \"{rate}\"\n");
        let tls = format!("{tls}[listener.tls]\nbind = \"127.0.0.1:0\"\ntls = \"web\"\n");
        let text = config(&reloaded.scratch.path(""), hello, &tls);
        let everywhere = "listener = [\"web\", \"tls\"]\npath = \"/hello\"";
        fs::write(&reloaded.file, text.replace("path = \"/hello\"", everywhere)).unwrap();
        reloaded.say(&["reload"]);
    };
    write("1", "3/h");
    let addr = reloaded.status()["addresses"][1].as_str().unwrap().parse().unwrap();
    let https = Https::new(addr);
    let good = |count: usize| (0..count).map(|_| https.get("/hello").is_ok()).collect::<Vec<_>>();
    assert_eq!(good(2), [true; 2]);
    write("2", "3/h");
    assert_eq!(good(2), [true, false], "one handshake of the budget was left");
    write("3", "3/h");
    assert_eq!(good(2), [false; 2]);
    write("4", "2/h");
    assert_eq!(good(3), [true, true, false], "a changed rate must start from zero");
}

/// Opens a connection that ignores PING, so that it stays open after GOAWAY. Returns `None` if it
/// is refused.
fn http2_conn(reloaded: &Reloaded) -> Option<Peer> {
    let mut peer = Peer::connect(reloaded.doorbell.addr, &[]).unwrap();
    peer.write(&frames::get(1, "/hello")).ok()?;
    peer.reply(1).ok().filter(|(good, _)| *good).map(|_| peer)
}

/// Asserts that the limit of two connections in `more` spans generations.
fn two_are_two_across_generations(engine: &str, more: &str) {
    let reloaded = Reloaded::start(engine, "");
    let write = |hello: &str| {
        let text = config(&reloaded.scratch.path(""), hello, more);
        let text = text.replace("[listener.web]\n", "[listener.web]\nhttp2 = true\n");
        fs::write(&reloaded.file, text).unwrap();
        reloaded.say(&["reload"]);
    };
    write("1");
    let both = [http2_conn(&reloaded), http2_conn(&reloaded)];
    assert!(both.iter().all(Option::is_some) && http2_conn(&reloaded).is_none());
    write("2");
    assert!(
        http2_conn(&reloaded).is_none(),
        "the previous connections still count: {}",
        reloaded.doorbell.process.log()
    );
    write("3");
    assert!(http2_conn(&reloaded).is_none());
    drop(both);
    let came = wait_until(LIMIT, || http2_conn(&reloaded).is_some());
    assert!(came.is_some(), "{}", reloaded.doorbell.process.log());
}

fn http2_connection_counts_continue(engine: &str) {
    two_are_two_across_generations(engine, "[http2]\nmax_connections = 2\n");
}

fn http2_connection_counts_by_address_continue(engine: &str) {
    two_are_two_across_generations(engine, "[connections]\nper_ip_max = 2\n");
}
