//! D-14 to D-19: datagram sockets.

use core::time::Duration;

use doorbell::driver::{AcceptMode, Driver, Errno, SentBatch};
use doorbell::id::DatagramIndex;

use super::bench::{ASKED, Bench, Came, Grams, LISTENER, SIZES, Sender, Stand};

/// Number of slots that these tests need.
pub(super) const SLOTS: u32 = 8;

const SOCKET: DatagramIndex = DatagramIndex(0);
const OTHER: DatagramIndex = DatagramIndex(1);

/// More datagrams than a batch or the buffers of a ring hold; the queue of a socket holds them.
const FLOOD: u8 = 120;
/// Maximum number of datagrams between two waits.
const BETWEEN_WAITS_MAX: usize = 256;

impl<B: Bench> Stand<B> {
    fn armed(&mut self) -> Sender {
        self.bench.driver().arm_datagrams(SOCKET);
        self.bench.datagram_client()
    }

    /// Waits for this number of datagrams of a socket.
    fn datagrams(&mut self, socket: DatagramIndex, count: usize) -> Vec<Grams> {
        let mut all = Vec::new();
        while all.len() < count {
            let (_, came) = self.take("a datagram", |came| {
                matches!(came, Came::Datagrams(of, ..) if *of == socket).then_some(())
            });
            let Came::Datagrams(_, grams, _) = came else { unreachable!("it was just matched") };
            all.extend(grams);
        }
        all
    }

    fn datagrams_ended(&mut self, socket: DatagramIndex) -> Option<Errno> {
        let (errno, _) = self.take("the end of a receive", |came| match came {
            Came::DatagramsEnded(of, errno) if *of == socket => Some(*errno),
            _ => None,
        });
        errno
    }

    fn no_datagram(&mut self, what: &str) {
        self.nothing(what, |came| matches!(came, Came::Datagrams(..) | Came::DatagramsEnded(..)));
    }
}

fn payloads(grams: &[Grams]) -> Vec<&[u8]> {
    grams.iter().map(|gram| gram.payload.as_slice()).collect()
}

pub(super) fn d14_arming_twice_reports_each_datagram_once<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    stand.bench.driver().arm_datagrams(SOCKET);
    for payload in [&b"one"[..], b"two", b"three"] {
        stand.bench.send_datagram(client, SOCKET, payload);
    }
    let grams = stand.datagrams(SOCKET, 3);
    assert_eq!(payloads(&grams), [&b"one"[..], b"two", b"three"]);
    stand.no_datagram("a datagram is reported once");
}

pub(super) fn d14_a_datagram_has_both_addresses<B: Bench>(mut stand: Stand<B>) {
    let clients = [stand.armed(), stand.bench.datagram_client()];
    for client in clients {
        stand.bench.send_datagram(client, SOCKET, b"");
        let peer = stand.bench.client_addr(client);
        let expected = Grams { payload: Vec::new(), peer, local: Some(ASKED), is_truncated: false };
        assert_eq!(stand.datagrams(SOCKET, 1), [expected]);
    }
}

pub(super) fn d14_a_long_datagram_is_truncated<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    stand.bench.driver().arm_datagrams(OTHER);
    for (socket, size_max) in [(SOCKET, SIZES[0]), (OTHER, SIZES[1])] {
        for (len, is_truncated) in [(size_max, false), (size_max + 1, true), (20_000, true)] {
            stand.bench.send_datagram(client, socket, &vec![7; len]);
            let gram = stand.datagrams(socket, 1).remove(0);
            assert_eq!((gram.payload.len(), gram.is_truncated), (len.min(size_max), is_truncated));
        }
    }
}

pub(super) fn d14_two_sockets_are_distinguished<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    stand.bench.send_datagram(client, OTHER, b"other");
    stand.bench.send_datagram(client, SOCKET, b"first");
    assert_eq!(payloads(&stand.datagrams(SOCKET, 1)), [b"first"]);
    stand.no_datagram("a socket that is not armed receives nothing");
    stand.bench.driver().arm_datagrams(OTHER);
    assert_eq!(payloads(&stand.datagrams(OTHER, 1)), [b"other"]);
}

pub(super) fn d15_disarm_ends_once_and_datagrams_stay_queued<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    for round in 0..5 {
        stand.bench.driver().disarm_datagrams(SOCKET);
        assert_eq!(stand.datagrams_ended(SOCKET), None);
        stand.bench.send_datagram(client, SOCKET, &[round]);
        stand.no_datagram("the receive has ended");
        assert!(stand.bench.driver().datagrams_queued(SOCKET));
        stand.bench.driver().arm_datagrams(SOCKET);
        assert_eq!(payloads(&stand.datagrams(SOCKET, 1)), [[round]]);
        assert!(!stand.bench.driver().datagrams_queued(SOCKET));
    }
}

pub(super) fn d15_disarm_without_arm_is_silent<B: Bench>(mut stand: Stand<B>) {
    stand.bench.driver().disarm_datagrams(SOCKET);
    stand.no_datagram("nothing was armed");
}

pub(super) fn d16_a_flood_comes_in_batches_and_delays_no_connection<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    stand.bench.driver().arm_accept(LISTENER);
    stand.turn();
    (0..FLOOD).for_each(|number| stand.bench.send_datagram(client, SOCKET, &[number]));
    stand.bench.connect(LISTENER);
    let (mut numbers, mut turns) = (Vec::new(), 0);
    while numbers.len() < usize::from(FLOOD) {
        stand.turn_for(Duration::from_millis(100));
        turns += 1;
        assert!(turns < 500, "only {} datagrams arrived", numbers.len());
        let came = stand.came.extract_if(.., |came| matches!(came, Came::Datagrams(..)));
        let now: Vec<u8> = came
            .filter_map(|came| if let Came::Datagrams(_, grams, _) = came { Some(grams) } else { None })
            .flat_map(|grams| grams.into_iter().flat_map(|gram| gram.payload))
            .collect();
        assert!(now.len() <= BETWEEN_WAITS_MAX, "D-16: {} datagrams between two waits", now.len());
        numbers.extend(now);
    }
    assert_eq!(numbers, (0..FLOOD).collect::<Vec<_>>());
    stand.accepted();
    stand.no_datagram("every datagram is reported once");
}

pub(super) fn d18_replies_leave_from_the_address_that_was_asked<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    for payload in [&b"one"[..], b"", b"three"] {
        stand.bench.send_datagram(client, SOCKET, payload);
    }
    stand.datagrams(SOCKET, 3);
    stand.settle();
    let replies = stand.bench.look_datagrams(client);
    let expected = [&b"one"[..], b"", b"three"].map(|payload| (payload.to_vec(), ASKED));
    assert_eq!(replies, expected);
}

pub(super) fn d18_a_reply_that_cannot_be_sent_is_counted<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    let mut nowhere = stand.bench.client_addr(client);
    nowhere.set_port(0);
    stand.replies_to = Some(nowhere);
    stand.bench.send_datagram(client, SOCKET, b"x");
    let (sent, _) = stand.take("a datagram", |came| match came {
        Came::Datagrams(_, _, sent) => Some(*sent),
        _ => None,
    });
    assert_eq!(sent, SentBatch { sent: 0, failed: 1 });
    stand.replies_to = None;
    stand.bench.send_datagram(client, SOCKET, b"y");
    stand.datagrams(SOCKET, 1);
    stand.settle();
    assert_eq!(stand.bench.look_datagrams(client), [(b"y".to_vec(), ASKED)]);
}

pub(super) fn d19_a_close_counts_what_was_queued<B: Bench>(mut stand: Stand<B>) {
    let client = stand.armed();
    stand.bench.driver().disarm_datagrams(SOCKET);
    stand.datagrams_ended(SOCKET);
    for socket in [SOCKET, OTHER] {
        (0..FLOOD).for_each(|number| stand.bench.send_datagram(client, socket, &[number]));
    }
    stand.settle();
    assert!(stand.bench.driver().is_receiving(SOCKET));
    assert_eq!(stand.bench.driver().close_datagrams(SOCKET, true), u64::from(FLOOD));
    assert_eq!(stand.bench.driver().close_datagrams(OTHER, false), 0, "another process has the socket");
    for socket in [SOCKET, OTHER] {
        assert!(!stand.bench.driver().is_receiving(socket));
        assert!(!stand.bench.driver().datagrams_queued(socket), "a closed socket has no queue");
    }
    stand.no_datagram("a closed socket receives nothing");
}

pub(super) fn a_downgraded_socket_still_receives<B: Bench>(mut stand: Stand<B>) {
    let mut numbers = 0..;
    loop {
        let client = stand.armed();
        (0..FLOOD).for_each(|number| stand.bench.send_datagram(client, SOCKET, &[number]));
        let expected: Vec<_> = (0..FLOOD).map(|number| [number]).collect();
        assert_eq!(payloads(&stand.datagrams(SOCKET, FLOOD.into())), expected);
        stand.bench.driver().disarm_datagrams(SOCKET);
        stand.datagrams_ended(SOCKET);
        let mode = stand.bench.driver().downgrade_datagrams(SOCKET);
        assert!(matches!(mode, None | Some(AcceptMode::Readiness)));
        if mode.is_none() {
            return;
        }
        assert!(numbers.next() < Some(3), "there are few modes");
    }
}
