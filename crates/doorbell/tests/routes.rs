//! Promise: each request reaches the service of its route, together with the parameters of its path
//! and the name of the client that a guard has admitted, also in a job.

use doorbell::http::auth::{Policy, Tokens};
use doorbell::http::layer::{RequireAuth, RequireClientCert, ServiceExt as _};
use doorbell::http::redirect::{Redirect, Scheme};
use doorbell::http::router::MethodSet;
use doorbell::http::routes::Routes;
use doorbell::http::{Method, TlsInfo};
use doorbell::testing::{TestConn, ask};
use doorbell::{Handler, MessageStart, Responder, Status, service_fn};

/// A service that replies with a parameter and the name of the client.
fn shows(param: &'static str) -> impl Handler + Send + Sync + 'static {
    service_fn(move |request, reply| {
        let value = request.param(param).unwrap_or(b"-").escape_ascii().to_string();
        reply.status(Status::OK).content(format!("{value} {}", request.identity().unwrap_or("-")))
    })
}

fn get(handler: &impl Handler, request_line: &str) -> (u16, String) {
    let got = ask(handler, format!("{request_line} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    (got.reply().status().code(), got.reply().text().to_owned())
}

fn tokens() -> RequireAuth {
    let mut tokens = Tokens::new();
    tokens.add("alice", b"0123456789abcdef0123456789abcdef").expect("it is long enough");
    RequireAuth::new(Policy::bearer("ops", tokens).expect("there is a token"))
}

#[test]
fn requests_reach_their_services() {
    let routes = Routes::builder()
        .get("/user/{id}", shows("id"))
        .get("/user/me", shows("id"))
        .route(MethodSet::of(&[Method::Put, Method::Delete]), "/user/{name}", shows("name"))
        .any("/files/{*rest}", shows("rest"))
        .on_hosts(["b.test"])
        .get("/only-b", shows("none"))
        .build()
        .unwrap();
    for (line, status, text) in [
        ("GET /user/7", 200, "7 -"),
        ("GET /user/a%2Fb", 200, "a%2Fb -"),
        ("GET /user/me", 200, "- -"),
        ("PUT /user/7", 200, "7 -"),
        ("POST /files/a/b?c", 200, "a/b -"),
        ("GET /", 404, "not found\n"),
        ("POST /user/7", 405, ""),
        ("OPTIONS /user/7", 204, ""),
        ("GET /only-b", 421, "no such host\n"),
    ] {
        assert_eq!(get(&routes, line), (status, text.to_owned()), "{line}");
    }
    let allow = ask(&routes, "POST /user/7 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(allow.reply().header("allow"), Some("GET, HEAD, OPTIONS, PUT, DELETE"));
    let head = ask(&routes, "HEAD /user/7 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.reply().status(), head.reply().text()), (Status::OK, ""));
}

#[test]
fn the_needs_of_services_are_forwarded() {
    let echo = || service_fn(|request, reply| reply.status(Status::OK).content(request.body())).with_body();
    let addr = service_fn(|request, reply| {
        reply.status(Status::OK).content(format!("{:?}", request.client().addr()))
    });
    let inner = Routes::builder().post("/echo/{x}", echo()).otherwise(echo()).build().unwrap();
    let routes = Routes::builder().get("/addr", addr.with_client()).otherwise(inner).build().unwrap();
    for path in ["/echo/a", "/other"] {
        let post = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(ask(&routes, post).reply().text(), "hello", "{path}");
    }
    assert!(routes.wants_client());
    assert_eq!(get(&routes, "GET /addr").1, "Some(127.0.0.1)");
}

/// Hands requests with bodies over by the parameters of their path.
struct HandsOver;

impl Handler for HandsOver {
    fn hands_over(&self, begun: MessageStart<'_>) -> bool {
        matches!(begun, MessageStart::Body(head) if head.param("id") == Some(b"7"))
    }

    fn call<'a>(&self, _: &doorbell::Request<'_>, reply: Responder<'a>) -> doorbell::Replied<'a> {
        reply.status(Status::OK).empty()
    }
}

#[test]
fn a_service_hands_over_its_own_requests() {
    let routes = Routes::builder().post("/a/{id}", HandsOver).build().unwrap();
    let post = |path| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    for (path, is_handed_over) in [("/a/7", true), ("/a/8", false), ("/b", false)] {
        let got = ask(&routes, post(path));
        let handed = matches!(got.after(), doorbell::testing::After::HandedOver(_));
        assert_eq!(handed, is_handed_over, "{path}");
    }
    assert!(!routes.hands_over(MessageStart::Http2), "the default service does not take it");
}

#[test]
fn a_redirect_is_a_service() {
    let to = |path: &str| Redirect::to(Scheme::Https).canonical_host("new.test").path(path).build().unwrap();
    let routes =
        Routes::builder().any("/old/{*rest}", to("/new/{rest}")).otherwise(to("{path}")).build().unwrap();
    for (path, location) in [
        ("/old/a/b?q", "https://new.test/new/a/b?q"),
        ("/x?y", "https://new.test/x?y"),
        ("/", "https://new.test/"),
    ] {
        let got = ask(&routes, format!("GET {path} HTTP/1.1\r\nHost: old.test\r\n\r\n"));
        assert_eq!(got.reply().status(), Status::PERMANENT_REDIRECT, "{path}");
        assert_eq!(got.reply().header("location"), Some(location), "{path}");
    }
    let got = ask(&routes, "GET /a%00b HTTP/1.1\r\nHost: old.test\r\n\r\n");
    assert_eq!(got.reply().status(), Status::BAD_REQUEST);
    // A loop behind a proxy that terminates TLS.
    let tls = TlsInfo::default();
    let got = TestConn::open(&routes).tls(tls).send("GET /x HTTP/1.1\r\nHost: new.test\r\n\r\n");
    assert_eq!(got.reply().status(), Status::NOT_FOUND);
}

#[test]
fn guards_pass_the_name_of_the_client_to_the_service() {
    let routes = || Routes::builder().get("/user/{id}", shows("id")).build().unwrap();
    let request =
        "GET /user/7 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";
    assert_eq!(ask(&routes().guarded(tokens()), request).reply().text(), "7 alice");
    assert_eq!(ask(&routes().guarded(Some(tokens())), request).reply().text(), "7 alice");
    assert_eq!(ask(&routes(), request).reply().text(), "7 -", "no guard, no identity");
    let guarded = Routes::builder().get("/user/{id}", shows("id").guarded(tokens())).build().unwrap();
    assert_eq!(ask(&guarded, request).reply().text(), "7 alice", "behind a route");
    let tls = TlsInfo {
        client_verified: true,
        client_name: Some("not-a-name.test".to_owned()),
        client_names: ["web.test", "ops.test"].map(str::to_owned).into(),
        ..TlsInfo::default()
    };
    for (guard, expected) in [
        (RequireClientCert::any(), "7 web.test"),
        (RequireClientCert::named(vec!["ops.test".to_owned()]), "7 ops.test"),
    ] {
        let service = routes().guarded(guard).guarded(tokens());
        let got = TestConn::open(&service).tls(tls.clone()).send(request);
        assert_eq!(got.reply().text(), expected, "the last guard counts");
    }
}

#[test]
#[cfg(feature = "rayon")]
fn a_job_has_parameters_and_identity() {
    use doorbell::{Offload, Reply};

    let jobs = Offload::builder().build().unwrap();
    let service = service_fn(move |request, reply| {
        let owned = request.detach();
        jobs.run(request, reply, move || {
            owned.with(|request| {
                let id = request.param("id").unwrap_or(b"-").escape_ascii().to_string();
                Reply::text(Status::OK, format!("{id} {}", request.identity().unwrap_or("-")))
            })
        })
    });
    let routes = Routes::builder().get("/user/{id}", service.guarded(tokens())).build().unwrap();
    let request =
        "GET /user/7 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";
    assert_eq!(ask(&routes, request).reply().text(), "7 alice");
}

#[test]
fn all_invalid_routes_are_reported() {
    let alive = || shows("x");
    let errors =
        Routes::builder().get("a", alive()).get("/b", alive()).get("/b", alive()).build().unwrap_err();
    let text = errors.to_string();
    assert_eq!(
        text,
        "route `GET a`: `a` is not a path pattern: a path begins with `/`\n\
         routes `GET /b` and `GET /b` match the same requests: GET /b on any host"
    );
}

/// A location without the rest of the path would be wrong for every request.
#[test]
fn a_misspelt_parameter_of_a_redirect_is_an_error() {
    let to = |path: &str| Redirect::to(Scheme::Https).canonical_host("b.test").path(path).build().unwrap();
    let errors = Routes::builder()
        .get("/old/{*rest}", to("/new/{rset}"))
        .get(
            "/by/{year}/{month}",
            to("/of/{yaer}").behind(|inner, request, reply| inner.call(request, reply)),
        )
        .get("/plain", Box::new(to("/new/{id}").guarded(tokens())))
        .get("/inner/{id}", Routes::builder().otherwise(to("/new/{ID}")).build().unwrap())
        .get("/fine/{id}", to("/new/{id}{path}"))
        .build()
        .unwrap_err();
    let expected = "route `GET /old/{*rest}` has no parameter `rset`, which its service needs: did you mean `rest`?\n\
         route `GET /by/{year}/{month}` has no parameter `yaer`, which its service needs: did you mean `year` or `month`?\n\
         route `GET /plain` has no parameter `id`, which its service needs\n\
         route `GET /inner/{id}` has no parameter `ID`, which its service needs: did you mean `id`?";
    assert_eq!(errors.to_string(), expected);
}
