//! The endurance numbers that the Optane white paper of 2023 prints, each beside the formula that gives it.
//!
//! Promises    in the paper's own units every printed number comes out, or its note says which rounding stands between
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
    /// What the formula gives in the paper's units.
    pub paper: Exact,
    /// What it gives in decimal units; none where that is no step to anything.
    pub si: Option<Exact>,
    /// Places after the point worth showing.
    #[serde(skip)]
    pub places: u32,
    /// The formula.
    pub formula: &'static str,
    /// What stands between printed and calculated; empty where nothing does.
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

/// What the formulas of table 1 give in one system of units.
struct Life {
    nand_mb: Exact,
    optane_mb: Exact,
    nand_iops: Exact,
    optane_iops: Exact,
}

fn life(optane_tbw: Exact, units: Units) -> Result<Life, SizingError> {
    let nand_mb = life_mb_per_s(Exact::whole(NAND_TBW), YEARS, units)?;
    let optane_mb = life_mb_per_s(optane_tbw, YEARS, units)?;
    let load = Workload::paper();
    Ok(Life { nand_iops: load.iops(nand_mb, units)?, optane_iops: load.iops(optane_mb, units)?, nand_mb, optane_mb })
}

/// Table 1: five years, 32 KiB, 70 % reads, two copies.
///
/// # Errors
/// None with the numbers that stand here; the formulas are those for any numbers.
pub fn table_1() -> Result<Vec<PaperRow>, SizingError> {
    let nominal = tbw(Exact::whole(3), Exact::whole(1600), YEARS)?;
    let optane_tbw = tbw(Exact::HUNDRED, Exact::whole(800), YEARS)?;
    let (paper, si) = (life(optane_tbw, Units::Paper)?, life(optane_tbw, Units::Si)?);
    let rounded = |mb: Exact| Exact::fraction(mb.round(), 1);
    let of_rounded = Workload::paper().iops(rounded(paper.nand_mb)?, Units::Paper)?;
    let ratio = Exact::whole(3000).times(rounded(paper.optane_mb)?)?.over(rounded(paper.nand_mb)?)?;
    let (total, speed, iops) = ("DWPD x TB x 365 x 5", "TBW / 157,680,000 s", "MB/s / (32 KiB x 30 % x 2)");
    Ok(vec![
        row(
            ("NAND: TBW of 3 DWPD", "8,600"),
            (nominal, Some(nominal), 0),
            total,
            "printed is the data sheet's TBW: 2.945 DWPD",
        ),
        row(("Optane: TBW of 100 DWPD", "146,000"), (optane_tbw, Some(optane_tbw), 0), total, ""),
        row(("NAND: MB/s for 5 years", "56"), (paper.nand_mb, Some(si.nand_mb), 2), speed, "of the data sheet's TBW"),
        row(("Optane: MB/s for 5 years", "948"), (paper.optane_mb, Some(si.optane_mb), 2), speed, ""),
        row(("NAND: IOPS of whole MB/s", "3,000"), (of_rounded, None, 1), iops, "56 MB/s, then rounded to 3,000"),
        row(("NAND: IOPS", "-"), (paper.nand_iops, Some(si.nand_iops), 1), iops, ""),
        row(
            ("Optane: IOPS", "50,785"),
            (paper.optane_iops, Some(si.optane_iops), 1),
            iops,
            "printed is not this formula's: see the next line",
        ),
        row(("Optane: IOPS as a ratio", "50,785"), (ratio, None, 1), "3,000 x 948 / 56", "of rounded values, cut off"),
    ])
}

/// Footnote 10: a day of an 800 GB NAND drive beside a day of a 400 GB Optane drive.
///
/// # Errors
/// None with the numbers that stand here.
pub fn footnote_10() -> Result<Vec<PaperRow>, SizingError> {
    let nand_gb = gb_per_day(Exact::whole(3), Exact::whole(800))?;
    let optane_gb = gb_per_day(Exact::HUNDRED, Exact::whole(400))?;
    let writes = Workload { read_percent: Exact::ZERO, ..Workload::paper() };
    let day = |units| {
        let (nand, optane) = (day_mb_per_s(nand_gb, units)?, day_mb_per_s(optane_gb, units)?);
        Ok::<_, SizingError>((nand, optane, writes.iops(nand, units)?))
    };
    let (paper, si) = (day(Units::Paper)?, day(Units::Si)?);
    let times = optane_gb.over(nand_gb)?;
    let speed = "GB a day / 86,400 s";
    Ok(vec![
        row(("NAND 800 GB: GB a day", "2,400"), (nand_gb, Some(nand_gb), 0), "DWPD x GB", ""),
        row(("NAND 800 GB: MB/s", "28.4"), (paper.0, Some(si.0), 2), speed, ""),
        row(("NAND 800 GB: write IOPS", "450"), (paper.2, Some(si.2), 1), "MB/s / (32 KiB x 2)", "rounded down"),
        row(("Optane 400 GB: GB a day", "40,000"), (optane_gb, Some(optane_gb), 0), "DWPD x GB", ""),
        row(("Optane 400 GB: MB/s", "470"), (paper.1, Some(si.1), 2), speed, "rounded down"),
        row(
            ("Optane over NAND", "16x"),
            (times, Some(times), 2),
            "40,000 / 2,400",
            "cut off; of 400 GB to 800 GB: GB for GB it is 33.3",
        ),
    ])
}

fn row(
    (what, printed): (&'static str, &'static str),
    (paper, si, places): (Exact, Option<Exact>, u32),
    formula: &'static str,
    note: &'static str,
) -> PaperRow {
    PaperRow { what, printed, paper, si, places, formula, note }
}
