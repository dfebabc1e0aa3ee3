//! A registry with two checks, and the reply to a probe after each change: `cargo run -p
//! doorbell-probes --example two_checks`.
//!
//! A program that embeds the engine passes the same handler to a listener.
#![expect(clippy::print_stdout, reason = "the example prints its results")]

use doorbell_health::{CheckConfig, CheckResult, Details, EndpointConfig, Format, Outcome, Severity, Time};
use doorbell_http::forwarded::Networks;
use doorbell_http::{Client, Conn, Date, Io, Limits, Out, service_fn};
use doorbell_probes::{EndpointOptions, HealthHandler, Registry, ReplyOptions, Transition, TransitionSink};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// Prints transitions.
struct Log;

impl TransitionSink for Log {
    fn write(&self, transition: &Transition) {
        match transition {
            Transition::Check { name, from, to, reason, .. } => {
                println!("  check {name}: {} -> {} {reason}", from.as_str(), to.as_str());
            }
            Transition::Endpoint { name, from, to, .. } => {
                println!("  endpoint {name}: {} -> {}", from.as_str(), to.as_str());
            }
        }
    }
}

/// Passes one request to the handler and returns the HTTP/1.1 reply.
fn probe(handler: &HealthHandler, request: &str) -> String {
    let service = service_fn(|request, reply| handler.send(|| false, request, reply));
    let (limits, date, now) = (Limits::default(), Date::new(784_111_777), doorbell_http::Time::ZERO);
    let (mut carry, mut out) = (Vec::new(), Out::new());
    let (date, limits, closing, client) = (&date, &limits, false, &Client::UNKNOWN);
    let io = Io { now, date, limits, carry: &mut carry, out: &mut out, closing, client };
    let _next = Conn::new(now, limits).handle_input(request.as_bytes(), io, &service);
    String::from_utf8_lossy(&out.head).into_owned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut builder = Registry::builder(Time::ZERO, Duration::ZERO);
    // The application pushes the results of `db`. `cache` is shared with other replicas, so its
    // failure only degrades the endpoint.
    let db = builder.check("db", CheckConfig::ttl(Duration::from_secs(60)))?;
    let cache = builder.check("cache", CheckConfig { fall: 1, ..CheckConfig::default() })?;
    let readyz = EndpointConfig::new("readyz").with(db, Severity::Required).with(cache, Severity::Degrading);
    builder.endpoint(readyz, EndpointOptions::default())?;
    let registry = builder.build();
    registry.report_to(Arc::new(Log));

    let options = ReplyOptions {
        details: Details::Always,
        format: Some(Format::Text),
        allow: "GET, HEAD".to_owned(),
        ..ReplyOptions::default()
    };
    let replies = registry.cache(options).ok_or("no such endpoint")?;
    let handler = HealthHandler::new(replies, false, Networks::default());
    let show = |what: &str, query: &str| {
        let request = format!("GET /readyz{query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        println!("{what}:\n{}\n", probe(&handler, &request));
    };

    show("before any result", "");
    let fine = CheckResult::success(Duration::from_millis(2));
    registry.found(db.as_usize(), &fine, Time::from_secs(1));
    registry.found(cache.as_usize(), &fine, Time::from_secs(1));
    show("both are up", "");
    let refused = CheckResult::new(Outcome::Failure, Duration::ZERO, b"connection refused");
    registry.found(cache.as_usize(), &refused, Time::from_secs(6));
    show("the cache is down, in the format of the Kubernetes API server", "?verbose");
    show("without the cache", "?exclude=cache");
    registry.drain(Some(""), Time::from_secs(7));
    show("draining", "");
    registry.drain(None, Time::from_secs(9));
    registry.tick(Time::from_secs(62));
    show("no result of db for a minute", "?format=json");
    Ok(())
}
