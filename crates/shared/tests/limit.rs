//! Tests shared limits against a real server, and against servers that hang, die or send invalid
//! replies.
//!
//! Does not know about: the use of a limit over time; see the simulation in `src/limit`.

use doorbell_http::Time;
use doorbell_http::limit::{LeaseCounts, Leases, Limiter, OnError, Quota};
use doorbell_shared::Status;
use doorbell_shared::limit::{Ask, Gcra, Granted, Leaser, seed};
use doorbell_shared::redis::{Redis, RedisOptions, Server, SharedLimit};
use doorbell_testkit::peers::redis::Redis as Peer;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

const PATIENT: Duration = Duration::from_secs(60);

fn clock() -> Time {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    Time::ZERO.after(PATIENT + START.elapsed())
}

fn quota(burst: u32, period: Duration) -> Quota {
    Quota::new(burst, burst, period).expect("a quota")
}

fn start(addr: SocketAddr) -> Redis {
    let server = Server { host: addr.ip().to_string(), port: addr.port(), ..Server::default() };
    let options = RedisOptions { server, prefix: "doorbell:".into(), timeout: PATIENT, seed: 7 };
    let (redis, commands) = Redis::new(options, Arc::new(Status::default()));
    tokio::spawn(commands.run(|_| {}));
    redis
}

async fn connected(peer: &Peer) -> Redis {
    let redis = start(peer.addr);
    until(|| redis.status().is_connected()).await;
    redis
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(2)).await;
    }
}

/// One instance with one limit.
struct Instance {
    limiter: Limiter,
    leases: Arc<Leases>,
}

impl Instance {
    fn start(redis: &Redis, quota: Quota, on_error: OnError) -> Self {
        let gcra = Gcra::new(&quota, 1).expect("a burst that is large enough");
        let leases = Arc::new(gcra.leases(64, on_error));
        let limit = SharedLimit { name: "login".into(), gcra, leases: Arc::clone(&leases) };
        let redis = redis.clone();
        tokio::spawn(async move { redis.share_limits(vec![limit], clock, |_, _| {}).await });
        let limiter = Limiter::leased(quota, 64, seed(b"secret", "login"), Arc::clone(&leases));
        Self { limiter, leases }
    }

    fn ask(&self) -> bool {
        self.limiter.check(b"192.0.2.1", clock()).is_allowed()
    }

    fn counts(&self) -> LeaseCounts {
        self.leases.counts()
    }

    /// Sends requests until one of them is decided without the store.
    async fn until_local(&self) {
        let before = self.counts().without_store;
        until(|| {
            self.ask();
            self.counts().without_store > before
        })
        .await;
    }

    /// Sends requests until one of them has a new token.
    async fn until_leased(&self) {
        let before = self.counts().granted;
        until(|| {
            self.ask();
            self.counts().granted > before
        })
        .await;
    }
}

/// Returns the charges of one instance after this many requests for each key.
fn asks(gcra: &Gcra, requests: &[(&str, u32)]) -> Vec<Ask> {
    let leases = Arc::new(gcra.leases(64, OnError::Local));
    let seed = seed(b"secret", "login");
    let limiter = Limiter::leased(quota(100, PATIENT), 64, seed, Arc::clone(&leases));
    let mut leaser = Leaser::new(Arc::clone(&leases), *gcra, clock());
    leaser.begin(clock());
    for (key, count) in requests {
        for _ in 0..*count {
            limiter.check(key.as_bytes(), clock());
        }
    }
    let mut asks = leaser.begin(clock());
    asks.sort_by_key(|ask| ask.charge.wanted);
    asks
}

#[tokio::test]
async fn the_script_grants_what_the_limit_allows() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = connected(&peer).await;
    // A request takes a quarter of an hour, so that the time of the test does not count.
    let gcra = Gcra::new(&quota(100, Duration::from_secs(25 * 3600)), 1).unwrap();
    let asks = asks(&gcra, &[("192.0.2.1", 1), ("192.0.2.2", 5_000)]);
    let [one, many] = &asks[..] else { panic!("two keys: {asks:?}") };
    assert_eq!((one.charge.credited, one.charge.wanted, many.charge.credited), (1, 1, 1));
    assert!(many.charge.wanted > 100);
    assert_eq!(redis.charge("login", &gcra, &[]).await.unwrap(), []);
    let granted = redis.charge("login", &gcra, &asks).await.unwrap();
    let [Granted { tokens: 1, full_in: two }, Granted { tokens: all, full_in: full }] = granted[..] else {
        panic!("{granted:?}")
    };
    let price = Duration::from_secs(900);
    assert_eq!(two, price * 2);
    assert_eq!(full, price * (all + 1));
    // The rest is reserved for the lifetime of tokens and for credit.
    assert!((80..90).contains(&all), "{all}");
    // Nothing is left for the second key, whatever is in the cache of scripts.
    assert_eq!(peer.cli(&["SCRIPT", "FLUSH"]), "OK");
    let granted = redis.charge("login", &gcra, &asks).await.unwrap();
    assert_eq!((granted[0].tokens, granted[1].tokens), (1, 0));
    assert!(granted[1].full_in > full, "the credit is charged nevertheless");
    // The keys are hashes, and expire.
    let keys = peer.cli(&["KEYS", "*"]);
    assert_eq!(keys.lines().count(), 2);
    for key in keys.lines() {
        let hash = key.strip_prefix("doorbell:limit:login:").unwrap();
        assert!(hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok(), "{key}");
        assert!(peer.cli(&["PTTL", key]).parse::<u64>().unwrap() > 1_000_000);
    }
    // Values of other programs: a full burst, or the maximum debt.
    for (value, tokens) in [("nonsense", all), ("1e300", 0), ("-5", all)] {
        for key in keys.lines() {
            assert_eq!(peer.cli(&["SET", key, value]), "OK");
        }
        let granted = redis.charge("login", &gcra, std::slice::from_ref(many)).await.unwrap();
        assert_eq!(granted[0].tokens, tokens, "{value}");
    }
    assert_eq!(redis.status().counters().errors, 0);
}

#[tokio::test]
async fn two_instances_share_one_burst() {
    let Some(peer) = Peer::start(&[]) else { return };
    let redis = connected(&peer).await;
    let began = Instant::now();
    // One request a second. Without the store, requests are refused, however slow the machine is.
    let quota = quota(600, Duration::from_secs(600));
    let both = [0; 2].map(|_| Instance::start(&redis, quota, OnError::Refuse));
    let mut allowed = [0u64; 2];
    until(|| {
        for (instance, allowed) in both.iter().zip(&mut allowed) {
            *allowed += u64::from(instance.ask());
        }
        allowed[0] + allowed[1] > 560
    })
    .await;
    let spent = Instant::now();
    until(|| {
        for (instance, allowed) in both.iter().zip(&mut allowed) {
            *allowed += u64::from(instance.ask());
        }
        spent.elapsed() > Duration::from_secs(1)
    })
    .await;
    let limit = 600 + began.elapsed().as_secs() + 1;
    assert!(allowed[0] + allowed[1] <= limit, "{allowed:?} {limit}");
    assert!(allowed.iter().all(|&allowed| allowed > 100), "{allowed:?}");
}

#[tokio::test]
async fn the_local_limit_applies_while_the_server_hangs_or_is_dead_or_full() {
    let Some(mut peer) = Peer::start(&[]) else { return };
    let instance = Instance::start(&start(peer.addr), quota(1_000_000, PATIENT), OnError::Local);
    instance.until_leased().await;
    peer.hang(true);
    instance.until_local().await;
    peer.hang(false);
    instance.until_leased().await;
    peer.kill();
    instance.until_local().await;
    peer.restart();
    instance.until_leased().await;
    assert_eq!(peer.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    instance.until_local().await;
    assert_eq!(peer.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    instance.until_leased().await;
}

/// Replies to every command with the same bytes, after a login that succeeds.
async fn scripted(reply: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(async move {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(1..) = stream.read(&mut bytes).await {
                    let reply = if bytes.starts_with(b"*1\r\n$4\r\nPING") { "+PONG\r\n" } else { reply };
                    if stream.write_all(reply.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

#[tokio::test]
async fn nonsense_is_no_grant() {
    for reply in [
        "*2\r\n:1000000\r\n:0\r\n",
        "*2\r\n:-1\r\n:0\r\n",
        "*2\r\n:0\r\n:9223372036854775807\r\n",
        "*2\r\n$1\r\n1\r\n:0\r\n",
        "*1\r\n:1\r\n",
        "+OK\r\n",
        "$-1\r\n",
        "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk\r\n",
        "-NOSCRIPT No matching script\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
    ] {
        let instance = Instance::start(&start(scripted(reply).await), quota(60, PATIENT), OnError::Local);
        instance.until_local().await;
        assert_eq!(instance.counts().granted, 0, "{reply}");
        assert!(instance.ask(), "{reply}");
    }
}

#[test]
fn seeds_depend_on_the_secret_and_the_limit() {
    let all = [seed(b"a", "login"), seed(b"b", "login"), seed(b"a", "other")];
    assert_eq!(seed(b"a", "login"), all[0]);
    assert!(all[0] != all[1] && all[0] != all[2]);
}
