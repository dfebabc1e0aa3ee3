//! `grpc.health.v1` with the health stub of gRPC's Python package, with and without TLS, and during
//! a drain.

use std::process::Command;

use doorbell_testkit::peers::wait_until;
use rustix::process::Signal;

use crate::http2::config;
use crate::pki::{ca, localhost};
use crate::support::{Doorbell, LIMIT, Process, Scratch, on_auto, python};

on_auto! {
    in_plain
    over_tls
}

const GRPC: &str = "[health.cart]\ninitial = \"down\"\n\
    [grpc]\nservices = { \"shop.Cart\" = \"cart\", \"shop.Orders\" = \"readyz\", alive = \"livez\" }\n";

/// A client that sends Checks, then watches until the stream ends. Arguments: the address and, for
/// TLS, the CA certificate.
const CLIENT: &str = r#"
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

options = [("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0)]
if len(sys.argv) > 2:
    trust = grpc.ssl_channel_credentials(open(sys.argv[2], "rb").read())
    options.append(("grpc.ssl_target_name_override", "localhost"))
    channel = grpc.secure_channel(sys.argv[1], trust, options)
else:
    channel = grpc.insecure_channel(sys.argv[1], options)
stub = health_pb2_grpc.HealthStub(channel)

def ask(service):
    return health_pb2.HealthCheckRequest(service=service)

def name(reply):
    return health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)

def check(service):
    try:
        return name(stub.Check(ask(service), timeout=10))
    except grpc.RpcError as error:
        return error.code().name

for service in ["", "alive", "shop.Cart", "shop.Orders", "readyz"]:
    print("check", service or "all", check(service), flush=True)
print("watch nobody", name(next(stub.Watch(ask("nobody"), timeout=10))), flush=True)
try:
    for reply in stub.Watch(ask(""), timeout=60):
        print("watch all", name(reply), flush=True)
except grpc.RpcError as error:
    print("end", error.code().name, flush=True)
"#;

const EXPECTED: &str = "\
check all SERVING
check alive SERVING
check shop.Cart NOT_SERVING
check shop.Orders SERVING
check readyz NOT_FOUND
watch nobody SERVICE_UNKNOWN
watch all SERVING
watch all NOT_SERVING
end UNAVAILABLE";

fn in_plain(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("", GRPC));
    asked(doorbell, None);
}

fn over_tls(engine: &str) {
    let scratch = Scratch::new();
    let trusted = scratch.write("ca.crt", &ca().pem());
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!("[tls.a]\ncert = {cert:?}\nkey = {key:?}\n{GRPC}");
    asked(Doorbell::start_with(engine, &config("tls = \"a\"", &tls)), Some(trusted));
}

fn asked(doorbell: Doorbell, trusted: Option<String>) {
    let Some(python) = python("grpc_health.v1") else { return };
    let mut command = Command::new(python);
    command.args(["-c", CLIENT, &doorbell.addr.to_string()]).args(trusted);
    let client = Process::spawn(&mut command);
    let watches = wait_until(LIMIT, || client.log().contains("watch all SERVING"));
    assert!(watches.is_some(), "{}", client.log());
    doorbell.process.signal(Signal::TERM);
    wait_until(LIMIT, || client.log().lines().count() >= EXPECTED.lines().count());
    assert_eq!(client.log(), EXPECTED);
}
