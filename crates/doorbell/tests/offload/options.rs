//! Socket options of a connection that is handed over: which options are kept, and which are reset.

use std::net::TcpListener;
use std::os::fd::AsFd as _;

use doorbell::{Descriptors, Engine, HandOver, HandedConn, Http1, Listen, ListenAddr, Server, service_fn};
use doorbell_ring::sockopt::buf_locks;
use doorbell_testkit::peers::{PATIENCE, wait_until};
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_tcp_user_timeout, socket_send_buffer_size, tcp_nodelay, tcp_user_timeout,
};

use crate::cases::Away;
use crate::hand::{get, send};
use crate::promise::{self, on_both_engines, workers};

on_both_engines! {
    a_connection_leaves_with_the_systems_timeout_and_buffer
    options_of_an_inherited_listener_are_its_owners
}

fn serve(engine: Engine, descriptors: Descriptors, listen: Listen, away: &Away) -> Server {
    let theirs = service_fn(|_, reply| reply.hand_over());
    promise::builder(engine)
        .descriptors(descriptors)
        .workers(workers(1))
        .hand_over(HandOver::new(away.clone()))
        .listen(listen, Http1::new(theirs))
        .start()
        .unwrap()
}

/// Connects a client. Returns its handed-over connection, and the client.
fn handed(server: &Server, away: &Away) -> (HandedConn, std::net::TcpStream) {
    let client = send(server, &get("/"));
    let mut conn = None;
    wait_until(PATIENCE, || {
        conn = away.0.lock().unwrap().pop();
        conn.is_some()
    });
    (conn.expect("the connection is handed over"), client)
}

/// Whether the size of the send buffer is fixed; `None` before Linux 5.14.
fn is_locked(conn: &HandedConn) -> Option<bool> {
    buf_locks(conn.fd.as_fd()).ok().map(|locks| locks.send)
}

fn a_connection_leaves_with_the_systems_timeout_and_buffer(engine: Engine) {
    for descriptors in [Descriptors::Auto, Descriptors::Direct] {
        if (engine, descriptors) == (Engine::Epoll, Descriptors::Direct) {
            continue;
        }
        let away = Away::default();
        let listen = || ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
        let server = serve(engine, descriptors, Listen::at(listen()), &away);
        // The options of the first connection are assumed for the following ones.
        for _ in 0..3 {
            let (conn, _client) = handed(&server, &away);
            assert_eq!(tcp_user_timeout(&conn.fd), Ok(0), "{descriptors:?}: the user timeout is reset");
            assert_ne!(is_locked(&conn), Some(true), "{descriptors:?}: the send buffer size is not fixed");
            assert_eq!(tcp_nodelay(&conn.fd), Ok(true), "{descriptors:?}");
        }
        let server = serve(engine, descriptors, Listen::at(listen()).nodelay(false), &away);
        let (conn, _client) = handed(&server, &away);
        assert_eq!((tcp_nodelay(&conn.fd), tcp_user_timeout(&conn.fd)), (Ok(false), Ok(0)));
    }
}

/// Options of connections are reset if their listener comes from the previous server, and kept for
/// any other inherited listener.
fn options_of_an_inherited_listener_are_its_owners(engine: Engine) {
    let away = Away::default();
    let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
    set_tcp_user_timeout(&theirs, 4_321).unwrap();
    set_socket_send_buffer_size(&theirs, 40_000).unwrap();
    let server = serve(engine, Descriptors::Auto, Listen::inherited(theirs.into()), &away);
    let (conn, _client) = handed(&server, &away);
    assert_eq!(tcp_user_timeout(&conn.fd), Ok(4_321));
    assert_eq!(socket_send_buffer_size(&conn.fd), Ok(80_000), "the kernel doubles the size (socket(7))");
    assert_ne!(is_locked(&conn), Some(false));
    drop(server);

    // A listener with the options that a previous server has set.
    let ours = TcpListener::bind("127.0.0.1:0").unwrap();
    set_tcp_user_timeout(&ours, 15_000).unwrap();
    set_socket_send_buffer_size(&ours, 40_000).unwrap();
    let server = serve(engine, Descriptors::Auto, Listen::inherited(ours.into()), &away);
    let (conn, _client) = handed(&server, &away);
    assert_eq!(tcp_user_timeout(&conn.fd), Ok(0));
    assert_ne!(is_locked(&conn), Some(true));
}
