//! The contract of every directory: ordered keys with revisions, guarded transactions, watch.
//!
//! Promises    D1  a transaction takes effect as a whole or not at all; two transactions never interleave
//!             D2  reads are linearizable: they show every transaction that was acknowledged before they began
//!             D3  a watch shows each transaction after its revision once, whole, in order; where it cannot, it says Gap
//!             D4  every call ends in bounded time, with `Unavailable` where the directory is away
//!             All four are checked by `conformance::directory_suite` on every implementation.
//! Not here    what the values mean (`entries`)

use std::fmt;

pub use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::key::{Key, Scope};

/// Bytes of one value, at most. A catalogue entry has some 300, an intent of 250 chunks some 60 KiB.
pub const VALUE_BYTES_MAX: usize = 256 << 10;
/// Operations in one transaction, at most; etcd's own limit is 128.
pub const TXN_OPS_MAX: usize = 64;
/// Bytes of all values in one transaction, at most; etcd's own limit for a request is 1.5 MiB.
pub const TXN_BYTES_MAX: usize = 1 << 20;

/// Counts the transactions of a directory; an entry's revision is that of the transaction that wrote it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// A value and when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The transaction that wrote it.
    pub revision: Revision,
    /// JSON.
    pub value: Vec<u8>,
}

/// Entries as of one revision, in the order of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The directory's revision at that moment; a watch after it misses nothing.
    pub revision: Revision,
    /// The entries.
    pub entries: Vec<(Key, Stored)>,
}

/// One part of a transaction. There is no blind write: each part says what it expects to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Enters a key that must not be there.
    Create {
        /// Where.
        key: Key,
        /// JSON.
        value: Vec<u8>,
    },
    /// Replaces what must still be of revision `expected`.
    Replace {
        /// Where.
        key: Key,
        /// What the caller read.
        expected: Revision,
        /// JSON.
        value: Vec<u8>,
    },
    /// Removes what must still be of revision `expected`.
    Delete {
        /// Where.
        key: Key,
        /// What the caller read.
        expected: Revision,
    },
    /// Changes nothing; the key must be as expected (`None`: absent).
    Check {
        /// Where.
        key: Key,
        /// What the caller read.
        expected: Option<Revision>,
    },
}

impl Op {
    /// The key that it is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Create { key, .. }
            | Self::Replace { key, .. }
            | Self::Delete { key, .. }
            | Self::Check { key, .. } => key,
        }
    }
    /// The revision that it expects there (`None`: absent).
    pub fn expected(&self) -> Option<Revision> {
        match self {
            Self::Create { .. } => None,
            Self::Replace { expected, .. } | Self::Delete { expected, .. } => Some(*expected),
            Self::Check { expected, .. } => *expected,
        }
    }
    /// The value that it leaves, if it writes one.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Create { value, .. } | Self::Replace { value, .. } => Some(value),
            Self::Delete { .. } | Self::Check { .. } => None,
        }
    }
}

/// Some operations that take effect together, or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Txn {
    /// The parts, each about another key.
    pub ops: Vec<Op>,
}

impl Txn {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds [`Op::Create`].
    pub fn create(mut self, key: Key, value: Vec<u8>) -> Self {
        self.ops.push(Op::Create { key, value });
        self
    }
    /// Adds [`Op::Replace`].
    pub fn replace(mut self, key: Key, expected: Revision, value: Vec<u8>) -> Self {
        self.ops.push(Op::Replace { key, expected, value });
        self
    }
    /// Adds [`Op::Delete`].
    pub fn delete(mut self, key: Key, expected: Revision) -> Self {
        self.ops.push(Op::Delete { key, expected });
        self
    }
    /// Adds [`Op::Check`].
    pub fn check(mut self, key: Key, expected: Option<Revision>) -> Self {
        self.ops.push(Op::Check { key, expected });
        self
    }
    /// Checks the limits that hold on every implementation, so that what one takes all take.
    ///
    /// # Errors
    /// `Refused`, with the limit.
    pub fn validate(&self) -> Result<(), DirectoryError> {
        let refuse = |text: String| Err(DirectoryError::Refused(text));
        if self.ops.is_empty() || self.ops.len() > TXN_OPS_MAX {
            return refuse(format!("a transaction has 1 to {TXN_OPS_MAX} operations, this one {}", self.ops.len()));
        }
        let mut keys: Vec<&Key> = self.ops.iter().map(Op::key).collect();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|w| w[0] == w[1]) {
            return refuse(format!("{} is named twice in one transaction: name each key once", twice[0]));
        }
        let mut bytes_total = 0;
        for op in &self.ops {
            let bytes = op.value().map_or(0, <[u8]>::len);
            bytes_total += bytes;
            if bytes > VALUE_BYTES_MAX {
                return refuse(format!("the value of {} has {bytes} bytes, the most is {VALUE_BYTES_MAX}", op.key()));
            }
        }
        if bytes_total > TXN_BYTES_MAX {
            return refuse(format!("a transaction has {bytes_total} bytes of values, the most is {TXN_BYTES_MAX}"));
        }
        Ok(())
    }
}

/// Whether `txn` may take effect where `current` tells the revision of each key.
///
/// The one place that decides; implementations whose server decides use it to tell which key was in the way.
///
/// # Errors
/// `Conflict` for the first operation that does not find what it expects.
pub fn decide(txn: &Txn, mut current: impl FnMut(&Key) -> Option<Revision>) -> Result<(), DirectoryError> {
    for op in &txn.ops {
        let found = current(op.key());
        if found != op.expected() {
            return Err(DirectoryError::Conflict { key: op.key().clone(), expected: op.expected(), found });
        }
    }
    Ok(())
}

/// A key that a transaction wrote, or removed (`None`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub key: Key,
    /// What is there now.
    pub now: Option<Stored>,
}

/// What one transaction changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The transaction.
    pub revision: Revision,
    /// Its changes, in the order of the keys.
    pub changes: Vec<Change>,
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// The next transaction.
    Changes(Changes),
    /// Nothing happened lately and the directory is there.
    Confirmed,
    /// Changes were missed that the directory no longer knows: list again. The stream ends after it.
    Gap,
}

/// The transactions after a revision. It ends with `Gap`, with an error, or when its reader is too slow; then watch
/// again from the last revision seen (`Follower` does all of that).
pub type Watch = BoxStream<'static, Result<WatchItem, DirectoryError>>;

/// One server of the directory.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MemberHealth {
    /// Its address.
    pub endpoint: String,
    /// What is wrong with it; `None`: it answers.
    pub problem: Option<String>,
    /// Whether it leads.
    pub leader: bool,
    /// Whether it takes in what the others have, and has no vote yet.
    pub learner: bool,
    /// Bytes of its store.
    pub db_bytes: u64,
}

/// One server of the directory, as the directory itself lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ListedMember {
    /// Its name; empty where it has never run.
    pub name: String,
    /// Where the other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; none where it has never run.
    pub client_urls: Vec<String>,
    /// Whether it has no vote yet.
    pub learner: bool,
}

/// How the directory is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Health {
    /// Which implementation: "embedded", "etcd".
    pub kind: &'static str,
    /// Why it cannot be read or written now; `None`: it can.
    pub problem: Option<String>,
    /// Its servers, where it has some.
    pub members: Vec<MemberHealth>,
    /// Those that it lists itself; empty where it has none, or nobody answers.
    pub listed: Vec<ListedMember>,
}

/// What a failure asks of the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The directory is away: try again later; reads may use the local copy.
    #[error("the directory is unavailable: {cause}")]
    Unavailable {
        /// What was seen.
        cause: String,
        /// A transaction may have taken effect all the same: read before trying again.
        outcome_unknown: bool,
    },
    /// Someone else was first: read again, decide again.
    #[error("{key} was changed by someone else: expected {}, found {}", revision_words(*expected), revision_words(*found))]
    Conflict {
        /// The first key that was not as expected.
        key: Key,
        /// What the transaction expected there.
        expected: Option<Revision>,
        /// What was there.
        found: Option<Revision>,
    },
    /// Not possible as asked; the text names cause and remedy, for people.
    #[error("{0}")]
    Refused(String),
    /// An entry cannot be read; others are not affected.
    #[error("the directory's entry {key} cannot be read: {cause}")]
    Damaged {
        /// Which.
        key: Key,
        /// Why.
        cause: String,
    },
}

impl DirectoryError {
    /// Unavailable, and nothing was changed.
    pub fn away(cause: impl fmt::Display) -> Self {
        Self::Unavailable { cause: cause.to_string(), outcome_unknown: false }
    }
    /// Whether the directory is away.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
    /// Whether someone else was first.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

fn revision_words(revision: Option<Revision>) -> String {
    revision.map_or_else(|| "nothing there".into(), |r| r.to_string())
}

/// A directory. All clones of an `Arc` of it are the same directory; calls may run at once, from any thread.
pub trait Directory: Send + Sync + 'static {
    /// The entry at `key`, if there is one. Linearizable.
    ///
    /// # Errors
    /// `Unavailable`.
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Stored>, DirectoryError>>;

    /// Everything in `scope` as of one revision, in the order of the keys. Keys that this release does not know are
    /// left out.
    ///
    /// # Errors
    /// `Unavailable`.
    fn list(&self, scope: Scope) -> BoxFuture<'_, Result<Listing, DirectoryError>>;

    /// Carries out `txn` as a whole; returns its revision once it is durable.
    ///
    /// # Errors
    /// - `Conflict`: nothing was changed; a key was not as expected.
    /// - `Refused`: nothing was changed; past a limit ([`Txn::validate`]) or the directory is full.
    /// - `Unavailable`: nothing was changed, unless `outcome_unknown`.
    fn commit(&self, txn: Txn) -> BoxFuture<'_, Result<Revision, DirectoryError>>;

    /// All transactions after `after`.
    ///
    /// # Errors
    /// `Unavailable`.
    fn watch(&self, after: Revision) -> BoxFuture<'_, Result<Watch, DirectoryError>>;

    /// Whether the directory can be written now, and how its servers are. Never fails: what is wrong is its answer.
    fn health(&self) -> BoxFuture<'_, Health>;
}
