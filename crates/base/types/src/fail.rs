//! A failure that a caller can act on: a small kind, the act, the cause unchanged.

use std::{error::Error, fmt};

/// What the failure asks of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailKind {
    /// Try again, perhaps elsewhere.
    Retry,
    /// Another owner has taken over: give up the object.
    Fenced,
    /// Not enough votes or in-sync copies are reachable.
    NoQuorum,
    /// A device failed.
    Media,
    /// No space on a device that the request needs.
    NoSpace,
    /// The request is refused for a reason that the text tells.
    Refused,
    /// Nothing of that name.
    NotFound,
    /// A broken invariant of ours.
    Bug,
}

/// A kind to act on, the act, the cause.
#[derive(Debug)]
pub struct Fail {
    /// What it asks of the caller.
    pub kind: FailKind,
    /// What was attempted and where, lower case, no full stop: "read superblock of disk 3".
    pub act: String,
    /// Why.
    pub cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Fail {
    /// A failure without a further cause.
    pub fn new(kind: FailKind, act: impl Into<String>) -> Self {
        Self { kind, act: act.into(), cause: None }
    }
    /// A failure caused by `cause`.
    pub fn because(kind: FailKind, act: impl Into<String>, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, act: act.into(), cause: Some(cause.into()) }
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.act)
    }
}

impl Error for Fail {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|c| c as &(dyn Error + 'static))
    }
}
