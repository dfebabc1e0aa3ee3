//! gRPC's Python package.

use super::*;
use options::GrpcStatus;

/// A server of one method, which repeats each message, and fails without one.
const REPEATS: &str = "
import concurrent.futures, grpc, sys
def repeat(message, context):
    if not message:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, 'not ready')
    return message
methods = {'Probe': grpc.unary_unary_rpc_method_handler(repeat)}
server = grpc.server(concurrent.futures.ThreadPoolExecutor())
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler('csi.v1.Identity', methods)])
files = [open(path, 'rb').read() for path in sys.argv[3:]]
server.add_insecure_port('127.0.0.1:' + sys.argv[1])
server.add_secure_port('127.0.0.1:' + sys.argv[2], grpc.ssl_server_credentials([files]))
server.start()
server.wait_for_termination()
";

#[test]
fn grpcio_serves() {
    if !has_python_module("grpc") {
        return;
    }
    let scratch = Scratch::new("grpcio");
    let [certificate, key] = scratch.certificate();
    let [port, tls_port] = [(); 2].map(|()| free_port());
    let mut command = Command::new(PYTHON);
    command.args(["-c", REPEATS, &port.to_string(), &tls_port.to_string()]).args([key, certificate.clone()]);
    let server = Server::start(&mut command);

    let probe = |port: u16, method: &str| GrpcCheck {
        method: Some(format!("/csi.v1.Identity/{method}")),
        request: b"\x08\x01".to_vec(),
        ..GrpcCheck::new(address(format!("127.0.0.1:{port}")))
    };
    let plain = probe(port, "Probe");
    await_success(plain.clone());
    succeeds(GrpcCheck { reply: vec![b"\x08\x01".to_vec()], ..plain.clone() });
    let other = GrpcCheck { reply: vec![b"\x08\0".to_vec()], ..plain.clone() };
    fails(other, "unexpected message \"0801\" (2 bytes)");
    let empty = GrpcCheck { request: Vec::new(), ..plain.clone() };
    fails(empty.clone(), "FailedPrecondition: not ready");
    succeeds(GrpcCheck { status: GrpcStatus::FailedPrecondition, ..empty });
    fails(probe(port, "Other"), "the server has no method /csi.v1.Identity/Other");
    let tls = |tls| GrpcCheck { tls: Some(tls), ..probe(tls_port, "Probe") };
    let named = ClientTls { server_name: Some("localhost".to_owned()), ..trusted(&certificate) };
    succeeds(tls(named));
    fails(tls(ClientTls::default()), "TLS: invalid peer certificate: ");
    hangs(&server, plain.clone());
    ends(server, &[(plain.into(), port)]);
}
