//! Checks of a table that somebody measured: numbers in it that follow from each other.
//!
//! Source      Micron vSAN 6.7 reference architecture (latencies of closed loops, appendix C on reduction); IOmark-VM-HC
//!             report VM-HC-170711-a (means of reads, writes and all)

use crate::{error::SizingError, exact::Exact};

/// Mean latency in ms of a closed loop: outstanding I/O / IOPS x 1,000 (Little's law).
///
/// Source: Micron: 512 outstanding at 486,099 IOPS are 1.05 ms (printed 1.10), at 121,000 4.23 ms (printed 4.23).
///
/// # Errors
/// What is not above 0.
pub fn mean_latency_ms(outstanding: u64, iops: Exact) -> Result<Exact, SizingError> {
    let outstanding = Exact::whole(outstanding).positive("the outstanding I/O")?;
    outstanding.times(Exact::whole(1000))?.over(iops.positive("the number of IOPS")?)
}

/// MB/s (decimal) of `iops` I/Os of `block_bytes`.
///
/// Source: Micron: 486,099 of 4 KiB are 1,991 MB/s (printed "2 GB/s").
///
/// # Errors
/// Too many digits.
pub fn mb_per_s(iops: Exact, block_bytes: u64) -> Result<Exact, SizingError> {
    iops.times(Exact::whole(block_bytes))?.over(Exact::whole(1_000_000))
}

/// Per cent of I/Os that are reads, from the means of all, of reads and of writes:
/// (writes - all) / (writes - reads) x 100.
///
/// Source: IOmark-VM-HC: 3.67, 1.53 and 3.90 ms give 9.7 %, which shows that its means are weighted by I/O.
///
/// # Errors
/// Equal means of reads and writes; a mean of all that is not between them.
pub fn read_share_percent(all: Exact, reads: Exact, writes: Exact) -> Result<Exact, SizingError> {
    let between = (reads <= all && all <= writes) || (writes <= all && all <= reads);
    if reads == writes || !between {
        return Err(SizingError::value(
            format!("a mean of {} does not mix {} and {}", all.short(3), reads.short(3), writes.short(3)),
            "give means of all, of reads and of writes from one run, weighted by I/O",
        ));
    }
    writes.minus(all)?.over(writes.minus(reads)?)?.times(Exact::HUNDRED)
}

/// Reduction ratio before copies: (used before / used after) / multiplier. What a vendor calls 8.21:1 with RAID-5 behind
/// it is 6.16 bytes of guests in one raw byte.
///
/// Source: Micron, appendix C: 28.58 / 3.48 = 8.21; over 1.33 is 6.17; 2.56 over 1.33 is 1.92.
///
/// # Errors
/// What is not above 0.
pub fn reduction_of_data(used_before: Exact, used_after: Exact, multiplier: Exact) -> Result<Exact, SizingError> {
    let ratio = used_before.positive("what was used before")?.over(used_after.positive("what is used after")?)?;
    ratio.over(multiplier.positive("the multiplier")?)
}
