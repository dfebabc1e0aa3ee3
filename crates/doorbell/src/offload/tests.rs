//! The queue and the inbox without a server.
