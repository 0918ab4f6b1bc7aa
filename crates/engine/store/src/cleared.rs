//! What clearing the caches of a disk group came to.

/// What clearing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleared {
    /// The log is drained and the caches are dropped. False: the time was over before, and the caches are as they were.
    pub clear: bool,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Of which in use now.
    pub dirty_bytes: u64,
    /// Bytes of blocks that were destaged meanwhile.
    pub destaged_bytes: u64,
    /// Bytes of cached blocks that were dropped.
    pub read_cache_bytes: u64,
}
