//! What the requests of a run share: what ended when, and what it took.
//!
//! Promises    only what ends within the time that counts is counted, and once
//! Not here    which requests there are (`load`, `replay`)

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use cairn_measure::{Histogram, Quantile};
use cairn_workload::{Direction, Request};

use crate::{
    job::{Measured, RunError, Second},
    process,
};

/// Counts what ends.
pub(crate) struct Meter {
    /// What ends between these counts.
    pub(crate) counts: (Instant, Instant),
    pub(crate) measured: RefCell<Measured>,
    /// No more requests are to begin.
    pub(crate) stop: Cell<bool>,
    cpu_before: Cell<Option<Duration>>,
    /// What ended in the current second, and which that is.
    current: RefCell<(usize, Histogram)>,
    last_end: Cell<Option<Instant>>,
}

impl Meter {
    /// Nothing has ended yet, of so many streams. What ends between `counts` counts.
    pub(crate) fn new(counts: (Instant, Instant), streams: usize) -> Self {
        let mut measured = Measured::nothing(counts.1 - counts.0, streams);
        measured.began_unix_ms = process::unix_ms();
        Self {
            counts,
            measured: RefCell::new(measured),
            stop: Cell::new(false),
            cpu_before: Cell::new(None),
            current: RefCell::default(),
            last_end: Cell::new(None),
        }
    }

    /// `all_done`: every stream has begun all that it may, so that the measured time is over, too.
    pub(crate) fn result(&self, all_done: bool) -> Measured {
        self.close_second(usize::MAX);
        let mut measured = self.measured.borrow().clone();
        measured.ended_unix_ms = process::unix_ms();
        let took = self.counts.1.min(Instant::now()).saturating_duration_since(self.counts.0);
        if let Some(before) = self.cpu_before.get().filter(|_| !took.is_zero()) {
            measured.harness_cpu = (process::cpu_time() - before).as_secs_f64() / took.as_secs_f64();
        }
        if measured.broken.is_some() || all_done {
            measured.measured = took;
        }
        measured
    }

    /// A read or a write of `stream` that began, or was due, at `began`.
    pub(crate) fn ended(&self, stream: usize, request: &Request, began: Instant, ended: Instant) {
        let (from, until) = self.counts;
        if ended < from || ended >= until {
            return;
        }
        if self.cpu_before.get().is_none() {
            self.cpu_before.set(Some(process::cpu_time()));
        }
        let took_ns = ended.saturating_duration_since(began).as_nanos() as u64;
        let bytes = u64::from(request.len_bytes);
        let second = (ended - from).as_secs() as usize;
        self.close_second(second);
        self.current.borrow_mut().1.record(took_ns);
        let silence =
            self.last_end.replace(Some(ended)).map_or(Duration::ZERO, |last| ended.saturating_duration_since(last));
        let mut measured = self.measured.borrow_mut();
        let measured = &mut *measured;
        measured.longest_silence = measured.longest_silence.max(silence);
        if measured.seconds.len() <= second {
            measured.seconds.resize(second + 1, Second::default());
        }
        let (of_second, of_stream) = (&mut measured.seconds[second], &mut measured.streams[stream]);
        let (tally, side, of_stream) = match request.direction {
            Direction::Read => (&mut of_second.reads, &mut measured.reads, &mut of_stream.reads),
            Direction::Write => (&mut of_second.writes, &mut measured.writes, &mut of_stream.writes),
        };
        tally.record(bytes, took_ns);
        for side in [side, of_stream] {
            side.latency.record(took_ns);
            side.bytes += bytes;
        }
    }

    /// What ends from now on ends in `second`: requests end in the order of time.
    fn close_second(&self, second: usize) {
        let mut current = self.current.borrow_mut();
        if current.0 == second {
            return;
        }
        let p99_ns = current.1.quantile_ns(Quantile::P99).unwrap_or_default();
        if let Some(closed) = self.measured.borrow_mut().seconds.get_mut(current.0) {
            closed.p99_ns = p99_ns;
        }
        *current = (second, Histogram::default());
    }

    /// A request began so much after it was due.
    pub(crate) fn late(&self, by: Duration) {
        self.measured.borrow_mut().lag.get_or_insert_default().record(by.as_nanos() as u64);
    }

    /// A request failed: the run ends.
    pub(crate) fn broke(&self, target: &str, act: &str, len_bytes: u32, offset: u64, why: &str) {
        let why = format!("{act} of {len_bytes} bytes at {offset}: {why}");
        self.ends(RunError::Request { target: target.to_owned(), why });
    }

    /// The run ends early; the first reason is kept.
    pub(crate) fn ends(&self, why: RunError) {
        self.stop.set(true);
        self.measured.borrow_mut().broken.get_or_insert(why);
    }
}
