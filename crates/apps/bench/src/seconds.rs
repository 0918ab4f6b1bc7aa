//! Times of the command line.

use std::time::Duration;

/// `90`, `90s`.
///
/// # Errors
/// No number, or one below 0.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches('s').trim_end();
    let seconds: f64 = number.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
    match (0.0..=1e7).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("{text:?}: take 0 seconds or more")),
    }
}
