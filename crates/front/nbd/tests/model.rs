//! Random requests on several connections at once, against a shadow of the disk.
//!
//! Each connection has its own stripes, so that what a read must return is known while others write; inside a connection,
//! requests in flight do not overlap. Answers overtake each other. At the end the disk, its holes too, equals the shadow.

mod support;

use std::collections::BTreeMap;

use cairn_nbd::Options;
use support::{
    Served,
    client::{BLOCK_STATUS, Client, FLUSH, READ, TRIM, WRITE_ZEROES},
    ramdisk::Faults,
    serve,
};

const MIB: usize = 1 << 20;
const DISK: usize = 16 * MIB;
const CONNECTIONS: usize = 4;
const BLOCK: usize = 4096;
const IN_FLIGHT_MAX: usize = 24;

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// What the disk must hold. A connection's shadow is right in its own stripes.
#[derive(Clone)]
struct Shadow {
    bytes: Vec<u8>,
    allocated: Vec<bool>,
}

impl Shadow {
    fn write(&mut self, at: usize, data: &[u8]) {
        self.bytes[at..at + data.len()].copy_from_slice(data);
        self.allocated[at / BLOCK..(at + data.len()).div_ceil(BLOCK)].fill(true);
    }
    fn zero(&mut self, at: usize, len: usize, keep_allocated: bool) {
        self.bytes[at..at + len].fill(0);
        for block in at / BLOCK..(at + len).div_ceil(BLOCK) {
            let whole = block * BLOCK >= at && (block + 1) * BLOCK <= at + len;
            match (keep_allocated, whole) {
                (true, _) => self.allocated[block] = true,
                (false, true) => self.allocated[block] = false,
                (false, false) => {}
            }
        }
    }
    fn extents(&self, at: usize, len: usize) -> Vec<(u32, u32)> {
        let mut out: Vec<(u32, u32)> = Vec::new();
        for sector in at / 512..(at + len) / 512 {
            let state = if self.allocated[sector * 512 / BLOCK] { 0 } else { 3 };
            match out.last_mut() {
                Some(last) if last.1 == state => last.0 += 512,
                _ => out.push((512, state)),
            }
        }
        out
    }
}

enum Expected {
    Done,
    Bytes(Vec<u8>),
    Extents(Vec<(u32, u32)>),
}

struct InFlight {
    at: usize,
    len: usize,
    expected: Expected,
}

struct Worker {
    client: Client,
    chance: Chance,
    mine: usize,
    shadow: Shadow,
    in_flight: BTreeMap<u64, InFlight>,
}

impl Worker {
    fn run(mut self, requests: usize) -> Shadow {
        for _ in 0..requests {
            while self.in_flight.len() >= IN_FLIGHT_MAX || (self.chance.below(4) == 0 && !self.in_flight.is_empty()) {
                self.finish_one();
            }
            self.start_one();
        }
        while !self.in_flight.is_empty() {
            self.finish_one();
        }
        self.shadow
    }

    /// A range in one of this connection's stripes that nothing in flight touches.
    fn free_range(&mut self) -> Option<(usize, usize)> {
        let stripe = self.chance.below(DISK / MIB / CONNECTIONS) * CONNECTIONS + self.mine;
        let most = [512, 4096, 16384, 65536, MIB][self.chance.below(5)];
        let len = 512 * (1 + self.chance.below(most / 512));
        let mut at = self.chance.below((MIB - len) / 512 + 1) * 512;
        if self.chance.below(2) == 0 {
            at -= at % BLOCK;
        }
        let at = stripe * MIB + at;
        // Whole blocks: allocation is counted by block.
        let end = (at + len).next_multiple_of(BLOCK);
        let overlaps = |f: &InFlight| f.at < end && at - at % BLOCK < f.at + f.len;
        (!self.in_flight.values().any(overlaps)).then_some((at, len))
    }

    fn start_one(&mut self) {
        let Some((at, len)) = self.free_range() else {
            return;
        };
        let (offset, bytes) = (at as u64, len as u32);
        let client = &mut self.client;
        let (cookie, expected) = match self.chance.below(10) {
            0..3 => {
                let data: Vec<u8> = (0..len).map(|i| (i + self.chance.0 as usize) as u8).collect();
                self.shadow.write(at, &data);
                (client.send_write((self.chance.below(2)) as u16, offset, &data), Expected::Done)
            }
            3..6 => {
                let now = self.shadow.bytes[at..at + len].to_vec();
                (client.send(READ, 0, offset, bytes), Expected::Bytes(now))
            }
            6 => {
                self.shadow.zero(at, len, false);
                (client.send(TRIM, 0, offset, bytes), Expected::Done)
            }
            7 => {
                let keep = self.chance.below(2) == 1;
                self.shadow.zero(at, len, keep);
                (client.send(WRITE_ZEROES, 2 * u16::from(keep), offset, bytes), Expected::Done)
            }
            8 if client.structured => {
                let now = self.shadow.extents(at, len);
                (client.send(BLOCK_STATUS, 0, offset, bytes), Expected::Extents(now))
            }
            _ => {
                let cookie = client.send(FLUSH, 0, 0, 0);
                self.in_flight.insert(cookie, InFlight { at: 0, len: 0, expected: Expected::Done });
                return;
            }
        };
        let (at, end) = (at - at % BLOCK, (at + len).next_multiple_of(BLOCK));
        self.in_flight.insert(cookie, InFlight { at, len: end - at, expected });
    }

    fn finish_one(&mut self) {
        let in_flight = &self.in_flight;
        let read_len = |cookie| match &in_flight[&cookie].expected {
            Expected::Bytes(bytes) => bytes.len() as u32,
            _ => 0,
        };
        let answer = self.client.answer_of(read_len);
        assert_eq!(answer.error, 0, "{}", answer.text);
        match self.in_flight.remove(&answer.cookie).expect("asked once").expected {
            Expected::Done => assert!(answer.extents.is_empty()),
            Expected::Extents(extents) => assert_eq!(answer.extents, extents),
            Expected::Bytes(bytes) => {
                let at = answer.data[0].0;
                assert!(answer.bytes(at, bytes.len() as u32) == bytes, "wrong bytes near {at}");
            }
        }
    }
}

fn run_round(served: &Served, seed: u64) {
    let empty = Shadow { bytes: vec![0; DISK], allocated: vec![false; DISK / BLOCK] };
    served.disk("disk", |d| d.clear());
    let start = |mine: usize| {
        let client = match mine % 2 {
            0 => Client::unix(&served.socket()),
            _ => Client::tcp(served.tcp()),
        };
        let worker = Worker {
            client: client.go("disk", mine != 2),
            chance: Chance(seed * 1000 + mine as u64 + 1),
            mine,
            shadow: empty.clone(),
            in_flight: BTreeMap::new(),
        };
        std::thread::spawn(move || worker.run(1500))
    };
    let workers: Vec<_> = (0..CONNECTIONS).map(start).collect();
    let shadows: Vec<_> = workers.into_iter().map(|w| w.join().expect("a worker")).collect();
    let contents = served.disk("disk", |d| d.contents());
    let allocated = served.disk("disk", |d| d.allocation());
    for stripe in 0..DISK / MIB {
        let shadow = &shadows[stripe % CONNECTIONS];
        let (bytes, blocks) = (stripe * MIB..(stripe + 1) * MIB, stripe * MIB / BLOCK..(stripe + 1) * MIB / BLOCK);
        assert!(contents[bytes.clone()] == shadow.bytes[bytes], "stripe {stripe}, seed {seed}");
        assert_eq!(allocated[blocks.clone()], shadow.allocated[blocks], "stripe {stripe}, seed {seed}");
    }
}

#[test]
fn random_requests_equal_the_shadow() {
    let served = serve(&[("disk", DISK as u64)], Options::default());
    for (seed, turns_max) in [(1, 0), (2, 3), (3, 20)] {
        served.disk("disk", move |d| d.set_faults(Faults { turns_max, ..Faults::default() }));
        run_round(&served, seed);
    }
    served.stop();
}
