//! Replies to datagrams (UDP): `ping` gets `pong`, anything else gets no reply:
//! `cargo run --example datagrams -- 127.0.0.1:7000`.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use doorbell::Server;
use doorbell::datagram::{DatagramListen, DatagramReply, DatagramRequest};
use doorbell::http::limit::Quota;

/// Number of client addresses that the limit remembers.
const ADDRESSES_MAX: usize = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;

    let ping = |request: &DatagramRequest<'_>, reply: &mut DatagramReply<'_>| {
        if request.payload().trim_ascii_end() == b"ping" {
            reply.send("pong");
        }
    };

    // A reply is never longer than its request, and a client gets at most 1,000 per second.
    let listen = DatagramListen::udp(addr).limit(Some((Quota::per_second(1_000)?, ADDRESSES_MAX)));
    let server = Server::builder().listen_datagrams(listen, ping).start()?;
    eprintln!("receiving on {}, {}", server.datagram_addrs()[0], server.driver_report());

    server.wait()?;
    Ok(())
}
