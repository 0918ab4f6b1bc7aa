//! A virtual disk in memory that knows its holes: what the front end is proved against.
//!
//! Promises    each request is atomic, and a block that was never written or was trimmed is a hole
//! Not here    any part of the engine

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use bytes::Bytes;
use cairn_env::PageBuf;
use cairn_volume::{ChangedExtent, Exports, Extent, ObjectId, Volume, VolumeError, VolumeInfo};

const BLOCK: u64 = 4096;

/// One disk. Clones are the same disk.
#[derive(Clone)]
pub struct RamDisk(Rc<RefCell<Inner>>);

struct Inner {
    info: VolumeInfo,
    /// None is a hole; an empty run of zeros that keeps its space is `Some` zeros.
    blocks: Vec<Option<Bytes>>,
    /// What it held at earlier moments, by name.
    moments: Vec<(String, Vec<Option<Bytes>>)>,
    faults: Faults,
    step: u64,
    running: u64,
    finished: u64,
}

/// How the disk misbehaves.
#[derive(Clone, Default)]
#[allow(dead_code)]
pub struct Faults {
    /// Each request waits for 0..n turns of the scheduler, so that answers overtake each other.
    pub turns_max: u64,
    /// Each request waits this long.
    pub wait: Option<std::time::Duration>,
    /// Requests that touch this byte fail so.
    pub at: Option<(u64, VolumeError)>,
}

impl RamDisk {
    pub fn new(name: &str, size_bytes: u64) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            info: VolumeInfo {
                id: ObjectId(1),
                name: name.to_owned(),
                size_bytes,
                alignment: None,
                read_only: false,
                description: format!("{name} in memory"),
            },
            blocks: vec![None; size_bytes.div_ceil(BLOCK) as usize],
            moments: Vec::new(),
            faults: Faults::default(),
            step: 0,
            running: 0,
            finished: 0,
        })))
    }
}

#[allow(dead_code)]
impl RamDisk {
    pub fn set_faults(&self, faults: Faults) {
        self.0.borrow_mut().faults = faults;
    }

    /// Requests that finished; requests that run.
    pub fn counts(&self) -> (u64, u64) {
        let inner = self.0.borrow();
        (inner.finished, inner.running)
    }

    /// Whoever opens it from now on may not change it.
    pub fn set_read_only(&self) {
        self.0.borrow_mut().info.read_only = true;
    }

    /// What changes from now on is known.
    pub fn remember(&self, moment: &str) {
        let mut inner = self.0.borrow_mut();
        let held = inner.blocks.clone();
        inner.moments.push((moment.to_owned(), held));
    }

    pub fn grow(&self, size_bytes: u64) {
        let mut inner = self.0.borrow_mut();
        inner.info.size_bytes = size_bytes;
        let count = size_bytes.div_ceil(BLOCK) as usize;
        inner.blocks.resize(count, None);
    }

    /// All bytes.
    pub fn contents(&self) -> Vec<u8> {
        let inner = self.0.borrow();
        let size = inner.info.size_bytes as usize;
        let mut all = vec![0; inner.blocks.len() * BLOCK as usize];
        for (index, block) in inner.blocks.iter().enumerate() {
            if let Some(block) = block {
                all[index * BLOCK as usize..][..BLOCK as usize].copy_from_slice(block);
            }
        }
        all.truncate(size);
        all
    }

    pub fn allocation(&self) -> Vec<bool> {
        self.0.borrow().blocks.iter().map(Option::is_some).collect()
    }

    pub fn clear(&self) {
        self.0.borrow_mut().blocks.fill(None);
    }

    pub fn allocated_blocks(&self) -> usize {
        self.0.borrow().blocks.iter().flatten().count()
    }

    /// Gives every block its own bytes.
    pub fn fill(&self) {
        let mut inner = self.0.borrow_mut();
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        for block in &mut inner.blocks {
            let mut data = PageBuf::dirty(BLOCK as usize);
            for part in data.chunks_mut(8) {
                word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                part.copy_from_slice(&word.to_le_bytes());
            }
            *block = Some(data.freeze());
        }
    }

    /// Runs `act` as one request: after the faults' delay, or fails as they say.
    async fn request<T>(self, offset: u64, len: u64, act: impl FnOnce(&mut Inner) -> T) -> Result<T, VolumeError> {
        let (turns, wait) = self.begin(offset, len);
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let mut inner = self.0.borrow_mut();
        inner.running -= 1;
        inner.finished += 1;
        match &inner.faults.at {
            Some((at, error)) if (offset..offset + len).contains(at) => Err(error.clone()),
            _ => Ok(act(&mut inner)),
        }
    }

    fn begin(&self, offset: u64, len: u64) -> (u64, Option<std::time::Duration>) {
        let mut inner = self.0.borrow_mut();
        assert!(offset.is_multiple_of(512) && len.is_multiple_of(512), "{offset}+{len}");
        assert!(offset + len <= inner.info.size_bytes, "{offset}+{len} is past the end");
        inner.running += 1;
        inner.step = inner.step.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let turns = (inner.step >> 33).checked_rem(inner.faults.turns_max);
        (turns.unwrap_or(0), inner.faults.wait)
    }
}

/// The blocks that a range touches: (block, first byte in it, bytes of it).
fn parts(offset: u64, len: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let end = offset + len;
    (offset / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
        let from = offset.max(block * BLOCK);
        let to = end.min((block + 1) * BLOCK);
        (block as usize, (from - block * BLOCK) as usize, (to - from) as usize)
    })
}

impl Inner {
    fn read(&self, offset: u64, len: u32) -> Vec<Bytes> {
        static ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];
        let piece = |(block, from, len): (usize, usize, usize)| match &self.blocks[block] {
            Some(data) => data.slice(from..from + len),
            None => Bytes::from_static(&ZEROS[..len]),
        };
        parts(offset, u64::from(len)).map(piece).collect()
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (block, from, len) in parts(offset, data.len() as u64) {
            let (here, next) = rest.split_at(len);
            rest = next;
            if here.len() as u64 == BLOCK {
                self.blocks[block] = Some(PageBuf::copy_of(here).freeze());
            } else {
                self.change(block, |bytes| bytes[from..from + len].copy_from_slice(here));
            }
        }
    }

    fn change(&mut self, block: usize, act: impl FnOnce(&mut [u8])) {
        let mut fresh = match &self.blocks[block] {
            Some(old) => PageBuf::copy_of(old),
            None => PageBuf::zeroed(BLOCK as usize),
        };
        act(&mut fresh);
        self.blocks[block] = Some(fresh.freeze());
    }

    fn zero(&mut self, offset: u64, len: u64, keep_allocated: bool) {
        for (block, from, len) in parts(offset, len) {
            if len as u64 == BLOCK && !keep_allocated {
                self.blocks[block] = None;
            } else if self.blocks[block].is_some() || keep_allocated {
                self.change(block, |bytes| bytes[from..from + len].fill(0));
            }
        }
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        let extent = |(block, _, len): (usize, usize, usize)| Extent {
            len_bytes: len as u64,
            allocated: self.blocks[block].is_some(),
        };
        parts(offset, len).map(extent).collect()
    }

    fn changes(&self, moment: &str, offset: u64, len: u64) -> Vec<ChangedExtent> {
        let held = &self.moments.iter().find(|(name, _)| name == moment).expect("one that was told").1;
        let extent = |(block, _, len): (usize, usize, usize)| ChangedExtent {
            len_bytes: len as u64,
            changed: held.get(block).unwrap_or(&None) != &self.blocks[block],
        };
        parts(offset, len).map(extent).collect()
    }
}

impl Volume for RamDisk {
    fn info(&self) -> VolumeInfo {
        self.0.borrow().info.clone()
    }
    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Vec<Bytes>, VolumeError>> + 'static {
        self.clone().request(offset, u64::from(len_bytes), move |i| i.read(offset, len_bytes))
    }
    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        let len = data.len() as u64;
        assert!((data.as_ptr() as usize).is_multiple_of(4096), "a payload is not in pages");
        self.clone().request(offset, len, move |i| i.write(offset, &data))
    }
    fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        keep_allocated: bool,
    ) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.clone().request(offset, len, move |i| i.zero(offset, len, keep_allocated))
    }
    fn trim(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.clone().request(offset, len, move |i| i.zero(offset, len, false))
    }
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.clone().request(0, 0, |_| ())
    }
    fn block_status(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Extent>, VolumeError>> + 'static {
        self.clone().request(offset, len, move |i| i.extents(offset, len))
    }
    fn changed_since(
        &self,
        moment: &str,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<Vec<ChangedExtent>, VolumeError>> + 'static {
        let moment = moment.to_owned();
        self.clone().request(offset, len, move |i| i.changes(&moment, offset, len))
    }
    fn cache(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.clone().request(offset, len, |_| ())
    }
}

/// Disks by name. Clones are the same set.
#[derive(Clone, Default)]
pub struct RamDisks(Rc<RefCell<BTreeMap<String, RamDisk>>>);

impl RamDisks {
    pub fn add(&self, name: &str, size_bytes: u64) -> RamDisk {
        let disk = RamDisk::new(name, size_bytes);
        self.0.borrow_mut().insert(name.to_owned(), disk.clone());
        disk
    }
}

#[allow(dead_code)]
impl RamDisks {
    pub fn get(&self, name: &str) -> RamDisk {
        self.0.borrow()[name].clone()
    }
}

impl Exports for RamDisks {
    type Volume = RamDisk;
    fn list(&self) -> impl Future<Output = Vec<String>> + 'static {
        std::future::ready(self.0.borrow().keys().cloned().collect())
    }
    fn is_read_only(&self, name: &str) -> bool {
        self.0.borrow().get(name).is_some_and(|disk| disk.info().read_only)
    }
    fn earlier_moments(&self, name: &str) -> impl Future<Output = Vec<String>> + 'static {
        let known = |disk: &RamDisk| disk.0.borrow().moments.iter().map(|(name, _)| name.clone()).collect();
        std::future::ready(self.0.borrow().get(name).map(known).unwrap_or_default())
    }
    fn open(&self, name: &str) -> impl Future<Output = Result<Option<RamDisk>, VolumeError>> + 'static {
        let found = self.0.borrow().get(name).cloned();
        std::future::ready(match name {
            "broken" => Err(VolumeError::Io("two of three copies are away".to_owned())),
            "leaving" => Err(VolumeError::Shutdown("the host is stopping".to_owned())),
            _ => Ok(found),
        })
    }
}
