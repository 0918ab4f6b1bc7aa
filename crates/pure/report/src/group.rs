//! Repeats together: what a configuration is said to have done.
//!
//! Promises    G1  percentiles and shares come from bins added over the repeats, never from percentiles
//!             G2  a repeat that broke counts in no mean; where all broke there is no number

use std::collections::BTreeSet;

use cairn_measure::{EDGES_US, Histogram, IOMETER_BINS, Quantile, Spread, bin_of, spread, upper_ns};
use cairn_study::{Cell, Manifest, Params, Results};

/// The repeats of one configuration.
pub struct Config<'a> {
    /// "all-flash/vms-16".
    pub id: &'a str,
    /// What was asked for in its first repeat.
    pub params: &'a Params,
    /// All repeats, those that broke too.
    pub repeats: Vec<&'a Cell>,
    /// What it differs in from the others of its arm, for an axis: virtual machines, or requests outstanding.
    pub x: u64,
}

/// What a study compares.
pub struct Arm<'a> {
    /// Its name.
    pub name: &'a str,
    /// Modelled times were multiplied by this; 1 where nothing is modelled.
    pub dilation: f64,
    /// Whether its times are those of a model.
    pub modelled: bool,
    /// Whether its configurations differ in virtual machines; else in outstanding requests.
    pub by_vms: bool,
    /// In the order in which they were run.
    pub configs: Vec<Config<'a>>,
}

/// The arms that have cells, in the order of the manifest.
pub fn arms<'a>(manifest: &'a Manifest, results: &'a Results) -> Vec<Arm<'a>> {
    let mut names: Vec<&str> = manifest.media.iter().map(|media| media.arm.as_str()).collect();
    names.extend(results.cells.iter().map(|cell| cell.params.arm.as_str()));
    let mut arms: Vec<Arm<'a>> = Vec::new();
    for name in names {
        let mut configs = configs(results.cells.iter().filter(|cell| cell.params.arm == name));
        if configs.is_empty() || arms.iter().any(|arm| arm.name == name) {
            continue;
        }
        let media = manifest.media.iter().find(|media| media.arm == name);
        let modelled = media.is_some_and(|media| media.is_modelled());
        let told = media.map_or(1.0, |media| media.dilation);
        let dilation = if modelled && told.is_finite() && told > 0.0 { told } else { 1.0 };
        let vms: BTreeSet<u32> = configs.iter().map(|config| config.params.vms).collect();
        let by_vms = vms.len() == configs.len() && !vms.contains(&0);
        for config in &mut configs {
            config.x = if by_vms { config.params.vms.into() } else { config.params.outstanding.into() };
        }
        arms.push(Arm { name, dilation, modelled, by_vms, configs });
    }
    arms
}

fn configs<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<Config<'a>> {
    let mut configs: Vec<Config<'a>> = Vec::new();
    for cell in cells {
        match configs.iter_mut().find(|config| config.id == cell.id) {
            Some(config) => config.repeats.push(cell),
            None => configs.push(Config { id: &cell.id, params: &cell.params, repeats: vec![cell], x: 0 }),
        }
    }
    configs
}

impl<'a> Arm<'a> {
    /// What every picture of it says below its axes: "modelled media, times x10".
    pub fn stamp(&self) -> String {
        match self.modelled {
            true => format!("modelled media, times x{}", crate::number::short(self.dilation)),
            false => String::new(),
        }
    }

    /// The configuration with this number on the x axis.
    pub fn at(&self, x: u64) -> Option<&Config<'a>> {
        self.configs.iter().find(|config| config.x == x)
    }
}

impl<'a> Config<'a> {
    /// The repeats that count.
    pub fn sound(&self) -> impl Iterator<Item = &'a Cell> {
        self.repeats.iter().copied().filter(|cell| cell.checks.broken.is_none() && cell.total.requests > 0)
    }

    /// Its id without the arm's name.
    pub fn short_id(&self) -> &'a str {
        self.id.strip_prefix(&format!("{}/", self.params.arm)).unwrap_or(self.id)
    }

    fn over(&self, value: impl Fn(&Cell) -> f64) -> Option<Spread> {
        spread(&self.sound().map(value).collect::<Vec<_>>())
    }

    /// Requests a second.
    pub fn iops(&self) -> Option<Spread> {
        self.over(|cell| cell.total.iops)
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> Option<f64> {
        Some(self.over(|cell| cell.total.bytes_per_s)?.mean)
    }

    /// Mean latency of all requests, in nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        let sums = self.sound().filter_map(|cell| {
            let requests = cell.total.requests as f64;
            Some((requests, cell.total.latency?.mean_ns * requests))
        });
        let (requests, ns) = sums.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (requests > 0.0).then(|| ns / requests)
    }

    /// The longest request of all repeats, in nanoseconds.
    pub fn longest_ns(&self) -> Option<f64> {
        self.sound().filter_map(|cell| Some(cell.total.latency?.max_ns)).max().map(|ns| ns as f64)
    }

    /// Mean latency of each repeat, in nanoseconds.
    pub fn mean_ns_spread(&self) -> Option<Spread> {
        let means: Vec<f64> = self.sound().filter_map(|cell| Some(cell.total.latency?.mean_ns)).collect();
        spread(&means)
    }

    /// Mean power; none unless every repeat has one above 0.
    pub fn watts(&self) -> Option<f64> {
        let watts: Option<Vec<f64>> =
            self.sound().map(|cell| cell.power.as_ref().map(|power| power.watts).filter(|w| *w > 0.0)).collect();
        Some(spread(&watts?)?.mean)
    }

    /// Where its power is from; none where there is none.
    pub fn power_source(&self) -> Option<&'a str> {
        self.watts()?;
        self.sound().find_map(|cell| cell.power.as_ref()).map(|power| power.source.as_str())
    }

    /// Requests a second for each watt.
    pub fn iops_per_watt(&self) -> Option<f64> {
        Some(self.iops()?.mean / self.watts()?)
    }

    /// All its requests; none where there are none.
    pub fn merged(&self) -> Option<Merged> {
        let mut merged = Merged { histogram: Histogram::default(), iometer: [0; IOMETER_BINS] };
        for cell in self.sound() {
            if let Ok(histogram) = cell.total.histogram() {
                merged.histogram.add(&histogram);
                merged.iometer.iter_mut().zip(&cell.total.iometer).for_each(|(sum, count)| *sum += count);
            }
        }
        (merged.histogram.count() > 0).then_some(merged)
    }
}

/// Requests of several repeats.
pub struct Merged {
    /// By fio's bins.
    pub histogram: Histogram,
    /// By IOMeter's, exactly.
    pub iometer: [u64; IOMETER_BINS],
}

/// A share of requests as exactly as it is known, 0..=1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Within {
    /// At least so many.
    pub low: f64,
    /// At most so many; the same where it was counted.
    pub high: f64,
}

impl Within {
    /// In the middle of what it may be.
    pub fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }
}

impl Merged {
    /// The share of requests within `ns`: exact where that is one of IOMeter's edges; else what the bin that it falls in leaves open.
    pub fn within(&self, ns: u64) -> Within {
        let all = self.histogram.count();
        let edge = EDGES_US.iter().position(|edge| edge * 1000 == ns);
        if let Some(edge) = edge
            && self.iometer.iter().sum::<u64>() == all
        {
            let share = self.iometer[..=edge].iter().sum::<u64>() as f64 / all as f64;
            return Within { low: share, high: share };
        }
        let (mut low, mut high) = (0, 0);
        for (middle, count) in self.histogram.fio_bins() {
            let bin = bin_of(middle);
            low += if upper_ns(bin) <= ns { count } else { 0 };
            high += if bin <= bin_of(ns) { count } else { 0 };
        }
        Within { low: low as f64 / all as f64, high: high as f64 / all as f64 }
    }

    /// A percentile in nanoseconds.
    pub fn quantile_ns(&self, quantile: Quantile) -> Option<f64> {
        self.histogram.quantile_ns(quantile).map(|ns| ns as f64)
    }
}
