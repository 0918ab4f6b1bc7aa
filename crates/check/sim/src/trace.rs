//! What happened, as one number: two runs of one seed must agree on it.
//!
//! Promises    every step (poll, timer, disk operation, message, fault) is folded in, in order
//! Assumes     blocking disk calls may come in an order that a library's hash map chose: those are folded in
//!             without order (`DiskState::blocking_hash`)

use std::collections::VecDeque;

use crate::rng::mix;

/// Lines of the trace that are kept for a person, at most (the newest).
const LINES_KEPT_MAX: usize = 2000;

/// The running hash and, when asked for, the last lines.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    pub(crate) steps: u64,
    lines: Option<VecDeque<String>>,
    print: bool,
}

impl Trace {
    pub(crate) fn fold(&mut self, kind: u64, words: &[u64]) {
        self.steps += 1;
        self.hash = words.iter().fold(mix(self.hash ^ kind), |hash, word| mix(hash ^ word));
    }

    pub(crate) fn keep_lines(&mut self) {
        self.lines.get_or_insert_default();
    }

    pub(crate) fn print_lines(&mut self) {
        self.print = true;
    }

    /// Keeps (or prints) a line when lines are kept; `line` is only called then.
    pub(crate) fn line(&mut self, line: impl FnOnce() -> String) {
        if self.print {
            return println!("{}", line());
        }
        if let Some(lines) = &mut self.lines {
            if lines.len() == LINES_KEPT_MAX {
                lines.pop_front();
            }
            lines.push_back(line());
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().flatten().cloned().collect()
    }
}

/// A hash of bytes for the trace: fast, not for anything stored.
pub(crate) fn hash_bytes(parts: &[&[u8]]) -> u64 {
    let mut hash = 0x5851_f42d_4c95_7f2d_u64;
    for part in parts {
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        for byte in rest {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    mix(hash)
}
