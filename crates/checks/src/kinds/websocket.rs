//! A WebSocket connection (RFC 6455): the upgrade, a ping, and optionally messages.
//!
//! tungstenite encodes and decodes the frames. hyper sends the upgrade request, because hyper
//! limits the size of the response and reports the same errors as in an `http` check.

use crate::connect::dialer::Dialer;
use crate::finding::{Issue, Verdict, worse};
use crate::kinds::exchange::{broken as broken_http, drive, field, http1};
use crate::kinds::expectations::{contains, in_time};
use crate::kinds::http::OUR_NAME;
use crate::kinds::impl_kind_runner;
use crate::kinds::interim::InterimCounter;
use crate::kinds::lines::server_text;
use crate::kinds::materials::Materials;
use crate::kinds::session::{Security, Session, broken};
use crate::options::{WebsocketCheck, address_of};
use crate::progress::Progress;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Empty;
use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE, USER_AGENT,
};
use hyper::{Request, Response, StatusCode, Uri};
use std::pin::pin;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Maximum length of a message, and of a frame.
const MESSAGE_LEN_MAX: usize = 64 << 10;

/// Maximum number of messages that are read.
const MESSAGES_MAX: usize = 1024;

/// Size of a read.
const READ_LEN: usize = 4 << 10;

/// Appended to the key by the server (RFC 6455 4.2.2).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const PING: Bytes = Bytes::from_static(b"doorbell");

/// Checks one URL.
#[derive(Debug)]
pub(crate) struct WebsocketRunner {
    check: WebsocketCheck,
    target: Uri,
    /// All fields of the request except the key.
    headers: HeaderMap,
    dialer: Dialer,
    security: Option<Security>,
}

impl_kind_runner!(WebsocketRunner);

impl WebsocketRunner {
    pub(crate) fn build(check: &WebsocketCheck, with: &mut Materials<'_>) -> Result<Self, String> {
        let dialer = with.dialer(&address_of(check.address.as_ref(), &check.url), check.resolve);
        let url = &check.url;
        let unusable = || format!("{} cannot be requested", url.target);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::try_from(url.authority()).map_err(|_| unusable())?);
        headers.insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
        for configured in &check.headers {
            let (name, value) = field(configured)?;
            headers.insert(name, value);
        }
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        let target = url.target.parse().map_err(|_| unusable())?;
        let tls = url.is_https.then_some(&check.tls);
        let security = Security::build(tls, &url.at.host, &["http/1.1"], with)?;
        Ok(Self { check: check.clone(), target, headers, dialer, security })
    }

    async fn run(&self, progress: &Progress, start: Instant) -> Verdict {
        let conn = self.dialer.connect(progress).await?;
        let session = Session::begin(conn, self.security.as_ref(), progress).await?;
        let mut socket = self.upgrade(session, progress).await?;
        self.exchange(&mut socket).await?;
        let latency = start.elapsed();
        let goodbye = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _gone = socket.close(Some(goodbye)).await;
        progress.leave(socket.into_inner());
        let certificate = Security::evaluate(self.security.as_ref(), progress, &self.check.certificate);
        worse(certificate, in_time(latency, self.check.latency))
    }

    async fn upgrade(
        &self,
        session: Session,
        progress: &Progress,
    ) -> Result<WebSocketStream<Session>, Issue> {
        let mut random = [0; 16];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| Issue::error("no random numbers"))?;
        let key = BASE64_STANDARD.encode(random);
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        let value = HeaderValue::try_from(&key).map_err(|_| Issue::error("the key cannot be sent"))?;
        request.headers_mut().insert(SEC_WEBSOCKET_KEY, value);
        let interim = InterimCounter::of(&mut request);
        let (mut sender, mut conn) = http1(interim.limit(session)).await?;
        let response = drive(&mut conn, pin!(sender.send_request(request))).await;
        interim.check()?;
        let response = response.map_err(|error| broken_http(&error))?;
        progress.see(|seen| seen.status = Some(response.status().as_u16()));
        accepts(&response, &key)?;
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = READ_LEN;
        config.max_message_size = Some(MESSAGE_LEN_MAX);
        config.max_frame_size = Some(MESSAGE_LEN_MAX);
        let parts = conn.into_parts();
        let (session, read) = (parts.io.into_inner().into_inner(), parts.read_buf.into());
        Ok(WebSocketStream::from_partially_read(session, read, Role::Client, Some(config)).await)
    }

    /// Sends the ping and the text, and reads until every requirement is met.
    async fn exchange(&self, socket: &mut WebSocketStream<Session>) -> Verdict {
        if let Some(text) = &self.check.send {
            socket.send(Message::text(text)).await.map_err(failed)?;
        }
        if self.check.ping {
            socket.send(Message::Ping(PING)).await.map_err(failed)?;
        }
        let (mut lacks_pong, mut lacked_text) = (self.check.ping, self.check.contains.as_deref());
        for _message in 0..MESSAGES_MAX {
            if !lacks_pong && lacked_text.is_none() {
                return Ok(());
            }
            match socket.next().await {
                Some(Ok(Message::Pong(payload))) => lacks_pong &= payload != PING,
                Some(Ok(Message::Close(frame))) => return Err(closed(frame.as_ref())),
                Some(Ok(message)) if message.is_text() || message.is_binary() => {
                    lacked_text =
                        lacked_text.filter(|text| !contains(&message.clone().into_data(), text.as_bytes()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(failed(error)),
                None => return Err(closed(None)),
            }
        }
        let lacking = lacked_text.map_or_else(|| "a pong".to_owned(), |text| format!("{text:?}"));
        Err(Issue::failure(format!("{MESSAGES_MAX} messages received without {lacking}")))
    }
}

/// Checks that a response accepts the upgrade (RFC 6455 4.1).
fn accepts<B>(response: &Response<B>, key: &str) -> Verdict {
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Issue::failure(format!("status {}, expected 101", status.as_u16())));
    }
    let has = |name: HeaderName, word: &str| {
        let values = response.headers().get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
    };
    if !has(UPGRADE, "websocket") || !has(CONNECTION, "upgrade") {
        return Err(Issue::failure("the server switches to a protocol other than WebSocket"));
    }
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    let expected = BASE64_STANDARD.encode(hash);
    let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    match accept.is_some_and(|accept| accept.as_bytes() == expected.as_bytes()) {
        true => Ok(()),
        false => Err(Issue::failure("Sec-WebSocket-Accept is missing or wrong")),
    }
}

fn failed(error: Error) -> Issue {
    match error {
        Error::Io(error) => broken(error),
        error => Issue::failure(format!("WebSocket: {error}")),
    }
}

fn closed(frame: Option<&CloseFrame>) -> Issue {
    let code = frame.map(|frame| format!(": {} {}", u16::from(frame.code), server_text(&frame.reason, None)));
    let code = code.unwrap_or_default();
    Issue::failure(format!("the server closed the connection{}", code.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 1.3.
    #[test]
    fn only_the_right_answer_is_accepted() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let good = [("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade")];
        let accept = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let verdict = |status: u16, fields: &[(&str, &str)]| {
            let response =
                fields.iter().fold(Response::builder().status(status), |response, (name, value)| {
                    response.header(*name, *value)
                });
            accepts(&response.body(()).unwrap(), key).map_err(|issue| issue.reason)
        };
        let reason = |text: &str| Err(text.to_owned());
        assert_eq!(verdict(101, &[good[0], good[1], accept]), Ok(()));
        assert_eq!(verdict(200, &[good[0], good[1], accept]), reason("status 200, expected 101"));
        let other = reason("the server switches to a protocol other than WebSocket");
        assert_eq!(verdict(101, &[("upgrade", "h2c"), good[1], accept]), other);
        let wrong = reason("Sec-WebSocket-Accept is missing or wrong");
        assert_eq!(verdict(101, &good), wrong);
        assert_eq!(verdict(101, &[good[0], good[1], ("sec-websocket-accept", "x")]), wrong);
    }
}
