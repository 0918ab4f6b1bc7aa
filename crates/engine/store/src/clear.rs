//! Clearing the caches of a disk group on request: the write buffer is destaged, what memory holds of blocks is dropped.
//!
//! Promises    told to be clear only where less than a hundredth of the log is in use at that moment
//! Assumes     the destage task does the work, round by round as always (`destage.rs`): nothing here moves the tail
//! Not here    which disk groups, and how often they are asked (`node`); the page cache of the metadata store, which stays

use std::time::Duration;

use cairn_env::Env;
use futures::future::{Either, select};

use crate::{cleared::Cleared, disk_group::Inner, error::StoreError, state::State};

impl State {
    /// Forgets what memory holds of the devices; gives the bytes of cached blocks that it was.
    fn drop_caches(&mut self) -> u64 {
        let bytes = self.cache.bytes();
        self.cache.clear();
        self.map.drop_caches();
        bytes
    }
}

impl<E: Env> Inner<E> {
    pub(crate) async fn clear_caches(&self, patience: Duration) -> Result<Cleared, StoreError> {
        let end = self.env.now() + patience;
        let destaged_before = self.state.borrow().counters.destaged_bytes;
        let clear = loop {
            // Each pass destages what is in the log when it begins, and what comes meanwhile is less than that as long as
            // destage is faster than the guests.
            let drained = match select(Box::pin(self.drain()), self.env.sleep_until(end)).await {
                Either::Left((drained, _)) => drained,
                Either::Right(_) => Ok(()),
            };
            if let Err(error) = drained {
                self.state.borrow_mut().drop_caches();
                return Err(error);
            }
            if self.state.borrow().log.is_drained() {
                break true;
            }
            if self.env.now() >= end {
                break false;
            }
        };
        let mut state = self.state.borrow_mut();
        let read_cache_bytes = if clear { state.drop_caches() } else { 0 };
        Ok(Cleared {
            clear,
            log_bytes: state.log.ring.size(),
            dirty_bytes: state.log.ring.used(),
            destaged_bytes: state.counters.destaged_bytes - destaged_before,
            read_cache_bytes,
        })
    }
}
