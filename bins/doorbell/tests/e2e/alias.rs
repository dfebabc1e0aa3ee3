//! Checks that follow others: within a doorbell, at another doorbell, and over reloads.

use doorbell_testkit::peers::wait_until;

use crate::checks::{BASE, await_answer, start};
use crate::generations::Reloaded;
use crate::support::{Doorbell, LIMIT, Scratch, binary, on_auto, stdout};
use crate::upstream::{Does, Upstream};

on_auto! {
    a_check_follows_another_doorbell
    a_check_follows_a_check_and_an_endpoint
    a_reload_cannot_remove_what_is_followed
}

/// Two doorbells: the second one follows an endpoint and a check of the first one, which become
/// degraded, down and in maintenance. At the end, the second one cannot reach the first one.
fn a_check_follows_another_doorbell(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let scratch = Scratch::new();
    let socket = scratch.path("control.sock");
    let first = start(
        engine,
        &format!(
            "[control]\nsocket = {socket:?}\n[route.public]\npath = \"/public\"\nhealth = \"readyz\"\n\
             [check.app]\ntype = \"http\"\nurl = \"{}\"\ndegraded = {{ status = \"429\" }}\n",
            upstream.url("/")
        ),
    );
    let alias = |name: &str, path: &str| {
        format!("[check.{name}]\ntype = \"alias\"\nurl = \"{}\"\nseverity = \"degrading\"\n", first.url(path))
    };
    let all = [alias("whole", "/readyz"), alias("one", "/readyz/app"), alias("public", "/public")].concat();
    let second = start(engine, &all);
    let follows = |whole: &str, one: &str, public: &str| {
        for (name, expected) in [("whole", whole), ("one", one), ("public", public)] {
            let code =
                if expected.starts_with("down") || expected.starts_with("maintenance") { 503 } else { 200 };
            await_answer(&second, &format!("/readyz/{name}"), (code, expected));
        }
    };
    let operate =
        |command: &[&str]| stdout(&binary(), &[command, &["--socket", socket.to_str().unwrap()]].concat());
    follows("ok", "ok", "ok");
    upstream.now(Does::reply(429, ""));
    follows("degraded: app degraded (status 429)", "degraded: status 429", "degraded: status 200, warn");
    upstream.now(Does::reply(500, ""));
    let reason = "status 500, expected 200-299";
    follows(&format!("down: app down ({reason})"), &format!("down: {reason}"), "down: status 503, fail");
    operate(&["maint", "check:app", "--reason", "disks"]);
    follows("maintenance: app maintenance (disks)", "maintenance: disks", "down: status 503, fail");
    operate(&["ready", "check:app"]);
    upstream.now(Does::reply(200, ""));
    follows("ok", "ok", "ok");
    let addr = first.addr;
    drop(first);
    let refused = format!("down: {addr}: connection refused");
    follows(&refused, &refused, &refused);
}

const LOCAL: &str = "[health.shop]\nrequire = [\"app\"]\n[health.readyz]\nrequire = [\"copy\"]\ndegrading = [\"shop\"]\n\
     [check.copy]\ntype = \"alias\"\ncheck = \"app\"\n[check.shop]\ntype = \"alias\"\nhealth = \"shop\"\n";

fn app(upstream: &Upstream) -> String {
    format!("[check.app]\ntype = \"http\"\nurl = \"{}\"\n", upstream.url("/"))
}

fn a_check_follows_a_check_and_an_endpoint(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let doorbell = Doorbell::start_with(engine, &format!("{BASE}{LOCAL}{}", app(&upstream)));
    await_answer(&doorbell, "/readyz", (200, "up\ncopy: up\nshop: up\n"));
    upstream.now(Does::reply(500, ""));
    let reason = "status 500, expected 200-299";
    await_answer(&doorbell, "/readyz/copy", (503, &format!("down: {reason}\n")));
    await_answer(&doorbell, "/readyz/shop", (503, &format!("down: app down ({reason})\n")));
    upstream.now(Does::reply(200, ""));
    await_answer(&doorbell, "/readyz", (200, "up\ncopy: up\nshop: up\n"));
}

fn a_reload_cannot_remove_what_is_followed(engine: &str) {
    let upstream = Upstream::start(Does::reply(200, ""));
    let route = "[route.ready]\npath = [\"/readyz\", \"/readyz/{check}\"]\nhealth = \"readyz\"\ndetails = \"always\"\n";
    let with_app = format!("{route}{LOCAL}{}", app(&upstream));
    let reloaded = Reloaded::start(engine, &with_app);
    await_answer(&reloaded.doorbell, "/readyz", (200, "up"));
    reloaded.write("1", &format!("{route}{}", LOCAL.replace("require = [\"app\"]\n", "")));
    let refused = reloaded.run(&["reload"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("there is no [check.app]"), "{said}");
    await_answer(&reloaded.doorbell, "/readyz/copy", (200, "ok"));
    // A reload with the same checks keeps their states; the next results are followed as before.
    reloaded.write("2", &with_app);
    reloaded.say(&["reload"]);
    await_answer(&reloaded.doorbell, "/readyz", (200, "up"));
    upstream.now(Does::reply(500, ""));
    await_answer(&reloaded.doorbell, "/readyz/copy", (503, "down: status 500"));
    let is_logged = || reloaded.doorbell.process.log().contains("check copy: down");
    wait_until(LIMIT, is_logged).expect("the transition is logged");
}
