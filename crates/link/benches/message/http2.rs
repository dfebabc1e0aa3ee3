//! Messages as JSON over one persistent HTTP/2 connection in memory, with both sides in one thread.

use std::future::poll_fn;

use h2::client::SendRequest;
use h2::{RecvStream, client, server};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, copy_bidirectional, duplex};
use tokio::runtime::{Builder, Runtime};

const PIPE_LEN: usize = 64 << 10;

/// An open connection.
pub(crate) struct Http2 {
    runtime: Runtime,
    requests: SendRequest<bytes::Bytes>,
}

impl Http2 {
    /// Opens a connection; `received` is called with the body of each request.
    pub(crate) fn open(received: fn(&[u8])) -> Self {
        Self::over(duplex(PIPE_LEN), received)
    }

    fn over((client, server): (DuplexStream, DuplexStream), received: fn(&[u8])) -> Self {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.spawn(serve(server, received));
        let (requests, conn) = runtime.block_on(client::handshake(client)).unwrap();
        runtime.spawn(async move { conn.await.unwrap() });
        Self { runtime, requests }
    }

    /// Sends a request and waits for its response.
    pub(crate) fn message(&mut self, body: Vec<u8>) {
        let Self { runtime, requests } = self;
        runtime.block_on(async {
            let request = Request::post("https://central.example.com/links/eu")
                .header("content-type", "application/json")
                .body(())
                .unwrap();
            poll_fn(|cx| requests.poll_ready(cx)).await.unwrap();
            let (response, mut stream) = requests.send_request(request, false).unwrap();
            stream.send_data(body.into(), true).unwrap();
            assert_eq!(response.await.unwrap().status(), 204);
        });
    }
}

/// Returns the number of bytes in both directions of a connection with these messages.
pub(crate) fn size(messages: impl Iterator<Item = Vec<u8>>, received: fn(&[u8])) -> u64 {
    let ((client, mut one), (mut other, server)) = (duplex(PIPE_LEN), duplex(PIPE_LEN));
    let mut conn = Http2::over((client, server), received);
    let relay = conn.runtime.spawn(async move { copy_bidirectional(&mut one, &mut other).await.unwrap() });
    messages.for_each(|body| conn.message(body));
    drop(conn.requests);
    let (up, down) = conn.runtime.block_on(relay).unwrap();
    up + down
}

async fn serve(io: impl AsyncRead + AsyncWrite + Unpin, received: fn(&[u8])) {
    let mut conn = server::handshake(io).await.unwrap();
    while let Some(request) = conn.accept().await {
        let (request, mut respond) = request.unwrap();
        // The connection is polled while the body is read.
        tokio::select! {
            () = read(request.into_body(), received) => {}
            closed = poll_fn(|cx| conn.poll_closed(cx)) => return closed.unwrap(),
        }
        let response = Response::builder().status(204).header("date", "Fri, 27 Nov 2026 07:00:00 GMT");
        respond.send_response(response.body(()).unwrap(), true).unwrap();
    }
}

async fn read(mut body: RecvStream, received: fn(&[u8])) {
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        received(&data);
        body.flow_control().release_capacity(data.len()).unwrap();
    }
}
