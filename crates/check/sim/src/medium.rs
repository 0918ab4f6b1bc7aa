//! What a device holds: its newest bytes, and for every sector that is not yet durable what it held before.
//!
//! Promises    a crash leaves each unsynced sector (512 B) with any of the contents it had since it was last
//!             durable, independently of its neighbours; a durable sector keeps its bytes
//! Assumes     a sector never tears; a sync that returned is durable (docs/fault-model.md)
//! Not here    errors, latency, counting (`disk.rs`); what a device does wrong (`faults.rs`)

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
    sync::Arc,
};

use crate::rng::Rng;

pub(crate) const SECTOR: u64 = cairn_types::SECTOR_BYTES as u64;
const PAGE: u64 = cairn_types::BLOCK_BYTES as u64;
const SECTORS_PER_PAGE: u64 = PAGE / SECTOR;

type Page = [u8; PAGE as usize];

/// One write that is not durable yet.
#[derive(Debug, Clone)]
struct Write {
    /// Whose sync makes it durable: 0 for the shard's own, else one blocking handle.
    handle: u64,
    /// When it returned to its caller; none while it is in flight.
    returned: Option<u64>,
    sectors: Range<u64>,
}

/// What a sector held before one write that is not durable yet. None is a hole: zeros.
#[derive(Debug, Clone)]
struct Before {
    write: u64,
    page: Option<Arc<Page>>,
}

/// The bytes of a device, cheap to clone (pages are shared until they change): an image at one instant.
#[derive(Debug, Clone)]
pub struct Medium {
    len_bytes: u64,
    pages: BTreeMap<u64, Arc<Page>>,
    unsynced: BTreeMap<u64, Vec<Before>>,
    writes: BTreeMap<u64, Write>,
    clock: u64,
}

/// How a power loss treats what was unsynced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Every sector on its own: torn writes.
    EachSector,
    /// Nothing unsynced was on the medium yet.
    All,
    /// All of it was.
    Nothing,
    /// Most sectors were: one in eight is not.
    Few,
    /// Few were: one in eight is.
    Most,
}

impl Medium {
    /// An empty device: all zeros.
    pub fn new(len_bytes: u64) -> Self {
        assert!(len_bytes.is_multiple_of(PAGE), "a device is a whole number of 4 KiB");
        Self { len_bytes, pages: BTreeMap::new(), unsynced: BTreeMap::new(), writes: BTreeMap::new(), clock: 1 }
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Sectors whose newest contents a crash may take back.
    pub fn unsynced_sectors(&self) -> usize {
        self.unsynced.len()
    }

    /// Where the `n`th 4 KiB block at or behind `from` begins that anything was ever written to, counted around; none without any.
    pub fn written(&self, from: u64, n: u64) -> Option<u64> {
        let pages = self.pages.range(from.div_ceil(PAGE)..);
        let count = pages.clone().count() as u64;
        let (page, _) = pages.clone().nth(n.checked_rem(count)? as usize)?;
        Some(page * PAGE)
    }

    /// Where the 4 KiB blocks at or behind `from` begin that anything was ever written to, ascending.
    pub fn all_written(&self, from: u64) -> Vec<u64> {
        self.pages.range(from.div_ceil(PAGE)..).map(|(page, _)| page * PAGE).collect()
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Copies the newest bytes into `into`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let count = (PAGE as usize - within).min(into.len() - done);
            let part = &mut into[done..done + count];
            match self.pages.get(&(at / PAGE)) {
                Some(page) => part.copy_from_slice(&page[within..within + count]),
                None => part.fill(0),
            }
            done += count;
        }
    }

    /// Replaces in `into` (read at `offset`) some sectors of writes in flight by what was there before: a read
    /// that races a write may see either, sector by sector.
    pub(crate) fn read_race(&self, offset: u64, into: &mut [u8], rng: &mut Rng) {
        let sectors = offset / SECTOR..(offset + into.len() as u64).div_ceil(SECTOR);
        for (&sector, versions) in self.unsynced.range(sectors) {
            let Some(last) = versions.last() else {
                continue;
            };
            if self.in_flight(last.write) && rng.one_in(2) {
                let at = ((sector * SECTOR) - offset) as usize;
                copy_sector(&last.page, sector, &mut into[at..at + SECTOR as usize]);
            }
        }
    }

    fn in_flight(&self, write: u64) -> bool {
        self.writes.get(&write).is_some_and(|w| w.returned.is_none())
    }

    /// Whether a write of `sectors` would race one in flight (their order on the medium is nobody's promise).
    pub(crate) fn races(&self, offset: u64, len_bytes: u64) -> bool {
        let sectors = offset / SECTOR..(offset + len_bytes).div_ceil(SECTOR);
        self.unsynced.range(sectors).any(|(_, versions)| versions.last().is_some_and(|v| self.in_flight(v.write)))
    }

    /// Puts `data` at `offset`, unsynced and in flight; returns the number to end it by.
    pub(crate) fn begin_write(&mut self, handle: u64, offset: u64, data: &[&[u8]]) -> u64 {
        let len_bytes: u64 = data.iter().map(|part| part.len() as u64).sum();
        let write = self.tick();
        let mut at = offset;
        for part in data {
            let mut part = *part;
            while !part.is_empty() {
                let within = (at % PAGE) as usize;
                let count = (PAGE as usize - within).min(part.len());
                self.write_within_page(write, at, &part[..count]);
                at += count as u64;
                part = &part[count..];
            }
        }
        let sectors = offset / SECTOR..(offset + len_bytes).div_ceil(SECTOR);
        self.writes.insert(write, Write { handle, returned: None, sectors });
        write
    }

    fn write_within_page(&mut self, write: u64, at: u64, data: &[u8]) {
        let (number, within) = (at / PAGE, (at % PAGE) as usize);
        let before = self.pages.get(&number).cloned();
        for sector in at / SECTOR..(at + data.len() as u64).div_ceil(SECTOR) {
            let versions = self.unsynced.entry(sector).or_default();
            // A write of several parts may touch one sector twice: what it held before the first counts.
            if versions.last().is_none_or(|last| last.write != write) {
                versions.push(Before { write, page: before.clone() });
            }
        }
        let mut page = before.map_or([0; PAGE as usize], |page| *page);
        page[within..within + data.len()].copy_from_slice(data);
        self.pages.insert(number, Arc::new(page));
    }

    /// The write returned to its caller; it is durable from now on if `durable`.
    pub(crate) fn end_write(&mut self, write: u64, durable: bool) {
        if durable {
            return self.settle(write);
        }
        let now = self.tick();
        if let Some(write) = self.writes.get_mut(&write) {
            write.returned = Some(now);
        }
    }

    /// Makes one write durable, and with it whatever it overwrote.
    fn settle(&mut self, write: u64) {
        let Some(gone) = self.writes.remove(&write) else {
            return;
        };
        for sector in gone.sectors {
            let Entry::Occupied(mut versions) = self.unsynced.entry(sector) else {
                continue;
            };
            if let Some(at) = versions.get().iter().position(|v| v.write == write) {
                versions.get_mut().drain(..=at);
                if versions.get().is_empty() {
                    versions.remove();
                }
            }
        }
    }

    /// The instant of a flush's beginning: it covers the writes that returned before.
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.tick()
    }

    /// The flush begun at `begun` returned.
    pub(crate) fn end_flush(&mut self, begun: u64) {
        self.settle_where(|write| write.returned.is_some_and(|at| at < begun));
    }

    /// One blocking handle's sync: the contract promises no more than its own writes.
    pub(crate) fn sync_handle(&mut self, handle: u64) {
        self.settle_where(|write| write.handle == handle);
    }

    fn settle_where(&mut self, covered: impl Fn(&Write) -> bool) {
        let settled: Vec<u64> =
            self.writes.iter().filter(|(_, write)| covered(write)).map(|(&number, _)| number).collect();
        for write in settled {
            self.settle(write);
        }
    }

    /// Power is lost: each unsynced sector ends with one of the contents it had, `rng` says which. What is there
    /// afterwards is durable.
    pub fn lose_power(&mut self, rng: &mut Rng) {
        let loss = match rng.below(8) {
            0 => Loss::All,
            1 => Loss::Nothing,
            2 => Loss::Few,
            3 => Loss::Most,
            _ => Loss::EachSector,
        };
        let unsynced = std::mem::take(&mut self.unsynced);
        self.writes.clear();
        for (sector, versions) in unsynced {
            let count = versions.len() as u64;
            let kept = match loss {
                Loss::All => 0,
                Loss::Nothing => count,
                Loss::EachSector => rng.between(0, count),
                Loss::Few if !rng.one_in(8) => count,
                Loss::Most if !rng.one_in(8) => 0,
                Loss::Few | Loss::Most => rng.between(0, count),
            };
            if let Some(version) = versions.get(kept as usize) {
                self.restore(sector, &version.page);
            }
        }
    }

    /// One write failed: each of its sectors holds the new bytes or the old.
    pub(crate) fn fail_write(&mut self, write: u64, rng: &mut Rng) {
        let Some(failed) = self.writes.remove(&write) else {
            return;
        };
        for sector in failed.sectors {
            let Some(versions) = self.unsynced.get_mut(&sector) else {
                continue;
            };
            // Only the newest contents can be taken back alone; below it, later writes hide the failed one.
            if versions.last().is_some_and(|v| v.write == write)
                && rng.one_in(2)
                && let Some(version) = versions.pop()
            {
                if versions.is_empty() {
                    self.unsynced.remove(&sector);
                }
                self.restore(sector, &version.page);
            }
        }
    }

    /// The flush begun at `begun` failed: any sector that it covered is lost or not, and no later one brings it back.
    pub(crate) fn fail_flush(&mut self, begun: u64, rng: &mut Rng) {
        self.fail_where(rng, |write| write.returned.is_some_and(|at| at < begun));
    }

    /// The same of one blocking handle's sync.
    pub(crate) fn fail_sync(&mut self, handle: u64, rng: &mut Rng) {
        self.fail_where(rng, |write| write.handle == handle);
    }

    fn fail_where(&mut self, rng: &mut Rng, covered: impl Fn(&Write) -> bool) {
        let covered = |write: &Write| covered(write);
        let newest_first: Vec<u64> =
            self.writes.iter().filter(|(_, write)| covered(write)).map(|(&number, _)| number).rev().collect();
        for write in newest_first {
            let sectors = self.writes[&write].sectors.clone();
            self.fail_write(write, rng);
            // What was not taken back stays, durably: the device dropped it from its list of work.
            self.writes.insert(write, Write { handle: u64::MAX, returned: Some(0), sectors });
            self.settle(write);
        }
    }

    fn restore(&mut self, sector: u64, from: &Option<Arc<Page>>) {
        let number = sector / SECTORS_PER_PAGE;
        let page = Arc::make_mut(self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE as usize])));
        let within = ((sector % SECTORS_PER_PAGE) * SECTOR) as usize;
        copy_sector(from, sector, &mut page[within..within + SECTOR as usize]);
    }

    /// The process died but power stayed: everything in flight lands, and none of it is durable by promise.
    pub(crate) fn abandon_in_flight(&mut self) {
        let now = self.tick();
        for write in self.writes.values_mut() {
            write.returned.get_or_insert(now);
            // The handle is gone with its process: only a flush covers these now.
            write.handle = 0;
        }
    }

    /// Turns one bit over, durably.
    pub fn flip_bit(&mut self, offset: u64, bit: u8) {
        let page = Arc::make_mut(self.pages.entry(offset / PAGE).or_insert_with(|| Arc::new([0; PAGE as usize])));
        page[(offset % PAGE) as usize] ^= 1 << (bit % 8);
    }

    /// Puts bytes in place behind everybody's back, durably: a foreign or damaged device.
    pub fn poke(&mut self, offset: u64, data: &[u8]) {
        let write = self.begin_write(u64::MAX, offset, &[data]);
        self.settle(write);
    }
}

fn copy_sector(from: &Option<Arc<Page>>, sector: u64, into: &mut [u8]) {
    let within = ((sector % SECTORS_PER_PAGE) * SECTOR) as usize;
    match from {
        Some(page) => into.copy_from_slice(&page[within..within + SECTOR as usize]),
        None => into.fill(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sectors(medium: &Medium, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * SECTOR as usize];
        medium.read(0, &mut bytes);
        bytes.chunks(SECTOR as usize).map(|s| s[0]).collect()
    }

    #[test]
    fn durable_sectors_survive_and_unsynced_ones_take_any_earlier_contents() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut medium = Medium::new(8 * PAGE);
            let write = medium.begin_write(0, 0, &[&[1; 4096]]);
            medium.end_write(write, true);
            for value in [2u8, 3] {
                let write = medium.begin_write(0, 0, &[&[value; 1024]]);
                medium.end_write(write, false);
            }
            medium.lose_power(&mut Rng::new(seed));
            let held = sectors(&medium, 8);
            assert!(held[2..].iter().all(|&b| b == 1), "durable bytes changed");
            seen.insert((held[0], held[1]));
        }
        assert_eq!(seen.len(), 9, "all of {{1,2,3}} x {{1,2,3}}: {seen:?}");
    }

    #[test]
    fn a_flush_covers_what_returned_before_it_began_and_no_more() {
        let mut medium = Medium::new(8 * PAGE);
        let first = medium.begin_write(0, 0, &[&[1; 512]]);
        medium.end_write(first, false);
        let begun = medium.begin_flush();
        let second = medium.begin_write(0, 512, &[&[2; 512]]);
        medium.end_write(second, false);
        medium.end_flush(begun);
        assert_eq!(medium.unsynced_sectors(), 1);
        let begun = medium.begin_flush();
        medium.end_flush(begun);
        assert_eq!(medium.unsynced_sectors(), 0);
    }

    #[test]
    fn a_durable_write_makes_what_it_overwrote_irrelevant() {
        for seed in 0..50 {
            let mut medium = Medium::new(8 * PAGE);
            let buffered = medium.begin_write(0, 0, &[&[1; 512]]);
            medium.end_write(buffered, false);
            let durable = medium.begin_write(0, 0, &[&[2; 512]]);
            medium.end_write(durable, true);
            medium.lose_power(&mut Rng::new(seed));
            assert_eq!(sectors(&medium, 1), [2]);
        }
    }

    #[test]
    fn a_handle_syncs_its_own_writes_only() {
        let mut medium = Medium::new(8 * PAGE);
        for handle in [1, 2] {
            let write = medium.begin_write(handle, handle * 4096, &[&[9; 100]]);
            medium.end_write(write, false);
        }
        medium.sync_handle(1);
        assert_eq!(medium.unsynced_sectors(), 1);
    }
}
