//! What administrators ask, carried out: each call of the management API on this host.
//!
//! Promises    bad input changes nothing; a change that fails half way is taken back or finished later
//! Not here    HTTP and tables (the daemon, the command line)

mod caches;
mod capacity;
mod clones;
mod cluster;
mod counters;
mod create;
mod disk_change;
mod disks;
mod health;
mod hosts;
mod latency;
mod maintenance;
mod members;
mod membership;
mod policies;
mod records;
mod remote;
mod rename;
mod reserve;
mod schedules;
mod scrub;
mod sessions;
mod snapshots;
mod upgrade;
mod usage;
mod what_if;

use cairn_api::{Access, ApiError, ApiResult};
use cairn_directory::DirectoryError;
use cairn_env::Env;

use crate::node::Node;

/// A directory's failure for a person.
pub(crate) fn directory_error(error: DirectoryError) -> ApiError {
    match error {
        DirectoryError::Unavailable { .. } => ApiError::unavailable(error.to_string())
            .remedy("Disks go on without it; start its members again to change anything"),
        DirectoryError::Conflict { .. } => ApiError::conflict(error.to_string()).remedy("Try again"),
        DirectoryError::Refused(text) => ApiError::refused(text),
        DirectoryError::Damaged { .. } => ApiError::internal(error.to_string()),
    }
}

/// Names that a refusal tells, at most.
const NAMED_MAX: usize = 3;

/// Some of them, and how many more there are.
pub(crate) fn some_of(all: &[String]) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let named = all[..all.len() - more].join("; ");
    if more == 0 { named } else { format!("{named}; and {more} more") }
}

macro_rules! carry_out {
    ($($(#[$doc:meta])* $method:ident $path:literal $status:literal $who:ident $section:literal
        fn $name:ident[$($place:ident: $place_type:ty)?]($($body:ident: $body_type:ty)?) -> $answer:ty;)*) => {
        // Each is the function of the same name of `Node`, in the file of its noun. The trait is not in scope here: a call
        // without such a function does not compile.
        impl<E: Env> cairn_api::LocalManagement for Node<E> {
            $(async fn $name(&self $(, $place: $place_type)? $(, $body: $body_type)?) -> ApiResult<$answer> {
                if stringify!($who) != Access::Viewer.name() {
                    self.refuse_if_dismissed()?;
                }
                self.$name($($place,)? $($body)?).await
            })*
        }
    };
}

cairn_api::management_calls!(carry_out);
