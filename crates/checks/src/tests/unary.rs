//! Calls of unary gRPC methods against a server that counts frames.

use super::watches::{await_request, end, field, frame};
use super::*;
use options::GrpcStatus;

/// A response with this message.
fn message(bytes: &[u8]) -> Vec<u8> {
    let fields = [vec![0x88], field("content-type", "application/grpc")].concat();
    let len = u8::try_from(bytes.len()).unwrap();
    let data = [&[0, 0, 0, 0, len], bytes].concat();
    [frame(1, 4, 1, &fields), frame(0, 0, 1, &data), end(1)].concat()
}

/// A response with this status, which is not OK.
fn status(code: &str) -> Vec<u8> {
    let fields = [vec![0x88], field("content-type", "application/grpc"), field("grpc-status", code)].concat();
    frame(1, 5, 1, &fields)
}

fn answers(answer: Vec<u8>) -> SocketAddr {
    server(move |stream| {
        await_request(stream);
        stream.write_all(&[frame(4, 0, 0, &[]), answer.clone()].concat()).unwrap();
    })
}

fn probe(addr: SocketAddr) -> GrpcCheck {
    GrpcCheck { method: Some("/csi.v1.Identity/Probe".to_owned()), ..GrpcCheck::new(address(addr)) }
}

#[test]
fn responses_of_a_method_are_compared() {
    let ready = || vec![Vec::new(), vec![0x0a, 0x02, 0x08, 0x01]];
    let reply = |reply: Vec<Vec<u8>>| move |check| GrpcCheck { reply, ..check };
    let wants = |status| move |check| GrpcCheck { status, ..check };
    type Change = Box<dyn Fn(GrpcCheck) -> GrpcCheck>;
    let table: [(Vec<u8>, Change, &str); 9] = [
        (message(b""), Box::new(|check| check), ""),
        (message(b"any"), Box::new(|check| check), ""),
        (message(b""), Box::new(move |check| reply(ready())(check)), ""),
        (message(b"\x0a\x02\x08\x01"), Box::new(move |check| reply(ready())(check)), ""),
        (
            message(b"\x0a\x00"),
            Box::new(move |check| reply(ready())(check)),
            "unexpected message \"0a00\" (2 bytes)",
        ),
        (status("9"), Box::new(|check| check), "FailedPrecondition: "),
        (status("9"), Box::new(wants(GrpcStatus::FailedPrecondition)), ""),
        (message(b""), Box::new(wants(GrpcStatus::FailedPrecondition)), "status OK, not FailedPrecondition"),
        (status("12"), Box::new(|check| check), "the server has no method /csi.v1.Identity/Probe"),
    ];
    for (answer, change, reason) in table {
        let finding = block_on(runner(change(probe(answers(answer)))).run());
        assert_eq!(finding.reason, reason);
        assert_eq!(finding.outcome == Outcome::Success, reason.is_empty(), "{finding:?}");
    }
}

/// A server that closes the connection is never the expected status.
#[test]
fn a_broken_call_is_a_failure() {
    let gone = server(|stream| {
        await_request(stream);
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    for status in [GrpcStatus::Ok, GrpcStatus::Internal, GrpcStatus::Aborted] {
        let finding = block_on(runner(GrpcCheck { status, ..probe(gone) }).run());
        assert_eq!(finding.outcome, Outcome::Failure, "{status:?}: {}", finding.reason);
    }
}
