//! Tests connections over TCP and TLS: certificates of both sides, reconnects, refused peers.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::authority::Authority;
use doorbell_link::net::{Acceptor, Dial, LinkClock, LinkHandle, LinkTls, Notice};
use doorbell_link::{Event, Link, LinkOptions, State, Subject};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

type Notices = mpsc::UnboundedReceiver<String>;

/// A link and its events as text.
fn link(incarnation: u64) -> (LinkHandle, Notices) {
    let (sender, notices) = mpsc::unbounded_channel();
    let clock = LinkClock::start(Duration::from_secs(1_800_000_000));
    let handle = LinkHandle::new(Link::new(LinkOptions::default(), incarnation), clock, move |_, notice| {
        let text = match notice {
            Notice::Ended(why) => format!("ended: {why}"),
            Notice::Event(Event::Opened { is_new_peer }) => format!("opened, new: {is_new_peer}"),
            Notice::Event(Event::Transition(one)) => format!("{} {}", one.subject.name, one.state),
            Notice::Event(Event::Receipt(_) | Event::Result(..)) => return,
        };
        let _closed = sender.send(text);
    });
    (handle, notices)
}

async fn next(notices: &mut Notices) -> String {
    notices.recv().await.unwrap()
}

/// Waits for a notice with this text; each attempt to connect causes one.
async fn await_text(notices: &mut Notices, text: &str) {
    let mut others = Vec::new();
    loop {
        let notice = next(notices).await;
        if notice.contains(text) {
            return;
        }
        others.push(notice);
        assert!(others.len() < 20, "no {text:?} in {others:?}");
    }
}

type Refusals = Arc<Mutex<Vec<String>>>;

async fn accept(tls: LinkTls, peers: &[(&str, &LinkHandle)]) -> (u16, Refusals, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let refusals = Refusals::default();
    let refused = Arc::clone(&refusals);
    let peers = peers.iter().map(|(name, handle)| ((*name).to_owned(), (*handle).clone())).collect();
    let refused = Arc::new(move |_, why: &str| refused.lock().unwrap().push(why.to_owned()));
    let task = tokio::spawn(Acceptor { tls, peers, refused }.run(listener));
    (port, refusals, task)
}

fn dial(port: u16, tls: LinkTls, handle: &LinkHandle) -> JoinHandle<()> {
    let (host, certificate_name) = ("127.0.0.1".to_owned(), "central.test".to_owned());
    tokio::spawn(Dial { host, port, certificate_name, tls, seed: 1 }.run(handle.clone()))
}

#[tokio::test]
async fn transitions_flow_both_ways_and_across_a_reconnect() {
    let authority = Authority::new("flow");
    let ((central, mut at_central), (eu, mut at_eu)) = (link(1), link(2));
    let peers = [("us.test", &link(9).0), ("eu.test", &central)].map(|(name, handle)| (name, handle.clone()));
    let peers = peers.each_ref().map(|(name, handle)| (*name, handle));
    let (port, _, accepting) = accept(authority.tls("central.test"), &peers).await;
    eu.with(|now, link| link.transition(now, Subject::check("db"), State::Down, "refused"));
    let _dialing = dial(port, authority.tls("eu.test"), &eu);
    assert_eq!([next(&mut at_central).await, next(&mut at_central).await], ["opened, new: true", "db down"]);
    assert_eq!(next(&mut at_eu).await, "opened, new: true");
    central.with(|now, link| link.transition(now, Subject::endpoint("readyz"), State::Up, ""));
    assert_eq!(next(&mut at_eu).await, "readyz up");
    accepting.abort();
    assert!(next(&mut at_eu).await.starts_with("ended: "));
    eu.with(|now, link| link.transition(now, Subject::check("db"), State::Up, ""));
    assert!(!eu.is_flushed());
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let acceptor = Acceptor {
        tls: authority.tls("central.test"),
        peers: vec![("eu.test".to_owned(), central.clone())].into(),
        refused: Arc::new(|_, _| {}),
    };
    let _accepting = tokio::spawn(acceptor.run(listener));
    assert_eq!([next(&mut at_central).await, next(&mut at_central).await], ["opened, new: false", "db up"]);
    assert_eq!(central.report().counters.transitions_received, 2);
}

#[tokio::test]
async fn a_peer_without_the_right_certificate_is_refused() {
    let (authority, stranger) = (Authority::new("right"), Authority::new("stranger"));
    let ((central, _at_central), (eu, mut at_eu)) = (link(1), link(2));
    let (port, refusals, _accepting) = accept(authority.tls("central.test"), &[("eu.test", &central)]).await;
    // A certificate of the same CA for another name.
    let dialing = dial(port, authority.tls("ap.test"), &eu);
    assert!(next(&mut at_eu).await.starts_with("ended: "));
    dialing.abort();
    // A certificate of another CA.
    let dialing = dial(port, stranger.tls_with_ca("eu.test", &authority.dir.join("ca.pem")), &eu);
    await_text(&mut at_eu, "alert").await;
    dialing.abort();
    // A client that does not use TLS.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    plain.write_all(b"doorlink\x01\0\x01\0").await.unwrap();
    let _end = plain.read_to_end(&mut Vec::new()).await;
    for why in ["not that of a configured link", "invalid peer certificate", "corrupt message"] {
        assert!(refusals.lock().unwrap().iter().any(|refusal| refusal.contains(why)), "{why}: {refusals:?}");
    }
    assert!(!central.is_open());
    // A server whose certificate is for another name.
    let (port, _, _accepting) = accept(authority.tls("other.test"), &[("eu.test", &central)]).await;
    let dialing = dial(port, authority.tls("eu.test"), &eu);
    await_text(&mut at_eu, "not valid for name").await;
    dialing.abort();
}

/// Clients that connect and send nothing do not block the handshakes of others.
#[tokio::test]
async fn silent_clients_of_one_address_do_not_keep_peers_out() {
    let authority = Authority::new("silent");
    let ((central, mut at_central), (eu, _at_eu)) = (link(1), link(2));
    let (port, refusals, _accepting) = accept(authority.tls("central.test"), &[("eu.test", &central)]).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        silent.push(socket.connect(([127, 0, 0, 1], port).into()).await.unwrap());
    }
    let _dialing = dial(port, authority.tls("eu.test"), &eu);
    assert_eq!(next(&mut at_central).await, "opened, new: true");
    let refused = refusals.lock().unwrap().clone();
    assert!(refused.contains(&"too many handshakes from this address".to_owned()), "{refused:?}");
}

#[tokio::test]
async fn a_newer_connection_of_a_peer_replaces_the_older_one() {
    let ((central, mut at_central), (eu, _at_eu)) = (link(1), link(2));
    let run = |handle: &LinkHandle, stream| {
        let handle = handle.clone();
        tokio::spawn(async move { handle.run(stream).await })
    };
    let (one, other) = tokio::io::duplex(64);
    let older = run(&central, one);
    let _peer = run(&eu, other);
    assert_eq!(next(&mut at_central).await, "opened, new: true");
    let (one, other) = tokio::io::duplex(64);
    let _newer = run(&central, one);
    assert_eq!(older.await.unwrap(), doorbell_link::Ended::Replaced);
    let _peer = run(&eu, other);
    assert_eq!(next(&mut at_central).await, "opened, new: false");
    eu.with(|now, link| link.transition(now, Subject::check("db"), State::Up, &"x".repeat(300)));
    assert_eq!(next(&mut at_central).await, "db up");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("files");
    let _tls = authority.tls("eu.test");
    let file = |name: &str| authority.dir.join(name);
    let (ca, cert, key) = (file("ca.pem"), file("eu.test.crt"), file("eu.test.key"));
    for (ca, cert, key, named) in [
        (&file("none"), &cert, &key, "none: "),
        (&key, &cert, &key, "eu.test.key: contains no certificate"),
        (&ca, &cert, &cert, "eu.test.crt: "),
        (&ca, &ca, &key, "ca.pem: "),
    ] {
        let why = LinkTls::from_files(ca, cert, key).unwrap_err();
        assert!(why.contains(named), "{why}");
    }
}
