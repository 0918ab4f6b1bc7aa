//! A device for a blocking caller: the metadata store on its own thread.
//!
//! Promises    after its host was killed it touches the device no more
//! Assumes     the data path (O_DIRECT) never touches the region that is used through here: the page cache between
//!             the two would return old bytes

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use cairn_env::{BlockingDisk, DiskError, DiskErrorKind};

use crate::{
    device::{Device, device_error},
    medium::{Access, Drive},
};

pub(crate) struct FileBlocking {
    file: Arc<File>,
    /// Keeps the lock while this handle lives: the metadata store may outlive the host's own handle by a moment.
    _locked: Arc<File>,
    dead: Arc<AtomicBool>,
    len_bytes: u64,
    /// The model of its medium, and what was written since the last sync: that takes its time then. Reads take none, as the page
    /// cache has nearly all that the metadata store asks for.
    drive: Option<Arc<Drive>>,
    unsynced_bytes: AtomicU64,
}

impl FileBlocking {
    pub fn new(device: &Device, dead: Arc<AtomicBool>) -> Self {
        Self {
            file: device.buffered.clone(),
            _locked: device.file.clone(),
            dead,
            len_bytes: device.len_bytes,
            drive: device.drive.clone(),
            unsynced_bytes: AtomicU64::new(0),
        }
    }

    fn check(&self, act: &'static str, offset: u64, len: usize) -> Result<(), DiskError> {
        let fail =
            |kind, cause: &str| Err(DiskError { kind, act, offset, len_bytes: len as u64, cause: cause.to_owned() });
        if self.dead.load(Ordering::Acquire) {
            return fail(DiskErrorKind::Gone, "the host of this disk was stopped");
        }
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len_bytes => Ok(()),
            _ if act == "read" => fail(DiskErrorKind::Read, "past the end of the device"),
            _ => fail(DiskErrorKind::Write, "past the end of the device"),
        }
    }
}

impl BlockingDisk for FileBlocking {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.check("read", offset, into.len())?;
        let len = into.len() as u64;
        self.file.read_exact_at(into, offset).map_err(|cause| device_error("read", offset, len, &cause))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        self.check("write", offset, data.len())?;
        self.unsynced_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(data, offset).map_err(|cause| device_error("write", offset, data.len() as u64, &cause))
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.check("flush", 0, 0)?;
        let unsynced_bytes = self.unsynced_bytes.swap(0, Ordering::Relaxed);
        let due = self.drive.as_ref().map(|drive| drive.due(Access::Write, u64::MAX - unsynced_bytes, unsynced_bytes));
        loop {
            match self.file.sync_data() {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Ok(()) => {
                    if let Some(due) = due {
                        std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    }
                    return Ok(());
                }
                Err(cause) => return Err(device_error("flush", 0, 0, &cause)),
            }
        }
    }
}
