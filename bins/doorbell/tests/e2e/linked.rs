//! Linked instances: checks of type `link`, the stop and restart of an instance, reloads, refused
//! certificates.

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use doorbell_testkit::peers::clickhouse::ClickHouse;
use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;
use serde_json::Value;

use crate::admin::get;
use crate::control::Controlled;
use crate::generations::{Reloaded, ask, config};
use crate::pki::{Ca, Signed};
use crate::support::{LIMIT, Scratch, binary, free_addr, on_auto, run};

on_auto! {
    two_of_three_places_decide
    a_place_without_the_right_certificate_is_refused
    links_that_a_reload_removes_and_another_one_adds_again_open
    a_change_decides_only_the_checks_that_follow_it
    a_link_that_is_added_in_front_keeps_the_results_of_checks
    the_page_and_the_doctor_show_links
    receipts_are_stored_and_reported
}

/// `[links]` with the certificate of one instance.
fn links(scratch: &Scratch, ca: &Ca, signed: &Signed, bind: Option<SocketAddr>) -> String {
    let ca = scratch.write("links-ca.crt", &ca.pem());
    let (cert, key) = signed.write(scratch, "link");
    let bind = bind.map_or_else(String::new, |addr| format!("bind = \"{addr}\"\n"));
    format!("[links]\n{bind}cert = \"{cert}\"\nkey = \"{key}\"\nca = \"{ca}\"\n")
}

/// An instance whose check is up while a file exists, with a check that follows it.
fn place(ca: &Ca, name: &str, central: SocketAddr, more: &str) -> Controlled {
    let scratch = Scratch::new();
    scratch.write("db", "");
    let links = links(&scratch, ca, &ca.mutual(name), None);
    let config = format!(
        "{links}[link.central]\npeer = \"{central}\"\ncertificate_name = \"central.test\"\n\
         [check.db]\ntype = \"file\"\npath = \"SCRATCH/db\"\ninterval = \"100ms\"\nrise = 1\nfall = 1\n\
         [check.copy]\ntype = \"alias\"\ncheck = \"db\"\n{more}"
    );
    Controlled::start_in(scratch, "auto", &config)
}

/// An instance that decides by the states at three others, and its configuration.
fn deciding(ca: &Ca, bind: SocketAddr) -> (Reloaded, String) {
    let scratch = Scratch::new();
    let links = links(&scratch, ca, &ca.mutual("central.test"), Some(bind));
    let more = format!(
        "{links}[link.ap]\ncertificate_name = \"ap.test\"\n[link.eu]\ncertificate_name = \"eu.test\"\n\
         [link.us]\ncertificate_name = \"us.test\"\n\
         [check.db]\ntype = \"link\"\nfrom = [\"eu\", \"us\", \"ap\"]\nmax_age = \"2s\"\n\
         [check.copy]\ntype = \"link\"\nfrom = [\"eu\", \"us\", \"ap\"]\nseverity = \"info\"\n\
         [route.readyz]\npath = \"/readyz\"\nhealth = \"readyz\"\n"
    );
    let text = config(&scratch.path(""), "0", &more);
    (Reloaded::start_in(scratch, "auto", &text), more)
}

fn check(control: &Reloaded) -> Value {
    check_named(control, "db")
}

fn check_named(control: &Reloaded, name: &str) -> Value {
    let mut checks: Value = serde_json::from_str(&control.say(&["checks", name, "-o", "json"])).unwrap();
    checks[0].take()
}

/// Waits until the check has this state; returns its reason.
fn await_state(control: &Reloaded, state: &str) -> String {
    let is_there = || check(control)["state"] == state;
    wait_until(LIMIT, is_there).unwrap_or_else(|| {
        panic!("not {state}: {}\n{}", control.say(&["checks"]), control.doorbell.process.log())
    });
    check(control)["reason"].as_str().unwrap().to_owned()
}

fn views(said: &str) -> Vec<Value> {
    serde_json::from_str(said).unwrap()
}

const LINKS: &[&str] = &["links", "-o", "json"];

fn two_of_three_places_decide(_engine: &str) {
    let (ca, addr) = (Ca::new("Links CA"), free_addr());
    let (central, more) = deciding(&ca, addr);
    assert_eq!(check(&central)["state"], "unknown", "unknown is not up");
    let eu = place(&ca, "eu.test", addr, "");
    let [us, ap] = ["us.test", "ap.test"].map(|name| place(&ca, name, addr, ""));
    await_state(&central, "up");
    assert_eq!(ask(central.doorbell.addr, "/readyz").0, 200);

    fs::remove_file(eu.scratch.path("db")).unwrap();
    let names_eu = || check(&central)["reason"].as_str().is_some_and(|reason| reason.contains("eu down"));
    wait_until(LIMIT, names_eu).expect("the reason must name the place");
    assert_eq!(check(&central)["state"], "up", "one place does not decide");
    assert_eq!(check_named(&central, "copy")["state"], "unknown", "an alias is not stated");
    fs::remove_file(us.scratch.path("db")).unwrap();
    let reason = await_state(&central, "down");
    assert!(reason.contains("eu down") && reason.contains("us down") && !reason.contains("ap"), "{reason}");
    assert_eq!(ask(central.doorbell.addr, "/readyz").0, 503);
    let pushed = central.run(&["checks", "db", "--run"]);
    assert!(!pushed.status.success(), "the check cannot be run");

    // A reload that does not concern links keeps the connections.
    let before = views(&central.say(LINKS));
    let wide = central.say(&["links", "-o", "wide"]);
    assert!(wide.starts_with("LINK  PEER      STATE") && wide.lines().count() == 4, "{wide}");
    let own = "[check.self]\ntype = \"file\"\npath = \"/proc/self/status\"\n";
    central.write("0", &format!("{more}{own}"));
    central.say(&["reload"]);
    fs::write(us.scratch.path("db"), "").unwrap();
    await_state(&central, "up");
    for (link, before) in views(&central.say(LINKS)).iter().zip(&before) {
        assert_eq!(link["counters"]["connections"], before["counters"]["connections"], "{link}");
        assert!(link["connected_ms"].is_number() && link["round_trip_us"].is_number(), "{link}");
        assert_eq!(link["counters"]["frames_lost"], 0);
    }

    // Two instances are silent, so the third one cannot decide.
    let [eu, ap] = [eu, ap].map(Controlled::kill);
    await_state(&central, "stale");
    assert_eq!(ask(central.doorbell.addr, "/readyz").0, 503, "unknown is not up");
    drop((eu, ap));
    let _ap = place(&ca, "ap.test", addr, "");
    await_state(&central, "up");
    let ap = &views(&central.say(LINKS))[0];
    assert!(ap["counters"]["connections"].as_u64() >= Some(2), "{ap}");
}

fn a_place_without_the_right_certificate_is_refused(_engine: &str) {
    let (ca, addr) = (Ca::new("Links CA"), free_addr());
    let (central, _) = deciding(&ca, addr);
    let stranger = place(&ca, "other.test", addr, "");
    let log = || central.doorbell.process.log().contains("not that of a configured link");
    wait_until(LIMIT, log).expect("the log must name the reason");
    let is_down = || views(&stranger.say(LINKS))[0]["last_end"].as_str().is_some_and(|why| !why.is_empty());
    wait_until(LIMIT, is_down).expect("the place must show why");
    assert_eq!(views(&central.say(LINKS))[0]["counters"]["connections"], 0);
    // The program ends although a link cannot be opened.
    let mut process = stranger.doorbell.process;
    process.signal(Signal::TERM);
    assert_eq!(process.wait().0.code(), Some(0));
}

/// The places have kept what they know of the former links.
fn links_that_a_reload_removes_and_another_one_adds_again_open(_engine: &str) {
    let (ca, addr) = (Ca::new("Links CA"), free_addr());
    let (central, more) = deciding(&ca, addr);
    let _places = ["ap.test", "eu.test", "us.test"].map(|name| place(&ca, name, addr, ""));
    await_state(&central, "up");
    central.write("0", "");
    central.say(&["reload"]);
    assert_eq!(views(&central.say(LINKS)), Vec::<Value>::new());
    central.write("0", &more);
    central.say(&["reload"]);
    await_state(&central, "up");
}

fn results(control: &Reloaded, name: &str) -> usize {
    let checks = control.say(&["checks", name, "--history", "-o", "json"]);
    let checks: Value = serde_json::from_str(&checks).unwrap();
    checks[0]["history"].as_array().unwrap().len()
}

/// Each decision is a result, which counts towards `rise` and `fall`, and is stored in the history.
/// Without a change, decisions are at least a second apart.
fn a_change_decides_only_the_checks_that_follow_it(_engine: &str) {
    let (ca, addr) = (Ca::new("Links CA"), free_addr());
    let (central, more) = deciding(&ca, addr);
    let other = "[check.other]\ntype = \"link\"\nfrom = \"eu\"\nendpoint = \"livez\"\nhistory = 1000\n";
    central.write("0", &format!("{more}{other}"));
    central.say(&["reload"]);
    let places = ["ap.test", "eu.test", "us.test"].map(|name| place(&ca, name, addr, ""));
    await_state(&central, "up");
    wait_until(LIMIT, || check_named(&central, "other")["state"] == "up").expect("an endpoint is stated");
    let (began, before) = (Instant::now(), results(&central, "other"));
    let db = places[1].scratch.path("db");
    for state in ["down", "up"].repeat(8) {
        if state == "up" {
            fs::write(&db, "").unwrap()
        } else {
            fs::remove_file(&db).unwrap()
        }
        let is_stated =
            || check(&central)["reason"].as_str().is_some_and(|why| why.is_empty() == (state == "up"));
        wait_until(LIMIT, is_stated).expect("the change arrives");
    }
    let more = results(&central, "other") - before;
    let seconds = began.elapsed().as_secs();
    assert!(more as u64 <= seconds + 2, "{more} results in {seconds} s");
}

/// The positions of the other links in the configuration change.
fn a_link_that_is_added_in_front_keeps_the_results_of_checks(_engine: &str) {
    let (ca, addr) = (Ca::new("Links CA"), free_addr());
    let (central, more) = deciding(&ca, addr);
    let _places = ["ap.test", "eu.test", "us.test"].map(|name| place(&ca, name, addr, ""));
    await_state(&central, "up");
    wait_until(LIMIT, || results(&central, "db") >= 6).expect("decisions are repeated");
    let first = "[link.aa]\ncertificate_name = \"aa.test\"\n[link.ap]";
    central.write("0", &more.replace("[link.ap]", first));
    central.say(&["reload"]);
    assert_eq!(views(&central.say(LINKS)).len(), 4);
    assert!(results(&central, "db") >= 6, "{}", central.say(&["checks", "db", "--history"]));
}

/// The findings of `doorbell doctor` about links.
fn diagnosed(control: &Controlled) -> Vec<Value> {
    let output = control.run(&["doctor", "-o", "json"]);
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let Value::Array(mut findings) = report["findings"].take() else { panic!("{output:?}") };
    findings.retain(|finding| finding["topic"] == "link");
    findings
}

fn the_page_and_the_doctor_show_links(_engine: &str) {
    let (ca, addr) = (Ca::new("Links CA"), free_addr());
    let eu = place(&ca, "eu.test", addr, "[admin]\nbind = \"127.0.0.1:0\"\n");
    let page = || get(eu.doorbell.addr_of(1), "/-/").1;
    let section = |page: &str| {
        let (_, links) = page.split_once("<h2>Links <small>1</small></h2>").expect("a section");
        links.split_once("</section>").unwrap().0.to_owned()
    };
    let is_down = || section(&page()).contains("<span class=\"why\">");
    wait_until(LIMIT, is_down).expect("the page must show why the link is down");
    let links = section(&page());
    let head = format!("central<small>{addr}</small></span><span class=\"pill down\">down<");
    assert!(links.contains(&head) && links.contains("not measured yet · 0 lost"), "{links}");
    assert_eq!(diagnosed(&eu)[0]["value"], "not measured");

    let (central, _) = deciding(&ca, addr);
    let is_measured = || section(&page()).contains(">round trip ");
    wait_until(LIMIT, is_measured).unwrap_or_else(|| panic!("{}", central.doorbell.process.log()));
    let links = section(&page());
    for part in ["pill up", "p99 ", "one way ", " ± ", " lost · ", " waiting"] {
        assert!(links.contains(part), "{part} in {links}");
    }
    let rate = |name: &str| views(&eu.say(LINKS))[0]["minute"][name].as_u64();
    for name in ["sent_max_bytes_per_s", "received_max_bytes_per_s"] {
        wait_until(LIMIT, || rate(name) > Some(0)).expect(name);
    }
    let found = &diagnosed(&eu)[0];
    assert_eq!((&found["name"], &found["level"]), (&"central".into(), &"ok".into()));
    assert!(found["value"].as_str().unwrap().starts_with("round trip "), "{found}");
}

fn receipts_are_stored_and_reported(_engine: &str) {
    let Some(server) = ClickHouse::start() else { return };
    let (ca, addr) = (Ca::new("Links CA"), free_addr());
    let (central, _) = deciding(&ca, addr);
    let history = format!(
        "[history.clickhouse]\nurl = \"http://{}\"\ninstance = \"eu-1\"\ninterval = \"100ms\"\n",
        server.addr
    );
    let mut eu = place(&ca, "eu.test", addr, &history);
    let file = eu.scratch.write("history.toml", &format!("version = 1\n{history}"));
    let doorbell = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["-c", &file]).collect();
        let output = run(&binary(), &args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    doorbell(&["history", "init"]);
    let receipts = || server.query("SELECT count() FROM doorbell.link_receipts WHERE link = 'central'");
    wait_until(LIMIT, || receipts()[0].parse::<u64>().unwrap() > 3).expect("receipts must be stored");
    eu.doorbell.process.signal(Signal::TERM);
    assert!(eu.doorbell.process.wait().0.success(), "{}", eu.doorbell.process.log());

    let svg = eu.scratch.path("links.svg");
    let text = doorbell(&["links", "report", "--svg", svg.to_str().unwrap()]);
    let heads: Vec<_> = text.lines().filter(|line| line.starts_with("INSTANCE")).collect();
    assert!(heads[0].contains("LOST") && heads[1].contains("RTT P50"), "{text}");
    assert_eq!(text.matches("eu-1      central").count(), 2, "{text}");
    let picture = fs::read_to_string(svg).unwrap();
    assert!(picture.contains("eu-1 to central") && picture.contains("<polyline"), "{picture}");
    let report: Value = serde_json::from_str(&doorbell(&["links", "report", "-o", "json"])).unwrap();
    assert!(report["losses"][0]["frames"].as_u64() > Some(3), "{report}");
    assert_eq!(report["losses"][0]["frames_lost"], 0, "{report}");
    assert!(report["latencies"][0]["round_trip_us"][0].as_f64() > Some(0.0), "{report}");
    let frames = server
        .query("SELECT count(), uniqExact(incarnation, connection, number) FROM doorbell.link_receipts");
    let count = report["latencies"][0]["receipts"].as_u64().unwrap();
    assert_eq!(frames, [format!("{count}\t{count}")], "one row for each frame");
    let none = doorbell(&["links", "report", "--from", "2001-01-01", "--to", "2001-01-02"]);
    assert_eq!(none, "no rows between 2001-01-01T00:00:00Z and 2001-01-02T00:00:00Z\n");
    drop(central);
}
