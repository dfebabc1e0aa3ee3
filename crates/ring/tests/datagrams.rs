//! Datagrams: by multishot receive, and in batches by system calls.

#![expect(clippy::unwrap_used, reason = "helpers of a test may panic")]

mod common;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use doorbell_ring::datagram::{Outgoing, RecvBatch, SendBatch, SentBatch};
use doorbell_ring::{Errno, EventKind, Op, RecvBuf, Ring, Setup, Token, sockopt};

use common::{ring, setup};

const TOKEN: Token = Token::new(3, 0);

/// A copy of a received datagram: payload, sender, destination, and whether it is truncated.
type Got = (Vec<u8>, SocketAddr, Option<IpAddr>, bool);

/// A socket that reports destination addresses, and the addresses at which it can be reached.
fn sockets() -> Vec<(UdpSocket, bool, SocketAddr)> {
    let open = |bind: IpAddr, reach: IpAddr| {
        let socket = UdpSocket::bind((bind, 0)).ok()?;
        sockopt::set_recv_pktinfo(socket.as_fd(), bind.is_ipv6()).unwrap();
        let port = socket.local_addr().unwrap().port();
        Some((socket, bind.is_ipv6(), (reach, port).into()))
    };
    let other = IpAddr::from([127, 0, 0, 2]);
    [
        open(Ipv4Addr::UNSPECIFIED.into(), other),
        open(Ipv6Addr::UNSPECIFIED.into(), other),
        open(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn client(of: SocketAddr) -> UdpSocket {
    let bind: IpAddr = if of.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let client = UdpSocket::bind((bind, 0)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client
}

/// Receives a datagram. Work of a ring that this thread has opened can interrupt a receive with a
/// timeout.
fn receive(client: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buf = [0; 2_048];
    loop {
        match client.recv_from(&mut buf) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => {
                let (len, from) = received.unwrap();
                return (buf[..len].to_vec(), from);
            }
        }
    }
}

fn copy(batch: &RecvBatch) -> Vec<Got> {
    let datagrams = (0..batch.len()).map(|index| batch.get(index).unwrap());
    datagrams.map(|got| (got.payload.to_vec(), got.peer, got.local, got.is_truncated)).collect()
}

#[test]
fn a_batch_has_every_datagram_with_both_addresses() {
    for (socket, is_v6, reach) in sockets() {
        let mut batch = RecvBatch::new(4, 8).unwrap();
        assert_eq!(batch.recv(socket.as_fd()), Err(Errno(libc::EAGAIN)), "does not wait");
        assert!(batch.is_empty());
        let client = client(reach);
        let from = client.local_addr().unwrap();
        for bytes in [&b"one"[..], b"", b"exactly8", b"too long for it", b"five"] {
            client.send_to(bytes, reach).unwrap();
        }
        assert_eq!(batch.recv(socket.as_fd()), Ok(4));
        let local = Some(reach.ip());
        let expected: [Got; 4] = [
            (b"one".to_vec(), from, local, false),
            (Vec::new(), from, local, false),
            (b"exactly8".to_vec(), from, local, false),
            (b"too long".to_vec(), from, local, true),
        ];
        assert_eq!(copy(&batch), expected);
        assert_eq!(batch.recv(socket.as_fd()), Ok(1));
        assert_eq!(copy(&batch), [(b"five".to_vec(), from, local, false)]);
        assert_eq!(batch.get(1), None);

        let reply = |payload| Outgoing { payload, to: from, from: local };
        let mut sends = SendBatch::new(2);
        let sent = sends.send(socket.as_fd(), is_v6, [&b"a"[..], b"", b"ccc"].map(reply));
        assert_eq!(sent, SentBatch { sent: 3, failed: 0 });
        for expected in [&b"a"[..], b"", b"ccc"] {
            assert_eq!(receive(&client), (expected.to_vec(), reach), "from the destination of the request");
        }
    }
}

#[test]
fn a_datagram_that_cannot_be_sent_is_counted_and_the_others_are_sent() {
    let (socket, is_v6, reach) = sockets().remove(0);
    let client = client(reach);
    let to = client.local_addr().unwrap();
    let long = vec![0; 65_508];
    let outgoing = [(&b"a"[..], None), (&long, None), (b"b", Some([192, 0, 2, 1].into())), (b"c", None)];
    let outgoing = outgoing.map(|(payload, from)| Outgoing { payload, to, from });
    let sent = SendBatch::new(8).send(socket.as_fd(), is_v6, outgoing);
    assert_eq!(sent, SentBatch { sent: 2, failed: 2 });
    assert_eq!(receive(&client).0, b"a");
    assert_eq!(receive(&client).0, b"c");
    assert_eq!(SendBatch::new(8).send(socket.as_fd(), is_v6, []), SentBatch::default());
}

#[test]
fn impossible_lengths_are_an_error() {
    assert!(RecvBatch::new(usize::MAX, 2).is_err());
    assert!(RecvBatch::new(2, usize::MAX).is_err());
}

fn with_datagrams() -> Setup {
    Setup { datagram_bufs: 4, datagram_len: 12, ..setup() }
}

/// The next datagrams, and the error that ended the receive, if it has ended with one. An empty
/// datagram may also end the receive, which is then started again. `None` on a kernel without
/// multishot receives.
fn take(ring: &mut Ring, socket: &impl AsFd, wanted: usize) -> Option<(Vec<RecvBuf>, Option<Errno>)> {
    let mut bufs = Vec::new();
    while bufs.len() < wanted {
        ring.enter(1, Some(Duration::from_secs(5))).unwrap();
        while let Some(event) = ring.next() {
            let EventKind::Datagram(result) = event.kind else { panic!("{event:?}") };
            assert_eq!(event.token, TOKEN);
            match result {
                Ok(buf) => {
                    bufs.push(buf);
                    if !event.more {
                        ring.recv_datagrams(TOKEN, socket.as_fd());
                    }
                }
                Err(Errno(libc::EINVAL)) => return None,
                Err(errno) => return Some((bufs, Some(errno))),
            }
            bufs.extend(std::iter::from_fn(|| ring.next_datagram(TOKEN)));
        }
    }
    Some((bufs, None))
}

#[test]
fn a_multishot_receive_has_the_same_datagrams() {
    for (socket, _, reach) in sockets() {
        let Some(mut ring) = ring(&with_datagrams()) else { return };
        let client = client(reach);
        let from = client.local_addr().unwrap();
        ring.recv_datagrams(TOKEN, socket.as_fd());
        for bytes in [&b"one"[..], b"", b"too long for it"] {
            client.send_to(bytes, reach).unwrap();
        }
        let Some((bufs, None)) = take(&mut ring, &socket, 3) else { return };
        let got: Vec<_> = bufs.iter().map(|buf| ring.datagram(buf).unwrap()).collect();
        let got: Vec<Got> =
            got.iter().map(|got| (got.payload.to_vec(), got.peer, got.local, got.is_truncated)).collect();
        let local = Some(reach.ip());
        let expected: [Got; 3] = [
            (b"one".to_vec(), from, local, false),
            (Vec::new(), from, local, false),
            (b"too long for".to_vec(), from, local, true),
        ];
        assert_eq!(got, expected);
        assert_eq!(ring.counters().buffers_lent, 3);
        bufs.into_iter().for_each(|buf| ring.recycle_datagram(buf));
        assert_eq!(ring.counters().buffers_lent, 0);
        assert!(!ring.tear_down(Duration::from_secs(5)).leaked);
    }
}

#[test]
fn without_buffers_datagrams_wait_in_the_socket_and_a_cancel_ends_the_receive() {
    let (socket, _, reach) = sockets().remove(0);
    let Some(mut ring) = ring(&with_datagrams()) else { return };
    let client = client(reach);
    ring.recv_datagrams(TOKEN, socket.as_fd());
    for number in 0..6 {
        client.send_to(&[number], reach).unwrap();
    }
    let Some((bufs, ended)) = take(&mut ring, &socket, 6) else { return };
    assert_eq!((bufs.len(), ended), (4, Some(Errno::NOBUFS)));
    bufs.into_iter().for_each(|buf| ring.recycle_datagram(buf));
    ring.recv_datagrams(TOKEN, socket.as_fd());
    let (bufs, ended) = take(&mut ring, &socket, 2).unwrap();
    let numbers: Vec<_> = bufs.iter().map(|buf| ring.datagram(buf).unwrap().payload.to_vec()).collect();
    assert_eq!((numbers, ended), (vec![vec![4], vec![5]], None));
    ring.cancel(Op::RecvDatagrams, TOKEN);
    assert_eq!(take(&mut ring, &socket, 1).unwrap().1, Some(Errno::CANCELED));
    bufs.into_iter().for_each(|buf| ring.recycle_datagram(buf));
    assert!(!ring.tear_down(Duration::from_secs(5)).leaked);
}

#[test]
#[should_panic(expected = "a buffer goes back to the ring it came from")]
fn the_buffer_of_a_datagram_is_not_one_of_a_stream() {
    let (socket, _, reach) = sockets().remove(0);
    let Some(mut ring) = ring(&with_datagrams()) else {
        panic!("a buffer goes back to the ring it came from")
    };
    ring.recv_datagrams(TOKEN, socket.as_fd());
    client(reach).send_to(b"x", reach).unwrap();
    let Some((bufs, None)) = take(&mut ring, &socket, 1) else {
        panic!("a buffer goes back to the ring it came from")
    };
    bufs.into_iter().for_each(|buf| ring.recycle(buf));
}
