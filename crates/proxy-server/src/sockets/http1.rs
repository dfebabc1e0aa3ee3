//! HTTP/1 servers outside the workers: the admin listener, and `/probe`.

use super::port::set_user_timeout;
use bytes::Buf;
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Maximum size of a request head.
const HEAD_LEN_MAX: usize = 16 << 10;

/// Pause after a failed accept, for example because of a lack of descriptors.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Accepts connections until `leaving` completes, then waits until all connections have ended.
/// Connections beyond the maximum wait in the backlog. `name` names the listener in the log.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    name: &str,
    conns_max: usize,
    leaving: impl Future,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) {
    let (mut conns, mut leaving) = (JoinSet::new(), pin!(leaving));
    loop {
        tokio::select! {
            _leaving = leaving.as_mut() => break,
            accepted = listener.accept(), if conns.len() < conns_max => match accepted {
                Ok((stream, peer)) => {
                    conns.spawn(serve(stream, peer));
                }
                Err(error) => {
                    tracing::debug!("accept on the {name} listener failed: {error}");
                    sleep(RETRY_AFTER).await;
                }
            },
            Some(_ended) = conns.join_next() => {}
        }
    }
    drop(listener);
    conns.join_all().await;
}

/// Serves one connection until `close` completes, and then for at most `finish_timeout`. The head of
/// a request must arrive within `head_timeout`.
pub(crate) async fn serve<F, B>(
    stream: TcpStream,
    head_timeout: Duration,
    reply: impl Fn(Request<Incoming>) -> F,
    close: impl Future,
    finish_timeout: Duration,
) where
    F: Future<Output = Response<B>>,
    B: Body<Data: Buf, Error: Into<Box<dyn Error + Send + Sync>>> + 'static,
{
    let _small_replies = stream.set_nodelay(true);
    set_user_timeout(&stream);
    let service = service_fn(|request| {
        let reply = reply(request);
        async { Ok::<_, Infallible>(reply.await) }
    });
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(HEAD_LEN_MAX);
    let mut conn = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // Errors are not logged: the client has disconnected, was too slow or sent an invalid request.
    tokio::select! {
        _ended = conn.as_mut() => return,
        _closing = close => conn.as_mut().graceful_shutdown(),
    }
    let _in_time = timeout(finish_timeout, conn).await;
}
