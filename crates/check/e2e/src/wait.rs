//! Waiting with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::Outcome;

/// Asks until the answer is `Ok`; at the deadline the last answer's words are the error.
///
/// # Errors
/// `what` with the last words, after `limit`.
pub fn wait_until<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let begin = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(words) if begin.elapsed() > limit => {
                return Err(format!("waited {} s until {what}: {words}", limit.as_secs()));
            }
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// `Ok` where `holds`, else the words.
///
/// # Errors
/// The words.
pub fn check(holds: bool, words: impl FnOnce() -> String) -> Outcome<()> {
    if holds { Ok(()) } else { Err(words()) }
}
