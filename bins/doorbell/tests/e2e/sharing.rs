//! Instances that share a check through a real Redis server: one runs it, the others follow, and
//! all continue without the server.

use std::fs;

use doorbell_testkit::peers::redis::Redis;
use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Doorbell, LIMIT, Scratch, binary, on_auto, run};

on_auto! {
    one_instance_runs_the_check_and_the_others_follow
    a_store_that_hangs_or_is_away_delays_nothing
    a_store_that_refuses_to_write_is_shown
    a_reload_changes_what_is_shared
}

/// One instance. Its check is up while the file `db` of its folder exists.
struct Instance {
    doorbell: Doorbell,
    file: String,
    scratch: Scratch,
}

fn config(scratch: &Scratch, name: &str, redis: &Redis, target: &str, more: &str) -> String {
    format!(
        "version = 1\n[listener.probes]\nbind = \"127.0.0.1:0\"\n[control]\nsocket = {:?}\n[lifecycle]\ndrain_delay = \"0s\"\n\
         [shared]\nredis = \"redis://{}\"\ninstance = \"{name}\"\nannounce = true\n\
         [check.db]\ntype = \"file\"\npath = {target:?}\ninterval = \"500ms\"\nfast_interval = \"500ms\"\n\
         down_interval = \"500ms\"\nrise = 1\nfall = 1\nmax_age = \"5s\"\nshare = true\n{more}",
        scratch.path("control.sock"),
        redis.addr
    )
}

impl Instance {
    fn start(engine: &str, name: &str, redis: &Redis, target: &str) -> Self {
        let scratch = Scratch::new();
        let file = scratch.write("doorbell.toml", &config(&scratch, name, redis, target, ""));
        let started = Doorbell::try_start(&["serve", "-c", &file, "--driver", engine]);
        Self { doorbell: started.unwrap_or_else(|log| panic!("{log}")), file, scratch }
    }

    fn say(&self, args: &[&str]) -> String {
        let socket = self.scratch.path("control.sock");
        let args: Vec<&str> = args.iter().copied().chain(["--socket", socket.to_str().unwrap()]).collect();
        let output = run(&binary(), &args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn check(&self) -> Value {
        let mut checks: Value = serde_json::from_str(&self.say(&["checks", "db", "-o", "json"])).unwrap();
        checks[0].take()
    }

    fn is(&self, state: &str, from: Option<&str>) -> bool {
        let check = self.check();
        check["state"] == state && check["from"].as_str() == from
    }

    /// Names of the instances that `doorbell fleet` lists.
    fn fleet(&self) -> Vec<String> {
        let output = run(&binary(), &["fleet", "-c", &self.file, "-o", "json"]);
        assert!(output.status.success(), "{output:?}");
        let fleet: Value = serde_json::from_slice(&output.stdout).unwrap();
        let names = fleet["instances"].as_array().unwrap().iter();
        names.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn await_that(what: &str, done: impl FnMut() -> bool) {
    assert!(wait_until(LIMIT, done).is_some(), "not in {LIMIT:?}: {what}");
}

fn one_instance_runs_the_check_and_the_others_follow(engine: &str) {
    let Some(redis) = Redis::start(&[]) else { return };
    let scratch = Scratch::new();
    let target = scratch.write("db", "");
    let mut first = Instance::start(engine, "web-1", &redis, &target);
    await_that("the first runs it", || first.is("up", None));
    let second = Instance::start(engine, "web-2", &redis, &target);
    await_that("the second follows", || second.is("up", Some("web-1")));
    assert!(second.say(&["checks"]).contains("by web-1"), "{}", second.say(&["checks"]));
    await_that("both are listed", || second.fleet() == ["web-1", "web-2"]);
    fs::remove_file(&target).unwrap();
    first.say(&["drain", "--reason", "upgrade"]);
    await_that("livez replies as before, readyz drains", || {
        let output = run(&binary(), &["fleet", "-c", &first.file]);
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().any(|line| line.starts_with("web-1") && line.contains("readyz drain (upgrade), 1 up"))
    });
    first.say(&["undrain"]);
    await_that("both are down", || first.is("down", None) && second.is("down", Some("web-1")));
    // The reason arrives with the result.
    assert_eq!(second.check()["reason"], first.check()["reason"]);
    first.doorbell.process.signal(Signal::KILL);
    first.doorbell.process.wait();
    await_that("the second takes over", || second.is("down", None));
    fs::write(&target, "").unwrap();
    await_that("and runs it", || second.is("up", None));
}

fn a_store_that_hangs_or_is_away_delays_nothing(engine: &str) {
    let Some(mut redis) = Redis::start(&[]) else { return };
    let scratch = Scratch::new();
    let target = scratch.write("db", "");
    let all = ["web-1", "web-2"].map(|name| Instance::start(engine, name, &redis, &target));
    await_that("one follows", || all.iter().any(|one| one.check()["from"].is_string()));
    redis.hang(true);
    fs::remove_file(&target).unwrap();
    await_that("both check for themselves", || all.iter().all(|one| one.is("down", None)));
    redis.hang(false);
    await_that("one follows again", || all.iter().any(|one| one.check()["from"].is_string()));
    redis.kill();
    fs::write(&target, "").unwrap();
    await_that("both check for themselves", || all.iter().all(|one| one.is("up", None)));
    let output = run(&binary(), &["fleet", "-c", &all[0].file]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
}

fn a_store_that_refuses_to_write_is_shown(engine: &str) {
    let Some(redis) = Redis::start(&[]) else { return };
    let scratch = Scratch::new();
    let target = scratch.write("db", "");
    let one = Instance::start(engine, "web-1", &redis, &target);
    await_that("it runs the check", || one.is("up", None));
    let status = one.say(&["status"]);
    assert!(status.contains(" errors") && !status.contains("the store cannot be used"), "{status}");
    assert_eq!(redis.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    await_that("the status shows it", || one.say(&["status"]).contains("errors; the store cannot be used"));
    assert!(
        one.doorbell.process.log().contains("continuing without it: OOM"),
        "{}",
        one.doorbell.process.log()
    );
    assert!(one.is("up", None));
}

fn a_reload_changes_what_is_shared(engine: &str) {
    let Some(redis) = Redis::start(&[]) else { return };
    let scratch = Scratch::new();
    let target = scratch.write("db", "");
    let first = Instance::start(engine, "web-1", &redis, &target);
    await_that("the first runs it", || first.is("up", None));
    let second = Instance::start(engine, "web-2", &redis, &target);
    await_that("the second follows", || second.is("up", Some("web-1")));
    let reload = |more: &str| {
        fs::write(&second.file, config(&second.scratch, "web-2", &redis, &target, more)).unwrap();
        second.say(&["reload"]);
    };
    // Positions of checks change, and the thread continues.
    reload("[check.another]\ntype = \"ttl\"\nttl = \"1h\"\n");
    await_that("the second still follows", || second.is("up", Some("web-1")));
    // Other options are another check.
    reload("expect = { contains = \"ready\" }\n");
    await_that("the second runs its own", || second.is("down", None));
    assert!(first.is("up", None));
}
