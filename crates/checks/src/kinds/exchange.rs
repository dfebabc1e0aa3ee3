//! One HTTP request and its response on a connection, over HTTP/1 or HTTP/2.

use crate::finding::{CUT, Issue, cause_of};
use crate::kinds::expectations::HttpResponse;
use crate::kinds::first_bytes::{FirstBytes, HTTP1, recording};
use crate::kinds::http::percent_encoded;
use crate::kinds::interim::InterimCounter;
use crate::options::{FieldValue, Url};
use crate::progress::{Progress, Seen, Stage};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue, LAST_MODIFIED, LOCATION};
use hyper::http::uri::Scheme;
use hyper::{Request, Response, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use tokio::io::{AsyncRead, AsyncWrite};

/// Maximum size of a response head and of the read buffer.
const HEAD_BYTES_MAX: u16 = 32 << 10;
const FIELDS_MAX: usize = 100;

/// Size of the HTTP/2 flow-control windows (RFC 9113 5.2), and maximum size of frames.
const WINDOW: u32 = 64 << 10;
const FRAME_MAX: u32 = 16 << 10;

/// A response, and its `Location`.
pub(crate) type ResponseWithLocation = (HttpResponse, Option<HeaderValue>);

/// One request, and the limit of its response.
pub(crate) struct Exchange<'a> {
    pub(crate) request: Request<Full<Bytes>>,
    /// Maximum number of bytes of content that are read.
    pub(crate) len_max: usize,
    pub(crate) progress: &'a Progress,
}

/// A connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

impl Exchange<'_> {
    /// Sends the request over HTTP/1.1. After a complete response the connection stays open, so
    /// that the server can close it first.
    pub(crate) async fn over_http1(self, stream: impl Stream) -> Result<ResponseWithLocation, Issue> {
        let Self { mut request, len_max, progress } = self;
        progress.enter(Stage::Response);
        let interim = InterimCounter::of(&mut request);
        let (mut sender, mut conn) = http1(interim.limit(stream)).await?;
        let answered = drive(&mut conn, pin!(answer(sender.send_request(request), len_max, progress))).await;
        interim.check()?;
        if answered.as_ref().is_ok_and(|(answer, _)| !answer.is_cut) {
            progress.leave(conn.into_parts().io.into_inner());
        }
        answered
    }

    /// Sends the request over HTTP/2.
    pub(crate) async fn over_http2(
        self,
        stream: impl Stream,
        url: &Url,
    ) -> Result<ResponseWithLocation, Issue> {
        let Self { request, len_max, progress } = self;
        let request = for_http2(request, url)?;
        progress.enter(Stage::Response);
        let first = FirstBytes::default();
        let begun = http2(HEAD_BYTES_MAX.into()).handshake(TokioIo::new(recording(stream, &first)));
        let (mut sender, conn) = begun.await.map_err(|error| broken(&error))?;
        let work = pin!(answer(sender.send_request(request), len_max, progress));
        let answered = match drive_http2(Box::pin(conn), work).await {
            (Err(_), Some(error)) => Err(broken(&error)),
            (answered, _) => answered,
        };
        answered.map_err(|issue| if first.is_http1() { Issue::failure(HTTP1) } else { issue })
    }
}

/// A client of HTTP/1.1 on a new connection.
pub(crate) async fn http1<S: Stream, B: Body<Data = Bytes, Error = Infallible> + 'static>(
    stream: S,
) -> Result<(http1::SendRequest<B>, http1::Connection<TokioIo<S>, B>), Issue> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX.into()).max_headers(FIELDS_MAX);
    builder.handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))
}

/// Drives a connection until `work`, a request on it, is done.
pub(crate) async fn drive<T>(
    conn: &mut (impl Future + Unpin),
    mut work: Pin<&mut impl Future<Output = T>>,
) -> T {
    tokio::select! {
        done = &mut work => done,
        // Responses already read are still delivered; if the connection failed, the request returns
        // the cause.
        _ended = conn => work.await,
    }
}

/// The settings of an HTTP/2 client.
pub(crate) fn http2(header_list_max: u32) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_frame_size(FRAME_MAX)
        .max_header_list_size(header_list_max);
    builder
}

/// Drives an HTTP/2 connection until `work`, a request on it, is done. Also returns the error of
/// the connection if it ended before.
pub(crate) async fn drive_http2<T>(
    mut conn: Pin<Box<impl Future<Output = hyper::Result<()>>>>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> (T, Option<hyper::Error>) {
    let ended = tokio::select! {
        done = &mut work => return (done, None),
        ended = &mut conn => ended,
    };
    // Responses already read are still delivered. If the request was never sent, its future fails
    // only once the connection is dropped.
    drop(conn);
    (work.await, ended.err())
}

/// Converts a configured header field to the types of hyper.
pub(crate) fn field((name, value): &(String, FieldValue)) -> Result<(HeaderName, HeaderValue), String> {
    let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is not a header field"))?;
    let sent = HeaderValue::try_from(value.reveal());
    let mut sent = sent.map_err(|_| format!("the value of {name} is not a valid field value"))?;
    sent.set_sensitive(matches!(value, FieldValue::Secret(_)));
    Ok((name, sent))
}

/// Converts a request for HTTP/2, where the URI contains scheme and authority (RFC 9113 8.3.1).
fn for_http2(mut request: Request<Full<Bytes>>, url: &Url) -> Result<Request<Full<Bytes>>, Issue> {
    let unusable = || Issue::error(format!("{url} cannot be requested over HTTP/2"));
    request.headers_mut().remove(CONNECTION);
    let host = request.headers_mut().remove(HOST).ok_or_else(unusable)?;
    let target = request.uri().path_and_query().cloned().ok_or_else(unusable)?;
    let scheme = if url.is_https { Scheme::HTTPS } else { Scheme::HTTP };
    let uri = Uri::builder().scheme(scheme).authority(host.as_bytes()).path_and_query(target);
    *request.uri_mut() = uri.build().map_err(|_| unusable())?;
    *request.version_mut() = Version::HTTP_2;
    Ok(request)
}

/// Waits for the response and reads its content.
async fn answer(
    response: impl Future<Output = hyper::Result<Response<Incoming>>>,
    len_max: usize,
    progress: &Progress,
) -> Result<ResponseWithLocation, Issue> {
    let response = response.await.map_err(|error| broken(&error))?;
    progress.enter(Stage::Content);
    let location = response.headers().get(LOCATION).cloned();
    progress.see(|seen| note_head(seen, &response));
    let answer = read(response, len_max).await?;
    progress.enter(Stage::End);
    progress.see(|seen| seen.body_len = answer.body.len());
    Ok((answer, location))
}

/// Reads the content. It is cut if it is longer than `len_max`; with 0, nothing is awaited.
async fn read(response: Response<Incoming>, len_max: usize) -> Result<HttpResponse, Issue> {
    let (head, mut content) = response.into_parts();
    let (status, version, headers) = (head.status.as_u16(), head.version, head.headers);
    let mut body = Vec::new();
    let mut is_cut = len_max == 0 && !content.is_end_stream();
    while !is_cut && let Some(frame) = content.frame().await {
        let data = frame.map_err(|error| broken(&error))?.into_data().unwrap_or_default();
        let wanted = data.len().min(len_max - body.len());
        body.extend_from_slice(&data[..wanted]);
        is_cut = wanted < data.len();
    }
    Ok(HttpResponse { status, version, headers, body, is_cut })
}

fn note_head(seen: &mut Seen, response: &Response<Incoming>) {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    seen.status = Some(response.status().as_u16());
    seen.version = Some(response.version());
    seen.content_length = response.body().size_hint().exact();
    let location = response.headers().get(LOCATION);
    seen.location = location.map(|value| percent_encoded(value.as_bytes()));
    seen.last_modified = text(LAST_MODIFIED);
}

/// Whether the text of an error states that an HTTP/2 connection ended within a response. The type
/// of the error is not part of the interface of hyper.
pub(crate) fn is_cut_http2(text: &str) -> bool {
    text.ends_with("because of a broken pipe")
}

/// Describes a connection error by its cause.
pub(crate) fn broken(error: &hyper::Error) -> Issue {
    let cause = std::error::Error::source(error);
    let io = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    let is_cut = io.is_some_and(|io| io.kind() == std::io::ErrorKind::UnexpectedEof);
    if error.is_incomplete_message() || is_cut || cause.is_some_and(|cause| is_cut_http2(&cause.to_string()))
    {
        return Issue::failure(CUT);
    }
    if error.is_parse() {
        return Issue::failure("the response is not HTTP/1");
    }
    if error.is_canceled() {
        return Issue::failure("the server closed the connection or sent data before the request");
    }
    match (io, cause) {
        (Some(io), _) => Issue::failure(cause_of(io)),
        (None, Some(cause)) => Issue::failure(cause.to_string()),
        (None, None) => Issue::failure(error.to_string()),
    }
}
