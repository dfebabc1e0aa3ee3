//! Redirects plain HTTP requests to HTTPS: `cargo run --example redirect -- 127.0.0.1:8080
//! example.com`.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use doorbell::http::redirect::{Redirect, Scheme};
use doorbell::{Http1, Listen, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let addr = args.next().unwrap_or_else(|| "127.0.0.1:0".to_owned()).parse()?;
    let host = args.next().unwrap_or_else(|| "example.com".to_owned());

    // The host is fixed and never taken from the request, so the service cannot become an open
    // redirect.
    let to_https = Redirect::to(Scheme::Https).canonical_host(host).build()?;

    let server = Server::builder().listen(Listen::tcp(addr), Http1::new(to_https)).start()?;
    eprintln!("listening on {}, {}", server.local_addrs()[0], server.driver_report());

    server.wait()?;
    Ok(())
}
