//! [`LinuxDisk`]: a device on the data path.
//!
//! Promises    a durable write is one device write with `RWF_DSYNC`; parts that are aligned are not copied
//!             short transfers are completed; an error is reported once, never retried here
//! Assumes     the device honours flushes (fault model)
//! Not here    opening and locking (`device`), the ring (`ring`)

use std::{future::Future, path::Path, rc::Rc, sync::Arc, time::Instant};

use bytes::{Buf, Bytes};
use cairn_env::{BUFFER_ALIGN, BlockingDisk, Disk, DiskError, DiskErrorKind, Durability, PageBuf};

use crate::{
    DiskOptions, LinuxEnv, OpenError,
    blocking_disk::FileBlocking,
    device::{self, Device, device_error},
    io::{Backend, InFlight, Request},
    medium::{Access, Drive, Timers},
    threads::SLICES_MAX,
};

/// A raw block device, or a preallocated file. Cheap to clone; all clones are the same device.
#[derive(Clone)]
pub struct LinuxDisk(Rc<Inner>);

struct Inner {
    device: Device,
    backend: Backend,
    in_flight: InFlight,
    blocking: Arc<FileBlocking>,
    /// For the model of its medium.
    timers: Timers,
}

impl LinuxDisk {
    /// Opens and locks a device for the host of `env`; blocks for a moment (start-up work).
    ///
    /// # Errors
    /// Says which path and why; [`OpenError::InUse`] where another live process has it.
    pub fn open(env: &LinuxEnv, path: &Path, options: &DiskOptions) -> Result<Self, OpenError> {
        let device = device::open(path, options)?;
        let blocking = Arc::new(FileBlocking::new(&device, env.host_shared().dead.clone()));
        Ok(Self(Rc::new(Inner {
            device,
            backend: env.backend().clone(),
            in_flight: env.in_flight().clone(),
            blocking,
            timers: Timers::default(),
        })))
    }

    /// Whether the page cache is bypassed. False only on file systems that cannot: fit for trials, not for data.
    pub fn is_direct(&self) -> bool {
        self.0.device.direct
    }

    fn error(&self, act: &'static str, offset: u64, len: usize, cause: &std::io::Error) -> DiskError {
        device_error(act, offset, len as u64, cause)
    }

    fn check_range(&self, act: &'static str, offset: u64, len: usize) -> Result<(), DiskError> {
        assert!(
            offset.is_multiple_of(BUFFER_ALIGN as u64) && len.is_multiple_of(BUFFER_ALIGN),
            "{act} at {offset} of {len} bytes is not made of whole blocks"
        );
        // Not an assertion: offsets may come from a damaged device.
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.0.device.len_bytes => Ok(()),
            _ => Err(DiskError {
                kind: if act == "read" { DiskErrorKind::Read } else { DiskErrorKind::Write },
                act,
                offset,
                len_bytes: len as u64,
                cause: format!("the device ends at {}", self.0.device.len_bytes),
            }),
        }
    }

    async fn read_all(self, offset: u64, len: usize) -> Result<Bytes, DiskError> {
        self.check_range("read", offset, len)?;
        let mut buf = PageBuf::dirty(len);
        let mut filled = 0;
        while filled < len {
            let request = Request::Read { offset, buf, filled };
            let (result, request) = self.run(request).await;
            let Request::Read { buf: back, .. } = request else {
                panic!("a read came back as something else");
            };
            buf = back;
            match result {
                Ok(0) => {
                    let cause = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the device ended early");
                    return Err(self.error("read", offset, len, &cause));
                }
                Ok(count) => filled += count,
                Err(cause) if again(&cause) => {}
                Err(cause) => return Err(self.error("read", offset, len, &cause)),
            }
        }
        Ok(buf.freeze())
    }

    async fn write_all(self, offset: u64, parts: Vec<Bytes>, durability: Durability) -> Result<(), DiskError> {
        let len = parts.iter().map(Bytes::len).sum();
        self.check_range("write", offset, len)?;
        let mut parts = as_device_takes(parts, len);
        let durable = durability == Durability::Durable;
        let mut at = offset;
        while !parts.is_empty() {
            let request = Request::Write { offset: at, parts, durable };
            let (result, request) = self.run(request).await;
            let Request::Write { parts: back, .. } = request else {
                panic!("a write came back as something else");
            };
            parts = back;
            match result {
                Ok(0) => {
                    let cause = std::io::Error::other("the device took nothing");
                    return Err(self.error("write", offset, len, &cause));
                }
                Ok(count) => {
                    at += count as u64;
                    advance(&mut parts, count);
                }
                Err(cause) if again(&cause) => {}
                Err(cause) => return Err(self.error("write", offset, len, &cause)),
            }
        }
        Ok(())
    }

    async fn flush_all(self) -> Result<(), DiskError> {
        loop {
            match self.run(Request::Flush).await.0 {
                Ok(_) => return Ok(()),
                Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.error("flush", 0, 0, &cause)),
            }
        }
    }

    async fn run(&self, request: Request) -> (std::io::Result<usize>, Request) {
        let inner = &self.0;
        let file = inner.device.file.clone();
        let due = inner.device.drive.as_ref().and_then(|drive| due(drive, &request));
        let answer = inner.backend.run(file, request, inner.in_flight.enter()).await;
        if let Some(due) = due {
            inner.timers.until(due).await;
        }
        (answer.result, answer.request)
    }
}

/// When the model of a medium has done the request; a flush waits for nothing, as every write is on its medium when it ends.
fn due(drive: &Drive, request: &Request) -> Option<Instant> {
    match request {
        Request::Read { offset, buf, filled } => {
            Some(drive.due(Access::Read, offset + *filled as u64, (buf.len() - filled) as u64))
        }
        Request::Write { offset, parts, .. } => {
            Some(drive.due(Access::Write, *offset, parts.iter().map(|part| part.len() as u64).sum()))
        }
        Request::Flush => None,
    }
}

/// Nothing was done, and asking again is right: the request never reached the device.
fn again(cause: &std::io::Error) -> bool {
    matches!(cause.kind(), std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock)
}

/// The parts as one device write takes them: aligned in memory and length, and not too many; else one copy.
fn as_device_takes(mut parts: Vec<Bytes>, len: usize) -> Vec<Bytes> {
    parts.retain(|part| !part.is_empty());
    let aligned =
        |part: &Bytes| (part.as_ptr() as usize).is_multiple_of(BUFFER_ALIGN) && part.len().is_multiple_of(BUFFER_ALIGN);
    if parts.len() <= SLICES_MAX && parts.iter().all(aligned) {
        return parts;
    }
    let mut piece = PageBuf::dirty(len);
    let mut at = 0;
    for part in &parts {
        piece[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    vec![piece.freeze()]
}

/// Takes `count` written bytes off the front.
fn advance(parts: &mut Vec<Bytes>, mut count: usize) {
    let mut whole = 0;
    for part in parts.iter_mut() {
        if count < part.len() {
            part.advance(count);
            break;
        }
        count -= part.len();
        whole += 1;
    }
    parts.drain(..whole);
}

impl Disk for LinuxDisk {
    fn len_bytes(&self) -> u64 {
        self.0.device.len_bytes
    }

    fn name(&self) -> String {
        self.0.device.path.display().to_string()
    }

    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Bytes, DiskError>> + 'static {
        self.clone().read_all(offset, len_bytes as usize)
    }

    fn write(
        &self,
        offset: u64,
        parts: Vec<Bytes>,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DiskError>> + 'static {
        self.clone().write_all(offset, parts, durability)
    }

    fn flush(&self) -> impl Future<Output = Result<(), DiskError>> + 'static {
        self.clone().flush_all()
    }

    fn medium(&self) -> Option<String> {
        self.0.device.drive.as_ref().map(|drive| drive.stamp().to_owned())
    }

    fn blocking(&self) -> Arc<dyn BlockingDisk> {
        self.0.blocking.clone()
    }
}
