//! What others printed, as data: reports whose studies ours are built after.
//!
//! Promises    numbers stand here as they were printed, with their hardware, their year and what is wrong with them
//! Not here    any use of them as a measure: no verdict knows this file

use serde::Deserialize;

/// One report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Who printed it.
    pub source: String,
    /// When.
    pub year: u16,
    /// The studies that are built after it.
    pub studies: Vec<String>,
    /// What was run.
    pub load: String,
    /// On what: name and devices.
    pub hardware: Vec<[String; 2]>,
    /// Requests a second.
    #[serde(default)]
    pub iops: Vec<Iops>,
    /// Which of them it compares.
    #[serde(default)]
    pub compared: Vec<Compared>,
    /// What it prints only as gains.
    #[serde(default)]
    pub gains: Vec<Gain>,
    /// Tables as they are.
    #[serde(default)]
    pub tables: Vec<Printed>,
    /// What it says, and what its own numbers say.
    pub errata: Vec<[String; 2]>,
}

/// Requests a second of one configuration.
#[derive(Debug, Deserialize)]
pub struct Iops {
    /// A name of its hardware.
    pub configuration: String,
    /// Virtual machines.
    pub vms: u32,
    /// Requests a second.
    pub iops: f64,
}

/// Two configurations that the report compares.
#[derive(Debug, Deserialize)]
pub struct Compared {
    /// The one.
    pub before: String,
    /// The other.
    pub after: String,
    /// Virtual machines of both.
    pub vms: u32,
    /// What it says of them.
    pub printed: String,
}

/// Gains of one study, as ratios.
#[derive(Debug, Deserialize)]
pub struct Gain {
    /// Which.
    pub study: String,
    /// Of requests a second.
    pub iops: String,
    /// The change of the mean latency that it prints.
    pub latency_printed: String,
    /// Of requests a second for each watt.
    pub iops_per_watt: String,
}

/// A table as it was printed.
#[derive(Debug, Deserialize)]
pub struct Printed {
    /// What it shows.
    pub title: String,
    /// Columns of words.
    pub words: usize,
    /// Columns.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

const FILES: [&str; 4] = [
    include_str!("../reference/intel-2014.json"),
    include_str!("../reference/micron-2014.json"),
    include_str!("../reference/micron-2018.json"),
    include_str!("../reference/optane-2023.json"),
];

/// The reports after which a study is built.
pub fn references_of(study: &str) -> Vec<Reference> {
    let read = |text| serde_json::from_str(text).expect("a file of this crate, which its tests read");
    let all = FILES.into_iter().map(read);
    all.filter(|reference: &Reference| reference.studies.iter().any(|name| name == study)).collect()
}

impl Reference {
    /// Requests a second of a configuration.
    pub fn iops_of(&self, configuration: &str, vms: u32) -> Option<f64> {
        let found = self.iops.iter().find(|iops| iops.configuration == configuration && iops.vms == vms);
        found.map(|iops| iops.iops)
    }
}
