//! Builds the access log from the configuration.
//!
//! Does not know about: the format of lines, their queue (see `doorbell`).

use crate::exit::{Exit, Failure};
use doorbell::access_log::{AccessLog, LogSink, LogTarget};
use doorbell::http::log::{Filter, Level, Logger, Record, Sink};
use doorbell_proxy_config::model::{AccessFile, Config, Log};
use std::num::NonZeroU32;

/// Starts the log; `None` if it is off.
pub(crate) fn start(config: &Config) -> Result<Option<AccessLog>, Failure> {
    let Log { access, access_format, access_file, .. } = &config.log;
    if *access == Level::Off {
        return Ok(None);
    }
    let target = match access_file {
        AccessFile::Path(path) => LogTarget::File(path.clone()),
        AccessFile::Stdout => LogTarget::Stdout,
    };
    let builder = AccessLog::builder(target)
        .format(*access_format)
        .routes(config.routes.iter().map(|route| route.name.clone()).collect())
        .on_trouble(|trouble| {
            let why = std::error::Error::source(trouble).map(ToString::to_string).unwrap_or_default();
            tracing::error!("{trouble}: {why}");
        });
    builder.start().map(Some).map_err(|error| {
        let place = match access_file {
            AccessFile::Path(path) => path.display().to_string(),
            AccessFile::Stdout => "standard output".to_owned(),
        };
        Failure::new(Exit::Failure, format!("cannot open the access log {place}: {error}"))
    })
}

/// The protocol of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpVersion {
    Http1,
    Http2,
}

/// Writer of the access log lines of one service.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    sink: LogSink,
    version: HttpVersion,
}

impl Sink for Lines {
    #[inline]
    fn log(&self, record: &Record) {
        match self.version {
            HttpVersion::Http1 => self.sink.log(record),
            HttpVersion::Http2 => self.sink.log(&record.by_http2()),
        }
    }

    fn later(&self) -> Option<Box<dyn Sink + Send>> {
        Some(Box::new(self.clone()))
    }
}

/// The logger of one service of a listener.
pub(crate) fn logger(config: &Config, log: &AccessLog, version: HttpVersion) -> Logger<Lines> {
    let Log { access, access_sample, .. } = config.log;
    let filter = Filter::new(access);
    // The default of 1 is not passed on: with `errors`, it would log every success too.
    let sample = NonZeroU32::new(access_sample).filter(|n| n.get() > 1);
    Logger::new(sample.map_or(filter, |n| filter.one_in(n)), Lines { sink: log.sink(), version })
}
