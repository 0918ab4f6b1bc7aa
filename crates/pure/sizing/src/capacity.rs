//! From raw bytes to bytes that guests can use, and back.
//!
//! Promises    L1  `usable(raw(x))` is x, or more by less than what one raw byte holds; never less  (tests/properties.rs)
//!             L2  raw is rounded up and usable down, to whole bytes: nothing is promised that is not there
//! Assumes     components spread evenly; chunks, witnesses and metadata cost nothing worth counting
//! Not here    whether a certain disk fits on certain devices (`placement`); what reduction a data set will have
//! Source      Micron vSAN 6.7 all-flash reference architecture (multipliers: mirror 2 and 3, RAID-5 1.33, RAID-6 1.5);
//!             host minima and the 10 % rule of cache: vSAN design guides

use cairn_types::{FaultToleranceMethod, Policy, Redundancy};
use serde::Serialize;

use crate::{
    error::{SizingError, SizingErrorKind},
    exact::Exact,
};

/// Failures to tolerate, at most.
const FTT_MAX: u8 = 3;

/// Per cent of what guests have written, before copies, that the cache devices should hold together.
///
/// Source: the design guides of vSAN for hybrid clusters: 10 % of the consumed capacity, failures to tolerate left out of
/// account, since the blocks in use are a tenth of the data and each is cached once. All-flash clusters size a write
/// buffer instead, by endurance; the number is a floor there.
pub const CACHE_PERCENT: u64 = 10;

/// Hosts (or fault domains) that a mirror needs: FTT + 1 with copies and FTT with witnesses, so that FTT losses leave
/// more than half.
pub const fn mirror_hosts_min(ftt: u8) -> u16 {
    2 * ftt as u16 + 1
}

/// How data is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// FTT + 1 full copies. Made by [`Protection::mirror`], which knows the most that FTT may be.
    Mirror {
        /// Failures to tolerate, 0 to 3.
        ftt: u8,
    },
    /// Rows of strips over as many hosts: 1 of parity is RAID-5, 2 are RAID-6. Made by [`Protection::parity`], which knows the bounds.
    Parity {
        /// Strips of data in a row, 2 to 8.
        data: u8,
        /// Strips of parity in a row, 1 or 2: failures to tolerate.
        parity: u8,
    },
}

impl Protection {
    /// RAID-5 with three strips of data and one of parity: one failure.
    pub const RAID5: Self = Self::Parity { data: 3, parity: 1 };
    /// RAID-6 with four strips of data and two of parity: two failures.
    pub const RAID6: Self = Self::Parity { data: 4, parity: 2 };

    /// The four mirrors, then RAID-5 and RAID-6 as they are without another wish.
    pub const ALL: [Self; 6] = [
        Self::Mirror { ftt: 0 },
        Self::Mirror { ftt: 1 },
        Self::Mirror { ftt: 2 },
        Self::Mirror { ftt: 3 },
        Self::RAID5,
        Self::RAID6,
    ];

    /// A mirror that tolerates `ftt` failures.
    ///
    /// # Errors
    /// More than 3.
    pub fn mirror(ftt: u8) -> Result<Self, SizingError> {
        match ftt {
            0..=FTT_MAX => Ok(Self::Mirror { ftt }),
            _ => Err(SizingError::value(format!("failures to tolerate is {ftt}"), "give 0 to 3")),
        }
    }

    /// Rows of `data` strips and `parity` more.
    ///
    /// # Errors
    /// Other than 2 to 8 and 1 to 2.
    pub fn parity(data: u8, parity: u8) -> Result<Self, SizingError> {
        match Redundancy::DATA_STRIPS.contains(&data) && Redundancy::PARITY_STRIPS.contains(&parity) {
            true => Ok(Self::Parity { data, parity }),
            false => Err(SizingError::value(
                format!("rows of {data} strips of data and {parity} of parity"),
                "give 2 to 8 of data, and 1 (RAID-5) or 2 (RAID-6) of parity",
            )),
        }
    }

    /// What a policy asks for. Erasure coding is RAID-5 with FTT 1 and RAID-6 with FTT 2; where it leaves the width to the cluster, that is
    /// taken for large enough for the usual one.
    ///
    /// # Errors
    /// A failure count that its method does not have.
    pub fn of(policy: &Policy) -> Result<Self, SizingError> {
        match (policy.ftm, policy.ftt) {
            (FaultToleranceMethod::Mirror, ftt) => Self::mirror(ftt),
            (FaultToleranceMethod::ErasureCoding { data_strips: 0 }, 1) => Ok(Self::RAID5),
            (FaultToleranceMethod::ErasureCoding { data_strips: 0 }, 2) => Ok(Self::RAID6),
            (FaultToleranceMethod::ErasureCoding { data_strips }, ftt @ 1..=2) => Self::parity(data_strips, ftt),
            (FaultToleranceMethod::ErasureCoding { .. }, ftt) => Err(SizingError::value(
                format!("erasure coding with FTT={ftt}"),
                "choose FTT 1 (RAID-5), FTT 2 (RAID-6), or mirroring",
            )),
        }
    }

    /// Failures that lose nothing.
    pub const fn ftt(self) -> u8 {
        match self {
            Self::Mirror { ftt } => ftt,
            Self::Parity { parity, .. } => parity,
        }
    }

    /// Raw bytes for one byte of data: FTT + 1; of rows all strips over those of data, 4/3 exactly (printed 1.33) and 3/2.
    ///
    /// # Errors
    /// Rows without data.
    pub fn multiplier(self) -> Result<Exact, SizingError> {
        match self {
            Self::Mirror { ftt } => Ok(Exact::whole(u64::from(ftt) + 1)),
            Self::Parity { data, parity } => Exact::fraction(i128::from(data) + i128::from(parity), data.into()),
        }
    }

    /// Hosts (or fault domains) that it needs: 2 FTT + 1 for a majority after as many failures, and one for each strip of a row.
    pub const fn hosts_min(self) -> u16 {
        match self {
            Self::Mirror { ftt } => mirror_hosts_min(ftt),
            Self::Parity { data, parity } => {
                let (strips, votes) = (data as u16 + parity as u16, mirror_hosts_min(parity));
                if strips > votes { strips } else { votes }
            }
        }
    }

    /// In words.
    pub fn describe(self) -> String {
        match self {
            Self::Mirror { ftt: 0 } => "one copy (FTT=0)".into(),
            Self::Mirror { ftt } => format!("mirror, FTT={ftt}"),
            Self::Parity { data, parity } => format!("RAID-{}, {data}+{parity} (FTT={parity})", 4 + parity),
        }
    }

    /// Refuses too few hosts.
    ///
    /// # Errors
    /// Fewer than [`Self::hosts_min`].
    pub fn check_hosts(self, hosts: u64) -> Result<(), SizingError> {
        let needed = u64::from(self.hosts_min());
        if hosts >= needed {
            return Ok(());
        }
        let mirrors = (0..=FTT_MAX).rev().find(|ftt| u64::from(mirror_hosts_min(*ftt)) <= hosts);
        Err(SizingError {
            kind: SizingErrorKind::Hosts,
            text: format!("{} needs {needed} hosts, there are {hosts}", self.describe()),
            remedy: match mirrors {
                Some(ftt) => format!("add hosts, or choose a mirror with FTT={ftt}"),
                None => "give 1 host or more".into(),
            },
        })
    }
}

/// What stands between raw and usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// How data is protected.
    pub protection: Protection,
    /// Per cent of raw that is to stay free: for rebuilds, cleaning, growth.
    pub slack_percent: Exact,
    /// Bytes of guests in one stored byte before copies: 1 where nothing is reduced. Reduction is an input: no
    /// calculator knows what a data set will give.
    pub reduction: Exact,
}

/// Bytes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capacity {
    /// On capacity devices.
    pub raw_bytes: u64,
    /// Of guests.
    pub usable_bytes: u64,
}

impl Pool {
    /// Protection and nothing else.
    pub const fn of(protection: Protection) -> Self {
        Self { protection, slack_percent: Exact::ZERO, reduction: Exact::ONE }
    }

    /// Raw bytes for one usable: multiplier / (reduction x (1 - slack)).
    fn raw_per_usable(&self) -> Result<Exact, SizingError> {
        let reduction = self.reduction;
        if reduction < Exact::ONE {
            return Err(SizingError::value(
                format!("the reduction ratio is {}", reduction.short(6)),
                "give before : after as one number of 1 or more, such as 1.9",
            ));
        }
        let kept = Exact::HUNDRED.minus(self.slack_percent.percent("the slack")?)?.of_hundred()?;
        if kept.is_zero() {
            return Err(SizingError::value("the slack is 100 %: nothing is left to use", "give less, such as 25"));
        }
        self.protection.multiplier()?.over(reduction.times(kept)?)
    }

    /// What guests can use of `raw_bytes`: raw x (1 - slack) / multiplier x reduction, rounded down.
    ///
    /// Source: Intel 2014 blueprint, 16 x 800 GB with FTT 1: 12.8 TB raw, 6.4 TB usable.
    ///
    /// # Errors
    /// Values out of range.
    pub fn usable(&self, raw_bytes: u64) -> Result<Capacity, SizingError> {
        let usable = Exact::whole(raw_bytes).over(self.raw_per_usable()?)?.floor();
        Ok(Capacity { raw_bytes, usable_bytes: whole_bytes(usable)? })
    }

    /// What `usable_bytes` of guests take: usable / reduction x multiplier / (1 - slack), rounded up.
    ///
    /// Source: Micron vSAN 6.7: 16.384 TB take 32.77 (mirror), 21.85 (RAID-5), 24.58 TB (RAID-6).
    ///
    /// # Errors
    /// Values out of range.
    pub fn raw(&self, usable_bytes: u64) -> Result<Capacity, SizingError> {
        let raw = Exact::whole(usable_bytes).times(self.raw_per_usable()?)?.ceil();
        Ok(Capacity { raw_bytes: whole_bytes(raw)?, usable_bytes })
    }
}

fn whole_bytes(bytes: i128) -> Result<u64, SizingError> {
    u64::try_from(bytes).map_err(|_| {
        SizingError::value("that is more than 16 EiB", "look for a unit that is wrong: no cluster holds that")
    })
}

/// Bytes that the cache devices of the cluster should hold together: `percent` of what guests have written, before copies,
/// rounded up. The rule of thumb is [`CACHE_PERCENT`].
///
/// # Errors
/// A share out of range.
pub fn cache_bytes(consumed_bytes: u64, percent: Exact) -> Result<u64, SizingError> {
    let share = percent.percent("the share of cache")?.of_hundred()?;
    whole_bytes(Exact::whole(consumed_bytes).times(share)?.ceil())
}
