//! The history in a real ClickHouse server: rows of a failing check, reloads, a store that cannot
//! be reached or hangs, and the commands.

use std::fs;
use std::process::Output;

use doorbell_testkit::peers::clickhouse::ClickHouse;
use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;
use serde_json::Value;

use crate::pki::Ca;
use crate::support::{Doorbell, LIMIT, Scratch, binary, on_auto, run};
use crate::upstream::{Does, Upstream};

on_auto! {
    transitions_and_availability_are_stored
    a_reload_keeps_the_rows_in_the_buffer
    a_hung_store_delays_nothing
    a_reload_reads_changed_certificates_again
    commands_without_a_server
}

/// A running instance, its configuration file and its control socket.
struct Stored {
    doorbell: Doorbell,
    file: String,
    scratch: Scratch,
}

fn config(scratch: &Scratch, history: &str, upstream: &str) -> String {
    format!(
        "version = 1\n[listener.probes]\nbind = \"127.0.0.1:0\"\n[control]\nsocket = {:?}\n[lifecycle]\ndrain_delay = \"0s\"\n\
         [check.app]\ntype = \"http\"\nurl = \"http://{upstream}/\"\ninterval = \"100ms\"\nfast_interval = \"100ms\"\n\
         down_interval = \"100ms\"\nrise = 1\nfall = 1\n{history}",
        scratch.path("control.sock")
    )
}

fn table(server: &str, more: &str) -> String {
    format!(
        "[history.clickhouse]\nurl = \"http://{server}\"\ninstance = \"web-1\"\ninterval = \"100ms\"\n{more}"
    )
}

impl Stored {
    fn start(engine: &str, history: &str, upstream: &Upstream) -> Self {
        let scratch = Scratch::new();
        let file = scratch.write("doorbell.toml", &config(&scratch, history, &upstream.addr.to_string()));
        let started = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]);
        Self { doorbell: started.unwrap_or_else(|log| panic!("{log}")), file, scratch }
    }

    fn say(&self, args: &[&str]) -> String {
        let socket = self.scratch.path("control.sock");
        let args: Vec<&str> = args.iter().copied().chain(["--socket", socket.to_str().unwrap()]).collect();
        said(&run(&binary(), &args))
    }

    fn counter(&self, name: &str) -> u64 {
        let status: Value = serde_json::from_str(&self.say(&["status", "-o", "json"])).unwrap();
        status["counters"][name].as_u64().unwrap_or_default()
    }

    fn reload(&self, history: &str, upstream: &Upstream) {
        fs::write(&self.file, config(&self.scratch, history, &upstream.addr.to_string())).unwrap();
        self.say(&["reload"]);
    }

    fn stop(&mut self) {
        self.doorbell.process.signal(Signal::TERM);
        assert!(self.doorbell.process.wait().0.success(), "{}", self.doorbell.process.log());
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn await_that(what: &str, done: impl FnMut() -> bool) {
    assert!(wait_until(LIMIT, done).is_some(), "not in {LIMIT:?}: {what}");
}

fn transitions_and_availability_are_stored(engine: &str) {
    let Some(server) = ClickHouse::start() else { return };
    let upstream = Upstream::start(Does::reply(200, "ok"));
    let mut stored = Stored::start(engine, &table(&server.addr.to_string(), ""), &upstream);
    await_that("a store without a schema", || stored.counter("history_failing_live") == 1);
    let text = stored.say(&["status"]);
    assert!(text.contains("rows stored") && text.contains("the store cannot be used: database"), "{text}");
    assert!(text.contains("has no schema: run `doorbell history init`"), "{text}");
    let init = said(&run(&binary(), &["history", "init", "-c", &stored.file]));
    assert!(init.ends_with(": created the schema, version 3\n"), "{init}");
    let again = said(&run(&binary(), &["history", "init", "-c", &stored.file]));
    assert!(again.contains("the schema has version 3 already"), "{again}");
    await_that("rows that waited for the schema", || stored.counter("history_rows_written") > 0);

    upstream.now(Does::reply(500, "broken"));
    let query = |sql: &str| server.query(sql);
    let count = |of: &str| query(&format!("SELECT count() FROM doorbell.{of}"))[0].parse::<u64>().unwrap();
    await_that("a check that is down", || {
        count("transitions WHERE subject='check' AND to_state='down'") == 1
    });
    await_that("an endpoint that is down", || {
        count("transitions WHERE subject='endpoint' AND name='readyz' AND to_state='down'") > 0
    });
    let down = query(
        "SELECT instance, name, from_state, reason FROM doorbell.transitions WHERE to_state='down' AND name='app'",
    );
    assert!(down[0].starts_with("web-1\tapp\tup\t") && down[0].contains("500"), "{down:?}");
    await_that("failed results", || count("results WHERE outcome='failure'") > 3);
    upstream.now(Does::reply(200, "ok"));
    stored.say(&["drain", "readyz", "--reason", "deploy"]);
    await_that("a drain", || count("operations WHERE what='drain' AND reason='deploy'") == 1);
    let drained = run(&binary(), &["probe", &stored.doorbell.url("/readyz")]);
    assert!(!drained.status.success(), "{drained:?}");
    stored.stop();
    let probes = query("SELECT sum(drain), sum(up) FROM doorbell.prober_minutes WHERE endpoint='readyz'");
    assert_eq!(probes, ["1\t0"], "the counters of the last minute are written at the end");
    assert_eq!(
        count("operations WHERE what='lifecycle' AND target='stopping'"),
        1,
        "the last rows are written"
    );
    assert_eq!(
        query("SELECT count() - uniqExact(time, millis, name) FROM doorbell.results"),
        ["0"],
        "no row twice"
    );

    let args = ["history", "availability", "-c", &stored.file, "-o", "json"];
    let rows: Value = serde_json::from_str(&said(&run(&binary(), &args))).unwrap();
    let row =
        |name: &str| rows.as_array().unwrap().iter().find(|row| row["endpoint"] == name).cloned().unwrap();
    let readyz = row("readyz");
    assert!(readyz["up_s"].as_f64() > Some(0.0) && readyz["down_s"].as_f64() > Some(0.0), "{readyz}");
    assert!(readyz["planned_s"].as_f64() > Some(0.0), "{readyz}");
    let share = readyz["availability"].as_f64().unwrap();
    assert!(share > 0.0 && share < 1.0, "{readyz}");
    assert_eq!(row("livez")["availability"], 1.0);
    let text = said(&run(&binary(), &["history", "availability", "-c", &stored.file]));
    assert!(text.starts_with("ENDPOINT  AVAILABLE") && text.contains("\nlivez "), "{text}");
    let none = said(&run(&binary(), &["history", "availability", "-c", &stored.file, "--month", "2001-01"]));
    assert_eq!(none, "no rows in 2001-01\n");
}

fn a_reload_keeps_the_rows_in_the_buffer(engine: &str) {
    let Some(mut server) = ClickHouse::start() else { return };
    let addr = server.addr.to_string();
    let upstream = Upstream::start(Does::reply(200, "ok"));
    let mut stored = Stored::start(engine, "", &upstream);
    assert!(!stored.say(&["status", "-o", "json"]).contains("history_rows"), "off by default");
    stored.reload(&table(&addr, ""), &upstream);
    said(&run(&binary(), &["history", "init", "-c", &stored.file]));
    await_that("rows after a reload with a history", || stored.counter("history_rows_written") > 0);
    server.kill();
    await_that("rows that wait", || stored.counter("history_rows_live") > 10);
    stored.reload(&table(&addr, "batch_rows = 5\n"), &upstream);
    assert!(stored.counter("history_rows_live") > 10, "the reload keeps them");
    server.restart();
    await_that("an empty buffer", || stored.counter("history_rows_live") < 5);
    assert_eq!(stored.counter("history_rows_dropped"), 0);
    stored.reload("", &upstream);
    assert!(!stored.say(&["status", "-o", "json"]).contains("history_rows"));
    stored.stop();
}

fn a_hung_store_delays_nothing(engine: &str) {
    let store = Upstream::start(Does::Hang);
    let upstream = Upstream::start(Does::reply(200, "ok"));
    let mut stored = Stored::start(engine, &table(&store.addr.to_string(), "timeout = \"5m\"\n"), &upstream);
    let before = upstream.conns();
    await_that("checks run on", || upstream.conns() >= before + 10);
    await_that("their results wait", || stored.counter("history_rows_live") >= 10);
    assert_eq!(stored.counter("history_rows_written"), 0);
    let ready = run(&binary(), &["probe", &stored.doorbell.url("/readyz")]);
    assert!(ready.status.success(), "{ready:?}");
    stored.stop();
    let log = || stored.doorbell.process.log();
    await_that("a line about lost rows", || {
        log().contains("history: writer stopped: remaining rows dropped")
    });
}

/// The configuration is the same; only the file with the CA has changed.
fn a_reload_reads_changed_certificates_again(engine: &str) {
    let (ca, former) = (Ca::new("Store CA"), Ca::new("Former CA"));
    let scratch = Scratch::new();
    let (cert, key) = ca.server(&["localhost"]).write(&scratch, "store");
    // The reply to each request is the version of the schema. An insert expects an empty one.
    let store = format!(
        "version = 1\n[listener.store]\nbind = \"127.0.0.1:0\"\ntls = \"store\"\n[tls.store]\ncert = {cert:?}\nkey = {key:?}\n\
         [route.store]\npath = \"/\"\nmethods = [\"POST\"]\nreply = {{ body = \"3\\n\" }}\n"
    );
    let file = scratch.write("store.toml", &store);
    let store = Doorbell::try_start(&["serve", "-c", &file]).unwrap_or_else(|log| panic!("{log}"));
    let roots = scratch.write("ca.crt", &former.pem());
    let history = format!(
        "[history.clickhouse]\nurl = \"https://localhost:{}\"\ninterval = \"100ms\"\ntls = {{ ca = {roots:?} }}\n",
        store.addr.port()
    );
    let upstream = Upstream::start(Does::reply(200, "ok"));
    let mut stored = Stored::start(engine, &history, &upstream);
    await_that("a refused certificate", || stored.counter("history_failing_live") == 1);
    fs::write(&roots, ca.pem()).unwrap();
    stored.say(&["reload"]);
    await_that("an accepted certificate", || stored.say(&["status"]).contains("cannot be used: HTTP 200: 3"));
    stored.stop();
}

fn commands_without_a_server(_engine: &str) {
    let sql = said(&run(&binary(), &["history", "init", "--print"]));
    assert!(sql.starts_with("CREATE DATABASE IF NOT EXISTS doorbell;\n"), "{sql}");
    assert!(sql.contains("CREATE VIEW doorbell.availability AS SELECT"), "{sql}");
    let none = run(&binary(), &["history", "init"]);
    assert_eq!(none.status.code(), Some(78), "{none:?}");
    let scratch = Scratch::new();
    let file = scratch.write("a.toml", "version = 1\n[history.clickhouse]\nurl = \"http://127.0.0.1:1\"\n");
    let refused = run(&binary(), &["history", "availability", "-c", &file, "--month", "2026-11"]);
    assert_eq!(refused.status.code(), Some(69), "{refused:?}");
    let bad = run(&binary(), &["history", "availability", "-c", &file, "--month", "11"]);
    assert_eq!(bad.status.code(), Some(2), "{bad:?}");
}
