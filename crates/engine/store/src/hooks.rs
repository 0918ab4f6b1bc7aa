//! Hooks: which run holds a block of a fingerprint. A table of fixed size a device, a sample of what stands there.
//!
//! Promises    a hook is a hint: one that is lost costs a duplicate that is not found, one that is wrong a header that is read
//! Memory      8 bytes an entry, as many as [`HOOKS_BYTES`] has for all devices of a group, a third of them empty
//! Not here    reading headers and comparing blocks (`find_twins.rs`)
//! Source      sparse indexing: Lillibridge et al., FAST 2009: duplicates come in runs, so that a sample finds most of them
//!
//! Fingerprints whose lowest bits are zero are entered: all at first, half as many each time that the table is full.

/// What the tables of a group may take, where nothing else is chosen: every block of 48 GiB without equal ones, one in 16 of 768 GiB.
pub(crate) const HOOKS_BYTES: u64 = 128 << 20;
const ENTRY_BYTES: u64 = 8;
const CAPACITY_MIN: usize = 1 << 10;
/// No entry: no run is there.
const EMPTY: u64 = u64::MAX;

/// Where a run begins: pages of the device, counted over its segments. Runs beyond 16 TiB get no hooks.
pub(crate) type RunPage = u32;

/// The hooks of one device.
#[derive(Debug)]
pub(crate) struct Hooks {
    /// The lowest 32 bits of a fingerprint, above them its run; open addressing, a power of two of them.
    entries: Vec<u64>,
    len: usize,
    capacity_max: usize,
    /// So many of the lowest bits of a fingerprint that is entered are zero.
    sampled_bits: u32,
}

impl Hooks {
    /// At most so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        let capacity_max = (bytes_max / ENTRY_BYTES).max(CAPACITY_MIN as u64);
        let capacity_max = 1 << capacity_max.ilog2();
        Self { entries: vec![EMPTY; CAPACITY_MIN], len: 0, capacity_max, sampled_bits: 0 }
    }

    fn is_sampled(&self, fingerprint: u64) -> bool {
        fingerprint & ((1 << self.sampled_bits) - 1) == 0
    }
    /// Where the search for a tag begins.
    fn start(&self, tag: u32) -> usize {
        (u64::from(tag).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.entries.len().ilog2())) as usize
    }
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }
    /// The entry of a tag, or the empty one where it would stand.
    fn find(&self, tag: u32) -> usize {
        let mut at = self.start(tag);
        while self.entries[at] != EMPTY && self.entries[at] as u32 != tag {
            at = self.next(at);
        }
        at
    }

    /// A run has a block of the fingerprint. The newest one counts.
    pub fn enter(&mut self, fingerprint: u64, run: RunPage) {
        let entry = u64::from(run) << 32 | fingerprint & u64::from(u32::MAX);
        if !self.is_sampled(fingerprint) || entry == EMPTY {
            return;
        }
        let at = self.find(fingerprint as u32);
        self.len += usize::from(self.entries[at] == EMPTY);
        self.entries[at] = entry;
        if self.len * 3 > self.entries.len() * 2 {
            self.grow();
        }
    }
    /// The same of a run that was written before all that were entered: what is there stays.
    pub fn recall(&mut self, fingerprint: u64, run: RunPage) {
        if self.entries[self.find(fingerprint as u32)] == EMPTY {
            self.enter(fingerprint, run);
        }
    }
    fn grow(&mut self) {
        let capacity = match self.entries.len() < self.capacity_max {
            true => self.entries.len() * 2,
            false => {
                self.sampled_bits += 1;
                self.entries.len()
            }
        };
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; capacity]);
        self.len = 0;
        for entry in old.into_iter().filter(|entry| *entry != EMPTY && self.sampled_bits < 32) {
            if self.is_sampled(entry & u64::from(u32::MAX)) {
                let at = self.find(entry as u32);
                self.entries[at] = entry;
                self.len += 1;
            }
        }
    }
    /// The run that may have a block of the fingerprint.
    pub fn run_of(&self, fingerprint: u64) -> Option<RunPage> {
        let entry = self.entries[self.find(fingerprint as u32)];
        (entry != EMPTY && self.is_sampled(fingerprint)).then_some((entry >> 32) as RunPage)
    }
    /// The run has none that is equal.
    pub fn forget(&mut self, fingerprint: u64, run: RunPage) {
        let mut hole = self.find(fingerprint as u32);
        if self.entries[hole] == EMPTY || (self.entries[hole] >> 32) as RunPage != run {
            return;
        }
        self.entries[hole] = EMPTY;
        self.len -= 1;
        // What stands behind it comes nearer to where its search begins.
        let mut at = self.next(hole);
        while self.entries[at] != EMPTY {
            let from = self.start(self.entries[at] as u32);
            let mask = self.entries.len() - 1;
            if at.wrapping_sub(from) & mask >= at.wrapping_sub(hole) & mask {
                self.entries.swap(hole, at);
                hole = at;
            }
            at = self.next(at);
        }
    }
    /// Entries, and of how many fingerprints one is entered.
    pub fn depth(&self) -> (u64, u64) {
        (self.len as u64, 1 << self.sampled_bits)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn fingerprint(n: u64) -> u64 {
        let n = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB)
    }

    /// Goal: what was entered is found as long as it is sampled, what was forgotten is not, and the table keeps its bound. Method: beside a map, many more
    /// than there is room for; some are forgotten, some entered again.
    #[test]
    fn hooks_are_found_as_long_as_they_are_sampled() {
        let mut hooks = Hooks::new(64 << 10);
        let mut known: BTreeMap<u32, (u64, RunPage)> = BTreeMap::new();
        for n in 0..60_000u64 {
            let (of, run) = (fingerprint(n), n as RunPage / 100);
            hooks.enter(of, run);
            known.insert(of as u32, (of, run));
            if n % 3 == 0 {
                let of = fingerprint(n / 2);
                let wrong = hooks.run_of(of).map(|run| run + 1);
                wrong.into_iter().for_each(|wrong| hooks.forget(of, wrong));
                hooks.run_of(of).into_iter().for_each(|run| hooks.forget(of, run));
                assert_eq!(hooks.run_of(of), None);
                known.remove(&(of as u32));
            }
        }
        let (len, one_in) = hooks.depth();
        let sampled: Vec<_> = known.values().filter(|(of, _)| of % one_in == 0).collect();
        assert!(one_in > 4 && hooks.entries.len() == 8192 && len as usize == sampled.len(), "{len} of {one_in}");
        assert!(sampled.iter().all(|(of, run)| hooks.run_of(*of) == Some(*run)));
        assert!(known.values().filter(|(of, _)| of % one_in != 0).all(|(of, _)| hooks.run_of(*of).is_none()));
    }

    /// Goal: of equal blocks that come in runs a sample finds what chance says: one hook in a run leads to the header that has all of it. Method: runs of 1,000
    /// blocks fill a table several times over; stretches of them are looked for again.
    #[test]
    fn a_sample_finds_runs_of_equal_blocks() {
        for (runs, one_in) in [(4, 1), (20, 4), (80, 16), (320, 64)] {
            let mut hooks = Hooks::new(64 << 10);
            (0..runs * 1000).for_each(|n| hooks.enter(fingerprint(n), (n / 1000) as RunPage));
            assert_eq!(hooks.depth().1, one_in);
            let mut shares = Vec::new();
            for in_a_row in [1000, 64, 16, 1] {
                let from = (0..runs * 1000)
                    .step_by(1000)
                    .flat_map(|run| (0..1000 / in_a_row).map(move |n| run + n * in_a_row));
                let (mut all, mut found) = (0u32, 0u32);
                for first in from {
                    let run = (first / 1000) as RunPage;
                    all += 1;
                    found += u32::from((first..first + in_a_row).any(|n| hooks.run_of(fingerprint(n)) == Some(run)));
                }
                let share = f64::from(found) / f64::from(all);
                let chance = 1.0 - (1.0 - 1.0 / one_in as f64).powi(in_a_row as i32);
                assert!(
                    (share - chance).abs() < 0.05,
                    "one in {one_in}, {in_a_row} in a row: {share}, by chance {chance}"
                );
                shares.push(format!("{in_a_row} in a row {:.0} %", share * 100.0));
            }
            println!("one in {one_in}: {}", shares.join(", "));
        }
    }
}
