//! What the process takes: resident memory after start, and for each idle keep-alive connection.
//!
//! Does not know about: which allocation it is. The figures are for a release build; a debug build must keep them too, except
//! that its own code and tables are larger.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};

use doorbell_testkit::peers::{connect_from, misbehave, process};

use crate::support::{Doorbell, on_both_engines};

on_both_engines! {
    resident_after_start
    idle_connections
}

const START_BYTES_MAX: u64 = 8 << 20;
const IDLE_CONN_BYTES_MAX: u64 = 1024;
const CONNS: u32 = 2_000;

/// Two workers, everything else as it comes.
fn with_defaults(engine: &str) -> Doorbell {
    let args = ["serve", "--listen", "127.0.0.1:0", "--engine", engine, "--workers", "2"];
    Doorbell::try_start(&args).unwrap_or_else(|log| panic!("{log}"))
}

fn resident_after_start(engine: &str) {
    let doorbell = with_defaults(engine);
    let (all, anon) = (
        process::rss_bytes(&doorbell.process.pid()).unwrap(),
        process::rss_anon_bytes(&doorbell.process.pid()).unwrap(),
    );
    eprintln!("{engine}: resident {} KiB after start, {} KiB of it anonymous", all / 1024, anon / 1024);
    // The pages of the executable itself count only for the build that is shipped.
    let counted =
        if cfg!(debug_assertions) && std::env::var_os("DOORBELL_BIN").is_none() { anon } else { all };
    assert!(counted <= START_BYTES_MAX, "{engine}: {counted} bytes");
}

fn idle_connections(engine: &str) {
    let doorbell = with_defaults(engine);
    // Some connections first, so that what is touched once is not counted per connection.
    let warm = open(&doorbell, 64);
    let before = process::rss_anon_bytes(&doorbell.process.pid()).unwrap();
    let conns = open(&doorbell, CONNS);
    let after = process::rss_anon_bytes(&doorbell.process.pid()).unwrap();
    let each = after.saturating_sub(before) / u64::from(CONNS);
    eprintln!("{engine}: {each} bytes for each of {CONNS} idle keep-alive connections");
    assert!(each <= IDLE_CONN_BYTES_MAX, "{engine}: {each} bytes");
    drop((warm, conns));
}

/// Connections that were answered once and now wait for the next request, from several addresses because of the per-IP cap.
fn open(doorbell: &Doorbell, count: u32) -> Vec<TcpStream> {
    let conns = (0..count).map(|n| {
        let source = Ipv4Addr::new(127, 0, 1, u8::try_from(n % 8 + 1).expect("at most 8"));
        let mut stream = connect_from(source, doorbell.addr).unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: web\r\n\r\n").unwrap();
        misbehave::read_replies(&mut stream, 1, false).unwrap();
        stream
    });
    conns.collect()
}
