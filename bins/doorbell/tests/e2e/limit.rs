//! Rate limits over real sockets: replies, and the quota shared by two workers.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use doorbell_testkit::peers::{Reply, wait_until};

use crate::plain::{get, request, send_from};
use crate::support::{Doorbell, LIMIT, on_auto};

on_auto! {
    a_client_gets_its_remaining_quota
    two_workers_share_a_quota
    probes_are_not_counted
    a_quota_is_refilled
    each_kind_of_key
}

/// A configuration with one limit on `/`. The default rate refills nothing during a test.
fn serve(engine: &str, limit: &str) -> Doorbell {
    Doorbell::start_with(
        engine,
        &format!(
            "version = 1\n[runtime]\nworkers = 2\n[listener.web]\nbind = \"127.0.0.1:0\"\n\
             [connections]\nper_ip_max = 4000\n[limit.web]\n{limit}\n\
             [route.web]\npath = \"/\"\nlimit = \"web\"\nreply = {{ body = \"hello\\n\" }}\n\
             [route.live]\npath = \"/livez\"\nlimit = \"web\"\nhealth = \"livez\"\n\
             [route.open]\npath = \"/open\"\nreply = {{ body = \"open\\n\" }}\n"
        ),
    )
}

/// The four rate limit fields of a reply as numbers, if present.
fn rate_fields(reply: &Reply) -> [Option<u32>; 4] {
    ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "retry-after"]
        .map(|name| reply.field(name).map(|value| value.parse().unwrap()))
}

fn a_client_gets_its_remaining_quota(engine: &str) {
    let doorbell = serve(engine, "key = \"ip\"\nrate = \"1/m\"\nburst = 3\nexempt_probes = false");
    for left in [2, 1, 0] {
        let reply = get(doorbell.addr, "/", &[]);
        let [limit, remaining, reset, retry] = rate_fields(&reply);
        assert_eq!((reply.status, limit, remaining, retry), (200, Some(3), Some(left), None));
        assert!(reset.unwrap() <= 60 * (3 - left) && reset.unwrap() > 60 * (2 - left), "{}", reply.head);
    }
    let reply = get(doorbell.addr, "/", &[]);
    let [limit, remaining, reset, retry] = rate_fields(&reply);
    assert_eq!((reply.status, limit, remaining), (429, Some(3), Some(0)), "{}", reply.head);
    assert!(reset.unwrap() > 120 && (1..=60).contains(&retry.unwrap()), "{}", reply.head);
    assert_eq!(get(doorbell.addr, "/livez", &[]).status, 429, "a probe counts unless it is exempt");
    assert_eq!(
        rate_fields(&get(doorbell.addr, "/open", &[])),
        [None; 4],
        "a route without a limit has no fields"
    );
    // Another client has its own quota. Without `headers` only a refusal has the fields.
    let other = send_from(Ipv4Addr::new(127, 0, 0, 9), doorbell.addr, &request("/", &[])).unwrap();
    assert_eq!(other.status, 200);
    let quiet = serve(engine, "key = \"ip\"\nrate = \"1/m\"\nburst = 1\nheaders = false");
    assert_eq!(rate_fields(&get(quiet.addr, "/", &[])), [None; 4]);
    let [limit, remaining, _, retry] = rate_fields(&get(quiet.addr, "/", &[]));
    assert!((limit, remaining) == (Some(1), Some(0)) && retry.is_some());
}

fn two_workers_share_a_quota(engine: &str) {
    const QUOTA: usize = 50;
    let doorbell = serve(engine, "key = \"ip\"\nrate = \"1/m\"\nburst = 50");
    let start = Instant::now();
    let ask = |addr: SocketAddr| (0..100).filter(|_| get(addr, "/", &[]).status == 200).count();
    let admitted: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| ask(doorbell.addr))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    // On a busy machine, one more request is allowed for each elapsed minute.
    let refilled = usize::try_from(start.elapsed().as_secs() / 60).unwrap();
    assert!((QUOTA..=QUOTA + refilled).contains(&admitted), "{admitted} of 400 accepted");
}

fn probes_are_not_counted(engine: &str) {
    let doorbell = serve(engine, "key = \"ip\"\nrate = \"1/m\"\nburst = 2\nexempt_probes = true");
    let statuses = |path: &str, fields: &[&str]| -> Vec<u16> {
        (0..5).map(|_| get(doorbell.addr, path, fields).status).collect()
    };
    assert_eq!(statuses("/livez", &[]), [200; 5], "health routes bypass the limit for every client");
    assert_eq!(
        statuses("/", &["User-Agent: kube-probe/1.34"]),
        [200; 5],
        "a prober bypasses the limit on every route"
    );
    assert_eq!(statuses("/", &[]), [200, 200, 429, 429, 429], "exempt requests must not count");
    assert_eq!(statuses("/livez", &[]), [200; 5]);
}

fn a_quota_is_refilled(engine: &str) {
    let doorbell = serve(engine, "key = \"ip\"\nrate = \"4/s\"\nburst = 1");
    let start = Instant::now();
    let mut admitted = 0;
    let waited = wait_until(LIMIT, || {
        admitted += usize::from(get(doorbell.addr, "/", &[]).status == 200);
        admitted == 5
    });
    let took = start.elapsed();
    assert!(waited.is_some(), "{admitted} in {took:?}");
    assert!(took >= Duration::from_millis(995), "four refills take a second: {took:?}");
}

fn each_kind_of_key(engine: &str) {
    let from = |last: u8, third: u8| Ipv4Addr::new(127, 0, third, last);
    let ask = |doorbell: &Doorbell, source: Ipv4Addr, fields: &[&str]| {
        send_from(source, doorbell.addr, &request("/", fields)).unwrap().status
    };
    let limit = |key: &str| serve(engine, &format!("key = {key:?}\nrate = \"1/h\"\nburst = 1"));

    let net = limit("ip/24");
    assert_eq!(ask(&net, from(1, 7), &[]), 200);
    assert_eq!(ask(&net, from(2, 7), &[]), 429, "a neighbour");
    assert_eq!(ask(&net, from(1, 8), &[]), 200);

    let header = limit("header:X-Api-Key");
    assert_eq!(ask(&header, from(1, 7), &["X-Api-Key: a"]), 200);
    assert_eq!(ask(&header, from(1, 8), &["x-api-key: a"]), 429, "the same key from another address");
    assert_eq!(ask(&header, from(1, 7), &["X-Api-Key: b"]), 200);
    assert_eq!(ask(&header, from(1, 7), &[]), 200, "without the field the address is the key");
    assert_eq!(ask(&header, from(1, 7), &[]), 429);

    let token = limit("token");
    assert_eq!(ask(&token, from(1, 7), &["Authorization: Bearer one"]), 200);
    assert_eq!(ask(&token, from(1, 8), &["Authorization: Bearer one"]), 429);
    assert_eq!(ask(&token, from(1, 8), &["Authorization: Bearer two"]), 200);
}
