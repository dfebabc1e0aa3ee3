//! `[log]` as it was written.
//!
//! Does not know about: defaults.

use super::super::model::{Access, AccessFormat, LogFormat, LogLevel};
use doorbell_config::{At, Section};
use std::path::PathBuf;

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) format: Option<At<LogFormat>>,
    pub(crate) level: Option<At<LogLevel>>,
    pub(crate) access: Option<At<Access>>,
    pub(crate) access_format: Option<At<AccessFormat>>,
    pub(crate) access_file: Option<At<PathBuf>>,
    pub(crate) access_sample: Option<At<u32>>,
}

pub(crate) const ACCESS: [(&str, Access); 3] =
    [("all", Access::All), ("errors", Access::Errors), ("off", Access::Off)];

pub(crate) const ACCESS_FORMATS: [(&str, AccessFormat); 2] =
    [("json", AccessFormat::Json), ("text", AccessFormat::Text)];

impl Log {
    pub(super) fn read(mut at: Section<'_>) -> Self {
        let log = Self {
            format: at.choice(
                "format",
                &[("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)],
            ),
            level: at.choice(
                "level",
                &[
                    ("error", LogLevel::Error),
                    ("warn", LogLevel::Warn),
                    ("info", LogLevel::Info),
                    ("debug", LogLevel::Debug),
                    ("trace", LogLevel::Trace),
                ],
            ),
            access: at.choice("access", &ACCESS),
            access_format: at.choice("access_format", &ACCESS_FORMATS),
            access_file: at.path("access_file"),
            access_sample: at.integer("access_sample", 1..=1_000_000),
        };
        at.finish();
        log
    }
}
