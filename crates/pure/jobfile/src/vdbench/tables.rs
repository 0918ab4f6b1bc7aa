//! Which keywords Vdbench has, and what becomes of each.
//!
//! Source      Vdbench's Users Guide 5.04

use super::section::Section;
use crate::keyword::{
    Table,
    Use::{Noted, Refused, Taken},
};

const NO_COMMANDS: &str = "commands are not started from a job file: run them before and after";
const NO_VALIDATION: &str = "what is read is not checked here; leave it out";
const NO_FORMAT: &str = "write the target once with a run of its own (xfersize=128k,rdpct=0,seekpct=eof)";
const NO_HOSTS: &str = "one process drives all targets here: give each host its own file";
const NO_REPLAY: &str = "traces are not replayed here";

const GENERAL: Table = &[
    ("abort_failed_skew", Noted("the skew that was reached is in the results")),
    ("compratio", Taken),
    ("concatenatesds", Refused("targets are not joined here")),
    ("create_anchors", Refused("this is for file systems; targets here are disks")),
    ("data_errors", Noted("a run ends at its first error here")),
    ("debug", Noted("there is nothing to debug that way")),
    ("dedupflipflop", Taken),
    ("deduphotsets", Refused("hot sets of duplicates are not made here: all sets come as often")),
    ("dedupratio", Taken),
    ("dedupsets", Taken),
    ("dedupunit", Taken),
    ("endcmd", Refused(NO_COMMANDS)),
    ("end_cmd", Refused(NO_COMMANDS)),
    ("formatsds", Refused(NO_FORMAT)),
    ("formatxfersize", Refused(NO_FORMAT)),
    ("histogram", Noted("histograms here have bins of 1/64 of their latency, always")),
    ("include", Taken),
    ("ios_per_jvm", Noted("there are no Java machines here")),
    ("journal", Refused(NO_VALIDATION)),
    ("loop", Refused("repeat the command instead")),
    ("messagescan", Noted("the system's messages are not read")),
    ("monitor", Refused("end the command instead")),
    ("pattern", Refused("what is written is random here, with compratio= and dedupratio= as asked")),
    ("port", Noted("nothing listens here")),
    ("report", Noted("the results have every stream")),
    ("report_run_totals", Noted("the results have totals")),
    ("showlba", Refused(NO_REPLAY)),
    ("startcmd", Refused(NO_COMMANDS)),
    ("start_cmd", Refused(NO_COMMANDS)),
    ("timeout", Refused(NO_COMMANDS)),
    ("validate", Refused(NO_VALIDATION)),
];

const HD: Table = &[
    ("clients", Refused(NO_HOSTS)),
    ("jvms", Noted("there are no Java machines here")),
    ("master", Refused(NO_HOSTS)),
    ("mount", Refused(NO_COMMANDS)),
    ("shell", Noted("this process drives all targets")),
    ("system", Taken),
    ("user", Noted("this process drives all targets")),
    ("vdbench", Noted("this process drives all targets")),
];

const SD: Table = &[
    ("align", Taken),
    ("compratio", Taken),
    ("count", Refused("write one sd= for each target")),
    ("dedupflipflop", Taken),
    ("deduphotsets", Refused("hot sets of duplicates are not made here: all sets come as often")),
    ("dedupratio", Taken),
    ("dedupsets", Taken),
    ("dedupunit", Taken),
    ("hitarea", Taken),
    ("host", Taken),
    ("journal", Refused(NO_VALIDATION)),
    ("lun", Taken),
    ("offset", Taken),
    ("openflags", Taken),
    ("range", Taken),
    ("replay", Refused(NO_REPLAY)),
    ("resetbus", Refused("no such thing here")),
    ("resetlun", Refused("no such thing here")),
    ("size", Taken),
    ("streams", Refused("one sequence for each workload here: define more workloads with ranges of their own")),
    ("threads", Taken),
];

const WD: Table = &[
    ("host", Taken),
    ("hotband", Refused("use range= on a workload of its own, with skew=")),
    ("iorate", Taken),
    ("openflags", Taken),
    ("pattern", Refused("what is written is random here, with compratio= and dedupratio= as asked")),
    ("priority", Refused("workloads here are equals: use iorate= or skew=")),
    ("range", Taken),
    ("rdpct", Taken),
    ("rhpct", Taken),
    ("sd", Taken),
    ("seekpct", Taken),
    ("skew", Taken),
    ("streams", Refused("one sequence for each workload here: define more workloads with ranges of their own")),
    ("stride", Refused("no such thing here: take seekpct=seq or seekpct=100")),
    ("threads", Taken),
    ("whpct", Taken),
    ("xfersize", Taken),
];

const RD: Table = &[
    ("curve", Taken),
    ("distribution", Taken),
    ("elapsed", Taken),
    ("endcmd", Refused(NO_COMMANDS)),
    ("end_cmd", Refused(NO_COMMANDS)),
    ("forcompratio", Refused("compratio= is for the whole file here")),
    ("fordedupratio", Refused("dedupratio= is for the whole file here")),
    ("forhitarea", Refused("there is no hit area here: say hitarea=0")),
    ("foriorate", Taken),
    ("forrdpct", Taken),
    ("forrhpct", Refused("there is no hit area here: say hitarea=0")),
    ("forseekpct", Taken),
    ("forthreads", Taken),
    ("forwhpct", Refused("there is no hit area here: say hitarea=0")),
    ("forxfersize", Taken),
    ("interval", Taken),
    ("iorate", Taken),
    ("maxdata", Refused("runs end with their time here, or with seekpct=eof")),
    ("openflags", Taken),
    ("pause", Taken),
    ("rdpct", Taken),
    ("replay", Refused(NO_REPLAY)),
    ("sd", Taken),
    ("seekpct", Taken),
    ("spike", Refused("rates are steady here: take one run for each rate")),
    ("startcmd", Refused(NO_COMMANDS)),
    ("start_cmd", Refused(NO_COMMANDS)),
    ("stopcurve", Refused("the curve is run to its end here; leave it out")),
    ("threads", Taken),
    ("variable", Refused("rates are steady here: take one run for each rate")),
    ("warmup", Taken),
    ("wd", Taken),
    ("xfersize", Taken),
];

pub(super) fn table(section: Section) -> Table {
    match section {
        Section::General => GENERAL,
        Section::Hd => HD,
        Section::Sd => SD,
        Section::Wd => WD,
        Section::Rd => RD,
    }
}

/// All sections' keywords, each behind how its definitions begin.
pub(super) const SECTIONS: [(&str, Table); 5] =
    [("general", GENERAL), ("`hd=`", HD), ("`sd=`", SD), ("`wd=`", WD), ("`rd=`", RD)];

/// Whether the section has a keyword of exactly this name.
pub(super) fn is_of(section: Section, key: &str) -> bool {
    table(section).iter().any(|(name, _)| *name == key)
}

/// Whether any section has.
pub(super) fn is_any(key: &str) -> bool {
    [Section::General, Section::Hd, Section::Sd, Section::Wd, Section::Rd].iter().any(|s| is_of(*s, key))
}
