//! What a front end may ask of a virtual disk: the one trait between guests' doors and the engine.
//!
//! Promises    a request that returned `Ok` is durable (writes) or linearizable per 4 KiB block (reads)
//!             a request of a guest that left is not begun any more, as far as its leaving can be known
//! Assumes     the front end checked bounds and alignment: offsets and lengths are multiples of 512, inside the disk
//!             the front end asks a read-only disk for nothing that would change it
//! Not here    protocols (`nbd`), ownership, placement
#![forbid(unsafe_code)]

mod front_end;

use std::{
    fmt,
    future::{self, Future},
    io,
    rc::Rc,
};

use bytes::Bytes;
pub use cairn_types::ObjectId;

pub use front_end::{FrontEnd, Session, SessionCounters};

/// Which requests a disk in rows of data and parity carries out with the least work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// Bytes of a strip: what lies within one concerns one member beside parity.
    pub strip_bytes: u32,
    /// Bytes of data of a row: whole ones need nothing of what was there.
    pub row_bytes: u32,
}

/// What a front end tells its client about a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeInfo {
    /// The id: another disk may get the name when this one is deleted.
    pub id: ObjectId,
    /// The name.
    pub name: String,
    /// Bytes, a multiple of 512. A grown disk shows its new size to whoever opens it anew.
    pub size_bytes: u64,
    /// None of a mirror, and of a disk of which only the name is known.
    pub alignment: Option<Alignment>,
    /// It takes no change. The front end tells its client, and refuses writes, zeroes and trims without asking the disk.
    pub read_only: bool,
    /// For people: "mirror, FTT 1".
    pub description: String,
}

/// A run of bytes with one allocation state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub len_bytes: u64,
    /// False: a hole, which reads as zeros and takes no space.
    pub allocated: bool,
}

/// A run of bytes that may have changed since an earlier moment of the disk, or has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedExtent {
    /// Bytes.
    pub len_bytes: u64,
    /// False: it is what it was then.
    pub changed: bool,
}

/// Why a request failed, as far as a guest can act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeError {
    /// The datastore has no room for this write (ENOSPC).
    NoSpace(String),
    /// The disk cannot be served now or its data cannot be read (EIO).
    Io(String),
    /// The request is not one that the disk takes (EINVAL).
    Invalid(String),
    /// The disk is gone or the server is stopping (ESHUTDOWN).
    Shutdown(String),
    /// The request is too old to be carried out: whoever sent it may have gone on elsewhere and written since. It gets no
    /// answer, and its session ends: what the guest still wants it sends again, on a new one.
    Abandoned(String),
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace(text)
            | Self::Io(text)
            | Self::Invalid(text)
            | Self::Shutdown(text)
            | Self::Abandoned(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for VolumeError {}

/// A door that could not be opened for guests.
#[derive(Debug)]
pub struct ServeError {
    /// What was attempted: "listen on /run/cairn/nbd.sock".
    pub act: String,
    /// Why it failed.
    pub cause: io::Error,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.act, self.cause)
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// The guest at the other end of a front end's session, as far as the front end can tell.
pub trait Guest {
    /// Whether it has closed its side: its requests that have not begun are wanted no longer.
    fn has_left(&self) -> bool;
    /// Whether its leaving is always seen at once. So on a unix socket; over a network a cut hides it.
    fn leaves_visibly(&self) -> bool;
}

/// A virtual disk as a front end sees it. Cheap to clone; requests may overlap in time in any number.
///
/// Every acknowledged write is durable, so `flush` has nothing left to do but wait its turn, and FUA is implied.
pub trait Volume: Clone + 'static {
    /// Name and size.
    fn info(&self) -> VolumeInfo;
    /// Who uses this session. Said at most once, before the first request; without it the guest counts as there.
    fn used_by(&self, guest: Rc<dyn Guest>) {
        let _ = guest;
    }
    /// Reads `len_bytes` at `offset`, in pieces in order; 4 KiB aligned pieces where the request was aligned.
    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Vec<Bytes>, VolumeError>> + 'static;
    /// Writes `data` at `offset`. Data in 4 KiB aligned memory (`PageBuf`) is not copied.
    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), VolumeError>> + 'static;
    /// Zeroes the range; `keep_allocated` asks that it keeps its space (write-zeroes with NO_HOLE).
    fn write_zeroes(
        &self,
        offset: u64,
        len_bytes: u64,
        keep_allocated: bool,
    ) -> impl Future<Output = Result<(), VolumeError>> + 'static;
    /// Gives the range's space back; it reads as zeros afterwards.
    fn trim(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static;
    /// Returns when every write acknowledged before is durable.
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>> + 'static;
    /// Allocation of the range, in order, covering all of it or its beginning.
    fn block_status(
        &self,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>> + 'static;
    /// What of the range may have changed since a moment that [`Exports::earlier_moments`] names; in order, covering all of it or its beginning.
    fn changed_since(
        &self,
        moment: &str,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<ChangedExtent>, VolumeError>> + 'static {
        let _ = (offset, len_bytes);
        future::ready(Err(VolumeError::Invalid(format!("this disk does not know what changed since {moment:?}"))))
    }
    /// Reads the range into the read cache, if there is room.
    fn cache(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static;
}

/// The disks that one host serves.
pub trait Exports: Clone + 'static {
    /// What `open` returns.
    type Volume: Volume;
    /// The names, sorted.
    fn list(&self) -> impl Future<Output = Vec<String>> + 'static;
    /// A number that changes when `list` may tell something else; `None`: any time.
    fn changes(&self) -> Option<u64> {
        None
    }
    /// The shard of this process that serves that disk best, counted from 0; `None`: this one does as well. Asked before a disk is
    /// opened for a client that can be moved there.
    fn shard_to_serve(&self, name: &str) -> impl Future<Output = Option<usize>> + 'static {
        let _ = name;
        future::ready(None)
    }
    /// Whether the disk of that name is read-only, by its name alone: what `open` returns says the same. Some clients are told before
    /// it is open, and opening takes as long as the rest of a lease where an owner has died.
    fn is_read_only(&self, name: &str) -> bool;
    /// Earlier moments of the disk of that name, the oldest first: it knows what changed since each of them.
    fn earlier_moments(&self, name: &str) -> impl Future<Output = Vec<String>> + 'static {
        let _ = name;
        future::ready(Vec::new())
    }
    /// The disk of that name; `None` when there is none.
    fn open(&self, name: &str) -> impl Future<Output = Result<Option<Self::Volume>, VolumeError>> + 'static;
}
