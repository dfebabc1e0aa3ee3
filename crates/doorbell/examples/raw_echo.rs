//! Returns the first bytes of a connection and closes it: `cargo run --example raw_echo --
//! 127.0.0.1:7000`.
//!
//! The reply consists of the bytes that arrive first.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use doorbell::{Listen, Raw, RawNext, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;

    let echo = |received: &[u8], reply: &mut Vec<u8>| {
        reply.extend_from_slice(received);
        RawNext::Close
    };

    let server = Server::builder().listen(Listen::tcp(addr), Raw::new(echo)).start()?;
    eprintln!("listening on {}, {}", server.local_addrs()[0], server.driver_report());

    server.wait()?;
    Ok(())
}
