//! What this process has taken of the machine.

use std::time::{Duration, SystemTime};

/// Ticks of a second in /proc: USER_HZ, 100 on every architecture that Linux runs on with Rust's standard library.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of all its threads so far, user's and system's. Zero where /proc is not there.
pub(crate) fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold blanks and brackets; what follows the last one are numbers.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = after.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u32>().ok());
    TICK * ticks.sum::<u32>()
}

/// The wall clock, in ms since 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
