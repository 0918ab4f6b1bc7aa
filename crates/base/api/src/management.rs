//! Who can carry out management calls: one trait for any thread, one for the thread of a shard.
//!
//! Promises    both have the same calls, made from one list; a body is checked by itself before anybody is asked
//! Not here    the bridge from one to the other (the daemon has the channel)

use std::{future::Future, pin::Pin};

use crate::ApiResult;

/// A future that may be awaited on any thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The body of a management call.
pub trait Request {
    /// What can be said against it without the cluster.
    ///
    /// # Errors
    /// [`crate::ApiErrorKind::Invalid`] naming the value and the rule, [`crate::ApiErrorKind::Refused`] for rules that are
    /// understood and not possible.
    fn validate(&self) -> ApiResult<()> {
        Ok(())
    }
}

macro_rules! traits {
    ($($(#[$doc:meta])* $method:ident $path:literal $status:literal $who:ident $section:literal
        fn $name:ident[$($place:ident: $place_type:ty)?]($($body:ident: $body_type:ty)?) -> $answer:ty;)*) => {
        /// Management calls for callers on any thread: what the HTTP server is written against.
        pub trait Management: Send + Sync + 'static {
            $($(#[$doc])*
            fn $name(&self $(, $place: $place_type)? $(, $body: $body_type)?) -> BoxFuture<'_, ApiResult<$answer>>;)*
        }

        /// The same calls on the thread of a shard: what `node` provides.
        #[allow(async_fn_in_trait, reason = "shard futures are never Send, by design")]
        pub trait LocalManagement: 'static {
            $($(#[$doc])*
            async fn $name(&self $(, $place: $place_type)? $(, $body: $body_type)?) -> ApiResult<$answer>;)*
        }
    };
}

crate::management_calls!(traits);
