//! The thread of SIGHUP: a reload that hangs in a file system must not delay a stop.

use crate::operator::Operator;
use crate::reload::Generations;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// The thread, which ends after this value is dropped.
#[derive(Debug)]
pub(super) struct Hangups(SyncSender<()>);

impl Hangups {
    pub(super) fn start(operator: &Operator, generations: &Arc<Generations>) -> io::Result<Self> {
        let (sender, requests) = sync_channel(1);
        let (operator, generations) = (operator.clone(), Arc::clone(generations));
        let handle = move || requests.iter().for_each(|()| handle(&operator, &generations));
        std::thread::Builder::new().name("hangups".into()).spawn(handle)?;
        Ok(Self(sender))
    }

    /// Requests a reload. During a reload one more request waits, which reads the newest files.
    pub(super) fn request(&self) {
        let _one_waits = self.0.try_send(());
    }
}

fn handle(operator: &Operator, generations: &Generations) {
    if generations.reloads_on_sighup() {
        // The reload logs its result, whether it succeeded or failed.
        let _logged = operator.reload();
        return;
    }
    tracing::info!("SIGHUP: checking certificates, keys and stored files; the configuration is not reloaded");
    generations.scan_files();
}
