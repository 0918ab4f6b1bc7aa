//! The log under events that repeat.

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Instant,
};

use cairnd::repeats::{LINES_MAX, Limit, WINDOW};
use tracing_subscriber::{fmt, prelude::*, registry};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines that `happens` leaves, and those of the counts a window later.
fn lines(happens: impl FnOnce()) -> (Vec<String>, Vec<String>) {
    let (log, limit) = (Log::default(), Limit::default());
    let writer = log.clone();
    let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone()).with_filter(limit.clone());
    tracing::subscriber::with_default(registry().with(layer), || {
        happens();
        let taken = |log: &Log| String::from_utf8(std::mem::take(&mut log.0.lock().unwrap())).unwrap();
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let first = lines(taken(&log));
        limit.tell_due(Instant::now());
        assert!(taken(&log).is_empty(), "counts come when the window is over");
        limit.tell_due(Instant::now() + WINDOW);
        let counts = lines(taken(&log));
        limit.tell_due(Instant::now() + WINDOW * 2);
        assert!(taken(&log).is_empty(), "each count comes once");
        (first, counts)
    })
}

/// Goal: 1,921 repaired blocks and 300,000 refused connections are some lines and their number, not 75 MB.
#[test]
fn what_repeats_is_counted() {
    let (written, counts) = lines(|| {
        for block in 0..1921 {
            tracing::warn!(host = "host-1", disk = "vm-1", block, "bad blocks were repaired from a good copy");
        }
        for port in 0..300_000 {
            tracing::warn!(client = %format!("10.0.0.9:{port}"), "too many NBD connections: one was refused");
        }
    });
    assert_eq!(written.len() as u64, 2 * LINES_MAX);
    assert_eq!(counts.len(), 2, "{counts:?}");
    let told = |words: &str| assert!(counts.iter().any(|line| line.contains(words)), "{words} is not in {counts:?}");
    told("and 1911 more in 60 s: host=\"host-1\" disk=\"vm-1\" bad blocks were repaired from a good copy");
    told("and 299990 more in 60 s: too many NBD connections: one was refused");
}

#[test]
fn a_thousand_disks_have_their_lines_and_debug_has_all() {
    let (written, counts) = lines(|| {
        for disk in 0..1000 {
            tracing::info!(disk = %format!("vm-{disk}"), "owns the disk");
        }
        for n in 0..1000 {
            tracing::debug!(n, "a repeated request had been carried out before");
        }
    });
    assert_eq!((written.len(), counts.len()), (2000, 0));
}

/// Goal: names that never end (a client's nonsense) take no memory without end, and are limited together.
#[test]
fn kinds_are_bounded() {
    let (written, counts) = lines(|| {
        for disk in 0..100_000 {
            tracing::warn!(disk = %format!("vm-{disk}"), "a vhost-user front end came for a disk that is gone");
        }
    });
    let bound = cairnd::repeats::KINDS_MAX as u64 + LINES_MAX;
    assert!(written.len() as u64 <= bound && counts.len() == 1, "{} lines, {counts:?}", written.len());
}
