//! The studies that there are: each is one entry here, with what it runs, what judges it and what its report shows.
//!
//! Promises    whoever lists, describes, plans, runs, judges or reports a study asks its entry: no name is compared elsewhere
//! Not here    the numbers of a plan (`plan`, `resilience`), the rules (`verify`), how a part of a report is drawn (`cairn-report`)

use crate::{
    Manifest, Plan, Results, Scale, Verdict, plan,
    resilience::{self, Resilience},
    vdi_storm::{self, VdiStorm},
    verify::{iometer_qos, optane, policy_matrix, tests},
};

/// A study.
#[derive(Debug, Clone, Copy)]
pub struct Study {
    /// Its name on the command line and in the files of a run.
    pub name: &'static str,
    /// A sentence.
    pub about: &'static str,
    /// Its page, in Markdown.
    pub page: &'static str,
    /// What it is made of.
    pub made_of: MadeOf,
    judge: fn(&Manifest, &Results) -> Vec<Verdict>,
    /// Requests a second are shown as bars, too, beside each other for all arms.
    pub iops_as_bars: bool,
    /// What its report has beside what all have, in this order.
    pub parts: &'static [Part],
}

/// What a study is made of.
#[derive(Debug, Clone, Copy)]
pub enum MadeOf {
    /// Tests, one after the other.
    Tests(fn(&'static str, Scale) -> Plan),
    /// One load, and a host that dies meanwhile.
    HostDeath(fn(Scale) -> Resilience),
    /// Desktops that are deployed, boot, work, and are made anew.
    Desktops(fn(Scale) -> VdiStorm),
}

/// A part of a report that not all studies have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Quality of service.
    Qos,
    /// Arms beside each other.
    Arms,
    /// Arms beside each other, with bars.
    ArmsAsBars,
    /// The burst, and what destage sustains.
    Buffer,
    /// What a host's death did.
    Outage,
    /// What desktops took.
    Desktops,
    /// Second by second.
    Time,
}

/// What a report shows of a study that is not known here: it may be of a later version.
pub const PARTS_OF_OTHERS: &[Part] = &[Part::Qos, Part::Time];

/// All of them.
pub const STUDIES: &[Study] = &[
    Study {
        name: "iometer-qos",
        about: "4 to 64 machines, 4 KiB 70/30 at queue depth 1: requests a second and quality of service as machines are added",
        page: include_str!("../../../../docs/bench/studies/iometer-qos.md"),
        made_of: MadeOf::Tests(plan::iometer_qos),
        judge: |manifest, results| tests(manifest, results, false, iometer_qos::rules),
        iops_as_bars: true,
        parts: &[Part::Qos, Part::Arms],
    },
    Study {
        name: "optane-mixed",
        about: "32 KiB 70/30 random over many disks: two cache media at rising outstanding I/O",
        page: include_str!("../../../../docs/bench/studies/optane-mixed.md"),
        made_of: MadeOf::Tests(plan::optane_mixed),
        judge: |manifest, results| tests(manifest, results, false, optane::mixed),
        iops_as_bars: false,
        parts: &[Part::ArmsAsBars, Part::Qos],
    },
    Study {
        name: "optane-seqwrite",
        about: "sequential writes beyond the write buffer: two cache media, burst and what destage sustains",
        page: include_str!("../../../../docs/bench/studies/optane-seqwrite.md"),
        made_of: MadeOf::Tests(plan::optane_seqwrite),
        // Its tests end with their bytes.
        judge: |manifest, results| tests(manifest, results, true, optane::seqwrite),
        iops_as_bars: true,
        parts: &[Part::Buffer, Part::ArmsAsBars],
    },
    Study {
        name: "policy-matrix",
        about: "4 KiB at random, five mixes, in the cache and beyond it: what the policies of a disk cost",
        page: include_str!("../../../../docs/bench/studies/policy-matrix.md"),
        made_of: MadeOf::Tests(plan::policy_matrix),
        judge: |manifest, results| tests(manifest, results, false, policy_matrix::rules),
        iops_as_bars: true,
        parts: &[Part::ArmsAsBars],
    },
    Study {
        name: resilience::NAME,
        about: "a fixed rate while a host dies and comes back: the stall, the dip, the way back to full redundancy, lost writes",
        page: include_str!("../../../../docs/bench/studies/resilience.md"),
        made_of: MadeOf::HostDeath(Resilience::of),
        judge: resilience::verify,
        iops_as_bars: true,
        parts: &[Part::Outage, Part::Time],
    },
    Study {
        name: vdi_storm::NAME,
        about: "a golden disk and its desktops, as clones and as own copies: deploy, boot all at once, work, recompose",
        page: include_str!("../../../../docs/bench/studies/vdi-storm.md"),
        made_of: MadeOf::Desktops(VdiStorm::of),
        judge: vdi_storm::verify,
        iops_as_bars: false,
        parts: &[Part::Desktops],
    },
];

impl Study {
    /// The study of a name.
    ///
    /// # Errors
    /// There is none: the sentence names those that there are.
    pub fn of(name: &str) -> Result<&'static Self, String> {
        STUDIES.iter().find(|study| study.name == name).ok_or_else(|| {
            let names: Vec<&str> = STUDIES.iter().map(|study| study.name).collect();
            format!("{name:?} is no study: take one of {}", names.join(", "))
        })
    }
}

impl Plan {
    /// A study by name; none for one that is not made of tests, or that there is not.
    pub fn of(study: &str, scale: Scale) -> Option<Self> {
        match Study::of(study).ok()? {
            Study { name, made_of: MadeOf::Tests(plan), .. } => Some(plan(name, scale)),
            Study { made_of: MadeOf::HostDeath(_) | MadeOf::Desktops(_), .. } => None,
        }
    }
}

/// Judges a run by the rules of its study; by those of all tests where the study is not known here.
pub fn verify(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    match Study::of(&manifest.study) {
        Ok(study) => (study.judge)(manifest, results),
        Err(_) => tests(manifest, results, false, |_, _| Vec::new()),
    }
}
