//! What a drive's endurance rating allows: the formulas, one each.
//!
//! Assumes     a year has 365 days (the paper's "5 years" are 1,825 days = 157,680,000 s); a rating counts what hosts write
//! Not here    the answer for one drive and one load (`life.rs`); the paper's own table (`optane.rs`)
//! Source      Optane white paper 2023 (HCIBench on vSAN 8 OSA), table 1 and footnote 10

use crate::{error::SizingError, exact::Exact, units::Units};

/// Days of a year, of a rating.
pub const DAYS_PER_YEAR: u64 = 365;
/// Seconds of a day.
pub const SECONDS_PER_DAY: u64 = 86_400;

/// GB of one cache device that a disk group uses as write buffer, at most, by what different releases allow.
///
/// 600 GB: vSAN before 8. 1,200 GB: "up to 1.2 TB" in vSAN 8 (Optane white paper 2023). 1,600 GB: vSAN 8 with the large
/// write buffer turned on, as VMware documents it. What is above the cap is trapped: paid for, worn evenly, not used.
pub const BUFFER_CAPS_GB: [u64; 3] = [600, 1200, 1600];

/// How a data sheet rates a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rating {
    /// Drive writes per day, over the years of the rating.
    Dwpd(Exact),
    /// TB written in all.
    Tbw(Exact),
}

/// A drive as its data sheet has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// What to call it.
    pub name: String,
    /// GB that it holds; a TB is 1,000 of them in both systems of units.
    pub capacity_gb: Exact,
    /// What it stands.
    pub rating: Rating,
}

/// What is written to the cache drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Bytes of one guest I/O.
    pub block_bytes: u64,
    /// Per cent of the guest I/Os that are reads.
    pub read_percent: Exact,
    /// Bytes written to cache drives for one byte that a guest writes: 2 for a mirror with FTT=1.
    pub copies: Exact,
    /// Bytes written to a cache drive for one byte of a copy: logs, metadata, what is written twice. The paper has 1.
    pub write_amplification: Exact,
    /// Cache drives that share the load evenly.
    pub cache_drives: u64,
}

impl Workload {
    /// The paper's: 32 KiB, 70 % reads, two copies, nothing amplified, one drive.
    pub const fn paper() -> Self {
        Self {
            block_bytes: 32 << 10,
            read_percent: Exact::whole(70),
            copies: Exact::whole(2),
            write_amplification: Exact::ONE,
            cache_drives: 1,
        }
    }

    /// Bytes that all cache drives together take for one guest I/O, reads counted in:
    /// block x write share x copies x write amplification.
    ///
    /// # Errors
    /// A value out of range; a load without writes, which wears nothing.
    pub fn bytes_per_io(&self) -> Result<Exact, SizingError> {
        let block = Exact::whole(self.block_bytes).positive("the block size")?;
        let writes = Exact::HUNDRED.minus(self.read_percent.percent("the share of reads")?)?.of_hundred()?;
        if writes.is_zero() {
            return Err(SizingError::value(
                "a load of reads only wears no drive",
                "give a share of reads below 100 per cent",
            ));
        }
        let copies = at_least_one(self.copies, "the number of copies")?;
        let amplification = at_least_one(self.write_amplification, "the write amplification")?;
        block.times(writes)?.times(copies)?.times(amplification)
    }

    /// Guest I/Os per second, reads and writes, that wear each cache drive by `mb_per_s`:
    /// MB/s x drives / (block x write share x copies x write amplification).
    ///
    /// Source: table 1, "IOPS (70/30 32 KB)": 948 MB/s x 1,024 / (32 x 0.30 x 2). The paper counts one drive.
    ///
    /// # Errors
    /// As [`Self::bytes_per_io`]; no drives.
    pub fn iops(&self, mb_per_s: Exact, units: Units) -> Result<Exact, SizingError> {
        let drives = Exact::whole(self.cache_drives).positive("the number of cache drives")?;
        mb_per_s.times(units.mb_bytes())?.times(drives)?.over(self.bytes_per_io()?)
    }

    /// Of `iops` guest I/Os, those that are writes.
    ///
    /// # Errors
    /// A share of reads out of range.
    pub fn writes_of(&self, iops: Exact) -> Result<Exact, SizingError> {
        iops.times(Exact::HUNDRED.minus(self.read_percent.percent("the share of reads")?)?.of_hundred()?)
    }
}

fn at_least_one(number: Exact, what: &str) -> Result<Exact, SizingError> {
    match number >= Exact::ONE {
        true => Ok(number),
        false => Err(SizingError::value(
            format!("{what} is {}", number.short(6)),
            "give 1 or more: everything that is written is written at least once",
        )),
    }
}

fn days(years: Exact) -> Result<Exact, SizingError> {
    years.positive("the number of years")?.times(Exact::whole(DAYS_PER_YEAR))
}

fn tb(capacity_gb: Exact) -> Result<Exact, SizingError> {
    capacity_gb.positive("the capacity of the drive")?.over(Exact::whole(1000))
}

/// TB written in all: DWPD x capacity in TB x 365 x years.
///
/// Source: table 1; 100 x 0.8 x 1,825 = 146,000 exactly. (3 x 1.6 x 1,825 = 8,760 where the paper prints the data sheet's
/// 8,600: `optane.rs`.)
///
/// # Errors
/// What is not above 0.
pub fn tbw(dwpd: Exact, capacity_gb: Exact, years: Exact) -> Result<Exact, SizingError> {
    dwpd.positive("DWPD")?.times(tb(capacity_gb)?)?.times(days(years)?)
}

/// Drive writes per day: TBW / (capacity in TB x 365 x years). The inverse of [`tbw`], exactly.
///
/// # Errors
/// What is not above 0.
pub fn dwpd(tbw: Exact, capacity_gb: Exact, years: Exact) -> Result<Exact, SizingError> {
    tbw.positive("TBW")?.over(tb(capacity_gb)?.times(days(years)?)?)
}

/// GB a day: DWPD x capacity in GB. Source: footnote 10; 800 x 3 = 2,400, 400 x 100 = 40,000.
///
/// # Errors
/// What is not above 0.
pub fn gb_per_day(dwpd: Exact, capacity_gb: Exact) -> Result<Exact, SizingError> {
    dwpd.positive("DWPD")?.times(capacity_gb.positive("the capacity of the drive")?)
}

/// MB/s, all day: GB a day / 86,400. Source: footnote 10; 2,400 x 1,024 / 86,400 = 28.4.
///
/// # Errors
/// Too many digits.
pub fn day_mb_per_s(gb_per_day: Exact, units: Units) -> Result<Exact, SizingError> {
    gb_per_day.times(units.gb_mb())?.over(Exact::whole(SECONDS_PER_DAY))
}

/// MB/s, all the years: TBW / (years x 31,536,000 s).
/// Source: table 1; 146,000 x 1,000 x 1,024 / 157,680,000 = 948.15.
///
/// # Errors
/// What is not above 0.
pub fn life_mb_per_s(tbw: Exact, years: Exact, units: Units) -> Result<Exact, SizingError> {
    let seconds = days(years)?.times(Exact::whole(SECONDS_PER_DAY))?;
    tbw.positive("TBW")?.times(units.tb_mb())?.over(seconds)
}

/// GB that a write buffer of at most `cap_gb` leaves unused: max(0, capacity - cap).
/// Source: Optane white paper 2023; 1.6 TB with a cap of 1.2 TB traps 0.4 TB. Caps: [`BUFFER_CAPS_GB`].
///
/// # Errors
/// A capacity that is not above 0.
pub fn trapped_gb(capacity_gb: Exact, cap_gb: Exact) -> Result<Exact, SizingError> {
    Ok(capacity_gb.positive("the capacity of the drive")?.minus(cap_gb)?.max(Exact::ZERO))
}
