//! Redirects in front of an axum program. The ring threads serve redirects and probes; the program
//! gets all other requests.
#![expect(clippy::print_stderr, reason = "an example prints messages")]

use axum::{Router, extract::ConnectInfo, routing::get};
use doorbell::{Handler, Http1, Listen, Request, Server, Status, service_fn};
use doorbell_tokio::{Embed, Front, Health, Peer, Probes};

/// Redirects `/old/...` to `/new/...`.
fn redirects() -> impl Handler + Send + Sync {
    let is_ours = |request: &Request<'_>| request.path().starts_with("/old/");
    let redirect = service_fn(|request, reply| {
        let location = request.path().replacen("/old/", "/new/", 1);
        reply.status(Status::PERMANENT_REDIRECT).header("Location", location).empty()
    });
    Front::new(is_ours, redirect)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let addr = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned()).parse()?;
    let health = Health::builder().build()?;
    let service = Http1::new(Probes::new(&health).before(redirects()));
    let (control, handed) =
        Embed::new(Server::builder().listen(Listen::tcp(addr), service)).health(&health).start();
    control.ready().await?;
    eprintln!("http://{}/old/page", control.tcp_addr(0).ok_or("no address")?);
    let page =
        |peer: ConnectInfo<Peer>| async move { format!("hello {:?}\n", peer.addr.map(|addr| addr.ip())) };
    let app = Router::new().route("/new/page", get(page));
    axum::serve(handed, app.into_make_service_with_connect_info::<Peer>()).await?;
    Ok(())
}
