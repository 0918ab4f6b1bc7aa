//! Numbers as they are printed.
//!
//! Promises    what is not known prints [`NOT_KNOWN`], never a number
//!             ratio and change come from `cairn_sizing::Comparison`, so that the one is never printed as the other

use cairn_sizing::{Comparison, Exact};

/// What stands where there is no number.
pub const NOT_KNOWN: &str = "n/a";

const MIB: f64 = 1_048_576.0;
/// From a float that was measured to a fraction: millionths, as nothing measured here knows more.
const PARTS: f64 = 1e6;
/// Larger numbers are not printed as decimals: 10^24 / 10^6 still fits with what [`Exact`] multiplies it by.
const MAGNITUDE_MAX: f64 = 1e18;

/// The number to six places; none of what is no number, or has more than 18 digits before the point.
pub fn exact(value: f64) -> Option<Exact> {
    let fits = value.is_finite() && value.abs() < MAGNITUDE_MAX;
    fits.then(|| Exact::fraction((value * PARTS).round() as i128, PARTS as i128).ok()).flatten()
}

/// "22,300.5": with so many places.
pub fn decimal(value: f64, places: u32) -> String {
    exact(value).map_or_else(|| NOT_KNOWN.into(), |value| value.decimal(places))
}

/// As [`decimal`], of what may not be known.
pub fn known(value: Option<f64>, places: u32) -> String {
    value.map_or_else(|| NOT_KNOWN.into(), |value| decimal(value, places))
}

/// "22,300".
pub fn count(value: u64) -> String {
    decimal(value as f64, 0)
}

/// As short as it is: "2.5", "300".
pub fn short(value: f64) -> String {
    exact(value).map_or_else(|| NOT_KNOWN.into(), |value| value.short(3))
}

/// A rate a second: whole from 100 on, else with one place.
pub fn rate(value: Option<f64>) -> String {
    let places = if value.is_some_and(|value| value >= 100.0) { 0 } else { 1 };
    known(value, places)
}

/// Nanoseconds as milliseconds: "1.234".
pub fn ms(ns: Option<f64>) -> String {
    known(ns.map(|ns| ns / 1e6), 3)
}

/// MiB of bytes, or MiB/s of bytes a second.
pub fn mib(bytes: f64) -> f64 {
    bytes / MIB
}

/// MB of bytes, or MB/s of bytes a second.
pub fn mb(bytes: f64) -> f64 {
    bytes / 1e6
}

/// A share as "98.12 %".
pub fn percent(share: Option<f64>, places: u32) -> String {
    share.map_or_else(|| NOT_KNOWN.into(), |share| format!("{} %", decimal(share * 100.0, places)))
}

/// "+1.20", "-0.30", "0.00".
pub fn signed(value: f64, places: u32) -> String {
    exact(value).map_or_else(|| NOT_KNOWN.into(), |value| signed_exact(value, places))
}

/// As [`signed`].
pub fn signed_exact(value: Exact, places: u32) -> String {
    let text = value.decimal(places);
    let is_zero = text.chars().all(|c| matches!(c, '0' | '.' | '-'));
    let sign = if value.is_negative() || is_zero { "" } else { "+" };
    format!("{sign}{}", if is_zero { text.trim_start_matches('-') } else { &text })
}

/// `after` beside `before`; none where either is not above 0, or not known.
pub fn comparison(before: Option<f64>, after: Option<f64>) -> Option<Comparison> {
    Comparison::of(exact(before?)?, exact(after?)?).ok()
}

/// "2.32x" and "+132.4 %": always together.
pub fn ratio_and_change(before: Option<f64>, after: Option<f64>) -> [String; 2] {
    match comparison(before, after) {
        Some(both) => [format!("{}x", both.ratio.decimal(2)), format!("{} %", signed_exact(both.change_percent, 1))],
        None => [NOT_KNOWN.into(), NOT_KNOWN.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_as_people_read_them() {
        assert_eq!(decimal(22_300.0, 0), "22,300");
        assert_eq!(ms(Some(1_234_567.0)), "1.235");
        assert_eq!(signed(-0.001, 2), "0.00");
        assert_eq!(signed(1.2, 2), "+1.20");
        assert_eq!(short(2.5), "2.5");
        assert_eq!(percent(Some(0.98123), 2), "98.12 %");
        assert_eq!(rate(Some(41.0)), "41.0");
    }

    #[test]
    fn what_is_not_known_is_no_number() {
        for text in [decimal(f64::NAN, 1), decimal(f64::INFINITY, 1), decimal(1e300, 1), known(None, 2), ms(None)] {
            assert_eq!(text, NOT_KNOWN);
        }
        assert_eq!(ratio_and_change(Some(0.0), Some(5.0)), [NOT_KNOWN, NOT_KNOWN]);
    }
}
