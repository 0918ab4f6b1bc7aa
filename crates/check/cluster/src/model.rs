//! What a disk may hold: per 512-byte sector the versions that a read may return.
//!
//! One task writes a sector at a time, any number read it. A version is begun, then acknowledged or of unknown fate. A
//! read may return the newest version that was acknowledged or read before it began, any newer one, and any of unknown
//! fate that was never seen: a lost request may still arrive. What was seen and overwritten never comes back.

use std::collections::BTreeMap;

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Begun,
    Acked,
    Unknown,
}

#[derive(Debug, Clone, Copy)]
struct Version {
    number: u64,
    zero: bool,
    fate: Fate,
}

#[derive(Debug, Clone)]
struct Sector {
    /// The newest version that is known to have been the contents.
    floor: u64,
    /// Ascending; always holds the floor.
    versions: Vec<Version>,
}

impl Sector {
    fn new() -> Self {
        Self { floor: 0, versions: vec![Version { number: 0, zero: true, fate: Fate::Acked }] }
    }

    fn settle_at(&mut self, floor: u64) {
        self.floor = floor;
        self.versions.retain(|v| v.number >= floor || v.fate == Fate::Unknown);
    }
}

/// What a read that begins now may return, before what is begun meanwhile.
pub struct Snapshot {
    first: u64,
    sectors: Vec<Vec<Version>>,
}

/// All sectors of one disk.
pub struct Model {
    disk: u64,
    sectors: Vec<Sector>,
    next: u64,
    /// Room for one sector's contents.
    stamp: Vec<u8>,
    /// Changes that were acknowledged.
    pub acked: u64,
    /// Changes of unknown fate.
    pub unknown: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// Values of unknown fate that appeared after a newer acknowledged one.
    pub late: u64,
}

impl Model {
    /// A disk of zeroes. `disk` goes into every stamp.
    pub fn new(disk: u64, size_bytes: u64) -> Self {
        let sectors = vec![Sector::new(); (size_bytes / SECTOR) as usize];
        Self { disk, sectors, next: 1, stamp: Vec::new(), acked: 0, unknown: 0, reads: 0, late: 0 }
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

    /// A write or zero of these sectors begins; its version.
    pub fn begin(&mut self, first: u64, count: u64, zero: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        for sector in self.range(first, count) {
            sector.versions.push(Version { number, zero, fate: Fate::Begun });
        }
        number
    }

    fn range(&mut self, first: u64, count: u64) -> &mut [Sector] {
        &mut self.sectors[first as usize..(first + count) as usize]
    }

    /// It was acknowledged.
    pub fn acked(&mut self, first: u64, count: u64, number: u64) {
        self.acked += 1;
        for sector in self.range(first, count) {
            for v in &mut sector.versions {
                if v.number == number {
                    v.fate = Fate::Acked;
                }
            }
            if number > sector.floor {
                sector.settle_at(number);
            }
        }
    }

    /// Its guest will never know.
    pub fn unknown(&mut self, first: u64, count: u64, number: u64) {
        self.unknown += 1;
        for sector in self.range(first, count) {
            for v in sector.versions.iter_mut().filter(|v| v.number == number && v.fate == Fate::Begun) {
                v.fate = Fate::Unknown;
            }
        }
    }

    /// A read of these sectors begins.
    pub fn begin_read(&self, first: u64, count: u64) -> Snapshot {
        let sectors = &self.sectors[first as usize..(first + count) as usize];
        Snapshot { first, sectors: sectors.iter().map(|s| s.versions.clone()).collect() }
    }

    /// Checks what a read returned.
    pub fn check_read(&mut self, snapshot: &Snapshot, data: &[u8]) -> Result<(), String> {
        self.reads += 1;
        for (n, found) in data.chunks(SECTOR as usize).enumerate() {
            let number = snapshot.first + n as u64;
            self.check_sector(number, &snapshot.sectors[n], found)
                .map_err(|why| format!("sector {number} (block {}): {why}", number / 8))?;
        }
        Ok(())
    }

    fn check_sector(&mut self, number: u64, before: &[Version], found: &[u8]) -> Result<(), String> {
        let sector = &mut self.sectors[number as usize];
        let newest_before = before.last().map_or(0, |v| v.number);
        let began: Vec<Version> = sector.versions.iter().filter(|v| v.number > newest_before).copied().collect();
        let allowed = || before.iter().chain(&began);
        let told = || {
            let list: Vec<String> = before
                .iter()
                .chain(&began)
                .map(|v| format!("{}{}:{:?}", v.number, if v.zero { "z" } else { "" }, v.fate))
                .collect();
            format!("floor {}, allowed [{}]", sector.floor, list.join(" "))
        };
        let seen = if found.iter().all(|b| *b == 0) {
            let zero = allowed().filter(|v| v.zero).map(|v| v.number);
            // The oldest that is not of the past says least.
            let at = zero.clone().find(|z| *z >= sector.floor).or(zero.max());
            at.ok_or_else(|| format!("zeros; {}", told()))?
        } else {
            let version = u64::from_le_bytes(found[16..24].try_into().expect("eight bytes"));
            self.stamp.clear();
            stamp(&mut self.stamp, self.disk, number, version);
            if found != self.stamp {
                let (disk, at) = (&found[..8], &found[8..16]);
                return Err(format!(
                    "bytes that nobody wrote (disk {disk:?}, sector {at:?}, version {version}); {}",
                    told()
                ));
            }
            if !allowed().any(|v| v.number == version && !v.zero) {
                return Err(format!("version {version}; {}", told()));
            }
            version
        };
        let late = seen < sector.floor && sector.versions.iter().any(|v| v.number == seen && v.fate == Fate::Unknown);
        self.late += u64::from(late);
        for v in &mut sector.versions {
            if v.number == seen && v.fate == Fate::Unknown {
                v.fate = Fate::Acked;
            }
        }
        if late {
            sector.floor = seen;
        } else if seen > sector.floor {
            sector.settle_at(seen);
        }
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
