//! Opens a hundred connections to an address, or to its own listener, and prints their ports and
//! the counters.
//!
//! `cargo run -p doorbell-egress --example connect -- 192.0.2.1:80`
#![expect(clippy::print_stdout, reason = "the example prints its result")]

use doorbell_egress::{EgressConfig, SpeaksFirst, close};
use std::net::{SocketAddr, TcpListener};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let target: SocketAddr = match std::env::args().nth(1) {
        Some(target) => target.parse()?,
        None => listener.local_addr()?,
    };
    let egress = EgressConfig::new().open()?;
    println!("ports of {}: {}", egress.system_ports(), egress.report());
    for number in 0..100 {
        let conn = egress.begin(target, SpeaksFirst::We)?;
        if number < 3 {
            println!("{} -> {target}", conn.local_addr()?);
        }
        close(conn);
    }
    println!("{:?}", egress.counters());
    Ok(())
}
