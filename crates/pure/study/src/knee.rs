//! Where a burst ends: the one place of a series of rates at which it falls from one level to another.
//!
//! Source      least squares with one change of level (change-point detection): Page, Biometrika 42, 1955, in its offline form
//!
//! The share of the fastest second that a rate falls to is no test for it. A fast buffer before a slower drive falls to a quarter,
//! one that is hardly faster than the drive to nine tenths. Both are two plateaus.

/// A second level that is not below this share of the first is none.
pub const SECOND_LEVEL_MAX: f64 = 0.9;
/// Values of a level, at least.
const LEVEL_MIN: usize = 2;

/// The first value of the second level: where two levels fit the values best. None where they do not fall by a tenth, or are too few.
pub fn knee(values: &[f64]) -> Option<usize> {
    let misfit = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let cuts = LEVEL_MIN..=values.len().checked_sub(LEVEL_MIN)?;
    let misfit = |cut: &usize| misfit(&values[..*cut]) + misfit(&values[*cut..]);
    let cut = cuts.min_by(|a, b| misfit(a).total_cmp(&misfit(b)))?;
    let (first, second) = (median(&values[..cut])?, median(&values[cut..])?);
    (second < first * SECOND_LEVEL_MAX).then_some(cut)
}

/// The value in the middle, the upper one of two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fall_is_found_whatever_its_size() {
        assert_eq!(knee(&[84.0, 82.0, 75.0, 31.0, 23.0, 24.0, 21.0]), Some(3));
        assert_eq!(knee(&[26.5, 27.2, 26.3, 25.4, 26.5, 22.0, 22.2, 22.6, 21.5, 22.4]), Some(5), "by a sixth");
        assert_eq!(knee(&[26.5, 27.2, 26.3, 25.4, 26.5, 25.0, 24.9, 25.6, 25.1]), None, "by a twentieth");
        assert_eq!(knee(&[20.0, 20.0, 40.0, 40.0]), None, "a rise");
        assert_eq!(knee(&[40.0, 20.0, 20.0]), None, "too few");
        assert_eq!((knee(&[]), median(&[])), (None, None));
    }
}
