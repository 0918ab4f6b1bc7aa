//! A directory with a switch: how a one-process cluster, the demo and tests take the directory away.
//!
//! Promises    while shut, calls answer `Unavailable` at once and watches end with it; nothing reaches the directory below

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use futures::{FutureExt as _, StreamExt as _, channel::mpsc};

use crate::{BoxFuture, Directory, DirectoryError, Health, Key, Listing, Revision, Scope, Stored, Txn, Watch};

/// One reader's way to a directory; each host may have its own.
pub struct Gate {
    inner: Arc<dyn Directory>,
    shut: AtomicBool,
    /// Dropped to end the watches that are under way.
    watches: Mutex<Vec<mpsc::Sender<()>>>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate(shut: {})", self.is_shut())
    }
}

impl Gate {
    /// An open way to `inner`.
    pub fn new(inner: Arc<dyn Directory>) -> Arc<Self> {
        Arc::new(Self { inner, shut: AtomicBool::new(false), watches: Mutex::default() })
    }
    /// Shuts or opens the way.
    pub fn set_shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::SeqCst);
        if shut {
            self.watches().clear();
        }
    }
    /// Whether the way is shut.
    pub fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst)
    }
    fn watches(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::Sender<()>>> {
        self.watches.lock().expect("no holder of this lock can panic")
    }
    fn pass(&self) -> Result<(), DirectoryError> {
        if self.is_shut() {
            return Err(away());
        }
        Ok(())
    }
}

fn away() -> DirectoryError {
    DirectoryError::away("the way to it was cut on purpose")
}

impl Directory for Gate {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, DirectoryError>> {
        async move {
            self.pass()?;
            self.inner.get(key).await
        }
        .boxed()
    }
    fn list(&self, scope: Scope) -> BoxFuture<'_, Result<Listing, DirectoryError>> {
        async move {
            self.pass()?;
            self.inner.list(scope).await
        }
        .boxed()
    }
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Revision, DirectoryError>> {
        async move {
            self.pass()?;
            self.inner.commit(txn).await
        }
        .boxed()
    }
    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, DirectoryError>> {
        async move {
            self.pass()?;
            let watch = self.inner.watch(after).await?;
            let (open, shut) = mpsc::channel::<()>(0);
            {
                let mut watches = self.watches();
                watches.retain(|w| !w.is_closed());
                watches.push(open);
            }
            // Shut between `pass` and the push: the push came too late to be cleared.
            if self.is_shut() {
                self.watches().clear();
            }
            Ok(until_shut(watch, shut))
        }
        .boxed()
    }
    fn health(&self) -> BoxFuture<'_, Health> {
        async move {
            let mut health = self.inner.health().await;
            if let Err(error) = self.pass() {
                health.problem = Some(error.to_string());
            }
            health
        }
        .boxed()
    }
}

/// `watch` until the sender of `shut` is dropped, then one error.
fn until_shut(watch: Watch, mut shut: mpsc::Receiver<()>) -> Watch {
    let mut watch = Some(watch);
    futures::stream::poll_fn(move |cx| {
        use std::task::Poll;
        let Some(inner) = &mut watch else {
            return Poll::Ready(None);
        };
        if shut.poll_next_unpin(cx).is_ready() {
            watch = None;
            return Poll::Ready(Some(Err(away())));
        }
        inner.poll_next_unpin(cx)
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedded, Followed, Follower};
    use cairn_types::ClusterId;
    use futures::executor::block_on;

    #[test]
    fn a_shut_gate_ends_calls_and_watches_at_once() {
        let gate = Gate::new(Embedded::in_memory(ClusterId(1)));
        let mut follower = Follower::new(gate.clone());
        block_on(async {
            assert!(matches!(follower.next().await, Followed::Snapshot(_)));
            assert!(follower.next().now_or_never().is_none());
            gate.set_shut(true);
            assert!(matches!(follower.next().await, Followed::Away(_)));
            assert!(matches!(follower.next().await, Followed::Away(_)));
            assert!(gate.list(Scope::All).await.unwrap_err().is_unavailable());
            assert!(gate.health().await.problem.is_some());
            gate.set_shut(false);
            assert!(gate.list(Scope::All).await.is_ok());
            assert!(follower.next().now_or_never().is_none(), "watching again");
        });
    }
}
