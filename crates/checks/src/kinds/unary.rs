//! A call of any unary gRPC method, with messages as bytes.

use crate::finding::{Issue, Verdict};
use crate::kinds::channel::Channel;
use crate::kinds::grpc::{MESSAGE_LEN_MAX, refused_by};
use crate::options::GrpcCheck;
use bytes::{Buf as _, BufMut as _, Bytes};
use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

/// Maximum number of bytes of a message in a reason.
const SHOWN_MAX: usize = 32;

/// A method, its message, and the expected response.
#[derive(Debug)]
pub(crate) struct Unary {
    path: PathAndQuery,
    message: Bytes,
    status: Code,
    /// Accepted messages; empty for any.
    replies: Vec<Vec<u8>>,
}

impl Unary {
    /// `None` if the check calls `grpc.health.v1`.
    pub(crate) fn build(check: &GrpcCheck) -> Result<Option<Self>, String> {
        let Some(method) = &check.method else { return Ok(None) };
        let path = method.parse().map_err(|_| format!("{method:?} is not a gRPC method"))?;
        let message = Bytes::copy_from_slice(&check.request);
        let status = Code::from(check.status as i32);
        Ok(Some(Self { path, message, status, replies: check.reply.clone() }))
    }

    /// The message to send.
    pub(crate) fn message(&self) -> Bytes {
        self.message.clone()
    }

    /// Makes the call and returns the message of the response.
    pub(crate) async fn call(
        &self,
        channel: Channel,
        origin: Uri,
        request: Request<Bytes>,
    ) -> Result<Bytes, Status> {
        let mut client = Grpc::with_origin(channel, origin).max_decoding_message_size(MESSAGE_LEN_MAX);
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(client.unary(request, self.path.clone(), Raw).await?.into_inner())
    }

    /// Evaluates the response.
    pub(crate) fn evaluate(&self, response: Result<Bytes, Status>) -> Verdict {
        let wanted = self.status;
        let reply = match response {
            Err(status) if status.code() == wanted => return Ok(()),
            Err(status) if status.code() == Code::Unimplemented => {
                return Err(Issue::failure(format!("the server has no method {}", self.path)));
            }
            Err(status) => return Err(Issue::failure(refused_by(&status))),
            Ok(_) if wanted != Code::Ok => {
                return Err(Issue::failure(format!("status OK, not {wanted:?}")));
            }
            Ok(reply) => reply,
        };
        match self.replies.as_slice() {
            [] => Ok(()),
            accepted if accepted.iter().any(|one| *one == reply) => Ok(()),
            _ => Err(Issue::failure(format!("unexpected message {}", shown(&reply)))),
        }
    }
}

/// A message in hexadecimal digits, shortened.
fn shown(message: &[u8]) -> String {
    let digits: String = message.iter().take(SHOWN_MAX).map(|byte| format!("{byte:02x}")).collect();
    let rest = if message.len() > SHOWN_MAX { ".." } else { "" };
    format!("\"{digits}{rest}\" ({} bytes)", message.len())
}

/// Passes messages without encoding.
#[derive(Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
