//! Devices: raw block devices or preallocated files on Linux, fault-injecting memory in the simulator.

use std::{future::Future, sync::Arc};

use bytes::Bytes;

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On stable media when the call returns (`RWF_DSYNC`).
    Durable,
    /// Given to the device; a later [`Disk::flush`] makes it durable.
    Buffered,
}

/// What a device error means to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// These sectors cannot be read now; others may.
    Read,
    /// A write or flush failed: what was written since the last flush may be lost; never retried on the same data.
    Write,
    /// A write failed because the file system below has no room: as [`DiskErrorKind::Write`], with another remedy.
    NoSpace,
    /// The device is gone.
    Gone,
}

/// A device error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{act} at {offset} ({len_bytes} bytes): {cause}")]
pub struct DiskError {
    /// What it means.
    pub kind: DiskErrorKind,
    /// "read", "write", "flush".
    pub act: &'static str,
    /// Byte offset on the device.
    pub offset: u64,
    /// Bytes asked for.
    pub len_bytes: u64,
    /// The operating system's words.
    pub cause: String,
}

/// A device. Cheap to clone; all clones are the same device. Offsets and lengths are multiples of 4096.
///
/// Dropping a future does not cancel its I/O: the buffers live until the device is done with them.
pub trait Disk: Clone + 'static {
    /// Size in bytes.
    fn len_bytes(&self) -> u64;
    /// A name for people: the path, or the simulator's label.
    fn name(&self) -> String;
    /// What it only models, for people who read times measured on it; none where it is what it is.
    fn medium(&self) -> Option<String> {
        None
    }
    /// Reads `len_bytes` at `offset` into one 4 KiB aligned buffer.
    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Bytes, DiskError>> + 'static;
    /// Writes `parts` back to back at `offset`: one device write where they are aligned (see [`crate::PageBuf`]).
    fn write(
        &self,
        offset: u64,
        parts: Vec<Bytes>,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DiskError>> + 'static;
    /// Makes every write that returned before durable. A failed flush is never retried.
    fn flush(&self) -> impl Future<Output = Result<(), DiskError>> + 'static;
    /// The same device for a blocking caller (the metadata store on its own thread).
    fn blocking(&self) -> Arc<dyn BlockingDisk>;
}

/// Blocking access for the metadata store, any offset and length; used through `Env::run_blocking` only.
pub trait BlockingDisk: Send + Sync {
    /// Fills `into` from `offset`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), DiskError>;
    /// Writes `data` at `offset`; durable after [`Self::sync`].
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError>;
    /// Makes earlier writes of this handle durable.
    fn sync(&self) -> Result<(), DiskError>;
}
