//! Two numbers compared: always the ratio and the change together, so that the one is not printed as the other.
//!
//! Why so: a report of 2014 prints 17,000 against 11,500 I/Os per second as "+67 %". It is 1.478 times as many, +47.8 %;
//! 0.676 is the ratio the other way round. The same report's "+232 %" is 2.32 times as many: +132 %.
//! Source      Intel 2014 blueprint (errata); Optane white paper 2023 (the two checks)

use serde::Serialize;

use crate::{error::SizingError, exact::Exact};

/// `after` beside `before`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// What it was.
    pub before: Exact,
    /// What it is.
    pub after: Exact,
    /// after / before.
    pub ratio: Exact,
    /// (ratio - 1) x 100.
    pub change_percent: Exact,
    /// before / after.
    pub inverse_ratio: Exact,
}

impl Comparison {
    /// Compares `after` with `before`.
    ///
    /// # Errors
    /// What is not above 0: a ratio to nothing says nothing.
    pub fn of(before: Exact, after: Exact) -> Result<Self, SizingError> {
        let ratio = after.positive("the number after")?.over(before.positive("the number before")?)?;
        Ok(Self {
            before,
            after,
            ratio,
            change_percent: change_percent(ratio)?,
            inverse_ratio: Exact::ONE.over(ratio)?,
        })
    }
}

fn change_percent(ratio: Exact) -> Result<Exact, SizingError> {
    ratio.minus(Exact::ONE)?.times(Exact::HUNDRED)
}

/// Change of the mean latency, in per cent, that goes with `iops_ratio` times the I/Os per second at equal outstanding
/// I/O: (1 / ratio - 1) x 100. By Little's law; a table that prints another change was not measured at equal outstanding
/// I/O, or is wrong.
///
/// Source: Optane white paper 2023: 1.42 goes with -29.6 % (printed 29 %), 1.83 with -45.4 % (printed 45 %).
///
/// # Errors
/// A ratio that is not above 0.
pub fn latency_change_percent(iops_ratio: Exact) -> Result<Exact, SizingError> {
    change_percent(Exact::ONE.over(iops_ratio.positive("the ratio of IOPS")?)?)
}

/// Ratio of power drawn: ratio of IOPS / ratio of IOPS per watt.
///
/// Source: Optane white paper 2023: 1.42 / 1.35 = 1.052 and 1.83 / 1.72 = 1.064: the faster cluster drew 5 to 6 % more.
///
/// # Errors
/// Ratios that are not above 0.
pub fn power_ratio(iops_ratio: Exact, iops_per_watt_ratio: Exact) -> Result<Exact, SizingError> {
    iops_ratio.positive("the ratio of IOPS")?.over(iops_per_watt_ratio.positive("the ratio of IOPS per watt")?)
}
