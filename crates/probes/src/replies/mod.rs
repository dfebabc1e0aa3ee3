//! Replies of health routes: rendered when a state changes, read by request threads without a lock.

mod cache;
mod fields;
mod published;
mod warning;

pub(crate) use cache::{CachedReply, ReplyTemplate, ThreadReplies};
pub use cache::{ReplyCache, ReplyOptions};
pub use fields::StateFields;
pub use published::{Published, ReplySet};
pub(crate) use warning::part;
