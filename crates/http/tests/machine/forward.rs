//! A pointer to a service forwards every method, and a service around another one those that name
//! its needs.

use doorbell_http::{
    Client, Conn, Date, Io, Limits, MessageStart, Next, Out, Replied, Request, RequestError, Responder,
    Service, Status, Time, service_fn,
};
use std::sync::{Arc, Mutex};

/// A service that overrides every method of the trait and records its calls.
#[derive(Default)]
struct Opposite(Mutex<Vec<&'static str>>);

impl Opposite {
    fn record(&self, method: &'static str) -> bool {
        self.0.lock().expect("one thread").push(method);
        true
    }
}

impl Service for Opposite {
    fn wants_body(&self, _: &Request<'_>) -> bool {
        self.record("wants_body")
    }

    fn wants_client(&self) -> bool {
        self.record("wants_client")
    }

    fn takes_trace(&self) -> bool {
        self.record("takes_trace")
    }

    fn refused(&self, _: RequestError, _: &Client<'_>, _: Time) {
        self.record("refused");
    }

    fn missing_param(&self, known: &[&str]) -> Option<&str> {
        self.record("missing_param");
        (!known.contains(&"rest")).then_some("rest")
    }

    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        self.record("hands_over") && matches!(begun, MessageStart::Tls)
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        self.record("call");
        reply.status(Status::OK).content(request.body())
    }

    fn repeats(&self, _: &Request<'_>, _: u32) -> bool {
        self.record("repeats")
    }
}

/// Passes input to a new connection, and returns the reply.
fn reply_to(input: &[u8], service: &impl Service) -> String {
    let (limits, date, mut out) = (Limits::default(), Date::new(0), Out::new());
    let io = Io {
        now: Time::ZERO,
        date: &date,
        limits: &limits,
        carry: &mut Vec::new(),
        out: &mut out,
        closing: false,
        client: &Client::UNKNOWN,
    };
    assert_eq!(Conn::new(Time::ZERO, &limits).handle_input(input, io, service), Next::Read);
    String::from_utf8_lossy(&out.head).into_owned()
}

/// A service around another one. Its type says nothing about the needs of the other.
struct Around<S>(S);

impl<S: Service> Service for Around<S> {
    fn inner(&self) -> Option<&dyn Service> {
        Some(&self.0)
    }

    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        assert!(self.wants_body(request));
        self.0.call(request, reply)
    }
}

/// Calls the methods that name the needs of a service.
fn use_needs(service: &impl Service) {
    assert!(service.wants_client() && service.takes_trace());
    assert_eq!((service.missing_param(&[]), service.missing_param(&["rest"])), (Some("rest"), None));
    service.refused(RequestError::Timeout, &Client::UNKNOWN, Time::ZERO);
}

#[test]
fn needs_of_an_inner_service_are_forwarded() {
    let pointer: Box<dyn Service> = Box::new(Around(Around(Opposite::default())));
    use_needs(&pointer);
    let reply = reply_to(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", &pointer);
    assert!(reply.ends_with("\r\n\r\nhi"), "{reply}");
    assert!(!pointer.hands_over(MessageStart::Tls), "it would bypass the outer service");
}

/// Calls each method of a service, some through a connection.
fn use_all<S: Service>(service: S) {
    use_needs(&service);
    assert!(service.hands_over(MessageStart::Tls) && !service.hands_over(MessageStart::Http2));
    for (input, expected) in [
        (&b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"[..], "\r\n\r\n"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", "\r\n\r\nhi"),
    ] {
        let reply = reply_to(input, &service);
        assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with(expected), "{reply}");
    }
    let asks = service_fn(|request, reply| {
        assert!(service.repeats(request, 3));
        reply.status(Status::OK).empty()
    });
    reply_to(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &asks);
}

#[test]
fn every_method_is_forwarded() {
    let direct = Opposite::default();
    use_all(&direct);
    let expected = direct.0.into_inner().unwrap();
    let needs = ["wants_body", "wants_client", "takes_trace", "refused", "missing_param"];
    for method in needs.iter().chain(&["hands_over", "call", "repeats"]) {
        assert!(expected.contains(method), "{method}");
    }
    let shared = Arc::new(Opposite::default());
    let trait_objects: [&dyn Fn(Arc<Opposite>); 4] = [
        &|service| use_all(service),
        &|service| use_all(service as Arc<dyn Service>),
        &|service| use_all(Box::new(service)),
        &|service| use_all(Box::new(service) as Box<dyn Service>),
    ];
    for pass in trait_objects {
        pass(Arc::clone(&shared));
        assert_eq!(std::mem::take(&mut *shared.0.lock().unwrap()), expected);
    }
    use_all(&*shared as &dyn Service);
    assert_eq!(std::mem::take(&mut *shared.0.lock().unwrap()), expected);
}
