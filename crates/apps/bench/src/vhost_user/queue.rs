//! Requests of a virtio block device on their way: each has a slot of the shared memory until it is answered.
//!
//! Promises    Q1  requests are placed in the order in which they were made; who finds no room waits its turn
//!             Q2  whoever waits when the connection ends is told why
//!             Q3  an answer to what was not asked ends the connection, and touches nothing else
//! Method      slot n has descriptors 3n to 3n + 2, a line for header and status, and a piece for data. Slots that were used last are
//!             used first: their memory is in the caches
//! Not here    who publishes, and when (`driver`)
//! Source      virtio 1.2, 5.2.6

use std::{collections::VecDeque, io, mem};

use bytes::Bytes;
use futures::channel::oneshot;
use virtio_bindings::{
    virtio_blk::{
        VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD, VIRTIO_BLK_T_FLUSH,
        VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    },
    virtio_ring::{VRING_DESC_F_NEXT, VRING_DESC_F_WRITE},
};

use super::{
    memory::Memory,
    ring::{Descriptor, Ring},
};
use crate::command::Command;

pub(super) const SECTOR_BYTES: u64 = 512;

/// Bytes of one request's data, at most.
pub(super) const REQUEST_BYTES_MAX: u32 = 4 << 20;

/// Bytes for the data of all requests together. What nobody writes to takes no room.
///
/// Napkin: 341 slots of 1 MiB, which is what a ring of 1024 holds, or 128 of 4 MiB.
const DATA_BYTES: usize = 512 << 20;
const _: () = assert!(DATA_BYTES >= REQUEST_BYTES_MAX as usize);

/// Bytes of data that slots have at first. They grow with the largest request.
const SLOT_BYTES_FIRST: usize = 64 << 10;

const DESCRIPTORS_EACH: u16 = 3;
const HEADER_BYTES: u32 = 16;
/// Of header and status: they share a cache line, which no other slot has a part of.
const LINE_BYTES: usize = 64;
const PAGE: usize = 4096;
/// No device answers with it.
const STATUS_NONE: u8 = 0xff;

const NEXT: u16 = VRING_DESC_F_NEXT as u16;
const WRITE: u16 = VRING_DESC_F_WRITE as u16;

/// What was read, where it is asked for.
pub(super) type Answer = Result<Bytes, String>;

/// A request, and who is told.
pub(super) struct Asked {
    pub(super) command: Command,
    /// Without meaning for flushes and trims.
    pub(super) offset: u64,
    /// Of a read.
    pub(super) read_bytes: u32,
    /// What the device reads: of a write its data, of a trim its ranges.
    pub(super) data: Bytes,
    /// Whether somebody wants to see what is read.
    pub(super) keep: bool,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl Asked {
    fn data_bytes(&self) -> usize {
        self.data.len().max(self.read_bytes as usize)
    }

    fn kind(&self) -> u32 {
        match self.command {
            Command::Read => VIRTIO_BLK_T_IN,
            Command::Write => VIRTIO_BLK_T_OUT,
            Command::Flush => VIRTIO_BLK_T_FLUSH,
            Command::Trim => VIRTIO_BLK_T_DISCARD,
        }
    }
}

/// A request in its slot.
struct UnderWay {
    kept_bytes: Option<u32>,
    answer: oneshot::Sender<Answer>,
}

pub(super) struct Queue {
    memory: Memory,
    ring: Ring,
    /// Where the lines of the slots begin, and their data.
    lines: usize,
    data: usize,
    slot_bytes: usize,
    free: Vec<u16>,
    under_way: Vec<Option<UnderWay>>,
    under_way_count: usize,
    waiting: VecDeque<Asked>,
    /// Why the connection ended.
    ended: Option<String>,
}

impl Queue {
    /// An empty queue in memory of its own.
    pub(super) fn new(ring_size: u16, event_index: bool) -> io::Result<Self> {
        let ring = Ring::new(ring_size, event_index);
        let slots = usize::from(ring_size / DESCRIPTORS_EACH);
        let lines = ring.end();
        let data = (lines + slots * LINE_BYTES).next_multiple_of(PAGE);
        let mut queue = Self {
            memory: Memory::new(data + DATA_BYTES)?,
            ring,
            lines,
            data,
            slot_bytes: 0,
            free: Vec::with_capacity(slots),
            under_way: std::iter::repeat_with(|| None).take(slots).collect(),
            under_way_count: 0,
            waiting: VecDeque::new(),
            ended: None,
        };
        queue.resize(SLOT_BYTES_FIRST);
        Ok(queue)
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Why no more requests are taken.
    pub(super) fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// Places the request where there is room, else it waits. True where there is something to publish.
    pub(super) fn ask(&mut self, asked: Asked) -> bool {
        if self.waiting.is_empty() && self.has_room(asked.data_bytes()) {
            self.place(asked);
            return true;
        }
        self.waiting.push_back(asked);
        false
    }

    /// Shows the device what was placed. True where it is to be kicked.
    pub(super) fn publish(&mut self) -> bool {
        self.ring.publish(&self.memory)
    }

    /// Answers whom the device has answered, and places who waited for room. True where there is something to publish.
    pub(super) fn collect(&mut self) -> bool {
        let mut any = false;
        // Where nothing was taken the ring is armed as it was.
        while self.collect_some() {
            any = true;
            if !self.ring.arm(&self.memory) {
                break;
            }
        }
        any && self.place_waiting()
    }

    fn collect_some(&mut self) -> bool {
        let mut any = false;
        while let Some(head) = self.ring.take(&self.memory) {
            any = true;
            if let Err(why) = self.answer(head) {
                self.end(&why);
            }
        }
        any
    }

    /// Ends it: nobody waits any more.
    pub(super) fn end(&mut self, why: &str) {
        self.ended.get_or_insert_with(|| why.to_owned());
        for under_way in self.under_way.iter_mut().filter_map(Option::take) {
            let _ = under_way.answer.send(Err(why.to_owned()));
        }
        for asked in mem::take(&mut self.waiting) {
            let _ = asked.answer.send(Err(why.to_owned()));
        }
    }

    /// Q3.
    fn answer(&mut self, head: u32) -> Result<(), String> {
        let slot = (head / u32::from(DESCRIPTORS_EACH)) as usize;
        let known = head.is_multiple_of(DESCRIPTORS_EACH.into());
        let under_way = self.under_way.get_mut(slot).filter(|_| known).and_then(Option::take);
        let under_way = under_way.ok_or("the server answered a request that nobody made")?;
        self.under_way_count -= 1;
        self.free.push(slot as u16);
        let answer = match u32::from(self.memory.get_u8(self.status(slot))) {
            VIRTIO_BLK_S_OK => Ok(match under_way.kept_bytes {
                Some(bytes) => self.memory.get(self.data + slot * self.slot_bytes, bytes as usize),
                None => Bytes::new(),
            }),
            VIRTIO_BLK_S_IOERR => Err("the server answered with an I/O error".to_owned()),
            VIRTIO_BLK_S_UNSUPP => Err("the server does not know this request".to_owned()),
            status => Err(format!("the server answered with status {status}, which means nothing")),
        };
        let _ = under_way.answer.send(answer);
        Ok(())
    }

    fn place_waiting(&mut self) -> bool {
        let mut any = false;
        while let Some(bytes) = self.waiting.front().map(Asked::data_bytes)
            && self.has_room(bytes)
            && let Some(asked) = self.waiting.pop_front()
        {
            self.place(asked);
            any = true;
        }
        any
    }

    /// Whether a slot of so many bytes is free. Slots that are too small grow once all of them are.
    fn has_room(&mut self, bytes: usize) -> bool {
        if bytes > self.slot_bytes {
            if self.under_way_count > 0 {
                return false;
            }
            self.resize(bytes.next_power_of_two());
        }
        !self.free.is_empty()
    }

    fn resize(&mut self, slot_bytes: usize) {
        let slots = self.under_way.len().min(DATA_BYTES / slot_bytes);
        self.slot_bytes = slot_bytes;
        self.free.clear();
        self.free.extend((0..slots as u16).rev());
    }

    fn place(&mut self, asked: Asked) {
        let slot = self.free.pop().expect("there is room");
        let (at, head) = (usize::from(slot), slot * DESCRIPTORS_EACH);
        let (line, status, data) = (self.line(at), self.status(at), self.data + at * self.slot_bytes);
        let sector =
            if matches!(asked.command, Command::Read | Command::Write) { asked.offset / SECTOR_BYTES } else { 0 };
        self.memory.put_u64(line, asked.kind().into());
        self.memory.put_u64(line + 8, sector);
        self.memory.put_u8(status, STATUS_NONE);
        self.memory.put(data, &asked.data);
        let bytes = asked.data_bytes();
        let second = if bytes == 0 { head + 2 } else { head + 1 };
        self.describe(head, line, HEADER_BYTES, NEXT, second);
        if bytes > 0 {
            let flags = if asked.read_bytes > 0 { NEXT | WRITE } else { NEXT };
            self.describe(head + 1, data, bytes as u32, flags, head + 2);
        }
        self.describe(head + 2, status, 1, WRITE, 0);
        self.ring.place(&self.memory, head);
        let kept_bytes = asked.keep.then_some(asked.read_bytes);
        self.under_way[at] = Some(UnderWay { kept_bytes, answer: asked.answer });
        self.under_way_count += 1;
    }

    fn describe(&self, number: u16, at: usize, len_bytes: u32, flags: u16, next: u16) {
        let descriptor = Descriptor { address: self.memory.guest_address(at), len_bytes, flags, next };
        self.ring.describe(&self.memory, number, &descriptor);
    }

    fn line(&self, slot: usize) -> usize {
        self.lines + slot * LINE_BYTES
    }

    /// It lies right behind the header.
    fn status(&self, slot: usize) -> usize {
        self.line(slot) + HEADER_BYTES as usize
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::{super::ring::device::Device, *};

    type Answered = oneshot::Receiver<Answer>;

    /// A device that keeps what is written in memory.
    struct Server {
        ring: Device,
        holds: Vec<u8>,
        /// Chains that it has seen, and not answered.
        seen: VecDeque<u16>,
    }

    impl Server {
        fn new() -> Self {
            Self { ring: Device::new(), holds: vec![0; 1 << 20], seen: VecDeque::new() }
        }

        fn look(&mut self, queue: &Queue) -> usize {
            while let Some(head) = self.ring.next(&queue.ring, &queue.memory) {
                self.seen.push_back(head);
            }
            self.seen.len()
        }

        /// Carries out the oldest chain; `status` is what it answers with.
        fn answer(&mut self, queue: &Queue, status: u8) {
            let head = self.seen.pop_front().unwrap();
            let base = queue.memory.guest_address(0);
            let part = |number| self.ring.descriptor(number, &queue.ring, &queue.memory);
            let place = |part: &Descriptor| (part.address - base) as usize;
            let header = part(head);
            assert_eq!((header.len_bytes, header.flags), (16, NEXT));
            let kind = queue.memory.get_u32(place(&header));
            let from = u64::from(queue.memory.get_u32(place(&header) + 8)) * SECTOR_BYTES;
            let mut last = part(header.next);
            if last.flags & NEXT != 0 {
                let data = last;
                last = part(data.next);
                let span = from as usize..from as usize + data.len_bytes as usize;
                if data.flags & WRITE != 0 {
                    assert_eq!(kind, VIRTIO_BLK_T_IN);
                    queue.memory.put(place(&data), &self.holds[span]);
                } else if kind == VIRTIO_BLK_T_OUT {
                    self.holds[span].copy_from_slice(&queue.memory.get(place(&data), data.len_bytes as usize));
                }
            }
            assert_eq!((last.len_bytes, last.flags), (1, WRITE));
            queue.memory.put_u8(place(&last), status);
            self.ring.done(head.into(), &queue.ring, &queue.memory);
        }

        fn answer_all(&mut self, queue: &mut Queue) {
            while self.look(queue) > 0 {
                self.answer(queue, 0);
                queue.collect();
                queue.publish();
            }
        }
    }

    fn asked(command: Command, offset: u64, read_bytes: u32, data: &[u8]) -> (Asked, Answered) {
        let (answer, answered) = oneshot::channel();
        let data = Bytes::copy_from_slice(data);
        (Asked { command, offset, read_bytes, data, keep: true, answer }, answered)
    }

    fn read(queue: &mut Queue, offset: u64, bytes: u32) -> Answered {
        let (request, answered) = asked(Command::Read, offset, bytes, &[]);
        queue.ask(request);
        answered
    }

    fn write(queue: &mut Queue, offset: u64, data: &[u8]) -> Answered {
        let (request, answered) = asked(Command::Write, offset, 0, data);
        queue.ask(request);
        answered
    }

    fn now(answered: Answered) -> Option<Answer> {
        answered.now_or_never().map(|answer| answer.expect("whoever asks is answered"))
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (mut queue, mut server) = (Queue::new(16, true).unwrap(), Server::new());
        let data: Vec<u8> = (0..4096u32).map(|i| (i / 3) as u8).collect();
        let written = write(&mut queue, 8192, &data);
        let (flush, flushed) = asked(Command::Flush, 0, 0, &[]);
        assert!(queue.ask(flush));
        assert!(queue.publish());
        server.answer_all(&mut queue);
        assert_eq!((now(written), now(flushed)), (Some(Ok(Bytes::new())), Some(Ok(Bytes::new()))));
        let seen = read(&mut queue, 8192 + 512, 1024);
        queue.publish();
        server.answer_all(&mut queue);
        assert_eq!(now(seen), Some(Ok(data[512..1536].to_vec().into())));
    }

    /// Q1, around the ends of ring and indices.
    #[test]
    fn who_finds_no_room_waits_its_turn() {
        let (mut queue, mut server) = (Queue::new(16, true).unwrap(), Server::new());
        for round in 0..2000u64 {
            let written: Vec<Answered> =
                (0..40).map(|n| write(&mut queue, n * 512, &[(round + n) as u8; 512])).collect();
            queue.publish();
            assert_eq!(server.look(&queue), 5, "three descriptors each");
            server.answer_all(&mut queue);
            assert!(written.into_iter().all(|written| now(written) == Some(Ok(Bytes::new()))));
            assert!((0..40u64).all(|n| server.holds[n as usize * 512] == (round + n) as u8));
        }
    }

    #[test]
    fn slots_grow_with_the_largest_request_once_they_are_empty() {
        let (mut queue, mut server) = (Queue::new(1024, true).unwrap(), Server::new());
        let (small, large) = (vec![7; 4096], vec![9; 200 << 10]);
        let first = write(&mut queue, 0, &small);
        let second = write(&mut queue, 4096, &large);
        let third = write(&mut queue, 512 << 10, &small);
        queue.publish();
        assert_eq!(server.look(&queue), 1, "the large one waits, and who comes later waits behind it");
        server.answer(&queue, 0);
        assert!(queue.collect());
        queue.publish();
        assert_eq!(server.look(&queue), 2);
        server.answer_all(&mut queue);
        assert!([first, second, third].into_iter().all(|written| now(written) == Some(Ok(Bytes::new()))));
        assert!(server.holds[4096..][..large.len()] == large[..]);
        assert_eq!((queue.slot_bytes, queue.free.len()), (256 << 10, 341));
        queue.resize(REQUEST_BYTES_MAX as usize);
        assert_eq!(queue.free.len(), 128);
    }

    #[test]
    fn what_the_server_says_is_told_in_words() {
        let (mut queue, mut server) = (Queue::new(16, true).unwrap(), Server::new());
        for (status, words) in [(1, "an I/O error"), (2, "does not know"), (9, "status 9")] {
            let seen = read(&mut queue, 0, 512);
            queue.publish();
            server.look(&queue);
            server.answer(&queue, status);
            assert!(!queue.collect());
            let said = now(seen).unwrap().unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }

    /// Q2, Q3.
    #[test]
    fn an_answer_to_what_was_not_asked_ends_it() {
        for wrong in [1, 3, 15, u32::MAX] {
            let (mut queue, mut server) = (Queue::new(16, true).unwrap(), Server::new());
            let all: Vec<Answered> = (0..9).map(|n| read(&mut queue, n * 512, 512)).collect();
            queue.publish();
            server.look(&queue);
            if wrong == 3 {
                server.answer(&queue, 0);
                server.answer(&queue, 0);
            }
            server.ring.done(wrong, &queue.ring, &queue.memory);
            queue.collect();
            let said: Vec<Answer> = all.into_iter().map(|seen| now(seen).unwrap()).collect();
            let good = if wrong == 3 { 2 } else { 0 };
            assert!(said[..good].iter().all(Result::is_ok));
            assert!(said[good..].iter().all(|said| said.as_ref().is_err_and(|why| why.contains("nobody made"))));
            assert!(queue.ended().is_some());
        }
    }
}
