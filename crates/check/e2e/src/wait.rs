//! Waiting with a deadline.

use std::{
    fs,
    path::{Path, PathBuf},
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

/// Whether a process of this network namespace listens at this path: the file is there a moment before that.
pub fn listens(socket: &Path) -> bool {
    let Ok(sockets) = fs::read_to_string("/proc/net/unix") else { return false };
    // Number, references, protocol, flags, type, state, inode, path; the flag of one that listens is 10000.
    let path_of_listener = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        (words.get(3) == Some(&"00010000")).then(|| words.get(7).map(PathBuf::from)).flatten()
    };
    sockets.lines().any(|line| path_of_listener(line).as_deref() == Some(socket))
}
