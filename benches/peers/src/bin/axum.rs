//! axum on one thread of Tokio, as in its documentation.
#![forbid(unsafe_code)]

#[path = "../address.rs"]
mod address;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(address::address()?))
}

async fn serve(addr: SocketAddr) -> Result<(), Box<dyn Error>> {
    let routes = Router::new().route("/livez", get(|| async { "ok\n" }));
    axum::serve(TcpListener::bind(addr).await?, routes).await?;
    Ok(())
}
