//! The endurance numbers that the Optane white paper of 2023 prints, each beside the formula that gives it.
//!
//! Promises    with [`Units::Paper`] every printed number comes out, or its note says which rounding stands between
//!             (tests/golden.rs)
//! Not here    the paper's measurements: nothing here can say whether they are right
//! Source      "HCIBench on vSAN 8 OSA" with cache drives of two kinds: table 1 (five years) and footnote 10

use serde::Serialize;

use crate::{
    endurance::{Drive, Rating, Workload, day_mb_per_s, gb_per_day, life_mb_per_s, tbw},
    error::SizingError,
    exact::Exact,
    units::Units,
};

/// The years of table 1.
const YEARS: Exact = Exact::whole(5);
/// TBW of the data sheet of the NAND drive.
const NAND_TBW: u64 = 8600;

/// One printed number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PaperRow {
    /// What it is.
    pub what: &'static str,
    /// As the paper prints it.
    pub printed: &'static str,
    /// What the formula gives.
    pub formula_gives: Exact,
    /// Places after the point worth showing.
    #[serde(skip)]
    pub places: u32,
    /// The formula.
    pub formula: &'static str,
    /// What stands between the two; empty where nothing does.
    pub note: &'static str,
}

/// The two cache drives of table 1: NAND by its data sheet's TBW, Optane by its DWPD.
pub fn optane_drives() -> [Drive; 2] {
    [
        Drive {
            name: "NAND, 3 DWPD".into(),
            capacity_gb: Exact::whole(1600),
            rating: Rating::Tbw(Exact::whole(NAND_TBW)),
        },
        Drive {
            name: "Optane, 100 DWPD".into(),
            capacity_gb: Exact::whole(800),
            rating: Rating::Dwpd(Exact::whole(100)),
        },
    ]
}

/// Table 1: five years, 32 KiB, 70 % reads, two copies.
///
/// # Errors
/// None with the numbers that stand here; the formulas are those for any numbers.
pub fn table_1(units: Units) -> Result<Vec<PaperRow>, SizingError> {
    let nand_nominal = tbw(Exact::whole(3), Exact::whole(1600), YEARS)?;
    let optane_tbw = tbw(Exact::HUNDRED, Exact::whole(800), YEARS)?;
    let nand_mb = life_mb_per_s(Exact::whole(NAND_TBW), YEARS, units)?;
    let optane_mb = life_mb_per_s(optane_tbw, YEARS, units)?;
    let load = Workload::paper();
    let rounded = |mb: Exact| Exact::fraction(mb.round(), 1);
    let ratio = Exact::whole(3000).times(rounded(optane_mb)?)?.over(rounded(nand_mb)?)?;
    Ok(vec![
        row(
            ("NAND: TBW of 3 DWPD", "8,600", nand_nominal, 0),
            "DWPD x TB x 365 x 5",
            "printed is the data sheet's TBW, which is 2.945 DWPD",
        ),
        row(("Optane: TBW of 100 DWPD", "146,000", optane_tbw, 0), "DWPD x TB x 365 x 5", ""),
        row(("NAND: MB/s for 5 years", "56", nand_mb, 2), "TBW / 157,680,000 s", "of the data sheet's TBW"),
        row(("Optane: MB/s for 5 years", "948", optane_mb, 2), "TBW / 157,680,000 s", ""),
        row(
            ("NAND: IOPS", "3,000", load.iops(rounded(nand_mb)?, units)?, 1),
            "MB/s / (32 KiB x 30 % x 2)",
            "of MB/s rounded to whole ones, then printed as 3,000",
        ),
        row(("NAND: IOPS, unrounded", "-", load.iops(nand_mb, units)?, 1), "MB/s / (32 KiB x 30 % x 2)", ""),
        row(
            ("Optane: IOPS, unrounded", "50,785", load.iops(optane_mb, units)?, 1),
            "MB/s / (32 KiB x 30 % x 2)",
            "printed is no result of the formula: see the next line",
        ),
        row(
            ("Optane: IOPS as a ratio", "50,785", ratio, 1),
            "3,000 x Optane MB/s / NAND MB/s",
            "a ratio of rounded values, then cut off",
        ),
    ])
}

/// Footnote 10: a day of an 800 GB NAND drive beside a day of a 400 GB Optane drive.
///
/// # Errors
/// None with the numbers that stand here.
pub fn footnote_10(units: Units) -> Result<Vec<PaperRow>, SizingError> {
    let nand_gb = gb_per_day(Exact::whole(3), Exact::whole(800))?;
    let optane_gb = gb_per_day(Exact::HUNDRED, Exact::whole(400))?;
    let nand_mb = day_mb_per_s(nand_gb, units)?;
    let writes = Workload { read_percent: Exact::ZERO, ..Workload::paper() };
    Ok(vec![
        row(("NAND 800 GB: GB a day", "2,400", nand_gb, 0), "DWPD x GB", ""),
        row(("NAND 800 GB: MB/s", "28.4", nand_mb, 2), "GB a day / 86,400 s", ""),
        row(
            ("NAND 800 GB: write IOPS", "450", writes.iops(nand_mb, units)?, 1),
            "MB/s / (32 KiB x 2)",
            "rounded down to 450",
        ),
        row(("Optane 400 GB: GB a day", "40,000", optane_gb, 0), "DWPD x GB", ""),
        row(
            ("Optane 400 GB: MB/s", "470", day_mb_per_s(optane_gb, units)?, 2),
            "GB a day / 86,400 s",
            "rounded down to 470",
        ),
        row(
            ("Optane over NAND", "16x", optane_gb.over(nand_gb)?, 2),
            "40,000 / 2,400",
            "cut off; compares 400 GB with 800 GB: GB for GB it is 33.3",
        ),
    ])
}

fn row(number: (&'static str, &'static str, Exact, u32), formula: &'static str, note: &'static str) -> PaperRow {
    let (what, printed, formula_gives, places) = number;
    PaperRow { what, printed, formula_gives, places, formula, note }
}
