//! A modelled drive in real time: what the data path waits for, and what blocking callers do.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use super::{Access, Medium, Pending};
use crate::timer::Timer;

/// A drive that the data path and the metadata store of one device share.
pub(crate) struct Drive {
    began: Instant,
    pending: Mutex<Pending>,
    stamp: String,
}

impl Drive {
    /// `seed`: the same file has the same times in each run, two files do not.
    pub fn new(medium: Medium, seed: u64) -> Arc<Self> {
        let stamp = medium.stamp();
        Arc::new(Self { began: Instant::now(), pending: Mutex::new(Pending::new(medium, seed)), stamp })
    }

    /// When a request that begins now is over.
    pub fn due(&self, access: Access, offset: u64, len_bytes: u64) -> Instant {
        let now = self.began.elapsed();
        let mut pending = self.pending.lock().expect("arithmetic does not panic");
        self.began + now + pending.admit(now, access, offset, len_bytes)
    }

    /// The model's name for people.
    pub fn stamp(&self) -> &str {
        &self.stamp
    }
}

/// Timers of one host's requests, kept for the next ones.
#[derive(Default)]
pub(crate) struct Timers(RefCell<Vec<Timer>>);

impl Timers {
    /// Waits until `due`. Without a timer of the system (no descriptor is left) it waits as long and a millisecond more.
    pub async fn until(&self, due: Instant) {
        let kept = self.0.borrow_mut().pop();
        let timer = kept.map_or_else(Timer::new, Ok);
        match timer {
            Ok(timer) if timer.until(due).await.is_ok() => self.0.borrow_mut().push(timer),
            _ => tokio::time::sleep(due.saturating_duration_since(Instant::now()) + Duration::from_millis(1)).await,
        }
    }
}
