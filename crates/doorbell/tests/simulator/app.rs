//! The new owner of connections that were handed over: a small server that is as slow as the test
//! requires.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use doorbell::{HandedConn, Permit, Taker};
use doorbell_testkit::sim::{PeerIndex, World};

use super::cast::HANDED;
use super::service::{GREETING, ID_FIELD, pattern};

/// The queue of connections between the worker and the [`App`].
#[derive(Clone, Debug, Default)]
pub(super) struct Desk(Arc<Mutex<Vec<HandedConn>>>);

impl Taker for Desk {
    fn take(&self, conns: &mut Vec<HandedConn>) {
        assert!(!conns.is_empty(), "the batch is not empty");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).append(conns);
    }
}

/// The application. It replies to `/app/ID/LEN` with LEN bytes of ID, and to lines `ID` with a
/// greeting and a reply.
#[derive(Debug, Default)]
pub(super) struct App {
    desk: Desk,
    conns: HashMap<PeerIndex, Conn>,
    pub(super) taken: u64,
}

#[derive(Debug)]
struct Conn {
    bytes: Vec<u8>,
    is_raw: bool,
    _permit: Permit,
}

/// The result of processing the bytes received so far.
enum JobReply {
    More,
    Reply { len: usize, reply: Vec<u8>, last: bool },
}

impl App {
    pub(super) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// Number of open connections.
    pub(super) fn live(&self) -> usize {
        self.conns.len()
    }

    /// Takes connections that were handed over, and continues with earlier connections. The permits
    /// of finished connections are returned at the end.
    pub(super) fn serve(&mut self, world: &mut World) {
        let handed = core::mem::take(&mut *self.desk.0.lock().unwrap_or_else(PoisonError::into_inner));
        for HandedConn { fd, bytes, listener, permit, .. } in handed {
            let index = World::handed_peer(fd);
            let is_raw = listener == HANDED;
            if is_raw {
                world.handed_send(index, GREETING);
            }
            self.taken += 1;
            let before = self.conns.insert(index, Conn { bytes, is_raw, _permit: permit });
            assert!(before.is_none(), "{index:?} is handed over only once");
        }
        self.conns.retain(|index, conn| goes_on(*index, conn, world));
    }
}

fn goes_on(index: PeerIndex, conn: &mut Conn, world: &mut World) -> bool {
    let (fresh, ended) = world.handed_recv(index);
    conn.bytes.extend(fresh);
    while let JobReply::Reply { len, reply, last } = answer(conn) {
        conn.bytes.drain(..len);
        world.handed_send(index, &reply);
        if last {
            world.handed_close(index);
            return false;
        }
    }
    if ended {
        world.handed_close(index);
    }
    !ended
}

fn answer(conn: &Conn) -> JobReply {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if conn.is_raw {
        let Some(at) = conn.bytes.iter().position(|byte| *byte == b'\n') else { return JobReply::More };
        let id = text(&conn.bytes[..at]).parse().unwrap_or_default();
        return JobReply::Reply { len: at + 1, reply: pattern(id, 100), last: true };
    }
    let Some(at) = conn.bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return JobReply::More;
    };
    let head = text(&conn.bytes[..at + 4]);
    let number = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<usize>().ok()
    };
    let body_len = number("Content-Length:").unwrap_or_default();
    let Some(body) = conn.bytes.get(at + 4..at + 4 + body_len) else { return JobReply::More };
    let mut parts = head.split(['/', ' ']).skip(2);
    assert_eq!(parts.next(), Some("app"), "only requests for the application arrive here: {head}");
    let mut part = || parts.next().and_then(|part| part.parse::<u64>().ok()).unwrap_or_default();
    let (id, len) = (part(), usize::try_from(part()).unwrap_or_default());
    assert_eq!(body, pattern(id, body_len), "every byte of a body arrives once");
    let last = head.contains("Connection: close");
    let mut reply = format!("HTTP/1.1 200 OK\r\n{ID_FIELD}: {id}\r\nContent-Length: {len}\r\n").into_bytes();
    reply.extend_from_slice(if last { b"Connection: close\r\n\r\n" } else { b"\r\n" });
    reply.extend_from_slice(&pattern(id, len));
    JobReply::Reply { len: at + 4 + body_len, reply, last }
}
