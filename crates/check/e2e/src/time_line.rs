//! The printed time line of a test: what happened when.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Seconds since its beginning, and words; shared by clones.
#[derive(Clone, Debug)]
pub struct TimeLine {
    begin: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl TimeLine {
    /// Begins now, with a title.
    pub fn new(title: &str) -> Self {
        println!("\n== {title}");
        Self { begin: Instant::now(), lines: Arc::default() }
    }

    /// Says one thing.
    ///
    /// # Panics
    /// When another thread panicked while it spoke.
    pub fn say(&self, words: impl AsRef<str>) {
        let line = format!("{:8.2} s  {}", self.begin.elapsed().as_secs_f64(), words.as_ref());
        println!("{line}");
        self.lines.lock().expect("no speaker panics").push(line);
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// When it began.
    pub fn begin(&self) -> Instant {
        self.begin
    }
}
