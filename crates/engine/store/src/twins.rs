//! What is known of blocks that are stored already: hooks and headers of each device, and what rounds have written meanwhile.
//!
//! Promises    hooks of a run are entered once its transaction is durable
//! Not here    looking blocks up and comparing them (`find_twins.rs`)

use std::collections::BTreeMap;

use crate::{
    capacity::OutBlock,
    doubts::Doubts,
    hooks::{Hooks, RunPage},
    run_cache::{HEADERS_BYTES_MAX, RunCache},
};

/// Where equal blocks may be, on one device.
#[derive(Debug)]
pub(crate) struct OfDevice {
    pub hooks: Hooks,
    pub runs: RunCache,
}

/// What is known of blocks that are stored already.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// What all tables of hooks may take.
    hooks_bytes: u64,
    devices: BTreeMap<u8, OfDevice>,
    /// Fingerprints of runs whose transactions are not durable, by ticket.
    fresh: BTreeMap<u64, Vec<(u8, RunPage, Vec<u64>)>>,
    pub doubts: Doubts,
    /// A round found no room for what had to be written after all: the next one looks for nothing.
    pub passes_one: bool,
    /// Counts how often older runs were begun to be entered.
    recall: u64,
}

impl Twins {
    /// With so many bytes for hooks of all devices.
    pub fn new(hooks_bytes: u64) -> Self {
        Self { hooks_bytes, ..Self::default() }
    }
    pub fn of(&mut self, device: u8, devices: usize) -> &mut OfDevice {
        let (share, hooks_bytes) = (devices.max(1) as u64, self.hooks_bytes);
        self.devices.entry(device).or_insert_with(|| OfDevice {
            hooks: Hooks::new(hooks_bytes / share),
            runs: RunCache::new(HEADERS_BYTES_MAX / share),
        })
    }
    /// A run was written.
    pub fn wrote(&mut self, ticket: u64, device: u8, page: u64, blocks: &[OutBlock]) {
        let known = blocks.iter().filter(|block| !block.pending && block.fingerprint != 0);
        let fingerprints: Vec<u64> = known.map(|block| block.fingerprint).collect();
        if let Some(page) = RunPage::try_from(page).ok().filter(|_| !fingerprints.is_empty()) {
            self.fresh.entry(ticket).or_default().push((device, page, fingerprints));
        }
    }
    /// The transaction is durable that refers to what was written.
    pub fn is_durable(&mut self, ticket: u64, devices: usize) {
        for (device, page, fingerprints) in self.fresh.remove(&ticket).unwrap_or_default() {
            let of = self.of(device, devices);
            // Another run stood there.
            of.runs.forget_run(page);
            fingerprints.into_iter().for_each(|fingerprint| of.hooks.enter(fingerprint, page));
        }
    }
    /// It came to nothing.
    pub fn is_over(&mut self, ticket: u64) {
        self.fresh.remove(&ticket);
    }
    /// Nothing is looked for any more.
    pub fn clear(&mut self) {
        *self = Self { recall: self.recall + 1, ..Self::new(self.hooks_bytes) };
    }
    /// Older runs begin to be entered: which turn of that it is.
    pub fn recalls(&mut self) -> u64 {
        self.recall += 1;
        self.recall
    }
    /// That turn has neither been followed by one, nor is it of no use any more.
    pub fn is_recall(&self, turn: u64) -> bool {
        self.recall == turn
    }
    /// Entries of all tables, and of how many fingerprints one is entered where that is least.
    pub fn depth(&self) -> (u64, u64) {
        let depths = self.devices.values().map(|of| of.hooks.depth());
        depths.fold((0, 1), |sum, of| (sum.0 + of.0, sum.1.max(of.1)))
    }
}
