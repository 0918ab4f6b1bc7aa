//! Which bytes each request asks for.

use crate::{
    draw::{below, unit, word},
    spec::{Addresses, Kind, Spec, SpecError},
};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What is done.
    pub direction: Direction,
    /// From this byte on.
    pub offset: u64,
    /// So many bytes.
    pub len_bytes: u32,
}

/// The requests of one worker, for ever.
#[derive(Debug, Clone)]
pub struct Requests {
    spec: Spec,
    zipf: Option<Zipf>,
    /// Of this worker.
    seed: u64,
    number: u64,
    /// Where what follows on goes, in bytes of the span.
    next: u64,
    /// Weights of the kinds up to and with each.
    weights: Vec<u64>,
}

/// Words that a request draws by fixed numbers. Those of a Zipf distribution, which may need several, are from 3 on.
const WORDS: u64 = 1 << 8;
const WORD_KIND: u64 = 200;
const WORD_WITHIN: u64 = 201;

impl Requests {
    /// Those of `worker` of `workers`, which begin their sequences as far apart as the span allows.
    ///
    /// # Errors
    /// There is no such load.
    pub fn new(spec: Spec, worker: u64, workers: u64) -> Result<Self, SpecError> {
        spec.check()?;
        let workers = workers.max(1);
        let place = (u128::from(spec.places()) * u128::from(worker % workers) / u128::from(workers)) as u64;
        let next = place * u64::from(spec.request_bytes_max());
        let zipf = match spec.addresses {
            Addresses::Zipf { theta } => Some(Zipf::new(spec.places(), theta)),
            _ => None,
        };
        let sum = |sum: &mut u64, kind: &Kind| {
            *sum += u64::from(kind.weight);
            Some(*sum)
        };
        let weights = spec.kinds.iter().scan(0, sum).collect();
        let seed = word(spec.seed, worker);
        Ok(Self { spec, zipf, seed, number: 0, next, weights })
    }

    fn word(&self, which: u64) -> u64 {
        word(self.seed, self.number.wrapping_mul(WORDS).wrapping_add(which))
    }

    fn kind(&self) -> Kind {
        let sum = self.weights.last().copied().unwrap_or(1);
        let drawn = if self.weights.len() > 1 { below(self.word(WORD_KIND), sum) } else { 0 };
        self.spec.kinds[self.weights.partition_point(|weight| *weight <= drawn)]
    }

    /// A place for `len` bytes by the addresses, in bytes of the span.
    fn random(&self, len: u64) -> u64 {
        let largest = u64::from(self.spec.request_bytes_max());
        let within = if len == largest { 0 } else { below(self.word(WORD_WITHIN), largest / len) * len };
        let begin = self.place() * largest + within;
        begin - begin % len
    }

    /// What follows on the last request, for `len` bytes.
    fn following(&self, len: u64) -> u64 {
        let begin = self.next.next_multiple_of(len);
        if begin + len <= self.spec.span_bytes { begin } else { 0 }
    }

    /// Which of the largest request's places.
    fn place(&self) -> u64 {
        let places = self.spec.places();
        match self.spec.addresses {
            Addresses::Uniform => below(self.word(2), places),
            Addresses::Zipf { .. } => {
                let zipf = self.zipf.as_ref().expect("made for these addresses");
                scatter(zipf.rank(|n| unit(self.word(3 + n))), places, self.spec.seed)
            }
            Addresses::HotArea { requests_percent, area_percent } => {
                let hot = (u128::from(places) * u128::from(area_percent) / 100).max(1).min(u128::from(places)) as u64;
                let is_hot = below(self.word(3), 100) < u64::from(requests_percent) || hot == places;
                if is_hot { below(self.word(2), hot) } else { hot + below(self.word(2), places - hot) }
            }
        }
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let is = |word: u64, percent: u8| below(word, 100) < u64::from(percent);
        let kind = self.kind();
        let len = u64::from(kind.request_bytes);
        let direction = if is(self.word(0), kind.read_percent) { Direction::Read } else { Direction::Write };
        let begin = if is(self.word(1), kind.random_percent) { self.random(len) } else { self.following(len) };
        self.next = begin + len;
        self.number += 1;
        Some(Request { direction, offset: self.spec.span_begin + begin, len_bytes: kind.request_bytes })
    }
}

/// Ranks 0..n in proportion to (rank + 1)^-theta, without tables.
///
/// Source      Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions" (1996)
#[derive(Debug, Clone)]
struct Zipf {
    n: f64,
    theta: f64,
    low: f64,
    high: f64,
}

impl Zipf {
    fn new(n: u64, theta: f64) -> Self {
        let n = n as f64;
        let mut zipf = Self { n, theta, low: 0.0, high: 0.0 };
        (zipf.low, zipf.high) = (zipf.integral(1.5) - 1.0, zipf.integral(n + 0.5));
        zipf
    }

    /// The integral of x^-theta.
    fn integral(&self, x: f64) -> f64 {
        x.powf(1.0 - self.theta) / (1.0 - self.theta)
    }

    fn inverse(&self, y: f64) -> f64 {
        (y * (1.0 - self.theta)).powf(1.0 / (1.0 - self.theta))
    }

    /// `draw(n)`: the nth number from 0 up to 1. Half of the draws or more are taken, so that 64 are never used up.
    fn rank(&self, draw: impl Fn(u64) -> f64) -> u64 {
        for n in 0..64 {
            let y = self.high + draw(n) * (self.low - self.high);
            let x = self.inverse(y);
            let k = x.round().clamp(1.0, self.n);
            if y >= self.integral(k + 0.5) - k.powf(-self.theta) {
                return k as u64 - 1;
            }
        }
        0
    }
}

/// A place for each rank, no two the same: neighbours in rank are far apart. A Feistel network of four rounds over the next even
/// number of bits; what falls beyond the last place goes through it again.
fn scatter(rank: u64, places: u64, seed: u64) -> u64 {
    let half = (u64::BITS - (places - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut place = rank;
    loop {
        let (mut left, mut right) = (place >> half, place & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (word(seed ^ round, right) & mask));
        }
        place = (left << half) | right;
        if place < places {
            return place;
        }
    }
}
