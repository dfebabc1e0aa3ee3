//! monoio's io_uring runtime with monoio-http, which decodes requests and encodes replies. The loop
//! between them is part of this program.
#![forbid(unsafe_code)]

#[path = "../address.rs"]
mod address;

use std::error::Error;
use std::net::SocketAddr;

use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use http::{StatusCode, Version};
use monoio::io::sink::SinkExt;
use monoio::io::stream::Stream;
use monoio::net::{TcpListener, TcpStream};
use monoio_http::common::request::Request;
use monoio_http::common::response::Response;
use monoio_http::h1::codec::ServerCodec;
use monoio_http::h1::payload::{FixedPayload, Payload};

fn main() -> Result<(), Box<dyn Error>> {
    let addr = address::address()?;
    monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().build()?.block_on(serve(addr))
}

async fn serve(addr: SocketAddr) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(addr)?;
    loop {
        let (conn, _) = listener.accept().await?;
        monoio::spawn(converse(conn));
    }
}

async fn converse(conn: TcpStream) {
    let mut http = ServerCodec::new(conn);
    while let Some(Ok(request)) = http.next().await {
        let last = is_last(&request);
        if http.send_and_flush(answer(&request, last)).await.is_err() || last {
            return;
        }
    }
}

fn is_last(request: &Request) -> bool {
    request.version() != Version::HTTP_11
        || request
            .headers()
            .get(CONNECTION)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}

fn answer(request: &Request, last: bool) -> Response {
    let mut reply = Response::new(Payload::Fixed(FixedPayload::new((&b"ok\n"[..]).into())));
    if request.uri().path() == "/livez" {
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    } else {
        *reply.status_mut() = StatusCode::NOT_FOUND;
    }
    if last {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}
