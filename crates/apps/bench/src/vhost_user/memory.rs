//! Memory that a server shares: all that the guest has whom we play, in one region.
//!
//! Promises    what lies outside of it is never touched: an offset beyond it is a mistake of ours, and a panic
//!             what nobody wrote to takes no room
//! Assumes     the server may write anywhere in it at any time: what is read is a copy, looked at once
//! Why         sealed, so that a server need not fear that it shrinks under its hands

use std::{fs::File, io, os::fd::AsRawFd, sync::atomic::AtomicU16};

use bytes::Bytes;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use vhost::VhostUserMemoryRegionInfo;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory};

/// Where the memory begins for the guest. Not 0: an address that was forgotten lies nowhere.
const GUEST_BEGIN: u64 = 1 << 30;

const INSIDE: &str = "an aligned place within the memory";

pub(super) struct Memory {
    region: MmapRegion,
    file: File,
}

impl Memory {
    /// Memory of so many bytes, all of them zero.
    pub(super) fn new(len_bytes: usize) -> io::Result<Self> {
        let file = File::from(memfd_create("cairn-bench", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.set_len(len_bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let region = MmapRegion::from_file(FileOffset::new(file.try_clone()?, 0), len_bytes);
        Ok(Self { region: region.map_err(io::Error::other)?, file })
    }

    /// As a server is told of it.
    pub(super) fn info(&self) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST_BEGIN,
            memory_size: self.region.size() as u64,
            userspace_addr: self.user_address(0),
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        }
    }

    /// The guest's address of what lies there: descriptors hold these.
    pub(super) fn guest_address(&self, at: usize) -> u64 {
        GUEST_BEGIN + at as u64
    }

    /// Our own address of what lies there: a ring's parts are told so.
    pub(super) fn user_address(&self, at: usize) -> u64 {
        self.region.as_ptr() as u64 + at as u64
    }

    /// An index of a ring. It is little-endian.
    pub(super) fn index(&self, at: usize) -> &AtomicU16 {
        self.region.get_atomic_ref(at).expect(INSIDE)
    }

    pub(super) fn put_u8(&self, at: usize, value: u8) {
        self.region.get_ref(at).expect(INSIDE).store(value);
    }

    pub(super) fn put_u16(&self, at: usize, value: u16) {
        self.region.get_ref(at).expect(INSIDE).store(value.to_le());
    }

    pub(super) fn put_u64(&self, at: usize, value: u64) {
        self.region.get_ref(at).expect(INSIDE).store(value.to_le());
    }

    pub(super) fn get_u8(&self, at: usize) -> u8 {
        self.region.get_ref(at).expect(INSIDE).load()
    }

    pub(super) fn get_u32(&self, at: usize) -> u32 {
        u32::from_le(self.region.get_ref(at).expect(INSIDE).load())
    }

    /// Puts `bytes` there.
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        self.region.get_slice(at, bytes.len()).expect(INSIDE).copy_from(bytes);
    }

    /// A copy of what lies there.
    pub(super) fn get(&self, at: usize, len_bytes: usize) -> Bytes {
        let mut copy = vec![0; len_bytes];
        self.region.get_slice(at, len_bytes).expect(INSIDE).copy_to(&mut copy);
        copy.into()
    }
}
