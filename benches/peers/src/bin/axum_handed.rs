//! The program `axum` behind the ring thread of doorbell. One thread accepts and reads, and hands
//! every connection over to axum on one thread of Tokio.
#![forbid(unsafe_code)]

#[path = "../address.rs"]
mod address;

use std::error::Error;
use std::net::SocketAddr;
use std::num::NonZeroU16;

use axum::Router;
use axum::routing::get;
use doorbell::{Http1, Listen, Server, Workers};
use doorbell_tokio::{Embed, HandOverAll};

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(address::address()?))
}

async fn serve(addr: SocketAddr) -> Result<(), Box<dyn Error>> {
    let server = Server::builder()
        .workers(Workers::Count(NonZeroU16::MIN))
        .listen(Listen::tcp(addr), Http1::new(HandOverAll));
    let (control, handed) = Embed::new(server).start();
    control.ready().await?;
    let routes = Router::new().route("/livez", get(|| async { "ok\n" }));
    axum::serve(handed, routes).await?;
    Ok(())
}
