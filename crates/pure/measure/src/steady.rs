//! Whether a store has come to its steady state: the five-round rule of SNIA's performance test specification.

/// Rounds that are looked at.
pub const ROUNDS: usize = 5;
/// The most and the least of five may be this far apart, as a share of their mean.
const RANGE_MAX: f64 = 0.20;
/// The best line through five may rise or fall by this much over them, as a share of their mean.
const RISE_MAX: f64 = 0.10;

/// The last five rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Their mean.
    pub mean: f64,
    /// The most less the least, as a share of the mean.
    pub range: f64,
    /// What the best line through them (least squares) rises from the first to the last, as a share of the mean; negative
    /// where it falls.
    pub rise: f64,
}

impl Steadiness {
    /// Whether that is a steady state: range at most 20 %, rise at most 10 %.
    pub fn is_steady(&self) -> bool {
        self.range <= RANGE_MAX && self.rise.abs() <= RISE_MAX
    }
}

/// Judges the last five rounds; none where there are fewer, or where nothing was done in them.
pub fn steadiness(rounds: &[f64]) -> Option<Steadiness> {
    let last: &[f64; ROUNDS] = rounds.last_chunk()?;
    let mean = last.iter().sum::<f64>() / ROUNDS as f64;
    let (min, max) = last.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    // Least squares over x = -2..=2, whose squares add up to 10.
    let slope = last.iter().enumerate().map(|(x, y)| (x as f64 - 2.0) * y).sum::<f64>() / 10.0;
    (mean > 0.0).then(|| Steadiness { mean, range: (max - min) / mean, rise: slope * (ROUNDS - 1) as f64 / mean })
}
