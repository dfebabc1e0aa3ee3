//! Guards of gRPC health: limits, tokens, certificates and the access log. Refusals use gRPC status
//! codes.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::counts::expect;
use crate::grpc::{ask, block_on, call, channel, check};
use crate::http2::config;
use crate::jwt::{Signer, claims};
use crate::pki::{ca, localhost};
use crate::plain;
use crate::support::{Doorbell, LIMIT, Scratch, on_auto, program, stdout};

on_auto! {
    a_token_is_required_by_the_route
    a_signed_token_is_verified_by_a_job
    a_rate_limit_is_resource_exhausted
    probes_may_be_exempt
    other_routes_keep_their_guards
    the_log_has_every_request
    a_wrong_certificate_is_permission_denied
    requests_without_grpc_are_refused
    concurrent_calls_are_limited
}

const ALICE: &str = "alice-0123456789abcdef0123456789";

fn ops(scratch: &Scratch) -> String {
    let alice = scratch.write("alice", ALICE);
    format!("[auth.ops]\nrealm = \"ops\"\ntokens = {{ alice = \"${{file:{alice}}}\" }}\n")
}

/// Sends a Check with this token, and returns its status, or the error with its metadata.
async fn check_as(
    client: &mut HealthClient<Channel>,
    token: Option<&str>,
) -> Result<ServingStatus, (Code, MetadataMap)> {
    let mut request = Request::new(ask(""));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let refused = |status: Status| (status.code(), status.metadata().clone());
    Ok(client.check(request).await.map_err(refused)?.into_inner().status())
}

fn code(answer: Result<ServingStatus, (Code, MetadataMap)>) -> Result<ServingStatus, Code> {
    answer.map_err(|(code, _)| code)
}

fn a_token_is_required_by_the_route(engine: &str) {
    let scratch = Scratch::new();
    let rest = format!(
        "{}[route.health-of-grpc]\ngrpc = true\nauth = \"ops\"\n[admin]\nbind = \"127.0.0.1:0\"\n",
        ops(&scratch)
    );
    let doorbell = Doorbell::start_with(engine, &config("", &rest));
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        let (refused, metadata) = check_as(&mut client, None).await.unwrap_err();
        assert_eq!(refused, Code::Unauthenticated);
        assert_eq!(metadata.get("www-authenticate").unwrap(), "Bearer realm=\"ops\"");
        for token in ["two words", &ALICE[1..]] {
            assert_eq!(code(check_as(&mut client, Some(token)).await), Err(Code::Unauthenticated), "{token}");
        }
        assert_eq!(code(check_as(&mut client, Some(ALICE)).await), Ok(ServingStatus::Serving));
        assert_eq!(client.watch(ask("")).await.unwrap_err().code(), Code::Unauthenticated);
        let mut request = Request::new(ask(""));
        request.metadata_mut().insert("authorization", format!("Bearer {ALICE}").parse().unwrap());
        let mut stream = client.watch(request).await.unwrap().into_inner();
        assert_eq!(stream.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        for path in ["/grpc.health.v1.Health/List", "/AWS.ALB/healthcheck"] {
            let status = call(channel(&doorbell).await, path).await.unwrap_err();
            assert_eq!(status.code(), Code::Unauthenticated, "{path}");
        }
    });
    let series = |code: u16| {
        let labels = format!("listener=\"web\",route=\"health-of-grpc\",method=\"POST\",code=\"{code}\"");
        format!("doorbell_http_requests_total{{{labels}}}")
    };
    // The Watch is counted, too: its stream ended with the client.
    let counts = [(series(200), 2.0), (series(400), 1.0), (series(401), 5.0)];
    expect(doorbell.addr_of(1), &counts.each_ref().map(|(series, count)| (series.as_str(), *count)));
}

/// A job verifies the signature on the threads of `[compute]`, and the call waits for it.
fn a_signed_token_is_verified_by_a_job(engine: &str) {
    let (scratch, signer) = (Scratch::new(), Signer::new("a", "ES256"));
    let file = scratch.write("key.pem", &signer.pair.public_key_pem());
    let rest = format!(
        "[auth.api.jwt]\nalgorithm = \"ES256\"\nkey_file = {file:?}\nissuer = \"https://issuer.test\"\n\
         audience = \"doorbell\"\n[route.grpc]\ngrpc = true\nauth = \"api\"\n"
    );
    let doorbell = Doorbell::start_with(engine, &config("", &rest));
    let (good, other) = (signer.sign(&claims()), Signer::new("a", "ES256").sign(&claims()));
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        for _ in 0..3 {
            assert_eq!(code(check_as(&mut client, Some(&good)).await), Ok(ServingStatus::Serving));
            assert_eq!(code(check_as(&mut client, Some(&other)).await), Err(Code::Unauthenticated));
        }
    });
    let totals = doorbell.totals();
    assert_eq!(totals["jobs"], 6, "{totals}");
}

fn a_rate_limit_is_resource_exhausted(engine: &str) {
    let rest = "[limit.few]\nrate = \"2/h\"\n[route.grpc]\ngrpc = true\nlimit = \"few\"\n";
    let doorbell = Doorbell::start_with(engine, &config("", rest));
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        for _ in 0..2 {
            assert_eq!(code(check_as(&mut client, None).await), Ok(ServingStatus::Serving));
        }
        let (refused, metadata) = check_as(&mut client, None).await.unwrap_err();
        assert_eq!(refused, Code::ResourceExhausted);
        assert!(metadata.contains_key("retry-after"), "{metadata:?}");
        // The limit also applies to a Watch.
        assert_eq!(client.watch(ask("")).await.unwrap_err().code(), Code::ResourceExhausted);
    });
    let totals = doorbell.totals();
    assert!(totals["refused"].as_str().unwrap().contains("rate_limited=2"), "{totals}");
}

fn probes_may_be_exempt(engine: &str) {
    let rest =
        "[limit.few]\nrate = \"2/h\"\nexempt_probes = true\n[route.grpc]\ngrpc = true\nlimit = \"few\"\n";
    let doorbell = Doorbell::start_with(engine, &config("", rest));
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        for _ in 0..5 {
            assert_eq!(code(check_as(&mut client, None).await), Ok(ServingStatus::Serving));
        }
    });
    assert_eq!(doorbell.totals()["refused"], "");
}

/// The route of gRPC health is as specific as a static path, so it takes precedence over a
/// catch-all route. All other requests reach the catch-all route.
fn other_routes_keep_their_guards(engine: &str) {
    let scratch = Scratch::new();
    let rest = format!(
        "{}[route.rest]\npath = \"/{{*rest}}\"\nmethods = [\"any\"]\nauth = \"ops\"\nreply = {{}}\n\
         [route.alb]\npath = \"/AWS.ALB/healthcheck\"\nmethods = [\"POST\"]\nreply = {{ status = 503 }}\n",
        ops(&scratch)
    );
    let doorbell = Doorbell::start_with(engine, &config("", &rest));
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        assert_eq!(check(&mut client, "").await, Ok(ServingStatus::Serving));
        for (path, code) in [
            ("/shop.Orders/Get", Code::Unauthenticated),
            ("/AWS.ALB/healthcheck", Code::Unavailable),
            ("/livez", Code::Unimplemented),
        ] {
            assert_eq!(call(channel(&doorbell).await, path).await.unwrap_err().code(), code, "{path}");
        }
    });
}

fn the_log_has_every_request(engine: &str) {
    let scratch = Scratch::new();
    let log = scratch.path("access.log");
    let rest = format!(
        "{}[log]\naccess = \"all\"\naccess_format = \"json\"\naccess_file = {log:?}\n\
         [listener.open]\nbind = \"127.0.0.1:0\"\nhttp2 = true\n\
         [route.guarded]\nlistener = \"web\"\ngrpc = true\nauth = \"ops\"\n",
        ops(&scratch)
    );
    let routes = config("", &rest).replace("]\npath", "]\nlistener = \"web\"\npath");
    let mut doorbell = Doorbell::start_with(engine, &routes);
    let other = doorbell.addr_of(1);
    block_on(async {
        let mut client = HealthClient::new(channel(&doorbell).await);
        assert_eq!(code(check_as(&mut client, None).await), Err(Code::Unauthenticated));
        assert_eq!(code(check_as(&mut client, Some(ALICE)).await), Ok(ServingStatus::Serving));
        let endpoint = Endpoint::from_shared(format!("http://{other}")).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        assert_eq!(check(&mut client, "nobody").await, Err(Code::NotFound));
    });
    doorbell.process.signal(Signal::TERM);
    assert!(doorbell.process.wait().0.success());
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> = lines
        .iter()
        .map(|line| {
            assert_eq!(line["target"], "/grpc.health.v1.Health/Check", "{line}");
            (line["status"].as_u64().unwrap(), line["route"].as_str().unwrap(), line["subject"].as_str())
        })
        .collect();
    assert_eq!(
        found,
        [(401, "guarded", None), (200, "guarded", Some("alice")), (200, "grpc", None)],
        "{text}"
    );
}

fn a_wrong_certificate_is_permission_denied(engine: &str) {
    let scratch = Scratch::new();
    let clients = scratch.write("clients.crt", &ca().pem());
    let (cert, key) = localhost().write(&scratch, "tls");
    let tls = format!(
        "[tls.a]\ncert = {cert:?}\nkey = {key:?}\nclient_auth = {{ mode = \"request\", ca = {clients:?} }}\n\
         [route.grpc]\ngrpc = true\nclient_names = [\"prober\"]\n"
    );
    let doorbell = Doorbell::start_with(engine, &config("tls = \"a\"", &tls));
    let trust =
        || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca().pem())).domain_name("localhost");
    let named = |name: &str| {
        let signed = ca().client(name, 9);
        trust().identity(Identity::from_pem(&signed.certificate, &signed.key))
    };
    block_on(async {
        for (tls, expected) in [
            (trust(), Err(Code::Unauthenticated)),
            (named("other"), Err(Code::PermissionDenied)),
            (named("prober"), Ok(ServingStatus::Serving)),
        ] {
            let endpoint = Endpoint::from_shared(format!("https://{}", doorbell.addr)).unwrap();
            let endpoint = endpoint.connect_timeout(Duration::from_secs(20)).tls_config(tls).unwrap();
            let mut client = HealthClient::new(endpoint.connect().await.unwrap());
            assert_eq!(check(&mut client, "").await, expected);
        }
    });
}

/// A call counts until its last message, so a Watch holds its permit while it is open.
fn concurrent_calls_are_limited(engine: &str) {
    let scratch = Scratch::new();
    for (row, (listener, route)) in [
        ("limits = { requests_in_flight = 1 }", ""),
        ("", "concurrent = 1"),
        ("", "concurrent = 1\nauth = \"ops\""),
    ]
    .into_iter()
    .enumerate()
    {
        let log = scratch.path(&format!("access-{row}.log"));
        let rest = format!(
            "{}[log]\naccess = \"all\"\naccess_format = \"json\"\naccess_file = {log:?}\n[route.grpc]\ngrpc = true\n{route}\n",
            ops(&scratch)
        );
        let mut doorbell = Doorbell::start_with(engine, &config(listener, &rest));
        let asked = || {
            let mut request = Request::new(ask(""));
            request.metadata_mut().insert("authorization", format!("Bearer {ALICE}").parse().unwrap());
            request
        };
        block_on(async {
            let mut client = HealthClient::new(channel(&doorbell).await);
            let mut other = HealthClient::new(channel(&doorbell).await);
            for _ in 0..2 {
                let mut watched = client.watch(asked()).await.unwrap().into_inner();
                assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
                for client in [&mut client, &mut other] {
                    assert_eq!(
                        client.watch(asked()).await.unwrap_err().code(),
                        Code::Unavailable,
                        "row {row}"
                    );
                    assert_eq!(
                        client.check(asked()).await.unwrap_err().code(),
                        Code::Unavailable,
                        "row {row}"
                    );
                }
                drop(watched);
                // The permit is released once the end of the call has been processed.
                let mut free = client.check(asked()).await;
                let start = Instant::now();
                while free.is_err() && start.elapsed() < LIMIT {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    free = client.check(asked()).await;
                }
                assert_eq!(free.unwrap().into_inner().status(), ServingStatus::Serving, "row {row}");
            }
        });
        doorbell.process.signal(Signal::TERM);
        assert!(doorbell.process.wait().0.success());
        let text = std::fs::read_to_string(log).unwrap();
        let of = |target: &str, status: u64| {
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines
                .filter(|line| line["target"].as_str().unwrap().ends_with(target) && line["status"] == status)
                .count()
        };
        assert_eq!((of("Watch", 200), of("Check", 200), of("Watch", 503)), (2, 2, 4), "row {row}: {text}");
    }
}

fn requests_without_grpc_are_refused(engine: &str) {
    let doorbell = Doorbell::start_with(engine, &config("", ""));
    let path = "/grpc.health.v1.Health/Check";
    assert_eq!(plain::get(doorbell.addr, path, &[]).status, 404, "in HTTP/1.1 there is no such route");
    let Some(curl) = program("curl") else { return };
    let url = doorbell.url(path);
    let reply = stdout(&curl, &["-sS", "-w", "|%{http_code}", "--http2-prior-knowledge", "-d", "", &url]);
    assert_eq!(reply, "this path serves gRPC only\n|415");
}
