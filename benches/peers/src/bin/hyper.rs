//! hyper 1 on one thread of Tokio, as in its guide, with batched replies for pipelined requests.
#![forbid(unsafe_code)]

#[path = "../address.rs"]
mod address;

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(serve(address::address()?))
}

async fn serve(addr: SocketAddr) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(addr).await?;
    loop {
        let (conn, _) = listener.accept().await?;
        tokio::spawn(async move {
            let http = http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(conn), service_fn(answer));
            // A client that disconnects is normal.
            let _ = http.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut reply = Response::new(Full::new(Bytes::from_static(b"ok\n")));
    if request.uri().path() == "/livez" {
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    } else {
        *reply.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(reply)
}
