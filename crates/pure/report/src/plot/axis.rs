//! Axes: from numbers to places, and where their ticks are.

/// An axis of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it counts, with its unit in parentheses.
    pub title: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Whether each decade is as long as the others.
    pub is_log: bool,
}

/// A line across the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Its number.
    pub at: f64,
    /// Empty for a fine line.
    pub label: String,
}

/// 1, 2, 2.5, 5 and their powers of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];
/// Of a logarithmic axis, from the nanosecond to beyond the hour: names of more would run into each other.
const DECADES_MAX: i32 = 13;
/// What lies further outside than so many lengths of the axis is drawn there: coordinates stay numbers.
const FAR: f64 = 1000.0;
/// As many steps as there may be on an axis, at least one of which is full.
const TICKS: f64 = 6.0;

/// The next round number that is not below `most`: two axes with the same one can be compared.
fn ceiling(most: f64) -> f64 {
    if !(most.is_finite() && most > 0.0) {
        return 1.0;
    }
    let step = step(most);
    (most / step).ceil() * step
}

fn step(range: f64) -> f64 {
    let rough = range / TICKS;
    let decade = 10f64.powf(rough.log10().floor());
    let nice = STEPS.iter().map(|step| step * decade).find(|step| *step >= rough * 0.999);
    nice.unwrap_or(decade * 10.0)
}

impl Axis {
    /// From 0 to a round number that is not below `most`.
    pub fn from_zero(title: impl Into<String>, most: f64) -> Self {
        Self { title: title.into(), from: 0.0, to: ceiling(most), is_log: false }
    }

    /// From 0 to exactly there.
    pub fn to(title: impl Into<String>, to: f64) -> Self {
        Self { title: title.into(), from: 0.0, to, is_log: false }
    }

    /// In whole decades around `least` and `most`.
    pub fn log(title: impl Into<String>, least: f64, most: f64) -> Self {
        let fit = |value: f64, other: f64| if value.is_finite() && value > 0.0 { value } else { other };
        let (least, most) = (fit(least, 0.01), fit(most, 1000.0));
        let from = 10f64.powf(least.log10().floor());
        let to = 10f64.powf(most.log10().ceil()).max(from * 10.0);
        let from = from.max(to / 10f64.powi(DECADES_MAX));
        Self { title: title.into(), from, to, is_log: true }
    }

    /// Where a number is, as a share of the axis: 0..=1 within it, [`FAR`] at most.
    pub fn share(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value.max(self.from) / self.from).log10() / (self.to / self.from).log10(),
            false => (value - self.from) / (self.to - self.from),
        };
        if share.is_finite() { share.clamp(-FAR, FAR) } else { 0.0 }
    }

    /// Its lines from below.
    pub fn ticks(&self) -> Vec<Tick> {
        if self.is_log {
            return self.decades();
        }
        let range = self.to - self.from;
        if !(range.is_finite() && range > 0.0) {
            return Vec::new();
        }
        let step = step(range);
        let count = (range / step * 1.001).floor() as u32;
        let tick = |n: u32| {
            let at = self.from + f64::from(n) * step;
            Tick { at, label: label(at) }
        };
        (0..=count).map(tick).collect()
    }

    fn decades(&self) -> Vec<Tick> {
        let count = (self.to / self.from).log10().round() as i32;
        let first = self.from.log10().round() as i32;
        let label_parts = count <= 2;
        let mut ticks = Vec::new();
        for decade in 0..=count {
            let begin = 10f64.powi(first + decade);
            ticks.push(Tick { at: begin, label: label(begin) });
            if decade < count {
                ticks.extend((2..10).map(|n| {
                    let at = begin * f64::from(n);
                    let label = if label_parts && matches!(n, 2 | 5) { label(at) } else { String::new() };
                    Tick { at, label }
                }));
            }
        }
        ticks
    }
}

fn label(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        small if small < 0.001 => format!("{value:e}"),
        huge if huge >= 1e9 => format!("{value:e}"),
        _ => crate::number::short(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers() {
        for (most, to) in [(0.0, 1.0), (f64::NAN, 1.0), (1.0, 1.0), (97.0, 100.0), (4_321.0, 5_000.0), (0.031, 0.04)] {
            assert!((ceiling(most) - to).abs() < 1e-9, "{most}: {}", ceiling(most));
        }
    }

    #[test]
    fn ticks_have_names_that_differ() {
        for most in [0.004, 1.0, 7.0, 100.0, 300.0, 39_500.0, 5e8] {
            let ticks = Axis::from_zero("x (1)", most).ticks();
            assert!((3..=8).contains(&ticks.len()), "{most}: {ticks:?}");
            let names: std::collections::BTreeSet<_> = ticks.iter().map(|tick| &tick.label).collect();
            assert_eq!(names.len(), ticks.len(), "{most}: {ticks:?}");
        }
        let decades = Axis::log("x (ms)", 0.03, 450.0);
        assert_eq!((decades.from, decades.to), (0.01, 1000.0));
        assert_eq!(decades.ticks().iter().filter(|tick| !tick.label.is_empty()).count(), 6);
    }
}
