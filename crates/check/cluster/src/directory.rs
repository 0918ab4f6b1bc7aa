//! A host's way to the directory, with what can be wrong on it: away, slow, answers lost, watches with gaps.
//!
//! Promises    what it does to a call is a function of what it was told and of how many calls there were before
//! Assumes     while it is slow, somebody calls [`TroubledWay::release`] again and again: it has no clock
//! Not here    the directory itself (`cairn-directory`)

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use cairn_directory::{
    BoxFuture, Directory, DirectoryError, Gate, Health, Key, Listing, Revision, Scope, Stored, Txn, Watch, WatchItem,
};
use futures::{FutureExt as _, StreamExt as _, channel::oneshot};

/// What it answers to changes while it takes none.
const NO_CHANGES: &str = "its quota is used up";

/// One host's way.
pub struct TroubledWay {
    inner: Arc<dyn Directory>,
    slow: AtomicBool,
    answers_lost: AtomicBool,
    /// How many changes are still taken.
    changes_left: AtomicU64,
    /// The next watch begins with a gap.
    gap: AtomicBool,
    calls: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    calls: Vec<oneshot::Sender<()>>,
    commits: u64,
}

/// The way of a host, as its node has it ([`Gate`]: whether it can be reached at all), and as the plan has it.
pub fn way_to(directory: Arc<dyn Directory>) -> (Arc<Gate>, Arc<TroubledWay>) {
    let way = Arc::new(TroubledWay {
        inner: directory,
        slow: AtomicBool::new(false),
        answers_lost: AtomicBool::new(false),
        changes_left: AtomicU64::new(u64::MAX),
        gap: AtomicBool::new(false),
        calls: AtomicU64::new(0),
        waiting: Mutex::default(),
    });
    (Gate::new(way.clone()), way)
}

impl TroubledWay {
    /// Calls wait for the next [`Self::release`], or no more.
    pub fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
        self.release();
    }

    /// Lets the calls that wait go on.
    pub fn release(&self) {
        for call in self.waiting().calls.drain(..) {
            // Whoever gave up waiting needs no answer.
            let _ = call.send(());
        }
    }

    /// Every other transaction is carried out, and its answer lost.
    pub fn set_answers_lost(&self, lost: bool) {
        self.answers_lost.store(lost, Ordering::Relaxed);
    }

    /// After so many more changes it refuses all; [`Self::heal`] ends that.
    pub fn take_changes(&self, most: u64) {
        self.changes_left.store(most, Ordering::Relaxed);
    }

    /// The next watch has missed something.
    pub fn miss_something(&self) {
        self.gap.store(true, Ordering::Relaxed);
    }

    /// All is well again.
    pub fn heal(&self) {
        self.set_slow(false);
        self.set_answers_lost(false);
        self.take_changes(u64::MAX);
        self.gap.store(false, Ordering::Relaxed);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock can panic")
    }

    /// Calls so far; what a watch delivers is none.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    async fn pass(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.slow.load(Ordering::Relaxed) {
            let (sender, receiver) = oneshot::channel();
            self.waiting().calls.push(sender);
            let _ = receiver.await;
        }
    }
}

impl Directory for TroubledWay {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, DirectoryError>> {
        async move {
            self.pass().await;
            self.inner.get(key).await
        }
        .boxed()
    }

    fn list(&self, scope: Scope) -> BoxFuture<'_, Result<Listing, DirectoryError>> {
        async move {
            self.pass().await;
            self.inner.list(scope).await
        }
        .boxed()
    }

    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Revision, DirectoryError>> {
        async move {
            self.pass().await;
            let left = self.changes_left.load(Ordering::Relaxed);
            if left == 0 {
                return Err(DirectoryError::Refused(NO_CHANGES.into()));
            }
            self.changes_left.store(if left == u64::MAX { left } else { left - 1 }, Ordering::Relaxed);
            let done = self.inner.commit(txn).await?;
            let count = {
                let mut waiting = self.waiting();
                waiting.commits += 1;
                waiting.commits
            };
            if self.answers_lost.load(Ordering::Relaxed) && count.is_multiple_of(2) {
                let cause = "the answer was lost on purpose".into();
                return Err(DirectoryError::Unavailable { cause, outcome_unknown: true });
            }
            Ok(done)
        }
        .boxed()
    }

    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, DirectoryError>> {
        async move {
            self.pass().await;
            if self.gap.swap(false, Ordering::Relaxed) {
                return Ok(futures::stream::iter([Ok(WatchItem::Gap)]).boxed());
            }
            self.inner.watch(after).await
        }
        .boxed()
    }

    fn health(&self) -> BoxFuture<'_, Health> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let full = self.changes_left.load(Ordering::Relaxed) == 0;
        async move {
            let health = self.inner.health().await;
            let problem = if full { Some(NO_CHANGES.into()) } else { health.problem.clone() };
            Health { problem, ..health }
        }
        .boxed()
    }
}
