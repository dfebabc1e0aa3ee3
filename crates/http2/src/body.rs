//! Reply bodies: bytes in memory, or a message stream of gRPC.

use super::grpc::Call;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Status;

/// Maximum size of a piece of a body, which limits the memory of a stream whose client does not
/// read.
const PIECE_LEN_MAX: usize = 16 << 10;

/// Body of a reply.
#[derive(Debug)]
pub(super) enum ReplyBody {
    /// A message stream, and its admitted call, which ends together with the stream.
    Grpc(tonic::body::Body, Option<Call>),
    /// Two parts, sent in order.
    Full([Bytes; 2]),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match &mut *self {
            Self::Grpc(body, call) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                if let (Some(Ok(frame)), Some(call)) = (&frame, call) {
                    call.add_content(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(frame)
            }
            Self::Full(parts) => Poll::Ready(parts.iter_mut().find(|part| !part.is_empty()).map(|part| {
                let len = part.len().min(PIECE_LEN_MAX);
                Ok(Frame::data(part.split_to(len)))
            })),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Grpc(body, _) => body.is_end_stream(),
            Self::Full(parts) => parts.iter().all(Bytes::is_empty),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Grpc(body, _) => body.size_hint(),
            Self::Full(parts) => SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum()),
        }
    }
}
