//! `[grpc]` as it was written.
//!
//! Does not know about: listeners and health endpoints, of which `[grpc]` has only names.

use super::super::model::AlbAnswer;
use doorbell_config::{At, Section};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Grpc {
    pub(crate) span: Range<usize>,
    pub(crate) enabled: Option<At<bool>>,
    pub(crate) overall: Option<At<String>>,
    pub(crate) services: Vec<(At<String>, At<String>)>,
    pub(crate) max_watches: Option<At<u32>>,
    pub(crate) watches_per_connection: Option<At<u32>>,
    pub(crate) alb: Option<At<AlbAnswer>>,
}

pub(crate) const ALB: [(&str, AlbAnswer); 2] =
    [("always", AlbAnswer::Always), ("verdict", AlbAnswer::Verdict)];

impl Grpc {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let grpc = Self {
            span: at.span.clone(),
            enabled: at.bool("enabled"),
            overall: at.string("overall"),
            services: at.section("services").map(|services| services.all_strings()).unwrap_or_default(),
            max_watches: at.limit("max_watches", 1_000_000),
            watches_per_connection: at.limit("watches_per_connection", 1000),
            alb: at.choice("alb", &ALB),
        };
        at.finish();
        grpc
    }
}
