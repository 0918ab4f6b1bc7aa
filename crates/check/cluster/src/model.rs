//! What a disk may hold: per 512-byte sector the writes that a read may return. Many may write a sector at once.
//!
//! Every write has a value of its own, a moment when it began and, once it is known to have happened, one by which it had: it
//! was acknowledged, or somebody has read it. A read that began later than such a moment of a write *w* must not return
//! anything that was over before *w* began; and what was read once and then something else was, never comes back.
//!
//! Promises    no false alarm: what is refused here no linearizable register does
//! Assumes     values are unique, but for zeroes, of which the one is taken that says least
//! Not here    the full search for an order of all operations: overlapping writes that were never read prove nothing here
//! Source      Gibbons & Korach, "Testing Shared Memories", SIAM J. Comput. 1997: with unique values, intervals decide

use std::collections::BTreeMap;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Not known to have happened.
const NEVER: u64 = u64::MAX;

/// A write of one sector. Moments count events of the model.
#[derive(Debug, Clone, Copy)]
struct Version {
    number: u64,
    zero: bool,
    began: u64,
    /// It had happened by then; [`NEVER`] while that is not known.
    by: u64,
    /// The answer will never come.
    unknown: bool,
    /// Something else was read after it, at a read that ended then.
    gone: u64,
}

#[derive(Debug, Clone)]
struct Sector {
    /// Ascending by number.
    versions: Vec<Version>,
    /// What was read last, and when that read ended.
    seen: (u64, u64),
}

impl Sector {
    fn new() -> Self {
        let first = Version { number: 0, zero: true, began: 0, by: 0, unknown: false, gone: NEVER };
        Self { versions: vec![first], seen: (0, 0) }
    }

    /// Forgets what no read that is still to begin may return. `oldest` is when the oldest read under way began.
    fn tidy(&mut self, oldest: u64) {
        let over = self.over_before(oldest);
        self.versions.retain(|v| v.by >= over && v.gone >= oldest || v.by == NEVER || v.by >= oldest);
    }

    /// Writes that had happened before this moment are over for a read that began at `read`.
    fn over_before(&self, read: u64) -> u64 {
        self.versions.iter().filter(|w| w.by < read).map(|w| w.began).max().unwrap_or(0)
    }

    fn may_return(&self, version: &Version, read: u64) -> bool {
        version.by >= self.over_before(read) && version.gone >= read
    }
}

/// A read under way.
pub struct Reading {
    first: u64,
    count: u64,
    began: u64,
}

/// All sectors of one disk.
pub struct Model {
    disk: u64,
    sectors: Vec<Sector>,
    next: u64,
    clock: u64,
    /// When the reads under way began, and how many began then.
    reading: BTreeMap<u64, u32>,
    /// Room for one sector's contents.
    stamp: Vec<u8>,
    /// Changes that were acknowledged.
    pub acked: u64,
    /// Changes of unknown fate.
    pub unknown: u64,
    /// Reads that were checked.
    pub reads: u64,
}

impl Model {
    /// A disk of zeroes. `disk` goes into every stamp.
    pub fn new(disk: u64, size_bytes: u64) -> Self {
        let sectors = vec![Sector::new(); (size_bytes / SECTOR) as usize];
        let (reading, stamp) = (BTreeMap::new(), Vec::new());
        Self { disk, sectors, next: 1, clock: 1, reading, stamp, acked: 0, unknown: 0, reads: 0 }
    }

    /// The disk grew to this size: what is new reads as zeroes.
    pub fn grow(&mut self, size_bytes: u64) {
        let sectors = (size_bytes / SECTOR) as usize;
        if sectors > self.sectors.len() {
            self.sectors.resize(sectors, Sector::new());
        }
    }

    /// Its size.
    pub fn len_sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn range(&mut self, first: u64, count: u64) -> &mut [Sector] {
        &mut self.sectors[first as usize..(first + count) as usize]
    }

    /// A write or zero of these sectors begins; its version.
    pub fn begin(&mut self, first: u64, count: u64, zero: bool) -> u64 {
        let (number, began) = (self.next, self.tick());
        self.next += 1;
        let version = Version { number, zero, began, by: NEVER, unknown: false, gone: NEVER };
        self.range(first, count).iter_mut().for_each(|sector| sector.versions.push(version));
        number
    }

    /// It was acknowledged.
    pub fn acked(&mut self, first: u64, count: u64, number: u64) {
        self.acked += 1;
        let by = self.tick();
        let oldest = self.reading.keys().next().copied().unwrap_or(by);
        for sector in self.range(first, count) {
            if let Some(v) = sector.versions.iter_mut().find(|v| v.number == number) {
                v.by = v.by.min(by);
            }
            sector.tidy(oldest);
        }
    }

    /// Its guest will never know.
    pub fn unknown(&mut self, first: u64, count: u64, number: u64) {
        self.unknown += 1;
        for sector in self.range(first, count) {
            sector.versions.iter_mut().filter(|v| v.number == number).for_each(|v| v.unknown = true);
        }
    }

    /// A read of these sectors begins.
    pub fn begin_read(&mut self, first: u64, count: u64) -> Reading {
        let began = self.tick();
        *self.reading.entry(began).or_default() += 1;
        Reading { first, count, began }
    }

    /// It ended with these bytes, or without any.
    pub fn end_read(&mut self, reading: &Reading, data: Option<&[u8]>) -> Result<(), String> {
        let ended = self.tick();
        if let Some(count) = self.reading.get_mut(&reading.began) {
            *count -= 1;
            if *count == 0 {
                self.reading.remove(&reading.began);
            }
        }
        let Some(data) = data else { return Ok(()) };
        assert_eq!(data.len() as u64, reading.count * SECTOR, "the caller compares lengths");
        self.reads += 1;
        for (n, found) in data.chunks(SECTOR as usize).enumerate() {
            let number = reading.first + n as u64;
            self.check_sector(number, (reading.began, ended), found)
                .map_err(|why| format!("sector {number} (block {}): {why}", number / 8))?;
        }
        Ok(())
    }

    fn check_sector(&mut self, number: u64, (began, ended): (u64, u64), found: &[u8]) -> Result<(), String> {
        let sector = &mut self.sectors[number as usize];
        let told = |sector: &Sector| {
            let word = |v: &Version| {
                let fate = match (v.by, v.unknown) {
                    (NEVER, true) => "unknown",
                    (NEVER, false) => "begun",
                    _ => "done",
                };
                let now = if sector.may_return(v, began) { "" } else { " over" };
                format!("{}{} {fate}{now}", v.number, if v.zero { " zeroes" } else { "" })
            };
            sector.versions.iter().map(word).collect::<Vec<_>>().join(", ")
        };
        let seen = if found.iter().all(|byte| *byte == 0) {
            // The newest that is known to have happened says least, then any.
            let zeroes = sector.versions.iter().filter(|v| v.zero && sector.may_return(v, began));
            let last = zeroes.max_by_key(|v| (v.by != NEVER, v.number)).map(|v| v.number);
            last.ok_or_else(|| format!("zeros; writes: {}", told(sector)))?
        } else {
            let version = u64::from_le_bytes(found[16..24].try_into().expect("eight bytes"));
            self.stamp.clear();
            stamp(&mut self.stamp, self.disk, number, version);
            if found != self.stamp {
                return Err(format!("bytes that nobody wrote (version {version}?); writes: {}", told(sector)));
            }
            let known = sector.versions.iter().find(|v| v.number == version && !v.zero);
            if !known.is_some_and(|v| sector.may_return(v, began)) {
                return Err(format!("version {version}; writes: {}", told(sector)));
            }
            version
        };
        let (before, at) = sector.seen;
        for v in &mut sector.versions {
            if v.number == seen {
                v.by = v.by.min(ended);
            } else if v.number == before && at < began && !v.zero {
                // Read before this read began, and now another one is there.
                v.gone = v.gone.min(ended);
            }
        }
        if ended > at {
            sector.seen = (seen, ended);
        }
        let oldest = self.reading.keys().next().copied().unwrap_or(ended);
        sector.tidy(oldest);
        Ok(())
    }

    /// The bytes of a write.
    pub fn bytes(&self, first: u64, count: u64, version: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((count * SECTOR) as usize);
        (first..first + count).for_each(|sector| stamp(&mut bytes, self.disk, sector, version));
        bytes
    }
}

/// Appends a sector's contents: disk, sector and version, and then words made of them.
fn stamp(bytes: &mut Vec<u8>, disk: u64, sector: u64, version: u64) {
    for word in [disk, sector, version] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let mut word = disk ^ sector.rotate_left(20) ^ version.rotate_left(40);
    for _ in 3..SECTOR / 8 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

/// Adds up counts by kind.
pub fn add_counts(all: &mut BTreeMap<&'static str, u64>, more: &BTreeMap<&'static str, u64>) {
    for (kind, n) in more {
        *all.entry(kind).or_default() += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sector: reads are given as the version found.
    fn read(model: &mut Model, version: u64) -> Result<(), String> {
        let reading = model.begin_read(0, 1);
        finish(model, &reading, version)
    }

    fn finish(model: &mut Model, reading: &Reading, version: u64) -> Result<(), String> {
        let bytes = if version == 0 { vec![0; 512] } else { model.bytes(0, 1, version) };
        model.end_read(reading, Some(&bytes))
    }

    #[test]
    fn what_was_overwritten_does_not_come_back() {
        let mut model = Model::new(1, 512);
        let a = model.begin(0, 1, false);
        model.acked(0, 1, a);
        let b = model.begin(0, 1, false);
        assert!(read(&mut model, a).is_ok());
        model.acked(0, 1, b);
        assert!(read(&mut model, a).is_err());
        assert!(read(&mut model, 0).is_err());
        assert!(read(&mut model, b).is_ok());
    }

    #[test]
    fn a_write_of_unknown_fate_may_come_late_but_only_once() {
        let mut model = Model::new(1, 512);
        let a = model.begin(0, 1, false);
        model.unknown(0, 1, a);
        let b = model.begin(0, 1, false);
        model.acked(0, 1, b);
        assert!(read(&mut model, b).is_ok());
        assert!(read(&mut model, a).is_ok());
        assert!(read(&mut model, b).is_err());
        let c = model.begin(0, 1, false);
        model.acked(0, 1, c);
        assert!(read(&mut model, a).is_err());
    }

    #[test]
    fn writes_that_overlap_may_come_in_any_order_and_stay_in_it() {
        let mut model = Model::new(1, 512);
        let (a, b) = (model.begin(0, 1, false), model.begin(0, 1, false));
        model.acked(0, 1, b);
        model.acked(0, 1, a);
        assert!(read(&mut model, b).is_ok());
        assert!(read(&mut model, a).is_ok());
        assert!(read(&mut model, b).is_err());
    }

    #[test]
    fn a_read_that_began_before_may_return_what_was() {
        let mut model = Model::new(1, 512);
        let a = model.begin(0, 1, false);
        model.acked(0, 1, a);
        let early = model.begin_read(0, 1);
        let b = model.begin(0, 1, false);
        model.acked(0, 1, b);
        assert!(finish(&mut model, &early, a).is_ok());
        assert!(read(&mut model, a).is_err());
    }

    #[test]
    fn zeroes_are_a_value_like_any_other() {
        let mut model = Model::new(1, 512);
        assert!(read(&mut model, 0).is_ok());
        let a = model.begin(0, 1, false);
        model.acked(0, 1, a);
        assert!(read(&mut model, 0).is_err());
        let z = model.begin(0, 1, true);
        model.acked(0, 1, z);
        assert!(read(&mut model, 0).is_ok());
        assert!(read(&mut model, a).is_err());
    }
}
