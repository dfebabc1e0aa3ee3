//! A look at something that may take its time, on a thread of its own, and never a second one before the first is back.
//!
//! Does not know about: what is looked at.

use crate::finding::{Issue, Verdict};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A run that was broken off, as by a new configuration, may leave a look behind that is about to be back.
pub(crate) const BACK_WITHIN: Duration = Duration::from_millis(50);

/// Threads that look at files and start programs.
pub(crate) const BLOCKING_MAX: usize = 16;

/// A network file system may hang for hours: then one thread hangs, and not one more with every run.
#[derive(Debug)]
pub(crate) struct BlockingCall(Arc<Semaphore>);

impl Default for BlockingCall {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl BlockingCall {
    pub(crate) async fn run(&self, call: impl FnOnce() -> Verdict + Send + 'static) -> Verdict {
        let Ok(Ok(turn)) = timeout(BACK_WITHIN, Arc::clone(&self.0).acquire_owned()).await else {
            return Err(Issue::timeout("an earlier look has not come back"));
        };
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            call()
        });
        looked.await.unwrap_or_else(|_| Err(Issue::error("the look was cut short")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn nobody_looks_twice_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let call = BlockingCall::default();
            let (go, wait) = sync_channel::<()>(1);
            let hung = call.run(move || {
                wait.recv().unwrap();
                Ok(())
            });
            assert!(timeout(Duration::from_millis(20), hung).await.is_err());
            let second = call.run(|| Ok(())).await;
            assert_eq!(second, Err(Issue::timeout("an earlier look has not come back")));
            go.send(()).unwrap();
            while call.run(|| Ok(())).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
    }
}
