//! A machine with one ring, whose memory and requests a test makes by hand.
//!
//! Promises    whatever waits has a time limit, so that a server that does not answer fails the test instead of hanging it

use std::{
    fs::File,
    os::fd::AsRawFd as _,
    path::Path,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use vhost::{
    VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData,
    vhost_user::{
        Frontend, VhostUserFrontend as _,
        message::{VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures},
    },
};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const PATIENCE: Duration = Duration::from_secs(20);
/// Entries of the ring: few, so that it goes round often.
const ENTRIES: u16 = 16;
pub const SLOTS: u16 = 5;
const MEMORY_BYTES: u64 = 1 << 20;
/// Where the memory lies in the machine's process, as it tells.
const USER: u64 = 0x7f00_0000_0000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const SLOT_BYTES: u64 = 0x8000;
const DATA: u64 = 0x1000;
const NEXT: u16 = 1;
const WRITE: u16 = 2;

pub const IN: u32 = 0;
pub const OUT: u32 = 1;
pub const FLUSH: u32 = 4;
pub const GET_ID: u32 = 8;
pub const DISCARD: u32 = 11;
pub const WRITE_ZEROES: u32 = 13;

/// A machine's memory and what outlives a connection.
pub struct Machine {
    file: File,
    pub memory: GuestMemoryMmap,
    inflight: Option<(VhostUserInflight, File)>,
    next_available: u16,
    seen: u16,
}

/// A connection of it.
pub struct Driver<'a> {
    pub machine: &'a mut Machine,
    pub frontend: Frontend,
    kick: EventFd,
    pub call: EventFd,
}

fn slot(slot: u16) -> u64 {
    0x10000 + u64::from(slot) * SLOT_BYTES
}

impl Machine {
    pub fn new() -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MEMORY_BYTES).unwrap();
        let shared = Some(FileOffset::new(file.try_clone().unwrap(), 0));
        let ranges = [(GuestAddress(0), MEMORY_BYTES as usize, shared)];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).unwrap();
        Self { file, memory, inflight: None, next_available: 0, seen: 0 }
    }

    /// Connects, and goes on where the machine stands.
    pub fn connect(&mut self, socket: &Path) -> Driver<'_> {
        let began = Instant::now();
        let mut frontend = loop {
            match Frontend::connect(socket, 1) {
                Ok(frontend) => break frontend,
                Err(error) => assert!(began.elapsed() < PATIENCE, "connect to {}: {error}", socket.display()),
            }
            thread::sleep(Duration::from_millis(5));
        };
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap();
        frontend.set_features(features).unwrap();
        let wanted = VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::REPLY_ACK;
        assert!(frontend.get_protocol_features().unwrap().contains(wanted));
        frontend.set_protocol_features(wanted).unwrap();
        let kept = self
            .inflight
            .get_or_insert_with(|| frontend.get_inflight_fd(&VhostUserInflight::new(0, 0, 1, ENTRIES)).unwrap());
        frontend.set_inflight_fd(&kept.0, kept.1.as_raw_fd()).unwrap();
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY_BYTES,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).unwrap();
        let (kick, call) = (EventFd::new(EFD_NONBLOCK).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
        frontend.set_vring_num(0, ENTRIES).unwrap();
        frontend.set_vring_base(0, self.used()).unwrap();
        let rings = VringConfigData {
            queue_max_size: ENTRIES,
            queue_size: ENTRIES,
            flags: 0,
            desc_table_addr: USER,
            used_ring_addr: USER + USED,
            avail_ring_addr: USER + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &rings).unwrap();
        frontend.set_vring_call(0, &call).unwrap();
        frontend.set_vring_kick(0, &kick).unwrap();
        frontend.set_vring_enable(0, true).unwrap();
        Driver { machine: self, frontend, kick, call }
    }

    pub fn used(&self) -> u16 {
        self.memory.load(GuestAddress(USED + 2), Ordering::Acquire).unwrap()
    }
}

impl Driver<'_> {
    /// Puts a request into a slot and the ring; `room` bytes for an answer.
    pub fn submit(&mut self, number: u16, kind: u32, sector: u64, payload: &[u8], room: u32) {
        let (memory, base) = (&self.machine.memory, slot(number));
        memory.write_obj(kind, GuestAddress(base)).unwrap();
        memory.write_obj(sector, GuestAddress(base + 8)).unwrap();
        memory.write_obj(0xffu8, GuestAddress(base + 16)).unwrap();
        let mut descriptors = vec![(base, 16, 0)];
        if !payload.is_empty() {
            memory.write_slice(payload, GuestAddress(base + DATA)).unwrap();
            descriptors.push((base + DATA, payload.len() as u32, 0));
        }
        if room > 0 {
            descriptors.push((base + DATA, room, WRITE));
        }
        descriptors.push((base + 16, 1, WRITE));
        let (first, last) = (number * 3, number * 3 + descriptors.len() as u16 - 1);
        for (at, (addr, len, flags)) in (first..).zip(descriptors) {
            let flags = if at < last { flags | NEXT } else { flags };
            memory.write_obj(Descriptor::new(addr, len, flags, at + 1), GuestAddress(u64::from(at) * 16)).unwrap();
        }
        self.show(first);
    }

    /// Shows a chain that never ends.
    pub fn submit_circle(&mut self, number: u16) {
        let first = number * 3;
        let circle = Descriptor::new(slot(number), 16, NEXT, first);
        self.machine.memory.write_obj(circle, GuestAddress(u64::from(first) * 16)).unwrap();
        self.show(first);
    }

    fn show(&mut self, first: u16) {
        let memory = &self.machine.memory;
        let available = self.machine.next_available;
        let entry = GuestAddress(AVAILABLE + 4 + u64::from(available % ENTRIES) * 2);
        memory.write_obj(first, entry).unwrap();
        self.machine.next_available = available.wrapping_add(1);
        memory.store(self.machine.next_available, GuestAddress(AVAILABLE + 2), Ordering::Release).unwrap();
        self.kick.write(1).unwrap();
    }

    /// Waits for the next answer: the slot, the status, and how many bytes were written.
    pub fn answer(&mut self) -> (u16, u8, u32) {
        let began = Instant::now();
        while self.machine.used() == self.machine.seen {
            assert!(began.elapsed() < PATIENCE, "no answer");
            thread::sleep(Duration::from_micros(200));
        }
        let memory = &self.machine.memory;
        let entry = USED + 4 + u64::from(self.machine.seen % ENTRIES) * 8;
        let head: u32 = memory.read_obj(GuestAddress(entry)).unwrap();
        let len: u32 = memory.read_obj(GuestAddress(entry + 4)).unwrap();
        self.machine.seen = self.machine.seen.wrapping_add(1);
        // From here on it wants to be woken for the next one.
        memory
            .store(self.machine.seen, GuestAddress(AVAILABLE + 4 + u64::from(ENTRIES) * 2), Ordering::Release)
            .unwrap();
        let number = head as u16 / 3;
        (number, memory.read_obj(GuestAddress(slot(number) + 16)).unwrap(), len)
    }

    /// One request to its end.
    pub fn ask(&mut self, kind: u32, sector: u64, payload: &[u8], room: u32) -> (u8, Vec<u8>) {
        self.submit(0, kind, sector, payload, room);
        let (number, status, len) = self.answer();
        assert_eq!(number, 0);
        let mut data = vec![0; len as usize - 1];
        self.machine.memory.read_slice(&mut data, GuestAddress(slot(0) + DATA)).unwrap();
        (status, data)
    }

    pub fn config(&mut self, len: u32) -> Vec<u8> {
        let zeros = vec![0; len as usize];
        self.frontend.get_config(0, len, VhostUserConfigFlags::WRITABLE, &zeros).unwrap().1
    }
}
