//! Opening devices: raw block devices and preallocated files, O_DIRECT, and the lock that keeps a second process off.
//!
//! Promises    D1  two live processes (or hosts of one process) never have one device open for writing
//!             D2  a file made by [`create_disk_file`] has all its extents before the first write of the store
//! Assumes     `flock` is honoured by everybody who writes Cairn's devices
//! Not here    what is on a device (`format`)

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use cairn_env::{DiskError, DiskErrorKind, PageBuf};
use cairn_types::{BLOCK_BYTES, format_bytes};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};

use crate::{
    medium::{Drive, Medium, MediumError},
    occupant::holders_of,
};

/// How a device is opened.
#[derive(Debug, Clone, Default)]
pub struct DiskOptions {
    /// The size that it must have, in bytes; any where `None`.
    pub expected_bytes: Option<u64>,
    /// Read only: several readers may, and no writer beside them.
    pub read_only: bool,
    /// Read only, also beside a writer: for a look at what may change meanwhile.
    pub unlocked: bool,
    /// Refuse a file system without O_DIRECT instead of going through the page cache.
    pub direct_required: bool,
    /// Requests take what they would on this medium: files only.
    pub medium: Option<Medium>,
}

impl DiskOptions {
    fn writes(&self) -> bool {
        !self.read_only && !self.unlocked
    }
}

/// How [`create_disk_file`] gives a file its extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// Written once in full with zeroes: every later write finds its extents allocated and initialised.
    #[default]
    Written,
    /// `fallocate` only: made at once, but the first write of each block also changes the file system's metadata, with a
    /// commit of its journal (8 durable appends at once on ext4: p50 110 us instead of 66).
    Reserved,
}

/// Why a device does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another live process, host of this process, mount or volume holds it.
    #[error("{path} is in use by {}: stop that first; two users of one disk would destroy it", by(.holders))]
    InUse {
        /// The device.
        path: PathBuf,
        /// Who has it, where the kernel names them; otherwise a process that locked it.
        holders: Vec<String>,
    },
    /// There is no such device now.
    #[error("{path} is not there ({cause})")]
    Gone {
        /// The path.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// Its size is not the expected one, or too small or odd to be used.
    #[error("{path} has {} and {reason}", format_bytes(*.len_bytes))]
    Size {
        /// The device.
        path: PathBuf,
        /// Its size.
        len_bytes: u64,
        /// What is wrong with that.
        reason: String,
    },
    /// It is neither a block device nor a regular file.
    #[error("{path} is neither a block device nor a regular file")]
    Kind {
        /// The path.
        path: PathBuf,
    },
    /// A block device is what it is.
    #[error("{path} is a block device, and media are modelled on files only: leave the model out")]
    NotModelled {
        /// The device.
        path: PathBuf,
    },
    /// The model is none.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The file system takes no O_DIRECT, and that was required.
    #[error("the file system of {path} takes no direct I/O (O_DIRECT): use a disk, ext4 or xfs")]
    NotDirect {
        /// The file.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot {act} {path}: {cause}")]
    Io {
        /// What was tried.
        act: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
}

/// Who has a device.
fn by(holders: &[String]) -> String {
    if holders.is_empty() { "another process".into() } else { holders.join(", ") }
}

impl OpenError {
    fn io(act: &'static str, path: &Path, cause: impl Into<io::Error>) -> Self {
        Self::Io { act, path: path.to_owned(), cause: cause.into() }
    }

    /// What the system says where a device was to be opened.
    fn open(path: &Path, cause: io::Error) -> Self {
        use rustix::io::Errno;
        let gone = [Errno::NOENT, Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM];
        match gone.into_iter().any(|errno| cause.raw_os_error() == Some(errno.raw_os_error())) {
            true => Self::Gone { path: path.to_owned(), cause },
            false => Self::io("open", path, cause),
        }
    }
}

/// An open device.
pub(crate) struct Device {
    pub path: PathBuf,
    pub len_bytes: u64,
    /// For the data path: O_DIRECT where `direct`. Holds the lock: its last clone unlocks.
    pub file: Arc<File>,
    /// For blocking callers: through the page cache.
    pub buffered: Arc<File>,
    pub direct: bool,
    /// The model of its medium.
    pub drive: Option<Arc<Drive>>,
}

fn open_with(path: &Path, options: &DiskOptions, flags: OFlags) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(options.writes())
        .custom_flags((flags | OFlags::CLOEXEC).bits() as i32)
        .open(path)
}

/// Opens and locks.
pub(crate) fn open(path: &Path, options: &DiskOptions) -> Result<Device, OpenError> {
    let kind = std::fs::metadata(path).map_err(|e| OpenError::open(path, e))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(OpenError::Kind { path: path.to_owned() });
    }
    if kind.is_block_device() && options.medium.is_some() {
        return Err(OpenError::NotModelled { path: path.to_owned() });
    }
    options.medium.as_ref().map_or(Ok(()), Medium::check)?;
    // O_EXCL on a block device claims it in the kernel: against mounts, swap, MD and other claimers.
    let claim = if kind.is_block_device() && options.writes() { OFlags::EXCL } else { OFlags::empty() };
    let in_use = || OpenError::InUse { path: path.to_owned(), holders: holders_of(path) };
    // Nothing in the kernel keeps a file from being opened beside a loop device over it.
    if kind.is_file() && options.writes() && !holders_of(path).is_empty() {
        return Err(in_use());
    }
    let (file, direct) = match open_with(path, options, claim | OFlags::DIRECT) {
        Ok(file) => (file, true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Err(in_use()),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            if options.direct_required {
                return Err(OpenError::NotDirect { path: path.to_owned() });
            }
            tracing::warn!(
                path = %path.display(),
                "the file system takes no direct I/O: this disk goes through the page cache, for trials only"
            );
            let file = open_with(path, options, claim).map_err(|e| OpenError::open(path, e))?;
            (file, false)
        }
        Err(error) => return Err(OpenError::open(path, error)),
    };
    let operation = if options.read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    let locked = if options.unlocked { Ok(()) } else { flock(&file, operation) };
    match locked {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(in_use()),
        Err(error) => return Err(OpenError::io("lock", path, error)),
    }
    let len_bytes =
        rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|e| OpenError::io("measure", path, e))?;
    check_size(path, len_bytes, options.expected_bytes)?;
    let buffered = open_with(path, options, OFlags::empty()).map_err(|e| OpenError::io("open", path, e))?;
    Ok(Device {
        path: path.to_owned(),
        len_bytes: len_bytes / u64::from(BLOCK_BYTES) * u64::from(BLOCK_BYTES),
        file: Arc::new(file),
        buffered: Arc::new(buffered),
        direct,
        drive: options.medium.clone().map(|medium| Drive::new(medium, seed_of(path))),
    })
}

/// The same name has the same seed (FNV-1a).
fn seed_of(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn check_size(path: &Path, len_bytes: u64, expected: Option<u64>) -> Result<(), OpenError> {
    let refuse = |reason: String| Err(OpenError::Size { path: path.to_owned(), len_bytes, reason });
    if len_bytes < u64::from(BLOCK_BYTES) {
        return refuse("is too small to be a disk".into());
    }
    match expected {
        Some(expected) if len_bytes < expected => {
            refuse(format!("should have {}: it was cut short, or is another disk", format_bytes(expected)))
        }
        _ => Ok(()),
    }
}

/// Bytes of one write while a file is filled.
const FILL_BYTES: usize = 4 << 20;

/// Makes a file that serves as a disk, of `len_bytes` (a multiple of 4096), and makes it durable with its name.
///
/// # Errors
/// The file exists, the file system is full, or any other refusal; then no file is left behind.
pub fn create_disk_file(path: &Path, len_bytes: u64, fill: Fill) -> Result<(), OpenError> {
    if len_bytes == 0 || !len_bytes.is_multiple_of(u64::from(BLOCK_BYTES)) {
        return Err(OpenError::Size {
            path: path.to_owned(),
            len_bytes,
            reason: format!("a disk has a multiple of {BLOCK_BYTES} bytes"),
        });
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|e| OpenError::io("create", path, e))?;
    let made = fill_file(path, &file, len_bytes, fill).and_then(|()| sync_name(path));
    if made.is_err() {
        // Half a disk helps nobody, and it may hold the last free space.
        let _ = std::fs::remove_file(path);
    }
    made
}

fn fill_file(path: &Path, file: &File, len_bytes: u64, fill: Fill) -> Result<(), OpenError> {
    match fallocate(file, FallocateFlags::empty(), 0, len_bytes) {
        Ok(()) => {}
        // tmpfs has it, some network file systems have not: written in full it is all the same.
        Err(rustix::io::Errno::OPNOTSUPP) if fill == Fill::Written => {}
        Err(error) => return Err(OpenError::io("reserve space for", path, error)),
    }
    if fill == Fill::Written {
        // O_DIRECT: a disk of many GiB should not sweep the page cache.
        let direct = open_with(path, &DiskOptions::default(), OFlags::DIRECT);
        let target = direct.as_ref().unwrap_or(file);
        let zeroes: Bytes = PageBuf::zeroed(FILL_BYTES).freeze();
        let mut at = 0;
        while at < len_bytes {
            let piece = (len_bytes - at).min(FILL_BYTES as u64) as usize;
            match rustix::io::pwrite(target, &zeroes[..piece], at) {
                Ok(done) => at += done as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(OpenError::io("fill", path, error)),
            }
        }
    }
    file.sync_all().map_err(|e| OpenError::io("sync", path, e))
}

/// Makes the file's name durable: the directory that holds it is synced.
fn sync_name(path: &Path) -> Result<(), OpenError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|e| OpenError::io("sync the directory of", path, e))
}

/// What the system's error means to the store.
pub(crate) fn device_error(act: &'static str, offset: u64, len_bytes: u64, cause: &std::io::Error) -> DiskError {
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const ESHUTDOWN: i32 = 108;
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    let kind = match cause.raw_os_error() {
        Some(ENXIO | ENODEV | ESHUTDOWN) => DiskErrorKind::Gone,
        // All requests are within what the device was long: of one that was pulled out Linux tells the length 0, and reads end at once.
        _ if cause.kind() == std::io::ErrorKind::UnexpectedEof => DiskErrorKind::Gone,
        _ if act == "read" => DiskErrorKind::Read,
        Some(ENOSPC | EDQUOT) => DiskErrorKind::NoSpace,
        _ => DiskErrorKind::Write,
    };
    DiskError { kind, act, offset, len_bytes, cause: cause.to_string() }
}
