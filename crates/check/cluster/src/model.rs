//! What a disk may hold: per 512-byte sector the writes that a read may return. Many may write a sector at once.
//!
//! Every write has a value of its own and a moment when it began. Once it is known to have happened it also has a moment by
//! which it had: it was acknowledged, or somebody has read it. A read that began later than such a moment of a write *w* must
//! not return anything that was over before *w* began; and what had happened before a read began that found something else
//! never comes back.
//!
//! Blocks whose only source was spoiled may end a request with a media error, until they are written: those and no others.
//!
//! Promises    no false alarm: what is refused here no linearizable register does
//! Assumes     values of a sector are unique, but for zeroes: which of several was read is not known, and proves nothing of them
//! Not here    the full search for an order of all operations: what follows from three or more reads together is not seen
//! Source      Gibbons & Korach, "Testing Shared Memories", SIAM J. Comput. 1997: with unique values, intervals decide

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Sectors of a block: what a medium loses or keeps as one.
const BLOCK_SECTORS: u64 = 8;
/// Not known to have happened.
const NEVER: u64 = u64::MAX;

/// What a read found in one sector: all that a verdict needs of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Found {
    /// Zeroes.
    Zeroes,
    /// What the write of this version put there.
    Version(u64),
    /// Bytes that nobody wrote there, and what they say of themselves.
    Strange {
        /// Where they belong.
        sector: u64,
        /// Whose they are.
        version: u64,
    },
}

impl Found {
    /// What `bytes`, read at `sector` of `disk`, are.
    pub fn of(disk: u64, sector: u64, bytes: &[u8]) -> Self {
        if bytes.iter().all(|byte| *byte == 0) {
            return Self::Zeroes;
        }
        let word = |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().expect("eight bytes"));
        let version = version_of(sector, [word(0), word(1), word(2)]);
        match words(disk, sector, version).enumerate().all(|(n, want)| word(n) == want) {
            true => Self::Version(version),
            false => Self::Strange { sector: word(1), version },
        }
    }
}

impl Version {
    fn is_write(&self, number: u64) -> bool {
        self.number == number && !self.back
    }

    fn is(&self, found: Found) -> bool {
        match found {
            Found::Zeroes => self.zero,
            Found::Version(number) => !self.zero && self.number == number,
            Found::Strange { .. } => false,
        }
    }
}

/// A write of one sector. Moments count events of the model; no two began at one.
#[derive(Debug, Clone, Copy)]
struct Version {
    number: u64,
    zero: bool,
    /// The disk went back to it: what began as this number is another one.
    back: bool,
    began: u64,
    /// It had happened by then; [`NEVER`] while that is not known.
    by: u64,
    /// The answer will never come.
    unknown: bool,
    /// It happens by then, or never; [`NEVER`] while it may still happen.
    until: u64,
    /// It had happened when a read began that found something else, and that read ended then.
    gone: u64,
}

#[derive(Debug, Clone)]
struct Sector {
    /// Ascending by number.
    versions: Vec<Version>,
}

impl Sector {
    fn new() -> Self {
        let first =
            Version { number: 0, zero: true, back: false, began: 0, by: 0, unknown: false, until: NEVER, gone: NEVER };
        Self { versions: vec![first] }
    }

    /// Forgets what no read that is still to begin may return. `oldest` is when the oldest read under way began.
    fn tidy(&mut self, oldest: u64) {
        let over = self.over_before(oldest);
        let ended = |v: &Version| v.by.min(v.until);
        self.versions.retain(|v| ended(v) >= over && v.gone >= oldest || ended(v) >= oldest);
    }

    /// Writes that had happened before this moment are over for a read that began at `read`.
    fn over_before(&self, read: u64) -> u64 {
        self.versions.iter().filter(|w| w.by < read).map(|w| w.began).max().unwrap_or(0)
    }

    fn may_return(&self, version: &Version, read: u64) -> bool {
        version.by.min(version.until) >= self.over_before(read) && version.gone >= read
    }
}

/// A time in which the medium may not give a block.
#[derive(Debug, Clone, Copy)]
struct Spoiled {
    since: u64,
    /// A write that began later has happened by then; [`NEVER`] while none is known to have.
    until: u64,
}

/// A read under way.
#[derive(Debug)]
pub struct Reading {
    first: u64,
    count: u64,
    began: u64,
}

/// All sectors of one disk.
#[derive(Debug)]
pub struct Model {
    disk: u64,
    sectors: Vec<Sector>,
    next: u64,
    clock: u64,
    /// When the reads under way began, and how many began then.
    reading: BTreeMap<u64, u32>,
    /// Of each block that was spoiled, all such times.
    spoiled: BTreeMap<u64, Vec<Spoiled>>,
    /// What the disk goes back to beyond the snapshot's end, as far as it is not known to have.
    backs: Vec<Version>,
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
        let (reading, spoiled) = (BTreeMap::new(), BTreeMap::new());
        Self { disk, sectors, next: 1, clock: 1, reading, spoiled, backs: Vec::new(), acked: 0, unknown: 0, reads: 0 }
    }

    /// The disk grew to this size: what is new reads as zeroes, and may do so once more where the disk is on its way back to a snapshot.
    pub fn grow(&mut self, size_bytes: u64) {
        let sectors = (size_bytes / SECTOR) as usize;
        if sectors > self.sectors.len() {
            let mut new = Sector::new();
            new.versions.extend(&self.backs);
            self.sectors.resize(sectors, new);
        }
    }

    /// What its stamps say of whose they are.
    pub fn id(&self) -> u64 {
        self.disk
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
        let version =
            Version { number, zero, back: false, began, by: NEVER, unknown: false, until: NEVER, gone: NEVER };
        self.range(first, count).iter_mut().for_each(|sector| sector.versions.push(version));
        number
    }

    /// It was acknowledged.
    pub fn acked(&mut self, first: u64, count: u64, number: u64) {
        self.acked += 1;
        let by = self.tick();
        let oldest = self.reading.keys().next().copied().unwrap_or(by);
        for sector in self.range(first, count) {
            if let Some(v) = sector.versions.iter_mut().find(|v| v.is_write(number)) {
                v.by = v.by.min(by);
            }
            sector.tidy(oldest);
        }
        let Some(began) = self.began(first, number) else { return };
        for (_, times) in self.spoiled.range_mut(first / BLOCK_SECTORS..=(first + count - 1) / BLOCK_SECTORS) {
            times.iter_mut().filter(|time| time.since < began).for_each(|time| time.until = time.until.min(by));
        }
    }

    /// When a change that was just acknowledged began; none where something newer has taken its place since.
    fn began(&self, first: u64, number: u64) -> Option<u64> {
        self.sectors[first as usize].versions.iter().find(|v| v.is_write(number)).map(|v| v.began)
    }

    /// From now on the medium may not give this block, until it is written.
    pub fn spoil(&mut self, block: u64) {
        let since = self.tick();
        self.spoiled.entry(block).or_default().push(Spoiled { since, until: NEVER });
    }

    /// Blocks that the medium may not give now.
    pub fn spoiled_now(&self) -> Vec<u64> {
        let lasting = |(_, times): &(&u64, &Vec<Spoiled>)| times.iter().any(|time| time.until == NEVER);
        self.spoiled.iter().filter(lasting).map(|(block, _)| *block).collect()
    }

    /// Whether a request for these sectors that began then may end with a media error.
    fn may_be_unreadable(&self, first: u64, count: u64, began: u64) -> bool {
        let mut blocks = self.spoiled.range(first / BLOCK_SECTORS..=(first + count - 1) / BLOCK_SECTORS);
        blocks.any(|(_, times)| times.iter().any(|time| time.until >= began))
    }

    /// A read ended with a media error.
    pub fn read_was_refused(&self, reading: &Reading) -> Result<(), String> {
        let Reading { first, count, began } = *reading;
        self.refused(first, count, began)
    }

    /// A change ended with a media error: a block that it changes in part was to be read.
    pub fn change_was_refused(&self, first: u64, count: u64, number: u64) -> Result<(), String> {
        self.refused(first, count, self.began(first, number).unwrap_or(0))
    }

    fn refused(&self, first: u64, count: u64, began: u64) -> Result<(), String> {
        match self.may_be_unreadable(first, count, began) {
            true => Ok(()),
            false => {
                let blocks = (first / BLOCK_SECTORS, (first + count - 1) / BLOCK_SECTORS);
                Err(format!("none of the blocks {}..={} is spoiled at its only source", blocks.0, blocks.1))
            }
        }
    }

    /// Its guest will never know.
    pub fn unknown(&mut self, first: u64, count: u64, number: u64) {
        self.unknown += 1;
        for sector in self.range(first, count) {
            sector.versions.iter_mut().filter(|v| v.is_write(number)).for_each(|v| v.unknown = true);
        }
    }

    /// What nobody was told of has happened by now, or never will.
    pub fn over(&mut self, first: u64, count: u64, number: u64) {
        let until = self.tick();
        for sector in self.range(first, count) {
            sector.versions.iter_mut().filter(|v| v.is_write(number)).for_each(|v| v.until = until);
        }
    }

    /// The version that the next change will have: what was not begun by now has this one or a later one.
    pub fn next_version(&self) -> u64 {
        self.next
    }

    /// Whether there is one moment at which these sectors, which were read together, all stood so. The reading must not have ended.
    ///
    /// What was found was not there before it began. It was there no more once something that began after it had happened is known to have.
    pub fn is_of_one_moment(&self, reading: &Reading, found: &[Found]) -> Result<(), String> {
        let (mut from, mut until) = ((0, 0), (NEVER, 0));
        for (found, number) in found.iter().zip(reading.first..) {
            let versions = &self.sectors[number as usize].versions;
            let is_it = |v: &&Version| v.is(*found);
            let Some(began) = versions.iter().filter(is_it).map(|v| v.began).min() else { continue };
            let by = versions.iter().filter(is_it).map(|v| v.by).max().unwrap_or(NEVER);
            let over = versions.iter().filter(|w| w.began > by).map(|w| w.by).min().unwrap_or(NEVER);
            from = from.max((began, number));
            until = until.min((over, number));
        }
        match from.0 < until.0 {
            true => Ok(()),
            false => Err(format!(
                "sector {} stands as from {} on, and sector {} as before {}: no moment has both",
                from.1, from.0, until.1, until.0
            )),
        }
    }

    /// The disk begins to go back to what it held: each sector from the first. What it has grown by since is zeroes. When that began.
    pub fn begin_going_back(&mut self, found: &[Found]) -> u64 {
        let began = self.tick();
        let number = self.next;
        self.next += 1;
        let held = found.iter().copied().chain(std::iter::repeat(Found::Zeroes));
        let zeroes =
            Version { number, zero: true, back: true, began, by: NEVER, unknown: false, until: NEVER, gone: NEVER };
        for (found, sector) in held.zip(&mut self.sectors) {
            sector.versions.push(match found {
                Found::Version(number) => Version { number, zero: false, ..zeroes },
                Found::Zeroes | Found::Strange { .. } => zeroes,
            });
        }
        self.backs.push(zeroes);
        began
    }

    /// It went back.
    pub fn went_back(&mut self, began: u64) {
        let by = self.tick();
        self.backs.retain(|back| back.began != began);
        let oldest = self.reading.keys().next().copied().unwrap_or(by);
        for sector in &mut self.sectors {
            sector.versions.iter_mut().filter(|v| v.began == began).for_each(|v| v.by = v.by.min(by));
            sector.tidy(oldest);
        }
    }

    /// Whatever going back began is over: it is known before whoever asked for it is told.
    pub fn went_back_by_now(&mut self) {
        let began: Vec<u64> = self.backs.iter().map(|back| back.began).collect();
        began.into_iter().for_each(|began| self.went_back(began));
    }

    /// A read of these sectors begins.
    pub fn begin_read(&mut self, first: u64, count: u64) -> Reading {
        let began = self.tick();
        *self.reading.entry(began).or_default() += 1;
        Reading { first, count, began }
    }

    /// It ended with these bytes, or without any.
    pub fn end_read(&mut self, reading: &Reading, data: Option<&[u8]>) -> Result<(), String> {
        let of = |(bytes, number)| Found::of(self.disk, number, bytes);
        let found = data.map(|data| data.chunks(SECTOR as usize).zip(reading.first..).map(of).collect::<Vec<_>>());
        self.end_read_found(reading, found.as_deref())
    }

    /// It ended with these sectors, or without any.
    pub fn end_read_found(&mut self, reading: &Reading, found: Option<&[Found]>) -> Result<(), String> {
        let ended = self.tick();
        if let Some(count) = self.reading.get_mut(&reading.began) {
            *count -= 1;
            if *count == 0 {
                self.reading.remove(&reading.began);
            }
        }
        let Some(found) = found else { return Ok(()) };
        assert_eq!(found.len() as u64, reading.count, "the caller compares lengths");
        self.reads += 1;
        for (found, number) in found.iter().zip(reading.first..) {
            self.check_sector(number, (reading.began, ended), *found)
                .map_err(|why| format!("sector {number} (block {}): {why}", number / 8))?;
        }
        Ok(())
    }

    fn check_sector(&mut self, number: u64, (began, ended): (u64, u64), found: Found) -> Result<(), String> {
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
        if let Found::Strange { sector: other, version } = found {
            let what = format!("bytes that nobody wrote (sector {other} version {version}?)");
            return Err(format!("{what}; writes: {}", told(sector)));
        }
        let what = || match found {
            Found::Version(version) => format!("version {version}"),
            _ => "zeros".to_owned(),
        };
        let mut alike = sector.versions.iter().filter(|v| v.is(found) && sector.may_return(v, began));
        let one = alike.next().ok_or_else(|| format!("{}; writes: {}", what(), told(sector)))?;
        // Of several (zeroes, and what a disk went back to) nobody knows which it was: none is known to have happened by that.
        let seen = alike.next().is_none().then_some(one.began);
        for v in &mut sector.versions {
            if Some(v.began) == seen {
                v.by = v.by.min(ended);
            } else if v.by < began && !v.is(found) {
                // It was there before this read began, and something else is there now: that came after it.
                v.gone = v.gone.min(ended);
            }
        }
        let oldest = self.reading.keys().next().copied().unwrap_or(ended);
        sector.tidy(oldest);
        Ok(())
    }

    /// The bytes of a write.
    pub fn bytes(&self, first: u64, count: u64, version: u64) -> Vec<u8> {
        bytes(self.disk, first, count, version)
    }
}

/// The bytes of a write of `disk`. For each sector they say which version it is, and mostly of which disk and sector. One version of three is noise,
/// one half of it, one packs to next to nothing.
pub fn bytes(disk: u64, first: u64, count: u64, version: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((count * SECTOR) as usize);
    for sector in first..first + count {
        words(disk, sector, version).for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
    bytes
}

fn words(disk: u64, sector: u64, version: u64) -> impl Iterator<Item = u64> {
    let told = told(disk, sector, version);
    let seed = told[0] ^ told[1].rotate_left(20) ^ told[2].rotate_left(40);
    let step = |word: &u64| Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    let noise = match told[2] % 3 {
        0 => SECTOR / 8,
        1 => SECTOR / 16,
        _ => 0,
    };
    // No sum of such words is one: else parity of three blocks could be taken for a fourth.
    let same = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rest =
        std::iter::successors(step(&seed), step).zip(0..).map(move |(word, at)| if at < noise { word } else { same });
    told.into_iter().chain(rest).take(SECTOR as usize / 8)
}

/// What blocks have in place of a disk that are equal to others, of any disk.
const COMMON: u64 = u64::MAX;
/// Every other so many versions are common ones.
const COMMON_VERSIONS: u64 = 32;
/// Blocks in a row of these have other contents each, whatever the version. Such a run has the blocks of any row of parity's columns: else parity
/// of three blocks could be one of them.
const DISTINCT_BLOCKS: u64 = 64;
const ALIKE_BLOCKS: u64 = 16;

/// This bit of a disk's number says that none of its versions is a common one.
pub const UNLIKE: u64 = 1 << 32;

fn is_common(disk: u64, version: u64) -> bool {
    disk & UNLIKE == 0 && version / COMMON_VERSIONS % 2 == 1
}

/// The first words of a sector. Of a common version they say nothing of the disk, and of the sector only enough for equal blocks to be in its
/// neighbourhood and far off; the version can be told of them, and of where they stand.
fn told(disk: u64, sector: u64, version: u64) -> [u64; 3] {
    if !is_common(disk, version) {
        return [disk, sector, version];
    }
    let (block, of_block) = (sector / BLOCK_SECTORS, sector % BLOCK_SECTORS);
    let class = block % DISTINCT_BLOCKS / ALIKE_BLOCKS * BLOCK_SECTORS + of_block;
    [COMMON, class, version + block % ALIKE_BLOCKS]
}

/// The version of a sector by its first words.
fn version_of(sector: u64, told: [u64; 3]) -> u64 {
    match told[0] {
        COMMON => told[2].wrapping_sub(sector / BLOCK_SECTORS % ALIKE_BLOCKS),
        _ => told[2],
    }
}

/// Whether a page of a device holds a block as other disks, or other places of this one, may have it.
pub fn is_common_block(page: &[u8]) -> bool {
    page.chunks_exact(SECTOR as usize).all(|sector| sector[..8] == COMMON.to_le_bytes())
}

/// The block of `disk` that this page of a device holds, and the newest version of its sectors; none where it holds anything else.
pub fn block_of(disk: u64, page: &[u8]) -> Option<(u64, u64)> {
    let mut sectors = (0..).zip(page.chunks_exact(SECTOR as usize));
    let (at, number) = sectors.find_map(|(at, bytes)| {
        let word = |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().expect("eight bytes"));
        (word(0) == disk && word(1) % BLOCK_SECTORS == at).then(|| (at, word(1)))
    })?;
    let block = (number - at) / BLOCK_SECTORS;
    let mut newest = 0;
    for (number, bytes) in (block * BLOCK_SECTORS..).zip(page.chunks_exact(SECTOR as usize)) {
        match Found::of(disk, number, bytes) {
            Found::Zeroes => {}
            Found::Version(version) => newest = newest.max(version),
            Found::Strange { .. } => return None,
        }
    }
    Some((block, newest))
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
    fn a_disk_that_went_back_has_what_it_had_and_nothing_since() {
        let mut model = Model::new(1, 512);
        let a = model.begin(0, 1, false);
        model.acked(0, 1, a);
        let b = model.begin(0, 1, false);
        model.acked(0, 1, b);
        let began = model.begin_going_back(&[Found::Version(a)]);
        assert!(read(&mut model, b).is_ok(), "it may not have happened yet");
        model.went_back(began);
        assert!(read(&mut model, b).is_err());
        assert!(read(&mut model, a).is_ok());
        let c = model.begin(0, 1, false);
        model.acked(0, 1, c);
        assert!(read(&mut model, a).is_err() && read(&mut model, c).is_ok());
    }

    #[test]
    fn sectors_that_were_read_together_are_of_one_moment() {
        let mut model = Model::new(1, 1024);
        let reading = model.begin_read(0, 2);
        let a = model.begin(0, 1, false);
        model.acked(0, 1, a);
        let b = model.begin(1, 1, false);
        model.acked(1, 1, b);
        let of = |model: &Model, found: [Found; 2]| model.is_of_one_moment(&reading, &found).is_ok();
        let (zeroes, first, second) = (Found::Zeroes, Found::Version(a), Found::Version(b));
        assert!(of(&model, [zeroes, zeroes]) && of(&model, [first, zeroes]) && of(&model, [first, second]));
        assert!(!of(&model, [zeroes, second]), "the second was begun when the first was done");
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
    fn what_a_late_write_has_replaced_does_not_come_back_though_nobody_had_read_it() {
        let mut model = Model::new(1, 512);
        let a = model.begin(0, 1, false);
        model.unknown(0, 1, a);
        let b = model.begin(0, 1, false);
        model.acked(0, 1, b);
        assert!(read(&mut model, a).is_ok());
        assert!(read(&mut model, b).is_err());
    }

    #[test]
    fn what_is_over_comes_no_more_once_something_newer_is_there() {
        let mut model = Model::new(1, 512);
        let a = model.begin(0, 1, false);
        model.unknown(0, 1, a);
        model.over(0, 1, a);
        let late = model.begin_read(0, 1);
        let b = model.begin(0, 1, false);
        assert!(read(&mut model, a).is_ok());
        model.acked(0, 1, b);
        assert!(finish(&mut model, &late, a).is_ok());
        assert!(read(&mut model, a).is_err());
        assert!(read(&mut model, b).is_ok());
    }

    #[test]
    fn which_of_two_zeroes_a_long_read_found_is_not_known() {
        let mut model = Model::new(1, 512);
        let a = model.begin(0, 1, false);
        model.acked(0, 1, a);
        let early = model.begin(0, 1, true);
        model.unknown(0, 1, early);
        let long = model.begin_read(0, 1);
        let b = model.begin(0, 1, false);
        model.acked(0, 1, b);
        let late = model.begin(0, 1, true);
        assert!(finish(&mut model, &long, 0).is_ok());
        // It was the early one; the late one is still under way.
        assert!(read(&mut model, b).is_ok());
        assert!(read(&mut model, a).is_err());
        model.acked(0, 1, late);
        assert!(read(&mut model, b).is_err());
    }

    #[test]
    fn writes_that_overlap_may_come_in_any_order_and_stay_in_it() {
        let mut model = Model::new(1, 512);
        let (a, b) = (model.begin(0, 1, false), model.begin(0, 1, false));
        model.acked(0, 1, b);
        assert!(read(&mut model, b).is_ok());
        model.acked(0, 1, a);
        assert!(read(&mut model, a).is_ok());
        assert!(read(&mut model, b).is_err());
        // Both had happened before anybody read: the first read settles which was last.
        let (a, b) = (model.begin(0, 1, false), model.begin(0, 1, false));
        model.acked(0, 1, b);
        model.acked(0, 1, a);
        assert!(read(&mut model, b).is_ok());
        assert!(read(&mut model, a).is_err());
        assert!(read(&mut model, b).is_ok());
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
    fn bytes_tell_whose_they_are() {
        let bytes = bytes(7, 40, 2, 3);
        assert_eq!(Found::of(7, 40, &bytes[..512]), Found::Version(3));
        assert_eq!(Found::of(7, 41, &bytes[512..]), Found::Version(3));
        // In the wrong place, of another disk, with a bit turned over.
        assert_eq!(Found::of(7, 40, &bytes[512..]), Found::Strange { sector: 41, version: 3 });
        assert_eq!(Found::of(8, 40, &bytes[..512]), Found::Strange { sector: 40, version: 3 });
        let mut turned = bytes[..512].to_vec();
        turned[511] ^= 1;
        assert_eq!(Found::of(7, 40, &turned), Found::Strange { sector: 40, version: 3 });
        assert_eq!(Found::of(7, 40, &[0; 512]), Found::Zeroes);
    }

    /// Goal: common versions tell themselves where they stand, are equal to others elsewhere, and never to any in a row of columns.
    #[test]
    fn blocks_of_common_versions_are_equal_to_some_elsewhere() {
        let block = |disk, block: u64, version| bytes(disk, block * 8, 8, version);
        assert_eq!(block(7, 3, 40), block(8, 3 + 64, 40));
        assert_eq!(block(7, 3, 40), block(8, 5, 38));
        assert_ne!(block(7, 3, 40), block(7, 3, 41));
        assert_ne!(block(7, 3, 20), block(8, 3, 20));
        assert_ne!(block(7 | UNLIKE, 3, 40), block(8 | UNLIKE, 3, 40));
        for at in 0..64 {
            assert!((0..at).all(|other| block(7, at, 40) != block(7, other, 40)), "{at}");
        }
        let sector = &block(8, 5, 38)[512..1024];
        assert_eq!(Found::of(7, 3 * 8 + 1, sector), Found::Version(40));
        assert_eq!(Found::of(7, 5 * 8 + 1, sector), Found::Version(38));
        assert!(matches!(Found::of(7, 3 * 8 + 2, sector), Found::Strange { .. }));
        assert!(matches!(Found::of(7, 19 * 8 + 1, sector), Found::Strange { .. }));
        let mut turned = sector.to_vec();
        turned[16] ^= 64;
        assert!(matches!(Found::of(7, 3 * 8 + 1, &turned), Found::Strange { .. }));
    }

    #[test]
    fn a_media_error_is_believed_of_spoiled_blocks_until_they_are_written() {
        let mut model = Model::new(1, 64 << 10);
        let refused = |model: &mut Model, first, count| {
            let reading = model.begin_read(first, count);
            model.read_was_refused(&reading)
        };
        let late = model.begin(8, 8, false);
        model.spoil(1);
        assert!(refused(&mut model, 0, 8).is_err() && refused(&mut model, 16, 8).is_err());
        assert!(refused(&mut model, 0, 9).is_ok() && refused(&mut model, 15, 64).is_ok());
        // It may have been where it was spoiled.
        model.acked(8, 8, late);
        assert!(refused(&mut model, 8, 8).is_ok());
        assert_eq!(model.spoiled_now(), [1]);
        let early = model.begin_read(12, 1);
        let part = model.begin(10, 2, false);
        assert!(model.change_was_refused(10, 2, part).is_ok());
        let whole = model.begin(0, 16, true);
        model.acked(0, 16, whole);
        assert!(refused(&mut model, 8, 8).is_err());
        assert!(model.read_was_refused(&early).is_ok());
        assert!(model.change_was_refused(10, 2, part).is_ok());
        assert!(model.spoiled_now().is_empty());
        model.spoil(1);
        assert!(refused(&mut model, 8, 8).is_ok());
    }

    #[test]
    fn a_page_tells_its_block() {
        let page = bytes(7, 40, 8, 3);
        assert_eq!(block_of(7, &page), Some((5, 3)));
        assert_eq!(block_of(8, &page), None);
        // The first half trimmed, one sector written since.
        let mut mixed = vec![0; 2048];
        mixed.extend_from_slice(&page[2048..3584]);
        mixed.extend(bytes(7, 47, 1, 9));
        assert_eq!(block_of(7, &mixed), Some((5, 9)));
        mixed[4000] ^= 1;
        assert_eq!(block_of(7, &mixed), None);
        assert_eq!(block_of(7, &bytes(7, 41, 8, 3)), None);
        assert_eq!(block_of(7, &[0; 4096]), None);
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
