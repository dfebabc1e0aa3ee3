//! One connection to the control socket: exchanges greetings, then sends a response to each
//! request, or a stream of events.

use crate::log::Throttle;
use crate::operator::{Followed, Operator};
use doorbell_control::frame::{
    FrameError, HELLO_LEN, PREFIX_LEN, REQUEST_LEN_MAX, RESPONSE_LEN_MAX, check_hello, decode, frame,
    frame_len, hello,
};
use doorbell_control::{Refusal, RefusalKind, Request, Response};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum time from accept to greeting, and from the length prefix of a request to its end.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time between two requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time to write a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reply to clients without a valid greeting, such as HTTP clients.
const NOT_HTTP: &[u8] = b"This is the control socket of doorbell. Use `doorbell status`.\n";

static REFUSED: Throttle = Throttle::new();

/// Serves until the client disconnects, sends an invalid request or is idle for too long.
pub(super) async fn serve(mut stream: UnixStream, operator: Operator) {
    if !greet(&mut stream).await {
        return;
    }
    let replies = operator.reply_permits();
    while let Some(request) = read(&mut stream).await {
        if let Ok(Request::Events { since, follow: true }) = request {
            return follow(&mut stream, &operator, since).await;
        }
        let _replying = replies.begin().await;
        let response = match request {
            Ok(request) => reply_to(&operator, request).await,
            Err(error) => {
                // The stream is out of sync after an invalid frame.
                return send_refusal(&mut stream, Refusal::new(RefusalKind::Failed, error.to_string())).await;
            }
        };
        if !write(&mut stream, &response).await {
            return;
        }
    }
}

/// Exchanges greetings, and refuses the first request.
pub(super) async fn refuse(mut stream: UnixStream, refusal: Refusal) {
    if greet(&mut stream).await && read(&mut stream).await.is_some() {
        send_refusal(&mut stream, refusal).await;
    }
}

async fn send_refusal(stream: &mut UnixStream, refusal: Refusal) {
    // A failed write cannot be reported.
    let _gone = write(stream, &Response::Refused(refusal)).await;
}

/// Exchanges greetings. A client of another version also gets a greeting, so that it can report the
/// mismatch.
async fn greet(stream: &mut UnixStream) -> bool {
    let mut theirs = [0; HELLO_LEN];
    if !matches!(timeout(READ_TIMEOUT, stream.read_exact(&mut theirs)).await, Ok(Ok(_))) {
        return false;
    }
    let checked = check_hello(theirs);
    if let Err(error) = checked
        && let Some(suppressed) = REFUSED.turn()
    {
        tracing::warn!(suppressed, "control connection refused: {error}");
    }
    let ours = match checked {
        Err(FrameError::NotDoorbell) => NOT_HTTP,
        _ => &hello(),
    };
    let written = matches!(timeout(WRITE_TIMEOUT, stream.write_all(ours)).await, Ok(Ok(())));
    written && checked.is_ok()
}

/// Reads the next request; `None` if the client disconnected or was idle or slow for too long.
async fn read(stream: &mut UnixStream) -> Option<Result<Request, FrameError>> {
    let mut prefix = [0; PREFIX_LEN];
    timeout(IDLE_TIMEOUT, stream.read_exact(&mut prefix)).await.ok()?.ok()?;
    let len = match frame_len(prefix, REQUEST_LEN_MAX) {
        Ok(len) => len,
        Err(error) => return Some(Err(error)),
    };
    let mut bytes = vec![0; len];
    timeout(READ_TIMEOUT, stream.read_exact(&mut bytes)).await.ok()?.ok()?;
    Some(decode(&bytes))
}

async fn write(stream: &mut UnixStream, response: &Response) -> bool {
    let frame = frame(response, RESPONSE_LEN_MAX).or_else(|error| {
        let text = format!("response too large: {error}; request less, such as a single check");
        frame(&Response::Refused(Refusal::new(RefusalKind::Failed, text)), RESPONSE_LEN_MAX)
    });
    let Ok(frame) = frame else { return false };
    matches!(timeout(WRITE_TIMEOUT, stream.write_all(&frame)).await, Ok(Ok(())))
}

/// Handles a request on a blocking thread, because a command may wait for the disk.
async fn reply_to(operator: &Operator, request: Request) -> Response {
    let operator = operator.clone();
    let handled = spawn_blocking(move || operator.handle(request)).await.unwrap_or_else(|_panicked| {
        Err(Refusal::new(RefusalKind::Failed, "the command panicked; this is a bug in doorbell"))
    });
    handled.unwrap_or_else(Response::Refused)
}

/// Sends events until one side disconnects.
async fn follow(stream: &mut UnixStream, operator: &Operator, since: u64) {
    let mut follower = operator.follow(since);
    loop {
        let mut byte = [0];
        let followed = tokio::select! {
            followed = follower.next() => followed,
            // The client sends no further requests: the read ends when it disconnects.
            _left = stream.read(&mut byte) => return,
        };
        let response = match followed {
            Some(Followed::Event(event)) => Response::Events { events: vec![(*event).clone()], missed: 0 },
            Some(Followed::Missed(missed)) => Response::Events { events: Vec::new(), missed },
            None => break,
        };
        if !write(stream, &response).await {
            return;
        }
    }
    // All events are sent. The connection stays open, because `quit --wait` takes the end of the
    // connection as the exit of the process.
    drop(follower);
    let _left = stream.read(&mut [0]).await;
}
