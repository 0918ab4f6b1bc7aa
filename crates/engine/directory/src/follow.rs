//! List, then watch; after a gap list again: how one stays up to date with a directory that comes and goes.
//!
//! Promises    what a reader builds from the items is, after each item, the directory as of one revision
//! Assumes     the caller waits a moment after `Away` before it asks again (rooms of the engine have no clock of their own)

use std::sync::Arc;

use futures::StreamExt as _;

use crate::{Changes, Directory, DirectoryError, Listing, Revision, Scope, Watch, WatchItem};

/// What a follower tells next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// Forget what you have: this is all there is.
    Snapshot(Listing),
    /// One transaction more.
    Changes(Changes),
    /// Nothing happened lately and the directory is there.
    Confirmed,
    /// The directory is away, what you have may grow old. Wait (100 ms to a few seconds), then ask again.
    Away(DirectoryError),
}

enum State {
    /// Nothing is known.
    List,
    /// Everything up to a revision is known.
    Listed { up_to: Revision },
    /// And what follows arrives.
    Watching { up_to: Revision, watch: Watch },
}

/// Follows everything in a directory.
pub struct Follower {
    directory: Arc<dyn Directory>,
    state: State,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Follower({:?})", self.up_to())
    }
}

impl Follower {
    /// Follows from the beginning: its first item is a snapshot.
    pub fn new(directory: Arc<dyn Directory>) -> Self {
        Self { directory, state: State::List }
    }
    /// Follows from what the caller already has of this very directory.
    pub fn resume(directory: Arc<dyn Directory>, up_to: Revision) -> Self {
        Self { directory, state: State::Listed { up_to } }
    }
    /// The revision up to which everything was told.
    pub fn up_to(&self) -> Option<Revision> {
        match &self.state {
            State::List => None,
            State::Listed { up_to } | State::Watching { up_to, .. } => Some(*up_to),
        }
    }
    /// Waits for the next item. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Followed {
        loop {
            match &mut self.state {
                State::List => match self.directory.list(Scope::All).await {
                    Ok(listing) => {
                        self.state = State::Listed { up_to: listing.revision };
                        return Followed::Snapshot(listing);
                    }
                    Err(error) => return Followed::Away(error),
                },
                State::Listed { up_to } => {
                    let up_to = *up_to;
                    match self.directory.watch(up_to).await {
                        Ok(watch) => self.state = State::Watching { up_to, watch },
                        Err(error) => return Followed::Away(error),
                    }
                }
                State::Watching { up_to, watch } => {
                    let seen = *up_to;
                    match watch.next().await {
                        // A server may send the first one again after a reconnect.
                        Some(Ok(WatchItem::Changes(c))) if c.revision <= seen => {}
                        Some(Ok(WatchItem::Changes(changes))) => {
                            *up_to = changes.revision;
                            return Followed::Changes(changes);
                        }
                        Some(Ok(WatchItem::Confirmed)) => return Followed::Confirmed,
                        Some(Ok(WatchItem::Gap)) => self.state = State::List,
                        Some(Err(error)) => {
                            self.state = State::Listed { up_to: seen };
                            return Followed::Away(error);
                        }
                        None => self.state = State::Listed { up_to: seen },
                    }
                }
            }
        }
    }
}
