//! Memory of ten thousand runs of a gRPC check: what a run leaves behind stays below 16 MiB in 30
//! days at the default interval.

use doorbell_checks::options::{Address, Check, EgressOptions, GrpcCheck, GrpcStatus};
use doorbell_checks::{Connector, Runner, SharedResources};
use doorbell_health::Outcome;
use doorbell_testkit::peers::process::rss_anon_bytes;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

const RUNS: u64 = 10_000;
const WARM_UP: u64 = 1_000;

/// Runs in 30 days with an interval of 5 s.
const RUNS_OF_30_DAYS: u64 = 30 * 86_400 / 5;
const BYTES_MAX: u64 = 16 << 20;

/// `SETTINGS`, and a response that ends with status 9 (RFC 9113 4.1, RFC 7541 6.2.2).
fn answer() -> Vec<u8> {
    let fields = b"\x88\0\x0ccontent-type\x10application/grpc\0\x0bgrpc-status\x019";
    let len = u8::try_from(fields.len()).expect("the fields are short");
    [&[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, len, 1, 5, 0, 0, 0, 1], &fields[..]].concat()
}

/// Replies to the first request of a connection, and waits until the connection ends.
fn serve(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    let mut head = [0; 9];
    while head[3] != 1 {
        stream.read_exact(&mut head)?;
        stream.read_exact(&mut vec![0; usize::from(head[1]) << 8 | usize::from(head[2])])?;
    }
    stream.write_all(answer)?;
    std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
}

fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let addr = listener.local_addr().expect("it is bound");
    let answer = answer();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The client may reset the connection.
            let _ended = serve(stream, &answer);
        }
    });
    addr
}

#[test]
fn runs_leave_nothing_behind() {
    let grpc = GrpcCheck {
        method: Some("/shop.Cart/Ring".to_owned()),
        status: GrpcStatus::FailedPrecondition,
        ..GrpcCheck::new(Address::parse(&server().to_string()).unwrap())
    };
    let connector = Arc::new(Connector::open(&EgressOptions::default()).unwrap());
    let runner =
        Runner::build(&Check::new("a", grpc), &mut SharedResources::new(connector)).unwrap().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = |times| {
        for _ in 0..times {
            let finding = runtime.block_on(runner.run());
            assert!(matches!(finding.outcome, Outcome::Success | Outcome::Timeout), "{}", finding.reason);
        }
        rss_anon_bytes("self").unwrap()
    };
    let before = run(WARM_UP);
    let grown = run(RUNS).saturating_sub(before);
    let in_30_days = grown * RUNS_OF_30_DAYS / RUNS;
    assert!(in_30_days <= BYTES_MAX, "{RUNS} runs left {grown} bytes");
}
