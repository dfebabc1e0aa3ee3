//! Routes with parameters, a guarded route and redirects: `cargo run --example routes --
//! 127.0.0.1:8080`, then `curl http://127.0.0.1:8080/hello/you`.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use doorbell::http::auth::{Policy, Tokens};
use doorbell::http::layer::{RequireAuth, ServiceExt as _};
use doorbell::http::redirect::{Redirect, Scheme};
use doorbell::http::routes::Routes;
use doorbell::{Http1, Listen, Server, StaticReply, Status, service_fn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let alive = StaticReply::text(Status::OK, "ok\n");
    let hello =
        service_fn(|request, reply| reply.status(Status::OK).text(request.param("name").unwrap_or_default()));
    let whoami =
        service_fn(|request, reply| reply.status(Status::OK).text(request.identity().unwrap_or_default()));
    let mut tokens = Tokens::new();
    tokens.add("alice", b"an-example-token-that-is-not-secret")?;
    let routes = Routes::builder()
        .get("/livez", service_fn(move |_, reply| reply.send(&alive)))
        .get("/hello/{name}", hello)
        .get("/whoami", whoami.guarded(RequireAuth::new(Policy::bearer("example", tokens)?)))
        .any(
            "/old/{*rest}",
            Redirect::to(Scheme::Https).canonical_host("example.com").path("/{rest}").build()?,
        )
        .build()?;
    let server = Server::builder().listen(Listen::tcp(addr), Http1::new(routes)).start()?;
    eprintln!("listening on {}", server.local_addrs()[0]);
    server.wait()?;
    Ok(())
}
