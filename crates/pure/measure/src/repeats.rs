//! Repeats of one measurement, and whether its numbers agree with each other.

/// How repeats differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// Coefficient of variation: the standard deviation (of a sample, n - 1) over the mean. None of a single one, and where the mean
    /// is 0.
    pub cv: Option<f64>,
}

/// The spread of repeats; none of nothing.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let (min, max) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    let variance = || values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let cv = (values.len() > 1 && mean != 0.0).then(|| variance().sqrt() / mean.abs());
    (!values.is_empty()).then_some(Spread { mean, min, max, cv })
}

/// Little's law on a closed loop: requests outstanding = rate x mean latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Little {
    /// What rate and latency say was outstanding on average.
    pub outstanding: f64,
    /// How far that is from what was asked for, as a share of it: 0.05 is 5 % more.
    pub off: f64,
}

impl Little {
    /// A row that is further off than this was not measured as it says: workers stood still, or the ramp was counted.
    pub const OFF_MAX: f64 = 0.05;

    /// Whether the row may be believed.
    pub fn holds(&self) -> bool {
        self.off.abs() <= Self::OFF_MAX
    }
}

/// Holds rate and mean latency against the number of requests that the load was to keep outstanding. None where nothing was
/// asked for.
pub fn little(requests_per_s: f64, mean_ns: f64, asked_outstanding: u64) -> Option<Little> {
    let outstanding = requests_per_s * mean_ns / 1e9;
    let asked = asked_outstanding as f64;
    (asked_outstanding > 0).then(|| Little { outstanding, off: outstanding / asked - 1.0 })
}
