//! Asks a cluster for its gauges while a run is under way.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use cairn_api::v1;
use cairn_study::{Gauges, Sample};

use super::{programs::Cairn, system::gauges_of};
use crate::{
    job::{Measured, RunError},
    process,
};

/// How often it asks.
const EVERY: Duration = Duration::from_millis(500);

/// Gauges with the time when they were told, in ms since 1970.
type Told = Arc<Mutex<Vec<(u64, Gauges)>>>;

/// A thread that asks; none where there is nobody to ask.
pub(crate) struct Sampler {
    told: Told,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Begins to ask.
    pub fn start(cairn: Option<Cairn>) -> Self {
        let (told, stop) = (Told::default(), Arc::new(AtomicBool::new(false)));
        let (tell, ended) = (told.clone(), stop.clone());
        let thread = cairn.map(|cairn| thread::spawn(move || ask(&cairn, &tell, &ended)));
        Self { told, stop, thread }
    }

    /// Ends, and tells the seconds of a run with the gauges at the end of each.
    pub fn samples(mut self, measured: &Measured, ramp_ms: u64) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let told = self.told.lock().map(|told| told.clone()).unwrap_or_default();
        let begin = measured.began_unix_ms + ramp_ms;
        let sample = |(number, second): (usize, &crate::job::Second)| {
            let (both, until_ms) = (second.both(), (number as u64 + 1) * 1000);
            let near = told.iter().min_by_key(|(at, _)| at.abs_diff(begin + until_ms));
            // What was told more than a second away says nothing of this moment.
            let gauges = near.filter(|(at, _)| at.abs_diff(begin + until_ms) <= 1000).map(|(_, gauges)| *gauges);
            Sample {
                until_ms,
                requests: both.requests,
                read_bytes: second.reads.bytes,
                written_bytes: second.writes.bytes,
                failed: 0,
                mean_ns: both.mean_ns().unwrap_or_default() as u64,
                p99_ns: second.p99_ns,
                max_ns: both.max_ns,
                gauges,
            }
        };
        let mut samples: Vec<Sample> = measured.seconds.iter().enumerate().map(sample).collect();
        // A load ends with its first request that fails.
        if let (Some(RunError::Request { .. }), Some(last)) = (&measured.broken, samples.last_mut()) {
            last.failed = 1;
        }
        samples
    }
}

fn ask(cairn: &Cairn, tell: &Told, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let begun = Instant::now();
        if let (Ok(all), Ok(mut told)) = (cairn.call::<v1::Counters>(&["counters"]), tell.lock()) {
            told.push((process::unix_ms(), gauges_of(&all)));
        }
        thread::sleep(EVERY.saturating_sub(begun.elapsed()));
    }
}
