//! When requests begin.

use crate::draw::{unit, word};

/// How a load is paced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each worker's next request begins when one of its last has ended.
    Closed,
    /// So many requests begin each second, evenly, whatever has ended.
    Rate {
        /// Of all workers together; above 0.
        per_s: f64,
    },
    /// So many on average, at times that know nothing of each other.
    Poisson {
        /// Of all workers together; above 0.
        per_s: f64,
    },
}

/// When the requests of an open loop are due, in nanoseconds from its begin.
#[derive(Debug, Clone)]
pub struct Schedule {
    pace: Pace,
    seed: u64,
    number: u64,
    last_ns: f64,
}

impl Schedule {
    /// The schedule of `worker` of `workers`, who share the rate; none for a closed loop, and for a rate that is none.
    pub fn new(pace: Pace, seed: u64, worker: u64, workers: u64) -> Option<Self> {
        let (per_s, first) = match pace {
            Pace::Closed => return None,
            // Evenly between those of the others.
            Pace::Rate { per_s } => (per_s, worker as f64 * 1e9 / per_s),
            Pace::Poisson { per_s } => (per_s, 0.0),
        };
        if !(per_s.is_finite() && per_s > 0.0) {
            return None;
        }
        let each = per_s / workers.max(1) as f64;
        let pace = match pace {
            Pace::Poisson { .. } => Pace::Poisson { per_s: each },
            _ => Pace::Rate { per_s: each },
        };
        Some(Self { pace, seed: word(!seed, worker), number: 0, last_ns: first })
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let due = match self.pace {
            Pace::Closed => return None,
            // From the number, not from the last: no error adds up.
            Pace::Rate { per_s } => self.last_ns + self.number as f64 * 1e9 / per_s,
            Pace::Poisson { per_s } => {
                self.last_ns -= (1.0 - unit(word(self.seed, self.number))).ln() * 1e9 / per_s;
                self.last_ns
            }
        };
        self.number += 1;
        Some(due as u64)
    }
}
