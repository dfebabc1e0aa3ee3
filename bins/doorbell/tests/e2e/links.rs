//! A map of 100,000 links: loaded, reloaded under load, and kept if the new map is invalid.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Reply, exchange, misbehave, wait_until};

use crate::plain::get;
use crate::support::{Doorbell, LIMIT, Scratch, StopAtEnd, at_most, is_long_version, on_auto};

on_auto! {
    links_redirect_to_their_targets
    a_map_changes_under_load
    a_reload_is_no_pause
    a_broken_map_changes_nothing
}

const LINKS: usize = 20_000;

/// A map in which link `n` leads to this version of its page.
fn map(version: usize, links: usize) -> String {
    (0..links).fold(String::new(), |mut text, n| {
        writeln!(text, "/l/{n} https://v{version}.test/page/{n} 302").unwrap();
        text
    })
}

fn replace(scratch: &Scratch, text: &str) {
    let fresh = scratch.write("links.map.new", text);
    fs::rename(fresh, scratch.path("links.map")).unwrap();
}

fn serve(engine: &str, scratch: &Scratch, more: &str) -> Doorbell {
    let path = scratch.path("links.map");
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[listener.web]\nbind = \"127.0.0.1:0\"\nkeep_alive = {{ max_requests = 1000000 }}\n\
             [route.links]\npath = \"/l/{{name}}\"\nheaders = {{ X-Team = \"links\" }}\nredirect = {{ map = {path:?}{more} }}\n"
        ),
    )
}

fn links_redirect_to_their_targets(engine: &str) {
    let scratch = Scratch::new();
    replace(&scratch, "# from to status\n/l/a https://a.test/ 301\n/l/b https://b.test/x?y=z\n");
    let table = [
        (
            "",
            [
                ("/l/a", 301, Some("https://a.test/")),
                ("/l/b?q=1", 308, Some("https://b.test/x?y=z")),
                ("/l/c", 404, None),
            ],
        ),
        (
            ", default = \"https://home.test/\"",
            [
                ("/l/a", 301, Some("https://a.test/")),
                ("/l/b", 308, Some("https://b.test/x?y=z")),
                ("/l/c", 302, Some("https://home.test/")),
            ],
        ),
    ];
    for (more, rows) in table {
        let doorbell = serve(engine, &scratch, more);
        for (path, status, location) in rows {
            let reply = get(doorbell.addr, path, &[]);
            assert_eq!((reply.status, reply.field("location")), (status, location), "{path} {more}");
            assert!(location.is_none() || reply.field("x-team") == Some("links"), "{}", reply.head);
        }
    }
}

fn a_map_changes_under_load(engine: &str) {
    const CHANGES: usize = 3;
    let scratch = Scratch::new();
    replace(&scratch, &map(0, LINKS));
    let doorbell = serve(engine, &scratch, "");
    let changing = AtomicBool::new(true);
    let asked = thread::scope(|scope| {
        let end = StopAtEnd(&changing);
        let clients: Vec<_> = (0..2)
            .map(|seed| {
                scope.spawn({
                    let (changing, addr) = (&changing, doorbell.addr);
                    move || ask_until(addr, seed, changing)
                })
            })
            .collect();
        for version in 1..=CHANGES {
            replace(&scratch, &map(version, LINKS));
            let expected = format!("https://v{version}.test/page/7");
            let changed =
                wait_until(LIMIT, || get(doorbell.addr, "/l/7", &[]).field("location") == Some(&expected));
            assert!(changed.is_some(), "{}", doorbell.process.log());
        }
        drop(end);
        clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
    });
    eprintln!("{engine}: {CHANGES} maps of {LINKS} links, {asked} requests meanwhile, none failed");
    assert!(asked > 0, "at least one request must be sent");
}

/// Requests links. Every reply must come from a complete map, and versions must never decrease.
fn ask_until(addr: SocketAddr, seed: usize, changing: &AtomicBool) -> usize {
    let (mut asked, mut last) = (0, 0);
    while changing.load(Ordering::Relaxed) {
        let link = |n: usize| (seed + asked + n * 7_919) % LINKS;
        let requests: String =
            (0..50).map(|n| format!("GET /l/{} HTTP/1.1\r\nHost: a\r\n\r\n", link(n))).collect();
        let end = "GET /l/0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let got = exchange(addr, format!("{requests}{end}").as_bytes()).unwrap();
        let (replies, left) = Reply::parse_all(&got.bytes);
        assert_eq!((replies.len(), left), (51, 0), "{got:?}");
        for (n, reply) in replies.iter().take(50).enumerate() {
            let location = reply.field("location").unwrap_or_else(|| panic!("{}", reply.head));
            let (version, page) =
                location.strip_prefix("https://v").unwrap().split_once(".test/page/").unwrap();
            let version: usize = version.parse().unwrap();
            assert_eq!((reply.status, page), (302, link(n).to_string().as_str()));
            assert!(version >= last, "{location} after version {last}");
            last = version;
        }
        asked += replies.len();
    }
    asked
}

/// Compares the slowest reply while maps are loaded with the slowest reply in an equally long time
/// without loading. Runs only in the long version.
fn a_reload_is_no_pause(engine: &str) {
    /// Scheduling delay. Loading a map on the worker would take longer for each map.
    const SLACK: Duration = Duration::from_millis(100);
    /// Loading them takes longer than the slack.
    const LINKS: usize = 100_000;
    if !is_long_version("a_reload_is_no_pause") {
        return;
    }
    let scratch = Scratch::new();
    replace(&scratch, &map(0, LINKS));
    let doorbell = serve(engine, &scratch, "");
    let maps = [map(1, LINKS), map(2, LINKS)];
    let changes = || doorbell.process.log().matches(" links").count();
    let begun = Instant::now();
    let (longest, asked) = longest_answer(doorbell.addr, LINKS, || {
        for text in &maps {
            let before = changes();
            replace(&scratch, text);
            assert!(wait_until(LIMIT, || changes() > before).is_some(), "{}", doorbell.process.log());
        }
    });
    let lasted = begun.elapsed();
    let (control, _) = longest_answer(doorbell.addr, LINKS, || thread::sleep(lasted));
    assert!(asked >= 100, "too few requests: {asked}");
    at_most(
        format_args!("{engine}: the longest of {asked} answers while two maps of {LINKS} links were read"),
        longest,
        control + SLACK,
    );
}

/// The slowest of sequential replies on one connection while `meanwhile` runs.
fn longest_answer(server: SocketAddr, links: usize, meanwhile: impl FnOnce()) -> (Duration, usize) {
    let asking = AtomicBool::new(true);
    thread::scope(|scope| {
        let end = StopAtEnd(&asking);
        let client = scope.spawn(|| {
            let mut stream = TcpStream::connect(server).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let (mut longest, mut asked) = (Duration::ZERO, 0);
            while asking.load(Ordering::Relaxed) {
                let start = Instant::now();
                stream
                    .write_all(format!("GET /l/{} HTTP/1.1\r\nHost: a\r\n\r\n", asked % links).as_bytes())
                    .unwrap();
                misbehave::read_replies(&mut stream, 1, false).unwrap();
                longest = longest.max(start.elapsed());
                asked += 1;
                thread::sleep(Duration::from_millis(1));
            }
            (longest, asked)
        });
        meanwhile();
        drop(end);
        client.join().unwrap()
    })
}

fn a_broken_map_changes_nothing(engine: &str) {
    let scratch = Scratch::new();
    replace(&scratch, "/l/a https://a.test/\n");
    let doorbell = serve(engine, &scratch, "");
    let reports = || doorbell.process.log().matches("keeping the previous version").count();
    for (count, broken) in [
        "/l/a nowhere\n",
        "/l/a https://b.test/\n/l/a https://c.test/\n",
        "/l/a https://b.test/ 200\n",
        "\0\u{1}",
    ]
    .iter()
    .enumerate()
    {
        replace(&scratch, broken);
        let reported = wait_until(LIMIT, || reports() == count + 1);
        assert!(reported.is_some(), "{broken:?}: {}", doorbell.process.log());
        assert_eq!(get(doorbell.addr, "/l/a", &[]).field("location"), Some("https://a.test/"), "{broken:?}");
    }
    let log = doorbell.process.log();
    assert!(
        log.contains("links.map: line 1: ") && log.contains("links.map: line 2: "),
        "the log must name the line: {log}"
    );
    replace(&scratch, "/l/a https://b.test/\n");
    let taken =
        wait_until(LIMIT, || get(doorbell.addr, "/l/a", &[]).field("location") == Some("https://b.test/"));
    assert!(taken.is_some(), "{}", doorbell.process.log());
}
