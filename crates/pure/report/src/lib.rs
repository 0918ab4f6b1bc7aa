//! Reports of studies: manifest and results in, `report.md`, `report.html` and `results.csv` out, as text.
//!
//! Promises    R1  every file of results gives a report, also an empty one, one that ended early and one whose repeats broke; what is
//!                 missing prints "n/a", never a number
//!             R2  the same input gives the same bytes
//!             R3  ratio and change in per cent are printed together; MiB/s and MB/s are both named; latencies are in ms
//!             R4  percentiles and shares come from bins added over the repeats
//!             R5  numbers that others printed stand in tables and pictures of their own, and judge nothing
//! Assumes     histograms of the results are fio's bins (`cairn-measure`); one that is not counts as none
//! Not here    files and folders (`cairn-bench report`), running anything, whether a study's rules were kept (`cairn-study`)
#![forbid(unsafe_code)]

mod compare;
mod csv;
mod document;
mod escape;
mod group;
mod html;
mod number;
mod plot;
mod reference;
mod sections;
mod table;

use cairn_study::{Manifest, Results};

pub use compare::{Run, compare};
pub use csv::csv;

/// `report.md`: all tables.
pub fn markdown(manifest: &Manifest, results: &Results) -> String {
    document::markdown(&sections::document(manifest, results))
}

/// `report.html`: all tables and pictures, in one file that needs no other and no network.
pub fn html(manifest: &Manifest, results: &Results) -> String {
    html::page(&sections::document(manifest, results))
}
