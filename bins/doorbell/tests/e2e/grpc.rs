//! `grpc.health.v1` with a tonic client: Check, Watch and List, with and without TLS, and during a
//! drain.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use rustix::process::Signal;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;

use crate::admin::{get, post};
use crate::frames;
use crate::http2::config;
use crate::pki::{ca, localhost};
use crate::support::{Doorbell, LIMIT, Scratch, on_auto, on_both_engines, program, stdout};

on_auto! {
    without_a_file_it_speaks_grpc
    checks
    checks_over_tls
    lists
    on_demand_checks_run_for_lists_and_watches
    watches_are_bounded
    an_aws_load_balancer_gets_the_verdict
    everything_else_is_unimplemented
    messages_are_bounded
    off_when_turned_off
    a_client_certificate_is_required_as_elsewhere
}

on_both_engines! {
    watches_through_a_drain
    many_watches_through_a_drain
}

const GRPC: &str = "[health.cart]\ninitial = \"down\"\n\
    [grpc]\nservices = { \"shop.Cart\" = \"cart\", \"shop.Orders\" = \"readyz\", alive = \"livez\" }\n";

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn start(engine: &str) -> Doorbell {
    Doorbell::start_with(engine, &config("", GRPC))
}

pub(crate) async fn channel(doorbell: &Doorbell) -> Channel {
    Endpoint::from_shared(doorbell.url("")).unwrap().connect_timeout(LIMIT).connect().await.unwrap()
}

pub(crate) fn ask(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

pub(crate) async fn check(client: &mut HealthClient<Channel>, service: &str) -> Result<ServingStatus, Code> {
    let reply = client.check(ask(service)).await.map_err(|status| status.code())?;
    Ok(reply.into_inner().status())
}

pub(crate) async fn watch(
    client: &mut HealthClient<Channel>,
    service: &str,
) -> Streaming<HealthCheckResponse> {
    client.watch(ask(service)).await.unwrap().into_inner()
}

pub(crate) async fn next(stream: &mut Streaming<HealthCheckResponse>) -> Result<ServingStatus, Code> {
    let message = tokio::time::timeout(LIMIT, stream.message()).await.expect("a message in time");
    message.map_err(|status| status.code())?.map(|message| message.status()).ok_or(Code::Ok)
}

async fn check_all(client: &mut HealthClient<Channel>) {
    for (service, expected) in [
        ("", Ok(ServingStatus::Serving)),
        ("alive", Ok(ServingStatus::Serving)),
        ("shop.Cart", Ok(ServingStatus::NotServing)),
        ("shop.Orders", Ok(ServingStatus::Serving)),
        ("shop.orders", Err(Code::NotFound)),
        ("readyz", Err(Code::NotFound)),
    ] {
        assert_eq!(check(client, service).await, expected, "{service:?}");
    }
}

fn checks(engine: &str) {
    let doorbell = start(engine);
    block_on(async {
        // A new connection for each round, like the kubelet.
        for _ in 0..20 {
            check_all(&mut HealthClient::new(channel(&doorbell).await)).await;
        }
    });
    assert_eq!(doorbell.totals()["http2_requests"], 120);
}

fn without_a_file_it_speaks_grpc(engine: &str) {
    let args = ["serve", "--listen", "127.0.0.1:0", "--driver", engine, "--admin", "off"];
    let doorbell = Doorbell::try_start(&args).unwrap_or_else(|log| panic!("{log}"));
    for _ in 0..3 {
        assert_eq!(get(doorbell.addr, "/readyz").0, 200);
    }
    assert!(!thread_names(&doorbell).contains(&"http2".to_owned()), "HTTP/1.1 needs no runtime");
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        assert_eq!(check(&mut client, "").await, Ok(ServingStatus::Serving));
        assert_eq!(check(&mut client, "unknown").await, Err(Code::NotFound));
        assert_eq!(next(&mut watch(&mut client, "").await).await, Ok(ServingStatus::Serving));
    });
    assert_eq!(thread_names(&doorbell).iter().filter(|name| *name == "http2").count(), 1);
}

fn thread_names(doorbell: &Doorbell) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", doorbell.process.pid())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    names.map(|name| name.trim().to_owned()).collect()
}

fn checks_over_tls(engine: &str) {
    let scratch = Scratch::new();
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!("[tls.a]\ncert = {cert:?}\nkey = {key:?}\n{GRPC}");
    let doorbell = Doorbell::start_with(engine, &config("tls = \"a\"", &tls));
    block_on(async {
        let trust =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca().pem())).domain_name("localhost");
        let url = format!("https://{}", doorbell.addr);
        let endpoint = Endpoint::from_shared(url).unwrap().tls_config(trust).unwrap();
        check_all(&mut HealthClient::new(endpoint.connect().await.unwrap())).await;
    });
    assert_eq!(doorbell.totals()["refused"], "");
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct ListRequest {}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ListResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    statuses: BTreeMap<String, HealthCheckResponse>,
}

impl ListResponse {
    pub(crate) fn services(&self) -> Vec<&str> {
        self.statuses.keys().map(String::as_str).collect()
    }
}

pub(crate) async fn call(channel: Channel, path: &'static str) -> Result<ListResponse, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<ListRequest, ListResponse>::default();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
    grpc.unary(Request::new(ListRequest {}), path, codec).await.map(tonic::Response::into_inner)
}

fn lists(engine: &str) {
    let doorbell = start(engine);
    let list = block_on(async { call(channel(&doorbell).await, "/grpc.health.v1.Health/List").await });
    let list: Vec<_> =
        list.unwrap().statuses.into_iter().map(|(name, reply)| (name, reply.status())).collect();
    let (yes, no) = (ServingStatus::Serving, ServingStatus::NotServing);
    let expected = [("", yes), ("alive", yes), ("shop.Cart", no), ("shop.Orders", yes)];
    assert_eq!(list, expected.map(|(name, status)| (name.to_owned(), status)));
}

/// Checks of two files that appear after the first run. Only a Watch requests one check, and only a
/// List the other.
fn on_demand_checks_run_for_lists_and_watches(engine: &str) {
    let scratch = Scratch::new();
    let (watched, listed) = (scratch.path("watched"), scratch.path("listed"));
    let more = format!(
        "[check_defaults]\nrise = 1\ninitial = \"down\"\n\
         [check.watched]\ntype = \"file\"\npath = {watched:?}\ncache = \"100ms\"\n\
         [check.listed]\ntype = \"file\"\npath = {listed:?}\ncache = \"100ms\"\n\
         [health.watched]\nrequire = [\"watched\"]\n[health.listed]\nrequire = [\"listed\"]\n\
         [health.readyz]\nrequire = []\n\
         [grpc]\nservices = {{ watched = \"watched\", listed = \"listed\" }}\n"
    );
    let doorbell = Doorbell::start_with(engine, &config("", &more));
    block_on(async {
        let channel = channel(&doorbell).await;
        let mut client = HealthClient::new(channel.clone());
        let mut stream = watch(&mut client, "watched").await;
        assert_eq!(next(&mut stream).await, Ok(ServingStatus::NotServing));
        std::fs::write(&watched, "").unwrap();
        std::fs::write(&listed, "").unwrap();
        assert_eq!(
            next(&mut stream).await,
            Ok(ServingStatus::Serving),
            "a Watch must request runs of its check"
        );
        let until = std::time::Instant::now() + LIMIT;
        loop {
            let list = call(channel.clone(), "/grpc.health.v1.Health/List").await.unwrap();
            if list.statuses["listed"].status() == ServingStatus::Serving {
                break;
            }
            assert!(std::time::Instant::now() < until, "lists ask");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

fn watches_through_a_drain(engine: &str) {
    let text = config("", GRPC).replace("drain_delay = \"0s\"", "drain_delay = \"1s\"");
    let mut doorbell = Doorbell::start_with(engine, &text);
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        let mut streams = Vec::new();
        for (service, first) in [
            ("", ServingStatus::Serving),
            ("shop.Orders", ServingStatus::Serving),
            ("shop.Cart", ServingStatus::NotServing),
            ("alive", ServingStatus::Serving),
            ("nobody", ServingStatus::ServiceUnknown),
        ] {
            let mut stream = watch(&mut client, service).await;
            assert_eq!(next(&mut stream).await, Ok(first), "{service:?}");
            streams.push(stream);
        }
        doorbell.process.signal(Signal::TERM);
        // During the drain each Watch reports NOT_SERVING while requests are still served.
        for stream in &mut streams[..2] {
            assert_eq!(next(stream).await, Ok(ServingStatus::NotServing));
        }
        assert_eq!(check(&mut client, "").await, Ok(ServingStatus::NotServing));
        assert_eq!(check(&mut client, "alive").await, Ok(ServingStatus::Serving));
        // After the drain all streams end.
        for stream in &mut streams {
            assert_eq!(next(stream).await, Err(Code::Unavailable));
        }
    });
    assert!(doorbell.process.wait().0.success());
}

/// Every Watch reports the drain before its stream ends, with no delay between the two.
fn many_watches_through_a_drain(engine: &str) {
    let (conns, streams) = if std::env::var_os("DOORBELL_FULL").is_some() { (100, 100) } else { (10, 50) };
    let grpc = format!("[grpc]\nmax_watches = {}\nwatches_per_connection = {streams}\n", conns * streams);
    // One thread reads all streams in turn, so the last streams may be read late.
    let times = "[connections]\nlinger_timeout = \"10s\"\nwrite_timeout = \"20s\"\n";
    let doorbell = Doorbell::start_with(engine, &config("", &format!("{times}{grpc}")));
    block_on(async {
        let mut watching = Vec::new();
        for _ in 0..conns {
            let mut client = HealthClient::new(channel(&doorbell).await);
            for _ in 0..streams {
                let mut stream = watch(&mut client, "").await;
                assert_eq!(next(&mut stream).await, Ok(ServingStatus::Serving));
                watching.push((client.clone(), stream));
            }
        }
        let mut one_too_many = HealthClient::new(channel(&doorbell).await);
        assert_eq!(one_too_many.watch(ask("")).await.unwrap_err().code(), Code::ResourceExhausted);
        drop(one_too_many);
        doorbell.process.signal(Signal::TERM);
        for (_, stream) in &mut watching {
            assert_eq!(next(stream).await, Ok(ServingStatus::NotServing));
            assert_eq!(next(stream).await, Err(Code::Unavailable));
        }
    });
    let mut doorbell = doorbell;
    assert!(doorbell.process.wait().0.success());
}

fn watches_are_bounded(engine: &str) {
    let grpc = "[grpc]\nmax_watches = 3\nwatches_per_connection = 2\n";
    let doorbell = Doorbell::start_with(engine, &config("", grpc));
    block_on(async {
        let mut one = HealthClient::new(channel(&doorbell).await);
        let mut other = HealthClient::new(channel(&doorbell).await);
        let refused = |status: Result<_, Status>| status.map(|_| ()).unwrap_err().code();
        let first = watch(&mut one, "").await;
        let second = watch(&mut one, "nobody").await;
        assert_eq!(refused(one.watch(ask("")).await), Code::ResourceExhausted);
        let third = watch(&mut other, "").await;
        assert_eq!(refused(other.watch(ask("")).await), Code::ResourceExhausted);
        assert_eq!(
            check(&mut one, "").await,
            Ok(ServingStatus::Serving),
            "a Check does not count as a Watch"
        );
        // The end of a stream releases its permit.
        drop((first, third));
        let mut again = None;
        for _ in 0..100 {
            again = other.watch(ask("")).await.ok();
            if again.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(again.is_some());
        drop(second);
    });
    assert!(doorbell.totals()["refused"].as_str().unwrap().contains("http2_watches="));
}

/// AWS load balancers accept code 12 on this path as healthy by default, and treat any other code
/// as unhealthy.
fn an_aws_load_balancer_gets_the_verdict(engine: &str) {
    let rest = "[admin]\nbind = \"127.0.0.1:0\"\n[health.readyz]\n[grpc]\n";
    for (alb, in_maintenance) in [
        ("", Code::Unavailable),
        ("alb = \"verdict\"\n", Code::Unavailable),
        ("alb = \"always\"\n", Code::Unimplemented),
    ] {
        let doorbell = Doorbell::start_with(engine, &config("", &format!("{rest}{alb}")));
        let admin = doorbell.addr_of(1);
        let code = || {
            block_on(async {
                let url = doorbell.url("");
                let as_alb = Endpoint::from_shared(url).unwrap().user_agent("ELB-HealthChecker/2.0").unwrap();
                let channel = as_alb.connect().await.unwrap();
                call(channel, "/AWS.ALB/healthcheck").await.unwrap_err().code()
            })
        };
        assert_eq!(code(), Code::Unimplemented, "{alb}");
        assert_eq!(post(admin, "/-/maint?target=all").0, 200);
        assert_eq!(code(), in_maintenance, "{alb}");
        assert_eq!(post(admin, "/-/ready?target=all").0, 200);
        assert_eq!(code(), Code::Unimplemented, "{alb}");
        assert!(get(admin, "/-/probers").1.contains("elb"), "{alb}");
    }
}

fn everything_else_is_unimplemented(engine: &str) {
    let doorbell = start(engine);
    block_on(async {
        for path in ["/AWS.ALB/healthcheck", "/shop.Orders/Get", "/grpc.health.v1.Health/Stop", "/livez"] {
            let status = call(channel(&doorbell).await, path).await.unwrap_err();
            assert_eq!(status.code(), Code::Unimplemented, "{path}");
        }
    });
    let Some(curl) = program("curl") else { return };
    let url = doorbell.url("/AWS.ALB/healthcheck");
    let reply = stdout(&curl, &["-sS", "-i", "--http2-prior-knowledge", "-X", "POST", &url]);
    assert!(reply.starts_with("HTTP/2 200") && reply.contains("grpc-status: 12"), "{reply}");
}

fn messages_are_bounded(engine: &str) {
    let doorbell = start(engine);
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        assert_eq!(check(&mut client, &"x".repeat(4000)).await, Err(Code::NotFound));
        assert_eq!(check(&mut client, &"x".repeat(5000)).await, Err(Code::OutOfRange));
        assert_eq!(check(&mut client, "").await, Ok(ServingStatus::Serving));
    });
}

fn off_when_turned_off(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("", "[grpc]\nenabled = false\n"));
    assert!(frames::ask(doorbell.addr, "/hello").unwrap().0);
    block_on(async {
        // Without gRPC the route does not exist, and clients convert the HTTP status to a code.
        assert!(call(channel(&doorbell).await, "/grpc.health.v1.Health/List").await.is_err());
    });
}

/// If a route is exempt, the handshake requests a certificate without requiring it. All other
/// routes require it.
fn a_client_certificate_is_required_as_elsewhere(engine: &str) {
    let scratch = Scratch::new();
    let clients = scratch.write("clients.crt", &ca().pem());
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!(
        "[tls.a]\ncert = {cert:?}\nkey = {key:?}\nclient_auth = {{ mode = \"require\", ca = {clients:?} }}\n\
         [route.open]\npath = \"/open\"\nclient_cert = \"exempt\"\nreply = {{ body = \"open\\n\" }}\n{GRPC}"
    );
    let doorbell = Doorbell::start_with(engine, &config("tls = \"a\"", &tls));
    let client = ca().client("prober", 7);
    let trust =
        || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca().pem())).domain_name("localhost");
    block_on(async {
        let url = format!("https://{}", doorbell.addr);
        let connect = async |tls| {
            let endpoint = Endpoint::from_shared(url.clone()).unwrap().tls_config(tls).unwrap();
            HealthClient::new(endpoint.connect().await.unwrap())
        };
        assert_eq!(check(&mut connect(trust()).await, "").await, Err(Code::Unauthenticated));
        let identity = tonic::transport::Identity::from_pem(&client.certificate, &client.key);
        let mut known = connect(trust().identity(identity)).await;
        assert_eq!(check(&mut known, "").await, Ok(ServingStatus::Serving));
    });
}
