//! `cairn bench`: calculators, and the door to `cairn-bench`. What they work out stands in `cairn-sizing`; here it is asked
//! and printed.
//!
//! Promises    no cluster is asked; a wrong value is exit code 2 with the rule and a way out
//! Not here    any formula

mod capacity;
mod compare;
mod content;
mod easy_run;
mod endurance;
mod own;
mod price_file;
mod tco;

use cairn_sizing::{Exact, SizingError, SizingErrorKind};
use cairn_types::format_bytes;

use super::Context;
use crate::{
    args::{Bench, Calc},
    fail::Fail,
};

/// Carries out a verb.
pub fn run(context: &Context, verb: Bench) -> Result<(), Fail> {
    let calc = match verb {
        Bench::Calc(calc) => calc,
        Bench::Load(words) => return own::run("load", &words),
        Bench::Precondition(words) => return own::run("precondition", &words),
        Bench::Report(words) => return own::run("report", &words),
        Bench::Compare(words) => return own::run("compare", &words),
        Bench::Import(words) => return own::run("import", &words),
        Bench::Job(words) => return own::run("job", &words),
        Bench::Replay(words) => return own::run("replay", &words),
        Bench::List(words) => return own::run("list", &words),
        Bench::Describe(words) => return own::run("describe", &words),
        Bench::Plan(words) => return own::run("plan", &words),
        Bench::Run(words) => return own::run("run", &words),
        Bench::Verify(words) => return own::run("verify", &words),
    };
    match *calc {
        Calc::Endurance(what) => endurance::run(context, &what),
        Calc::Tco(what) => tco::run(context, &what),
        Calc::Capacity(what) => capacity::run(context, &what),
        Calc::EasyRun(what) => easy_run::run(context, &what),
        Calc::Compare(what) => compare::run(context, &what),
    }
}

impl From<SizingError> for Fail {
    /// Too few hosts are a refusal; everything else is a value that was typed.
    fn from(error: SizingError) -> Self {
        let fail = match error.kind {
            SizingErrorKind::Hosts => Self::refused(error.text),
            SizingErrorKind::Value | SizingErrorKind::Missing | SizingErrorKind::TooLarge => Self::usage(error.text),
        };
        fail.remedy(error.remedy)
    }
}

/// "12.80 TB (11.64 TiB)": both, so that neither is taken for the other. Below 1 TB in GB and GiB.
fn both(bytes: u64) -> String {
    let in_units =
        |unit: u64| Exact::whole(bytes).over(Exact::whole(unit)).map_or_else(|_| "-".into(), |n| n.decimal(2));
    match bytes {
        0..1_000_000_000 => format_bytes(bytes),
        1_000_000_000..1_000_000_000_000 => format!("{} GB ({} GiB)", in_units(1_000_000_000), in_units(1 << 30)),
        _ => format!("{} TB ({} TiB)", in_units(1_000_000_000_000), in_units(1 << 40)),
    }
}

/// "+47.8 %", "-29.6 %", "0.0 %".
fn signed_percent(percent: Exact) -> String {
    let text = percent.decimal(1);
    let sign = if percent.is_negative() || text == "0.0" { "" } else { "+" };
    format!("{sign}{text} %")
}

/// "yes" or "no".
fn yes_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}
