//! Promise: the number of handed-over connections is bounded. At the limit a client waits or gets a
//! 503, as configured, and no connection is lost.
//!
//! Each case has only a few clients.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use doorbell::{CloseReason, WhenFull};
use doorbell_tokio::{Connection, Control, Embed, Handed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::{ENGINES, builder, ready, status, until, without_heartbeat};

const REQUEST: &[u8] = b"GET /app HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Connects and sends a request for the program.
fn client(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(REQUEST).unwrap();
    stream
}

async fn reply_of(mut client: TcpStream) -> String {
    tokio::task::spawn_blocking(move || {
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        reply
    })
    .await
    .unwrap()
}

async fn status_of(addr: SocketAddr, path: &'static str) -> Result<u16, String> {
    tokio::task::spawn_blocking(move || status(addr, path)).await.unwrap()
}

/// Reads the request and replies.
async fn answer(mut connection: Connection) {
    let mut request = vec![0; REQUEST.len()];
    connection.stream.read_exact(&mut request).await.unwrap();
    assert_eq!(request, REQUEST);
    connection.stream.write_all(b"answered").await.unwrap();
    connection.stream.shutdown().await.unwrap();
}

async fn started(way: usize, max: u32, when_full: WhenFull) -> (Control, Handed, SocketAddr) {
    let health = without_heartbeat();
    let (control, handed) =
        Embed::new(builder(ENGINES[way], &health)).handed_max(max).when_full(when_full).start();
    let addr = ready(&control, ENGINES[way]).await;
    (control, handed, addr)
}

#[tokio::test]
async fn beyond_the_cap_a_client_gets_a_503_and_probes_are_served() {
    for way in 0..ENGINES.len() {
        let (control, mut handed, addr) = started(way, 2, WhenFull::Refuse).await;
        let kept = [client(addr), client(addr)];
        until("two are handed over", || control.stats().handed_waiting == 2).await;
        let refused = reply_of(client(addr)).await;
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("Retry-After: 1\r\n"), "{refused}");
        assert_eq!(status_of(addr, "/livez").await, Ok(200));
        let stats = control.stats();
        assert_eq!((stats.ring.hand_over_refused, stats.handed_out), (1, 2));
        assert_eq!(stats.ring.closed_because(CloseReason::HandedOver), 2);
        for client in kept {
            answer(handed.accept().await.unwrap()).await;
            assert_eq!(reply_of(client).await, "answered");
        }
        until("it closed", || control.stats().ring.closed_because(CloseReason::NotTaken) == 1).await;
        let client = client(addr);
        answer(handed.accept().await.unwrap()).await;
        assert_eq!(reply_of(client).await, "answered", "a place is free again");
        control.stop().await.unwrap();
    }
}

#[tokio::test]
async fn beyond_the_cap_clients_wait_where_they_are_and_then_in_the_backlog() {
    for way in 0..ENGINES.len() {
        let wait = WhenFull::Wait { conns: 2, timeout: Duration::from_secs(15) };
        let (control, mut handed, addr) = started(way, 1, wait).await;
        let mut clients = vec![client(addr)];
        until("one is handed over", || control.stats().handed_waiting == 1).await;
        for waiting in 1..=3 {
            clients.push(client(addr));
            until("the next one waits", || control.stats().ring.hand_over_waits == waiting).await;
            let paused = control.stats().ring.hand_over_pauses;
            assert_eq!(paused, u64::from(waiting == 3), "{waiting} wait");
            if waiting < 3 {
                assert_eq!(status_of(addr, "/livez").await, Ok(200), "the listener accepts");
            }
        }
        // These clients and a probe wait in the backlog.
        clients.extend((0..3).map(|_| client(addr)));
        let probe = tokio::task::spawn_blocking(move || status(addr, "/livez"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(control.stats().ring.hand_over_waits, 3);
        assert!(!probe.is_finished(), "it waits in the backlog");
        let replies: Vec<_> = clients.into_iter().map(|client| tokio::spawn(reply_of(client))).collect();
        for _ in &replies {
            let connection = handed.accept().await.unwrap();
            assert!(control.stats().handed_out <= 1, "never more than the limit");
            answer(connection).await;
        }
        for reply in replies {
            assert_eq!(reply.await.unwrap(), "answered");
        }
        assert_eq!(probe.await.unwrap(), Ok(200));
        let stats = control.stats();
        assert_eq!((stats.ring.hand_over_refused, stats.handed_out), (0, 0));
        control.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_waits_too_long_gets_a_503() {
    for way in 0..ENGINES.len() {
        let wait = WhenFull::Wait { conns: 9, timeout: Duration::from_millis(200) };
        let (control, handed, addr) = started(way, 1, wait).await;
        let kept = client(addr);
        until("one is handed over", || control.stats().handed_waiting == 1).await;
        let refused = reply_of(client(addr)).await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert_eq!(control.stats().ring.hand_over_refused, 1);
        drop((kept, handed));
        control.stop().await.unwrap();
    }
}

#[tokio::test]
async fn without_a_receiver_all_clients_are_refused_waiting_ones_too() {
    for way in 0..ENGINES.len() {
        let wait = WhenFull::Wait { conns: 9, timeout: Duration::from_secs(60) };
        let (control, handed, addr) = started(way, 1, wait).await;
        let kept = client(addr);
        until("one is handed over", || control.stats().handed_waiting == 1).await;
        let waits = client(addr);
        until("one waits", || control.stats().ring.hand_over_waits == 1).await;
        drop(handed);
        let refused = reply_of(waits).await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        let refused = reply_of(client(addr)).await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert_eq!(control.stats().handed_out, 0, "connections that were not taken are closed");
        drop(kept);
        control.stop().await.unwrap();
    }
}
