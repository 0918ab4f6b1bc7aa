//! A virtual disk in memory, with the one fault that an input chooses.
//!
//! Promises    each request is atomic; what it is asked is inside the disk and made of whole sectors, or it panics: that is
//!             what `cairn-volume` promises to a disk, and so what the front end has to see to
//! Not here    any part of the engine

use std::{
    cell::RefCell,
    future::{Ready, ready},
    rc::Rc,
};

use bytes::Bytes;
use cairn_volume::{ChangedExtent, Exports, Extent, ObjectId, Volume, VolumeError, VolumeInfo};

const BLOCK: u64 = 4096;
/// The earlier moment that the disk knows.
pub const MOMENT: &str = "then";

/// One disk. Clones are the same disk.
#[derive(Clone)]
pub struct MemoryVolume(Rc<RefCell<Inner>>);

struct Inner {
    size_bytes: u64,
    bytes: Vec<u8>,
    allocated: Vec<bool>,
    /// Requests that touch the last block fail so.
    fault: Option<VolumeError>,
}

impl MemoryVolume {
    /// An empty disk.
    pub fn new(size_bytes: u64, fault: Option<VolumeError>) -> Self {
        let (bytes, blocks) = (size_bytes as usize, size_bytes.div_ceil(BLOCK) as usize);
        Self(Rc::new(RefCell::new(Inner { size_bytes, bytes: vec![0; bytes], allocated: vec![false; blocks], fault })))
    }

    /// All bytes.
    pub fn contents(&self) -> Vec<u8> {
        self.0.borrow().bytes.clone()
    }

    fn request<T>(&self, offset: u64, len: u64, act: impl FnOnce(&mut Inner) -> T) -> Ready<Result<T, VolumeError>> {
        let inner = &mut *self.0.borrow_mut();
        assert!(offset.is_multiple_of(512) && len.is_multiple_of(512), "{offset}+{len} is not made of sectors");
        assert!(offset.checked_add(len).is_some_and(|end| end <= inner.size_bytes), "{offset}+{len} is past the end");
        let last = inner.size_bytes - BLOCK.min(inner.size_bytes);
        match &inner.fault {
            Some(fault) if len > 0 && offset + len > last => ready(Err(fault.clone())),
            _ => ready(Ok(act(inner))),
        }
    }
}

impl Inner {
    fn blocks(&self, offset: u64, len: u64) -> impl Iterator<Item = usize> + use<> {
        (offset / BLOCK) as usize..(offset + len).div_ceil(BLOCK) as usize
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        self.bytes[offset as usize..][..data.len()].copy_from_slice(data);
        for block in self.blocks(offset, data.len() as u64) {
            self.allocated[block] = true;
        }
    }

    fn zero(&mut self, offset: u64, len: u64, keep_allocated: bool) {
        self.bytes[offset as usize..][..len as usize].fill(0);
        for block in self.blocks(offset, len) {
            let whole = offset <= block as u64 * BLOCK && (block as u64 + 1) * BLOCK <= offset + len;
            self.allocated[block] = keep_allocated || self.allocated[block] && !whole;
        }
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        let part = |block: usize| {
            let first = offset.max(block as u64 * BLOCK);
            let end = (offset + len).min((block as u64 + 1) * BLOCK);
            Extent { len_bytes: end - first, allocated: self.allocated[block] }
        };
        self.blocks(offset, len).map(part).collect()
    }
}

impl Volume for MemoryVolume {
    fn info(&self) -> VolumeInfo {
        let size_bytes = self.0.borrow().size_bytes;
        VolumeInfo {
            id: ObjectId(1),
            name: "disk".to_owned(),
            size_bytes,
            alignment: None,
            read_only: false,
            description: "in memory".to_owned(),
        }
    }
    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Vec<Bytes>, VolumeError>> + 'static {
        let len = len_bytes as usize;
        self.request(offset, u64::from(len_bytes), |disk| {
            let bytes = Bytes::copy_from_slice(&disk.bytes[offset as usize..][..len]);
            // In pieces, as the engine answers.
            (0..len).step_by(BLOCK as usize).map(|at| bytes.slice(at..len.min(at + BLOCK as usize))).collect()
        })
    }
    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.request(offset, data.len() as u64, |disk| disk.write(offset, &data))
    }
    fn write_zeroes(
        &self,
        offset: u64,
        len_bytes: u64,
        keep_allocated: bool,
    ) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.request(offset, len_bytes, |disk| disk.zero(offset, len_bytes, keep_allocated))
    }
    fn trim(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.request(offset, len_bytes, |disk| disk.zero(offset, len_bytes, false))
    }
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.request(0, 0, |_| ())
    }
    fn block_status(
        &self,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>> + 'static {
        self.request(offset, len_bytes, |disk| disk.extents(offset, len_bytes))
    }
    /// Every other block did.
    fn changed_since(
        &self,
        moment: &str,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<ChangedExtent>, VolumeError>> + 'static {
        assert_eq!(moment, MOMENT, "a moment that was not told");
        self.request(offset, len_bytes, |disk| {
            let part = |(block, extent): (usize, Extent)| ChangedExtent {
                len_bytes: extent.len_bytes,
                changed: block.is_multiple_of(2),
            };
            disk.blocks(offset, len_bytes).zip(disk.extents(offset, len_bytes)).map(part).collect()
        })
    }
    fn cache(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.request(offset, len_bytes, |_| ())
    }
}

/// A host that serves one disk, named "disk", and two that cannot be opened.
#[derive(Clone)]
pub struct OneDisk(pub MemoryVolume);

impl Exports for OneDisk {
    type Volume = MemoryVolume;
    fn list(&self) -> impl Future<Output = Vec<String>> + 'static {
        ready(["broken", "disk", "leaving"].map(str::to_owned).to_vec())
    }
    fn is_read_only(&self, _: &str) -> bool {
        false
    }
    fn earlier_moments(&self, name: &str) -> impl Future<Output = Vec<String>> + 'static {
        ready(Vec::from_iter((name == "disk").then(|| MOMENT.to_owned())))
    }
    fn open(&self, name: &str) -> impl Future<Output = Result<Option<MemoryVolume>, VolumeError>> + 'static {
        ready(match name {
            "disk" => Ok(Some(self.0.clone())),
            "broken" => Err(VolumeError::Io("two of three copies are away".to_owned())),
            "leaving" => Err(VolumeError::Shutdown("the host is stopping".to_owned())),
            _ => Ok(None),
        })
    }
}
