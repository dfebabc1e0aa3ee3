//! Tests the store against a real server.

use doorbell_link::{Outcome, State};
use doorbell_shared::redis::{Redis, RedisOptions, Server};
use doorbell_shared::{
    Announcement, EndpointState, Lease, LeaseRequest, Local, Message, Notification, Publication,
    ShareOptions, ShareView, SharedResult, SharedStore as _, Shares, Stamp, Status, StoreError,
};
use doorbell_testkit::figures;
use doorbell_testkit::peers::redis::Redis as Peer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// Longer than any reply takes on a busy machine.
const PATIENT: Duration = Duration::from_secs(60);

/// A lease that does not end during a test.
const LONG: Duration = Duration::from_secs(600);

const KEEP: Duration = Duration::from_secs(600);

fn server(addr: SocketAddr) -> Server {
    Server { host: addr.ip().to_string(), port: addr.port(), ..Server::default() }
}

fn options(peer: &Peer, timeout: Duration) -> RedisOptions {
    RedisOptions { server: server(peer.addr), prefix: "doorbell:".into(), timeout, seed: 7 }
}

/// Starts a client whose connection runs in the background, before it is connected.
fn start(options: RedisOptions) -> Redis {
    let (redis, commands) = Redis::new(options, Arc::new(Status::default()));
    tokio::spawn(commands.run(|_| {}));
    redis
}

/// Also returns the reported states.
fn reporting(options: RedisOptions) -> (Redis, mpsc::UnboundedReceiver<Result<(), StoreError>>) {
    let (redis, commands) = Redis::new(options, Arc::default());
    let (sender, states) = mpsc::unbounded_channel();
    tokio::spawn(commands.run(move |state| {
        let _ended = sender.send(state.map_err(StoreError::clone));
    }));
    (redis, states)
}

async fn connected(redis: &Redis) {
    while !redis.status().is_connected() {
        sleep(Duration::from_millis(5)).await;
    }
}

async fn client(peer: &Peer) -> Redis {
    let redis = start(options(peer, PATIENT));
    connected(&redis).await;
    redis
}

fn ask(holder: &str, lasts: Duration) -> LeaseRequest {
    LeaseRequest { check: "db:1".into(), holder: holder.into(), lasts, known: Stamp::default() }
}

fn result(holder: &str, token: u64, round: u64, value: &[u8]) -> Publication {
    let stamp = Stamp { token, round };
    Publication { check: "db:1".into(), holder: holder.into(), stamp, value: value.into(), keep: KEEP }
}

fn message(holder: &str, token: u64, message: &[u8]) -> Notification {
    Notification { check: "db:1".into(), holder: holder.into(), token, message: message.into() }
}

/// The value of the last result, and its order.
fn latest(lease: &Lease) -> Option<&[u8]> {
    lease.latest.as_ref().map(|stored| &*stored.value)
}

#[tokio::test]
async fn a_lease_has_one_holder_and_a_token_that_only_increases() {
    let Some(mut peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    let first = redis.lease(ask("a", LONG)).await.unwrap();
    assert!(first.is_own && first.latest.is_none() && first.remaining <= LONG);
    let other = redis.lease(ask("b", LONG)).await.unwrap();
    assert!(!other.is_own);
    assert_eq!(other.token, first.token);
    // A shorter time: the same holder, and the same token.
    let again = redis.lease(ask("a", Duration::from_millis(1))).await.unwrap();
    assert_eq!((again.is_own, again.token), (true, first.token));
    let next = loop {
        let lease = redis.lease(ask("b", LONG)).await.unwrap();
        if lease.is_own {
            break lease;
        }
    };
    assert!(next.token > first.token);
    // A server without its data.
    peer.restart();
    let after = loop {
        match redis.lease(ask("a", LONG)).await {
            Ok(lease) => break lease,
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(after.is_own && after.token > next.token);
}

#[tokio::test]
async fn a_result_is_stored_once_for_each_stamp_and_by_the_holder_only() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    let token = redis.lease(ask("a", LONG)).await.unwrap().token;
    let publish = async |publication: Publication| redis.publish(publication).await.unwrap();
    assert!(publish(result("a", token, 1, b"one")).await);
    assert!(!publish(result("a", token, 1, b"one again")).await);
    assert!(publish(result("a", token, 3, b"\0\xff\r\n")).await);
    assert!(!publish(result("a", token, 2, b"late")).await);
    assert!(!publish(result("b", token, 4, b"no holder")).await);
    assert!(!publish(result("a", token + 1, 4, b"no token")).await);
    let lease = redis.lease(ask("b", LONG)).await.unwrap();
    assert_eq!(latest(&lease), Some(&b"\0\xff\r\n"[..]));
    let known = LeaseRequest { known: Stamp { token, round: 3 }, ..ask("b", LONG) };
    assert_eq!(redis.lease(known).await.unwrap().latest, None);
    // The lease is lost: by its end, or by an operator.
    let _deleted = peer.cli(&["DEL", "doorbell:lease:db:1"]);
    assert!(!publish(result("a", token, 4, b"without a lease")).await);
    // A stored token above the clock of the server is followed by a higher one.
    let _set = peer.cli(&["HSET", "doorbell:check:db:1", "token", "4000000000000000"]);
    assert_eq!(redis.lease(ask("c", LONG)).await.unwrap().token, 4_000_000_000_000_001);
    assert!(publish(result("c", 4_000_000_000_000_001, 1, b"newest")).await);
}

/// Keys as they remain after the clock of the server was set back by an hour.
#[tokio::test]
async fn a_clock_that_is_set_back_keeps_neither_a_lease_nor_a_result() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    let token = redis.lease(ask("a", LONG)).await.unwrap().token;
    assert!(redis.publish(result("a", token, 1, b"one")).await.unwrap());
    assert!(redis.lease(ask("b", LONG)).await.unwrap().latest.is_some());
    let key = "doorbell:lease:db:1";
    for command in [&["PEXPIRE", key, "3600000"][..], &["PERSIST", key]] {
        assert_eq!(peer.cli(command), "1");
        let lease = redis.lease(ask("b", LONG)).await.unwrap();
        assert!(!lease.is_own && lease.remaining == LONG, "{lease:?}");
        let ttl: u128 = peer.cli(&["PTTL", key]).parse().unwrap();
        assert!(ttl <= LONG.as_millis(), "{ttl}");
    }
    // The age of the result is unknown, but its token still precedes all later ones.
    let key = "doorbell:check:db:1";
    let at: u64 = peer.cli(&["HGET", key, "at"]).parse().unwrap();
    let later = (at + 3_600_000_000).to_string();
    let _set = peer.cli(&["HSET", key, "at", &later, "token", &later]);
    assert_eq!(redis.lease(ask("b", LONG)).await.unwrap().latest, None);
    let _deleted = peer.cli(&["DEL", "doorbell:lease:db:1"]);
    let lease = redis.lease(ask("b", LONG)).await.unwrap();
    assert_eq!((lease.token, &lease.latest), (at + 3_600_000_001, &None));
    assert!(redis.publish(result("b", lease.token, 1, b"two")).await.unwrap());
    assert_eq!(latest(&redis.lease(ask("a", LONG)).await.unwrap()), Some(&b"two"[..]));
}

#[tokio::test]
async fn nonsense_in_the_keys_is_an_error_or_no_lease() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    let _set = peer.cli(&["SET", "doorbell:lease:db:1", "nonsense"]);
    assert!(redis.lease(ask("a", LONG)).await.unwrap().is_own);
    let _set = peer.cli(&["HSET", "doorbell:check:db:1", "token", "x", "at", "y", "value", "z"]);
    let lease = redis.lease(ask("a", LONG)).await.unwrap();
    assert_eq!((lease.is_own, latest(&lease)), (true, Some(&b"z"[..])));
    let _set = peer.cli(&["SET", "doorbell:check:db:1", "a string"]);
    let error = redis.lease(ask("a", LONG)).await.unwrap_err();
    assert!(error.0.starts_with("WRONGTYPE"), "{error}");
    assert!(redis.status().is_connected());
    assert_eq!(redis.status().counters().errors, 1);
}

#[tokio::test]
async fn followers_get_messages_and_results_and_follow_again_after_a_restart() {
    let Some(mut peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let follower = redis.clone();
    tokio::spawn(async move {
        let checks = ["other:2", "db:1"].map(str::to_owned).into();
        follower.follow(checks, |at, message| sender.send((at, message)).unwrap()).await;
    });
    for _ in 0..2 {
        connected(&redis).await;
        let mut tokens = Vec::new();
        for check in ["db:1", "unknown:3", "other:2"] {
            let request = LeaseRequest { check: check.into(), ..ask("a", LONG) };
            // The connection may not have noticed yet that the server was restarted.
            while let Err(_reconnects) = redis.lease(request.clone()).await {
                sleep(Duration::from_millis(5)).await;
            }
            tokens.push(redis.lease(request).await.unwrap().token);
        }
        let message = |check: usize, text: &[u8]| {
            let name = ["db:1", "unknown:3", "other:2"][check];
            Notification { check: name.into(), ..message("a", tokens[check], text) }
        };
        // Messages before the subscription are lost.
        while received.try_recv().is_err() {
            assert!(redis.notify(message(0, b"alive")).await.unwrap());
            sleep(Duration::from_millis(5)).await;
        }
        assert!(redis.publish(result("a", tokens[0], 1, b"result")).await.unwrap());
        assert!(redis.notify(message(1, b"not followed")).await.unwrap());
        // A former holder, whose message was delayed.
        let former = Notification { token: tokens[2] - 1, ..message(2, b"former") };
        assert!(!redis.notify(former).await.unwrap());
        assert!(!redis.notify(Notification { holder: "b".into(), ..message(2, b"other") }).await.unwrap());
        assert!(redis.notify(message(2, b"last")).await.unwrap());
        let mut last = Vec::new();
        while last.last() != Some(&(0, b"last".to_vec())) {
            last.extend(received.recv().await);
        }
        assert_eq!(last[last.len() - 2..], [(1, b"result".to_vec()), (0, b"last".to_vec())]);
        peer.restart();
    }
}

/// Applies the results of others, and counts them.
#[derive(Default)]
struct Taken(AtomicUsize);

impl Local for Taken {
    fn run(&self, _check: usize) {}

    fn take(&self, _check: usize, _result: &SharedResult) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A reload replaces the machines. A failure that counted twice would count as two.
#[tokio::test]
async fn a_result_is_not_applied_again_after_a_reload() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    let token = redis.lease(ask("other", LONG)).await.unwrap().token;
    let failure = SharedResult::new(Outcome::Failure, Duration::ZERO, "refused", LONG);
    let message = Message { token, round: 1, from: "other".into(), result: Some(failure) };
    assert!(redis.publish(result("other", token, 1, &message.encode())).await.unwrap());
    let options = ShareOptions {
        name: "db".into(),
        check: "db:1".into(),
        instance: "a".into(),
        holder: "a 1".into(),
        interval: LONG,
        timeout: PATIENT,
        max_age: 3 * LONG,
        seed: 1,
    };
    let taken = Arc::new(Taken::default());
    let count = || taken.0.load(Ordering::Relaxed);
    let before = Shares::new(vec![options.clone()]);
    let thread = tokio::spawn(Arc::clone(&before).run(redis.clone(), Arc::clone(&taken)));
    while count() == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    thread.abort();
    let _ended = thread.await;
    let _deleted = peer.cli(&["DEL", "doorbell:lease:db:1"]);
    // Dropped, because the thread that handles reports has ended.
    before.ran(0, LONG, None);
    let after = Shares::new(vec![options.clone()]);
    after.continue_from(&before);
    tokio::spawn(Arc::clone(&after).run(redis.clone(), Arc::clone(&taken)));
    while !after.view(0).unwrap().is_holder {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(count(), 1);
    let view = after.view(0).unwrap();
    assert_eq!(view.from.as_deref(), Some("other"), "it is still shown");
    assert_eq!((view.counters.taken, view.counters.leases, after.dropped()), (1, 1, 1));
    let changed = Shares::new(vec![ShareOptions { check: "db:2".into(), ..options }]);
    changed.continue_from(&after);
    let expected = ShareView { counters: view.counters, ..ShareView::default() };
    assert_eq!((changed.view(0), changed.dropped()), (Some(expected), 1));
}

/// A server has databases for keys, but none for channels.
#[tokio::test]
async fn instances_in_another_database_are_not_followed() {
    let Some(peer) = Peer::start(&[]) else { return };
    let other = client(&peer).await;
    let mut options = options(&peer, PATIENT);
    options.server.db = 1;
    let own = start(options);
    connected(&own).await;
    let (sender, mut received) = mpsc::unbounded_channel();
    let follower = own.clone();
    tokio::spawn(async move {
        follower.follow(vec!["db:1".into()], |_, message| sender.send(message).unwrap()).await;
    });
    let token = own.lease(ask("a", LONG)).await.unwrap().token;
    while received.try_recv().is_err() {
        assert!(own.notify(message("a", token, b"own")).await.unwrap());
        sleep(Duration::from_millis(5)).await;
    }
    let other_token = other.lease(ask("a", LONG)).await.unwrap().token;
    assert!(other.notify(message("a", other_token, b"other")).await.unwrap());
    assert!(other.publish(result("a", other_token, 1, b"other")).await.unwrap());
    assert!(own.publish(result("a", token, 1, b"last")).await.unwrap());
    loop {
        match &*received.recv().await.unwrap() {
            b"last" => break,
            message => assert_eq!(message, b"own"),
        }
    }
}

#[tokio::test]
async fn instances_are_listed_until_they_expire() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    assert_eq!(redis.announced(LONG).await, Ok(vec![]));
    for (name, value) in [("b", "1"), ("a", "2"), ("c", "3"), ("d", "3"), ("a", "4")] {
        redis.announce(name.into(), value.into(), LONG).await.unwrap();
    }
    let listed = async || {
        let mut all = redis.announced(LONG).await.unwrap();
        all.sort();
        all.into_iter()
            .map(|(name, value)| format!("{name}{}", String::from_utf8_lossy(&value)))
            .collect::<Vec<_>>()
    };
    assert_eq!(listed().await, ["a4", "b1", "c3", "d3"]);
    // One has expired, and one was announced before the clock was set back by an hour.
    let scores = "doorbell:fleet:until";
    let last: f64 = peer.cli(&["ZSCORE", scores, "d"]).parse().unwrap();
    let _set = peer.cli(&["ZADD", scores, "1", "c", &(last + 3_600_000.0).to_string(), "d"]);
    assert_eq!(peer.cli(&["PEXPIRE", "doorbell:fleet", "3600000"]), "1");
    assert_eq!(listed().await, ["a4", "b1"]);
    // The next announcement removes both.
    redis.announce("b".into(), "5".into(), LONG).await.unwrap();
    assert_eq!(listed().await, ["a4", "b5"]);
    assert_eq!(peer.cli(&["HLEN", "doorbell:fleet"]), "2");
    assert_eq!(peer.cli(&["ZCARD", scores]), "2");
    let ttl: u128 = peer.cli(&["PTTL", "doorbell:fleet"]).parse().unwrap();
    assert!(ttl <= LONG.as_millis(), "an abandoned view expires: {ttl}");
    redis.announce("b".into(), "6".into(), Duration::from_millis(1)).await.unwrap();
    while !listed().await.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn users_are_limited_to_the_prefix_and_the_documented_commands() {
    let acl = "doorbell on >se\"cret ~doorbell:* &doorbell:* -@all +evalsha +script|load +get +set +pexpire +pttl +hmget \
               +hset +hget +hdel +zadd +zrem +zrangebyscore +time +publish +subscribe +ping +select";
    let mut arguments = vec!["--user", "default", "off", "--user"];
    arguments.extend(acl.split(' '));
    let Some(peer) = Peer::start(&arguments) else { return };
    let mut options = options(&peer, PATIENT);
    options.server.db = 3;
    let refused = |options: RedisOptions| async move {
        let (_redis, mut states) = reporting(options);
        states.recv().await.expect("a state").expect_err("no login").0
    };
    let error = refused(options.clone()).await;
    assert!(error.starts_with("SELECT: NOAUTH"), "{error}");
    (options.server.username, options.server.password) = ("doorbell".into(), "wrong".into());
    let error = refused(options.clone()).await;
    assert!(error.starts_with("AUTH: WRONGPASS"), "{error}");
    options.server.password = "se\"cret".into();
    let redis = start(options);
    connected(&redis).await;
    let token = redis.lease(ask("a", LONG)).await.unwrap().token;
    assert!(redis.lease(ask("a", LONG)).await.unwrap().is_own);
    assert!(redis.publish(result("a", token, 1, b"one")).await.unwrap());
    assert!(redis.notify(message("a", token, b"alive")).await.unwrap());
    redis.announce("a".into(), b"1".to_vec(), Duration::from_millis(1)).await.unwrap();
    sleep(Duration::from_millis(20)).await;
    redis.announce("b".into(), b"1".to_vec(), LONG).await.unwrap();
    assert_eq!(redis.announced(LONG).await.unwrap().len(), 1);
    let other = peer.cli(&["--user", "doorbell", "--pass", "se\"cret", "GET", "other:key"]);
    assert!(other.contains("NOPERM"), "{other}");
}

#[tokio::test]
async fn without_a_usable_server_calls_fail_and_the_connection_returns() {
    let Some(mut peer) = Peer::start(&[]) else { return };
    let redis = start(options(&peer, Duration::from_millis(500)));
    connected(&redis).await;
    // A process that accepts connections and never replies.
    peer.hang(true);
    let errors = redis.status().counters().errors;
    assert!(redis.lease(ask("a", LONG)).await.is_err());
    assert!(!redis.status().is_connected() && redis.status().counters().errors > errors);
    let error = redis.lease(ask("a", LONG)).await.unwrap_err();
    assert_eq!(error.0, "the server did not reply in time");
    assert!(redis.status().counters().refused > 0);
    peer.hang(false);
    connected(&redis).await;
    // Also if the caller stops waiting.
    peer.hang(true);
    assert!(timeout(Duration::from_millis(1), redis.lease(ask("a", LONG))).await.is_err());
    while redis.status().is_connected() {
        sleep(Duration::from_millis(5)).await;
    }
    peer.hang(false);
    connected(&redis).await;
    peer.kill();
    while redis.status().is_connected() {
        sleep(Duration::from_millis(5)).await;
    }
    peer.restart();
    connected(&redis).await;
    while redis.lease(ask("a", LONG)).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
}

/// A server without memory or disk space replies, and refuses to write.
#[tokio::test]
async fn a_server_that_refuses_to_write_is_an_error() {
    let disk = ["--dir", "/proc", "--save", "900", "1"];
    for (arguments, cause, expected) in
        [(&[][..], &["CONFIG", "SET", "maxmemory", "1"][..], "OOM"), (&disk, &["BGSAVE"], "MISCONF")]
    {
        let Some(peer) = Peer::start(arguments) else { return };
        let (redis, mut states) = reporting(options(&peer, PATIENT));
        connected(&redis).await;
        let token = redis.lease(ask("a", LONG)).await.unwrap().token;
        assert!(redis.status().is_usable());
        let _caused = peer.cli(cause);
        // Saving fails in the background.
        let mut rounds = 1..;
        let error = loop {
            match redis.publish(result("a", token, rounds.next().unwrap(), b"one")).await {
                Err(error) => break error,
                Ok(_) => sleep(Duration::from_millis(5)).await,
            }
        };
        assert!(error.0.contains(expected), "{error}");
        assert!(redis.status().is_connected() && !redis.status().is_usable());
        assert_eq!(redis.status().last_error(), error.0);
        // Another error of the same kind, and commands that write nothing.
        assert!(redis.announce("a".into(), b"1".to_vec(), LONG).await.is_err());
        assert_eq!(redis.announced(LONG).await, Ok(vec![]));
        assert!(!redis.status().is_usable());
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
        assert_eq!(redis.announced(LONG).await, Ok(vec![]));
        assert!(redis.status().is_usable() && redis.status().last_error().is_empty());
        let reported: Vec<_> = std::iter::from_fn(|| states.try_recv().ok()).collect();
        assert_eq!(reported, [Ok(()), Err(error), Ok(())]);
    }
}

/// The user may do everything but receive messages.
#[tokio::test]
async fn a_server_that_refuses_to_send_messages_is_an_error() {
    let acl = "doorbell on nopass ~* +@all";
    let mut arguments = vec!["--user"];
    arguments.extend(acl.split(' '));
    let Some(peer) = Peer::start(&arguments) else { return };
    let mut options = options(&peer, PATIENT);
    (options.server.username, options.server.password) = ("doorbell".into(), "any".into());
    let (redis, mut states) = reporting(options);
    connected(&redis).await;
    let follower = redis.clone();
    tokio::spawn(async move { follower.follow(vec!["db:1".into()], |_, _| {}).await });
    assert_eq!(states.recv().await, Some(Ok(())));
    let error = states.recv().await.expect("a state").unwrap_err();
    assert!(error.0.starts_with("NOPERM"), "{error}");
    assert!(redis.lease(ask("a", LONG)).await.unwrap().is_own);
    assert!(redis.status().is_connected() && !redis.status().is_usable());
}

/// After a failover, the address may lead to another server, although the former one keeps its
/// connections.
#[tokio::test]
async fn a_server_that_became_a_replica_is_left() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    assert!(redis.lease(ask("a", LONG)).await.unwrap().is_own);
    let _demoted = peer.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = redis.lease(ask("a", LONG)).await.unwrap_err();
    assert!(error.0.contains("READONLY"), "{error}");
    let opened = || redis.status().counters().connections;
    let begin = Instant::now();
    while opened() < 2 && begin.elapsed() < PATIENT {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(opened() >= 2, "the connection to a replica is kept");
    let _promoted = peer.cli(&["REPLICAOF", "NO", "ONE"]);
    while redis.lease(ask("a", LONG)).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
}

/// A server that sends invalid bytes, replies without a command, or an endless reply.
#[tokio::test]
async fn nonsense_closes_the_connection() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let long = [b"$99999999999\r\n", &[b'a'; 33 << 20][..]].concat();
    for (nonsense, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "PING: invalid reply from the server"),
        (b"+PONG\r\n+PONG\r\n+PONG\r\n", "invalid reply from the server"),
        (b"-LOADING a \x1b[31m b\r\n", "PING: LOADING a  [31m b"),
        (long.leak(), "PING: the reply is too long"),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(1..) = stream.read(&mut [0; 4096]).await {
                        let _sent = stream.write_all(nonsense).await;
                    }
                });
            }
        });
        let options = RedisOptions { server: server(addr), prefix: String::new(), timeout: PATIENT, seed: 1 };
        let (redis, mut states) = reporting(options);
        let why = loop {
            match states.recv().await.expect("a state") {
                Ok(()) => assert!(redis.lease(ask("a", LONG)).await.is_err()),
                Err(why) => break why.0,
            }
        };
        assert_eq!(why, expected);
        while redis.status().counters().errors < 2 {
            let _refused = redis.lease(ask("a", LONG)).await;
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_thousand_instances_are_one_view() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = client(&peer).await;
    let endpoint =
        |at: u64| EndpointState { name: format!("readyz-{at}"), state: State::Up, note: "".into() };
    let announcement = Announcement {
        version: "0.1.0".into(),
        zone: "eu-1".into(),
        lifecycle: "ready".into(),
        started_unix_ms: 1_795_288_003_819,
        config_hash: "0123456789abcdef".into(),
        endpoints: (0..8).map(endpoint).collect(),
        endpoints_total: 8,
    };
    for at in 0..1_000 {
        redis.announce(format!("web-{at}"), announcement.encode(), LONG).await.unwrap();
    }
    let begin = Instant::now();
    let all = redis.announced(LONG).await.unwrap();
    assert!(all.iter().all(|(_, value)| Announcement::decode(value).as_ref() == Some(&announcement)));
    let took = begin.elapsed();
    assert_eq!(all.len(), 1_000);
    figures::at_most("a view of 1,000 instances", took, Duration::from_secs(2));
}
