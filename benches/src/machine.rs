//! A connection with the environment of a worker, for benches of the cost of one probe.

use doorbell_http::layer::ServiceExt as _;
use doorbell_http::log::{Filter, Logger, Sink};
use doorbell_http::parse::{Head, Seen};
use doorbell_http::redirect::{Redirect, RedirectTarget, Scheme};
use doorbell_http::router::{Lookup, MethodSet, Params, Route, Router};
use doorbell_http::{
    Client, Conn, Date, Io, Limits, Method, Next, Out, Phase, Replied, Request, Responder, Service,
    StaticReply, Status, Time,
};
use std::hint::black_box;
use std::time::Duration;

/// One connection of a small server.
pub struct Machine {
    service: Box<dyn Service>,
    door: Door,
    limits: Limits,
    date: Date,
    carry: Vec<u8>,
    out: Out,
    conn: Conn,
    seen: Seen,
    input: Vec<u8>,
    now: Time,
}

/// A router with one redirect and, for all other routes, a prepared reply.
struct Door {
    router: Router<Answer>,
    missing: StaticReply,
}

#[derive(Clone)]
enum Answer {
    Redirect(Redirect),
    Reply(StaticReply),
}

impl Machine {
    /// Creates a new connection that receives `input`.
    pub fn new(input: &[u8]) -> Box<Self> {
        let limits = Limits::default();
        Box::new(Self {
            service: Box::new(Door::new()),
            door: Door::new(),
            conn: Conn::new(Time::ZERO, &limits),
            limits,
            date: Date::new(784_111_777),
            seen: Seen::new(),
            carry: Vec::new(),
            out: Out::with_capacity(16 * 1024),
            input: input.to_vec(),
            now: Time::ZERO,
        })
    }

    /// Creates a new connection that receives `input`, with this service.
    pub fn serving(input: &[u8], service: Box<dyn Service>) -> Box<Self> {
        let mut machine = Self::new(input);
        machine.service = service;
        machine
    }

    /// Creates a new connection that receives `input`, with an access log around the service.
    pub fn logged(input: &[u8], filter: Filter, sink: impl Sink + 'static) -> Box<Self> {
        let mut machine = Self::new(input);
        machine.service = Box::new(Door::new().with(Logger::new(filter, sink)));
        machine
    }

    /// Creates a connection that has handled `input` once and receives it again.
    pub fn second(input: &[u8]) -> Box<Self> {
        let mut machine = Self::new(input);
        assert_eq!(machine.handle(), Next::Read, "the connection stays open");
        machine.out.clear();
        machine
    }

    /// Creates a connection that receives `input`, on a worker that has cached its head.
    pub fn again(input: &[u8]) -> Box<Self> {
        let mut machine = Self::new(input);
        machine.warm();
        machine.out.clear();
        machine
    }

    /// Handles the input and advances the time by a second. A new connection of the same worker
    /// replaces a closed one.
    pub fn warm(&mut self) {
        let _ = self.handle_seen();
        self.now = self.now.after(Duration::from_secs(1));
        if self.conn.phase() == Phase::Closing {
            self.conn = Conn::new(self.now, &self.limits);
        }
    }

    /// Marks the output as sent. The buffer is kept, as in a worker.
    pub fn send(&mut self) {
        self.out.head_is_sent();
    }

    /// Handles the whole request, from parsing to rendering. The service is a trait object, as in
    /// the server.
    pub fn handle(&mut self) -> Next {
        let (conn, input, io, service, _) = self.parts();
        conn.handle_input(black_box(input), io, service)
    }

    /// Handles the whole request with a cache of heads, as in a worker. On a new connection, a
    /// cached head that closes the connection needs no [`Conn`].
    pub fn handle_seen(&mut self) -> Next {
        let is_new = self.conn.requests() == 0;
        let (_, input, io, service, seen) = self.parts();
        if is_new && let Some(next) = Conn::answer_once(black_box(input), io, service, seen) {
            return next;
        }
        let (conn, input, io, service, seen) = self.parts();
        conn.handle_input_seen(black_box(input), io, service, seen)
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut Conn, &[u8], Io<'_>, &dyn Service, &mut Seen) {
        let io = Io {
            now: self.now,
            date: &self.date,
            limits: &self.limits,
            carry: &mut self.carry,
            out: &mut self.out,
            closing: false,
            client: &Client::UNKNOWN,
        };
        (&mut self.conn, &self.input, io, &*self.service, &mut self.seen)
    }

    /// Parses only the head.
    pub fn parse(&self) -> Option<usize> {
        let mut head = Head::new();
        let len = head.parse(black_box(&self.input), &self.limits);
        black_box(&head);
        len.ok().flatten()
    }

    /// Only looks up the route, and returns whether it was found.
    pub fn route(&self) -> bool {
        let host = Some(black_box(b"127.0.0.1:8080".as_slice()));
        match self.door.router.find(host, black_box(Method::Get), black_box(b"/livez")) {
            Lookup::Found(found) => black_box(found.value as *const Answer as usize) != 0,
            _ => false,
        }
    }

    /// Only renders a prepared reply.
    pub fn reply(&mut self) {
        self.door.missing.put_last(&mut self.out, black_box(&self.date));
    }

    /// The output of the connection.
    pub fn output(&self) -> &[u8] {
        &self.out.head
    }
}

impl Door {
    fn new() -> Self {
        let mut builder = Router::builder();
        let alive = Answer::Reply(StaticReply::text(Status::OK, "ok\n"));
        let redirect = Redirect::to(Scheme::Https).canonical_host("example.com").build();
        let redirect = Answer::Redirect(redirect.expect("a host is given"));
        for (path, value) in [
            ("/livez", &alive),
            ("/readyz", &alive),
            ("/healthz", &alive),
            ("/metrics", &alive),
            ("/old", &redirect),
            ("/status/{name}", &alive),
        ] {
            builder.add(Route {
                name: path.to_owned(),
                hosts: Vec::new(),
                path: path.to_owned(),
                methods: MethodSet::of(&[Method::Get, Method::Options]),
                value: value.clone(),
            });
        }
        let router = builder.build().expect("the routes do not conflict");
        Self { router, missing: StaticReply::text(Status::NOT_FOUND, "not found\n") }
    }
}

impl Service for Door {
    fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
        if let Some(Answer::Reply(fixed)) = self.router.find_plain(request).map(|found| found.value()) {
            return reply.send(fixed);
        }
        match self.router.find_for(request) {
            Lookup::Found(found) => match found.value {
                Answer::Reply(fixed) => reply.send(fixed),
                Answer::Redirect(redirect) => send_redirect(redirect, request, reply),
            },
            _ => reply.send(&self.missing),
        }
    }

    fn repeats(&self, request: &Request<'_>, _count: u32) -> bool {
        matches!(self.router.find_plain(request).map(|found| found.value()), Some(Answer::Reply(_)))
    }
}

fn send_redirect<'a>(redirect: &Redirect, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
    let target = RedirectTarget {
        host: request.host_bytes(),
        path: request.path_bytes(),
        query: request.query_bytes(),
        params: Params::none(),
    };
    let mut buf = [0; 512];
    match redirect.location(&target, &mut buf) {
        Ok(location) => reply.status(Status::PERMANENT_REDIRECT).header("Location", location).empty(),
        Err(_) => reply.status(Status::BAD_REQUEST).empty(),
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("conn", &self.conn).finish_non_exhaustive()
    }
}
