//! Names: a resolver that does not answer, one that reports errors, and names with several
//! addresses.

use super::*;
use doorbell_health::Time;
use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

type Found = io::Result<Vec<SocketAddr>>;

/// A resolver whose answers the test supplies one by one.
#[derive(Clone)]
struct Lookups {
    answers: Arc<Mutex<VecDeque<Receiver<Found>>>>,
    asked: Arc<AtomicUsize>,
}

impl Lookups {
    /// Also returns the channels that supply the answers, one for each lookup.
    fn new(lookups: usize) -> (Self, Vec<SyncSender<Found>>) {
        let (tell, answers): (Vec<_>, VecDeque<_>) = (0..lookups).map(|_| sync_channel(1)).unzip();
        (Self { answers: Arc::new(Mutex::new(answers)), asked: Arc::default() }, tell)
    }

    fn resolver(&self) -> Resolver {
        let this = self.clone();
        Resolver::new(move |_host| {
            this.asked.fetch_add(1, Ordering::SeqCst);
            let answer = this.answers.lock().unwrap().pop_front();
            let answer = answer.and_then(|answer| answer.recv().ok());
            answer.unwrap_or_else(|| Err(io::Error::other("unknown name")))
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn connector_of(lookups: &Lookups) -> Arc<Connector> {
    Arc::new(Connector::open(&EgressOptions::default()).unwrap().with_resolver(lookups.resolver()))
}

fn named(port: u16) -> TcpCheck {
    TcpCheck::new(address(format!("a.test:{port}")))
}

fn no_answer() -> io::Error {
    io::Error::other("failed to lookup address information: Temporary failure in name resolution")
}

/// A connector for which every name has these addresses.
pub(super) fn connector_to(addrs: Vec<SocketAddr>) -> Arc<Connector> {
    let resolver = Resolver::new(move |_host| Ok(addrs.clone()));
    Arc::new(Connector::open(&EgressOptions::default()).unwrap().with_resolver(resolver))
}

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) origin: Instant,
    pub(super) outcomes: Mutex<Vec<(usize, Outcome)>>,
}

impl ResultSink for Seen {
    fn now(&self) -> Time {
        Time::ZERO.after(self.origin.elapsed())
    }

    fn instant(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time.as_nanos()).min(Duration::from_secs(3600))
    }

    fn found(&self, check: usize, finding: &Finding) -> Duration {
        self.outcomes.lock().unwrap().push((check, finding.outcome));
        Duration::from_millis(100)
    }

    fn deadline(&self) -> Time {
        Time::MAX
    }

    fn tick(&self) {}
}

/// Forty checks whose names get no answer do not delay the check of a file.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test waits for runs that must continue while others hang")]
fn a_silent_resolver_delays_no_check_without_a_name() {
    let (lookups, tell) = Lookups::new(1000);
    let connector = connector_of(&lookups);
    let pace = |timeout| Pace { interval: Duration::from_millis(100), ..pace(timeout) };
    let file =
        Check { pace: pace(Duration::from_secs(20)), ..Check::new("here", FileCheck::new("/".into())) };
    let named = (0..40).map(|name| Check {
        pace: pace(Duration::from_millis(60)),
        ..Check::new(format!("c{name}"), TcpCheck::new(address(format!("c{name}.test:1"))))
    });
    let checks: Vec<Check> = std::iter::once(file).chain(named).collect();
    let here = 0;
    let mut shared = SharedResources::new(Arc::clone(&connector));
    let run = |(at, check)| {
        let runner = Runner::build(check, &mut shared).unwrap().unwrap();
        Run::new(at, check, "a", Arc::new(runner), Arc::default())
    };
    let runs = checks.iter().enumerate().map(run).collect();
    let (plan, _push) = Plan::new(runs, Vec::new(), 100, Arc::default());
    let sink = Arc::new(Seen { origin: Instant::now(), outcomes: Mutex::default() });
    let lane = plan.start(Arc::clone(&sink)).unwrap().go();
    let outcomes_of = |is: &dyn Fn(usize) -> bool| -> Vec<Outcome> {
        let all = sink.outcomes.lock().unwrap();
        all.iter().filter(|(check, _)| is(*check)).map(|(_, outcome)| *outcome).collect()
    };
    let wait = Instant::now();
    while outcomes_of(&|check| check == here).len() < 10 && wait.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(lane);
    let files = outcomes_of(&|check| check == here);
    assert!(files.len() >= 10 && files.iter().all(|outcome| *outcome == Outcome::Success), "{files:?}");
    let others = outcomes_of(&|check| check != here);
    assert!(others.len() >= 40 && others.iter().all(|outcome| *outcome == Outcome::Timeout), "{others:?}");
    assert!(lookups.asked() <= LOOKUPS_MAX, "{} concurrent lookups", lookups.asked());
    drop(tell);
}

/// Cached addresses stay in use while no answer arrives, and only one lookup is pending at a time.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "without pauses connections come faster than they are accepted"
)]
fn addresses_stay_while_no_answer_comes() {
    // Dropped last: it waits for all pending lookups.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let up = server(|_| {});
    let (lookups, tell) = Lookups::new(5);
    let connector = connector_of(&lookups);
    let resolve = Resolve { ttl: Duration::ZERO, ..Resolve::default() };
    let runners =
        [(); 2].map(|()| runner_with(pace(TIMEOUT), TcpCheck { resolve, ..named(up.port()) }, &connector));
    let found = |which: usize| {
        std::thread::sleep(Duration::from_millis(2));
        let finding = runtime.block_on(runners[which].run());
        (finding.outcome, finding.reason)
    };
    let well = (Outcome::Success, String::new());
    tell[0].send(Ok(vec![up])).unwrap();
    assert_eq!((found(0), lookups.asked()), (well.clone(), 1));
    // The second lookup stays pending during these runs.
    for which in [0, 1, 0, 1] {
        assert_eq!((found(which), lookups.asked()), (well.clone(), 2));
    }
    // Then the resolver reports a temporary failure, twice.
    tell[1].send(Err(no_answer())).unwrap();
    tell[2].send(Err(no_answer())).unwrap();
    while lookups.asked() < 4 {
        assert_eq!(found(0), well);
    }
    // A definite answer: the name does not exist.
    tell[3].send(Err(io::Error::other("Name or service not known"))).unwrap();
    tell[4].send(Err(io::Error::other("Name or service not known"))).unwrap();
    while found(0) == well {}
    assert_eq!(found(1), (Outcome::Error, "a.test: unknown name".to_owned()));
}

#[test]
fn a_name_that_was_never_known_is_an_error_at_once() {
    let (lookups, tell) = Lookups::new(1);
    tell[0].send(Err(no_answer())).unwrap();
    let runner = runner_with(pace(TIMEOUT), named(1), &connector_of(&lookups));
    let finding = block_on(runner.run());
    assert_eq!(finding.outcome, Outcome::Error);
    assert!(finding.reason.starts_with("a.test: "), "{}", finding.reason);
}

/// A lookup that takes too long is no failed connection, whichever limit ends it.
#[test]
fn a_lookup_that_hangs_has_its_own_reason() {
    // Dropped last: it waits for the pending lookups.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (lookups, tell) = Lookups::new(2);
    let short = Duration::from_millis(50);
    let [of_connection, of_run] = [(short, TIMEOUT), (TIMEOUT, short)].map(|(connect_timeout, timeout)| {
        let pace = Pace { connect_timeout, timeout, ..Pace::default() };
        let finding = runtime.block_on(runner_with(pace, named(1), &connector_of(&lookups)).run());
        (finding.outcome, finding.reason)
    });
    drop(tell);
    let expected = (Outcome::Timeout, "name not resolved within 50ms".to_owned());
    assert_eq!([of_connection, of_run], [expected.clone(), expected]);
    // A run without stages, such as that of a file, has nothing to resolve.
    assert_eq!(Progress::begin().overdue(short), "no result within 50ms");
}

/// With `all`, every address is checked. The test uses three addresses with the same port: the
/// first replies 200, the second refuses connections, and the third replies 503.
#[test]
fn all_addresses_are_checked_if_configured() {
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = first.local_addr().unwrap().port();
    let addrs = |lasts: &[u8]| -> Vec<SocketAddr> {
        lasts.iter().map(|last| SocketAddr::from(([127, 0, 0, *last], 0))).collect()
    };
    let answers = |listener: TcpListener, answer: &'static str| {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                heard(&mut stream).write_all(answer.as_bytes()).unwrap();
            }
        });
    };
    answers(first, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    answers(TcpListener::bind(("127.0.0.3", port)).unwrap(), "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let found = |lasts: &[u8], resolve: Resolve| {
        let (lookups, tell) = Lookups::new(1);
        tell[0].send(Ok(addrs(lasts))).unwrap();
        let check = HttpCheck { resolve, ..HttpCheck::new(url(format!("http://a.test:{port}/"))) };
        let pace = pace(Duration::from_secs(2));
        let finding = block_on(runner_with(pace, check, &connector_of(&lookups)).run());
        (finding.outcome, finding.reason)
    };
    let well = (Outcome::Success, String::new());
    let one = Resolve::default();
    let all = Resolve { all: true, ..one };
    let sixth = Resolve { prefer: Prefer::Ipv6, ..one };
    assert_eq!(found(&[2, 1], one), well, "one address that accepts is enough");
    assert_eq!(found(&[1, 1], all), well);
    let reason = format!("1 of 2 addresses, 127.0.0.2:{port}: connection refused");
    assert_eq!(found(&[2, 1], all), (Outcome::Failure, reason));
    let reason = format!("1 of 2 addresses, 127.0.0.3:{port}: status 503, expected 200-299");
    assert_eq!(found(&[1, 3], all), (Outcome::Failure, reason));
    let many: Vec<u8> = (100..165).collect();
    let reason = "a.test has more than 64 addresses".to_owned();
    assert_eq!(found(&many, all), (Outcome::Error, reason));
    let reason = "a.test has no IPv6 address".to_owned();
    assert_eq!(found(&[1], Resolve { fallback: false, ..sixth }), (Outcome::Error, reason));
    assert_eq!(found(&[1], sixth), well);
}

/// A datagram goes to the first address that can be used: an IPv6 address without a route, or on a
/// machine without IPv6, does not hide the IPv4 address of the same service.
#[test]
fn datagrams_go_to_the_first_usable_address() {
    // A link-local address without an interface can never be used.
    let unusable: SocketAddr = "[fe80::1]:0".parse().unwrap();
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = peer.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((len, from)) = peer.recv_from(&mut bytes) {
            // The flag QR makes a question its own answer, with the code NOERROR.
            bytes[2] |= 0x80;
            peer.send_to(&bytes[..len], from).unwrap();
        }
    });
    let found = |kind: CheckKind, addrs: &[SocketAddr]| {
        let finding = block_on(runner_with(pace(TIMEOUT), kind, &connector_to(addrs.to_vec())).run());
        (finding.outcome, finding.reason)
    };
    let server = HostPort::parse(&format!("a.test:{}", addr.port()), None).unwrap();
    let dns = DnsCheck { min_answers: 0, ..DnsCheck::new(server, "a.example".to_owned()) };
    #[cfg(feature = "udp")]
    let udp = UdpCheck { payload: contains(""), ..UdpCheck::new(address(format!("a.test:{}", addr.port()))) };
    let kinds: Vec<CheckKind> = vec![
        dns.into(),
        #[cfg(feature = "udp")]
        udp.into(),
    ];
    for kind in kinds {
        let well = (Outcome::Success, String::new());
        assert_eq!(found(kind.clone(), &[unusable, addr]), well);
        assert_eq!(found(kind.clone(), &[addr, unusable]), well);
        let (outcome, reason) = found(kind.clone(), &[unusable]);
        assert!(outcome != Outcome::Success && reason.starts_with("[fe80::1]"), "{outcome:?} {reason}");
        // A refusal is the result.
        let closed = SocketAddr::from(([127, 0, 0, 2], addr.port()));
        let refused = (Outcome::Failure, format!("{closed}: connection refused"));
        assert_eq!(found(kind, &[closed, addr]), refused);
    }
}
