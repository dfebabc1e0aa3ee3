//! Runs a blocking call of a check on a separate thread. The next call of the same check does not
//! start before the previous one has returned.

use crate::finding::{Issue, Verdict};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum time to wait for an earlier call: a cancelled run, for example after a reload, may leave
/// a call behind that is about to return.
pub(crate) const BACK_WITHIN: Duration = Duration::from_millis(50);

/// Limits a check to one blocked thread: a network file system may hang for hours.
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
            return Err(Issue::timeout("an earlier call has not returned"));
        };
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            call()
        });
        looked.await.unwrap_or_else(|_| Err(Issue::error("the call was interrupted")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn calls_never_overlap() {
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
            assert_eq!(second, Err(Issue::timeout("an earlier call has not returned")));
            go.send(()).unwrap();
            while call.run(|| Ok(())).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
    }
}
