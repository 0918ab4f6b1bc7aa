//! How long one drive lasts under one load, and which load it stands for its years.
//!
//! Not here    the formulas (`endurance.rs`)

use serde::Serialize;

use crate::{
    endurance::{
        BUFFER_CAPS_GB, DAYS_PER_YEAR, Drive, Rating, SECONDS_PER_DAY, Workload, dwpd, gb_per_day, life_mb_per_s, tbw,
        trapped_gb,
    },
    error::SizingError,
    exact::Exact,
    units::Units,
};

/// What a cap of the write buffer leaves unused of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Trapped {
    /// GB of the drive that are used, at most.
    pub cap_gb: u64,
    /// GB of it that are not.
    pub trapped_gb: Exact,
}

/// The answer for one drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Life {
    /// What the drive is called.
    pub drive: String,
    /// GB that it holds.
    pub capacity_gb: Exact,
    /// Years that the rating is spread over.
    pub years: Exact,
    /// Drive writes per day.
    pub dwpd: Exact,
    /// TB written in all.
    pub tbw: Exact,
    /// GB a day.
    pub gb_per_day: Exact,
    /// MB/s to this drive, day and night, all the years.
    pub mb_per_s: Exact,
    /// Guest I/Os per second of all cache drives together, reads counted in, that use the rating up just then.
    pub iops: Exact,
    /// Of them the writes.
    pub write_iops: Exact,
    /// What is left unused under each cap of the write buffer.
    pub trapped: Vec<Trapped>,
    /// Under the load that is needed, where one is: years that the drive lasts.
    pub lasts_years: Option<Exact>,
    /// Whether that is at least `years`.
    pub sufficient: Option<bool>,
}

/// What `drive` stands under `workload` for `years`; with `needed_iops` guest I/Os per second, how long it lasts.
///
/// # Errors
/// Values out of range.
pub fn life(
    drive: &Drive,
    workload: &Workload,
    years: Exact,
    units: Units,
    needed_iops: Option<Exact>,
) -> Result<Life, SizingError> {
    let capacity_gb = drive.capacity_gb;
    let (dwpd, tbw) = match drive.rating {
        Rating::Dwpd(rate) => (rate, tbw(rate, capacity_gb, years)?),
        Rating::Tbw(total) => (dwpd(total, capacity_gb, years)?, total),
    };
    let mb_per_s = life_mb_per_s(tbw, years, units)?;
    let iops = workload.iops(mb_per_s, units)?;
    let trapped =
        BUFFER_CAPS_GB.map(|cap_gb| Ok(Trapped { cap_gb, trapped_gb: trapped_gb(capacity_gb, Exact::whole(cap_gb))? }));
    let lasts_years = match needed_iops {
        // Wear is in proportion to load: half the load, twice the years.
        Some(needed) => Some(iops.times(years)?.over(needed.positive("the IOPS needed")?)?),
        None => None,
    };
    Ok(Life {
        drive: drive.name.clone(),
        capacity_gb,
        years,
        dwpd,
        tbw,
        gb_per_day: gb_per_day(dwpd, capacity_gb)?,
        mb_per_s,
        iops,
        write_iops: workload.writes_of(iops)?,
        trapped: trapped.into_iter().collect::<Result<_, SizingError>>()?,
        lasts_years,
        sufficient: lasts_years.map(|lasts| lasts >= years),
    })
}

/// Days until the rating is used up, if a drive that took `written_tb` in its first `days` goes on like that:
/// (TBW - written) / (written / days). None where nothing was written: there is no rate to go on. 0 where the rating is
/// used up already.
///
/// A TB here is whatever the drive's counter and its data sheet both mean: the ratio is the same in any unit.
///
/// # Errors
/// A TBW or a time that is not above 0, a counter below 0.
pub fn days_left(tbw: Exact, written_tb: Exact, days: Exact) -> Result<Option<Exact>, SizingError> {
    let (tbw, days) = (tbw.positive("TBW")?, days.positive("the time of the counter, in days,")?);
    if written_tb.is_negative() {
        return Err(SizingError::value(
            format!("the counter of TB written is {}", written_tb.short(6)),
            "give what the drive tells: 0 or more",
        ));
    }
    if written_tb.is_zero() {
        return Ok(None);
    }
    let left = tbw.minus(written_tb)?.max(Exact::ZERO);
    left.times(days)?.over(written_tb).map(Some)
}

const _: () = assert!(DAYS_PER_YEAR * SECONDS_PER_DAY == 31_536_000); // what the formulas' texts say
