//! From any thread to the shard: management calls travel as closures over a bounded channel.
//!
//! Promises    at most [`CALLS_MAX`] calls are on the shard at once, further callers wait; a shard that is gone answers
//!             "unavailable", never silence
//! Assumes     the far end runs [`BridgeEnd::serve`] on the shard's thread
//! Not here    what the calls do

use std::{future::Future, rc::Rc};

use cairn_api::{ApiError, ApiResult, BoxFuture, LocalManagement, Management};
use futures::{
    StreamExt as _,
    future::LocalBoxFuture,
    stream::{self, FuturesUnordered},
};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Management calls on a shard at once.
///
/// Each may wait for other hosts; more than this many at a time are a script gone wild, and must not crowd out guest I/O.
pub const CALLS_MAX: usize = 64;

type Job<T> = Box<dyn FnOnce(Rc<T>) -> LocalBoxFuture<'static, ()> + Send>;

/// The callers' end. Cheap to share behind an `Arc`.
pub struct Bridge<T> {
    jobs: mpsc::Sender<Job<T>>,
    permits: Semaphore,
}

/// The shard's end.
pub struct BridgeEnd<T> {
    jobs: mpsc::Receiver<Job<T>>,
}

/// A bridge and its far end. Send the end to the shard's thread and serve it there.
pub fn bridge<T: 'static>() -> (Bridge<T>, BridgeEnd<T>) {
    let (sender, receiver) = mpsc::channel(CALLS_MAX);
    let bridge = Bridge { jobs: sender, permits: Semaphore::new(CALLS_MAX) };
    (bridge, BridgeEnd { jobs: receiver })
}

impl<T: 'static> Bridge<T> {
    /// Runs `work` with the target on the shard and brings back what it answers.
    ///
    /// A caller that goes away does not stop the work: a half-done management act is worse than one nobody waits for.
    ///
    /// # Errors
    /// [`cairn_api::ApiErrorKind::Unavailable`] when the shard is gone.
    pub async fn call<A, W, F>(&self, work: W) -> ApiResult<A>
    where
        A: Send + 'static,
        W: FnOnce(Rc<T>) -> F + Send + 'static,
        F: Future<Output = ApiResult<A>> + 'static,
    {
        let _permit = self.permits.acquire().await.map_err(|_| stopping())?;
        let (answer, answered) = oneshot::channel();
        let job: Job<T> = Box::new(move |target| {
            let work = work(target);
            Box::pin(async move {
                // The caller may be gone; the work is done all the same.
                let _ = answer.send(work.await);
            })
        });
        self.jobs.send(job).await.map_err(|_| stopping())?;
        answered.await.map_err(|_| stopping())?
    }

    /// Whether the shard takes and ends a call: the pulse behind the watchdog.
    pub async fn pulse(&self) -> bool {
        self.call(|_| async { Ok(()) }).await.is_ok()
    }
}

impl<T: 'static> BridgeEnd<T> {
    /// Carries out calls on `target` until the last [`Bridge`] is dropped and every call has ended.
    pub async fn serve(self, target: Rc<T>) {
        let mut running = FuturesUnordered::new();
        let jobs = stream::unfold(self.jobs, |mut jobs| async { jobs.recv().await.map(|job| (job, jobs)) });
        let mut jobs = Box::pin(jobs.fuse());
        loop {
            futures::select_biased! {
                job = jobs.select_next_some() => running.push(job(target.clone())),
                () = running.select_next_some() => {}
                complete => return,
            }
        }
    }
}

fn stopping() -> ApiError {
    ApiError::unavailable("the host is stopping or its engine has ended")
        .remedy("Ask another host, or look at the daemon's log")
}

macro_rules! cross {
    ($($(#[$doc:meta])* $method:ident $path:literal $status:literal $who:ident $section:literal
        fn $name:ident[$($place:ident: $place_type:ty)?]($($body:ident: $body_type:ty)?) -> $answer:ty;)*) => {
        impl<T: LocalManagement> Management for Bridge<T> {
            $(fn $name(&self $(, $place: $place_type)? $(, $body: $body_type)?) -> BoxFuture<'_, ApiResult<$answer>> {
                Box::pin(self.call(move |target| async move { target.$name($($place,)? $($body)?).await }))
            })*
        }
    };
}

cairn_api::management_calls!(cross);
