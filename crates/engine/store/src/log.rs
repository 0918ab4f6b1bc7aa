//! The log of an open disk group: where it stands, what rounds of destage took of it, what they are asked for, how fast guests may go.
//!
//! Promises    a segment is left only between batches, and where destage asked for it
//! Assumes     one writer task, one destage task
//! Not here    where a batch goes (`ring.rs`), what waits for one (`admission.rs`), who writes (`append.rs`), what a round does
//!             (`destage.rs`), the rate of acknowledgements (`pace.rs`)

use std::time::Duration;

use cairn_format::{BatchHeader, CacheRegions};
use cairn_types::BLOCK_BYTES;
use futures::channel::oneshot;

use crate::{
    error::StoreError,
    options::RunningOptions,
    pace::{Fill, Pace},
    ring::{Ring, congestion_delay_us},
    stats::LogHealth,
};

/// A round takes at most this part of the log. Three may be under way: a tenth of the log.
const ROUNDS_PER_LOG: u64 = 32;
/// Per cent of the log from which on it does not count as drained. Not zero: guests may go on writing, and what came since
/// the last round is in the log.
const DIRTY_PERCENT_MAX: u64 = 1;

/// Who waits until all that was in the log is destaged.
pub(crate) type DrainWaiter = oneshot::Sender<Result<(), StoreError>>;

/// What the destager does next.
pub(crate) enum Work {
    /// Begin a round; those that are under way go on.
    Round {
        new_tail: u64,
    },
    /// A transaction for what is not in the log.
    Tidy {
        tail: u64,
    },
    /// No round is to begin: finish those that are under way, then rest.
    Wait,
    End,
}

/// The log while it is open.
#[derive(Debug)]
pub(crate) struct Log {
    pub ring: Ring,
    id: u64,
    health: LogHealth,
    /// The rounds under way reach up to here, if beyond the tail.
    gathered_to: u64,
    /// How fast destage is, and guests may be.
    pace: Pace,
    /// How long the last acknowledgements waited, in microseconds.
    delay_us: u64,
    /// Time of the last batch, in nanoseconds of the clock.
    last_batch_ns: u64,
    /// Destage up to here, whatever the fill.
    drain_to: Option<u64>,
    drain_waiters: Vec<DrainWaiter>,
    /// Something waits for a transaction though no log segment does: a deleted component, a lost one.
    tidy: bool,
    /// The writer is to leave its segment, so that it can be destaged. Never in a group that stopped.
    close_wanted: bool,
}

impl Log {
    pub fn new(regions: &CacheRegions) -> Self {
        Self {
            ring: Ring::new(regions, 0),
            id: regions.log_id,
            health: LogHealth::Sound,
            gathered_to: 0,
            pace: Pace::default(),
            delay_us: 0,
            last_batch_ns: 0,
            drain_to: None,
            drain_waiters: Vec::new(),
            tidy: false,
            close_wanted: false,
        }
    }

    /// What its batches, and the runs in the capacity tier, are marked with.
    pub fn id(&self) -> u64 {
        self.id
    }
    pub fn health(&self) -> LogHealth {
        self.health
    }
    /// Its batches are there up to `ends_at`, as somebody found out; what was found before stays.
    pub fn found_damaged(&mut self, ends_at: u64) {
        if self.health == LogHealth::Sound {
            self.health = LogHealth::Damaged { ends_at };
        }
    }
    /// Whoever relies on the group has dealt with the damage.
    pub fn accept_damage(&mut self) {
        self.health = LogHealth::Sound;
    }

    /// The header of the next batch, to be filled in.
    pub fn header(&self, position: u64, open_count: u64) -> BatchHeader {
        self.ring.header(self.id, position, open_count)
    }
    /// The first batch of those that are being written is on the medium.
    pub fn written(&mut self, header: &BatchHeader, now_ns: u64) {
        self.ring.written(header);
        self.last_batch_ns = now_ns;
    }
    pub fn last_batch_ns(&self) -> u64 {
        self.last_batch_ns
    }

    /// How long the acknowledgements of a batch wait whose `bytes` are in the log now.
    pub fn acknowledge_after(&mut self, now_ns: u64, bytes: u64, tuning: &RunningOptions) -> Duration {
        let (low, high) = (tuning.congestion_low_percent, tuning.congestion_high_percent);
        let mark = |percent: u8| self.ring.size() / 100 * u64::from(percent);
        let under_way = self.gathered_to.saturating_sub(self.ring.tail());
        let fill = Fill { used: self.ring.used(), under_way, low: mark(low), high: mark(high) };
        let max_us = tuning.congestion_delay_max_us;
        let delay = self.pace.delay(now_ns, bytes, fill, Duration::from_micros(max_us)).unwrap_or_else(|| {
            Duration::from_micros(congestion_delay_us(self.ring.fill_permille(), low, high, max_us))
        });
        self.delay_us = delay.as_micros() as u64;
        delay
    }
    /// How long the last acknowledgements waited, in microseconds.
    pub fn delay_us(&self) -> u64 {
        self.delay_us
    }

    pub fn wants_close(&self) -> bool {
        self.close_wanted
    }
    /// Leaves the head's segment, if a drain asked for it: only the writer does, between its batches.
    pub fn close_if_wanted(&mut self) -> bool {
        let wanted = std::mem::take(&mut self.close_wanted);
        if wanted {
            self.ring.close_segment();
        }
        wanted
    }

    /// Asks for all that is in the log now to be destaged.
    pub fn request_drain(&mut self) {
        let target = self.ring.head().next_multiple_of(self.ring.segment_bytes());
        self.drain_to = self.drain_to.max(Some(target));
    }
    /// The same, and tells `waiter` when it is.
    pub fn drain(&mut self, waiter: DrainWaiter) {
        self.request_drain();
        self.drain_waiters.push(waiter);
    }
    pub fn is_draining(&self) -> bool {
        self.drain_to.is_some()
    }
    /// Tells those who wait, where nothing is to be drained any more.
    pub fn answer_drains(&mut self) {
        if self.drain_to.is_none() {
            self.answer_waiters(&Ok(()));
        }
    }
    /// Tells all who wait that nothing comes any more.
    pub fn refuse_drains(&mut self, error: &StoreError) {
        self.answer_waiters(&Err(error.clone()));
    }
    fn answer_waiters(&mut self, answer: &Result<(), StoreError>) {
        std::mem::take(&mut self.drain_waiters).into_iter().for_each(|waiter| drop(waiter.send(answer.clone())));
    }
    /// The log stays as it is.
    pub fn stop(&mut self, error: &StoreError) {
        self.drain_to = None;
        self.close_wanted = false;
        self.refuse_drains(error);
    }
    pub fn is_drained(&self) -> bool {
        self.ring.used() * 100 < self.ring.size() * DIRTY_PERCENT_MAX
    }

    /// Asks for a transaction though no segment waits for one.
    pub fn want_tidy(&mut self) {
        self.tidy = true;
    }
    /// Destage has something to do, however full the log is.
    pub fn wants_destage(&self) -> bool {
        self.tidy || self.drain_to.is_some()
    }

    /// Bytes of the log that one round takes, at least a segment. A round gives its room back in one piece at its end: in a small
    /// log a large one is a stop and a burst for guests that wait for it (a quarter of a log of 128 MiB: one second in two).
    pub fn round_bytes(&self, tuning: &RunningOptions) -> u64 {
        let segment_bytes = self.ring.segment_bytes();
        let part = self.ring.segments() / ROUNDS_PER_LOG * segment_bytes;
        let bytes = (u64::from(tuning.destage_blocks_max) * u64::from(BLOCK_BYTES)).min(part);
        (bytes / segment_bytes).max(1) * segment_bytes
    }
    /// Where the next round begins.
    pub fn gathered_to(&self) -> u64 {
        self.gathered_to.max(self.ring.tail())
    }
    /// A round up to `new_tail` begins; tells where it does.
    pub fn take_round(&mut self, new_tail: u64) -> u64 {
        let from = self.gathered_to();
        self.gathered_to = new_tail.max(from);
        from
    }
    /// What the rounds under way took is gathered anew.
    pub fn give_up_rounds(&mut self) {
        self.gathered_to = self.ring.tail();
    }
    /// Destage begins after a rest.
    pub fn destage_begins(&mut self, now_ns: u64) {
        self.pace.begun(now_ns);
    }
    /// A round freed so much.
    pub fn freed(&mut self, now_ns: u64, bytes: u64) {
        self.pace.freed(now_ns, bytes);
    }

    /// What destage does next. `idle`: no round is under way; `placed`: enough stands in the capacity tier for a round.
    pub fn next_work(&mut self, tuning: &RunningOptions, placed: bool, idle: bool) -> Work {
        let from = self.gathered_to();
        let tail = self.ring.tail();
        let closed = tail + self.ring.closed_segments() * self.ring.segment_bytes();
        let part = from + self.round_bytes(tuning);
        if let Some(target) = self.drain_to {
            if tail >= target && idle {
                // All is in segments; one more transaction for what is not in the log: marks, deletions, losses.
                self.drain_to = None;
                return Work::Tidy { tail };
            }
            if closed < target {
                self.close_wanted = true;
            }
            if from < closed.min(target) {
                return Work::Round { new_tail: part.min(closed) };
            }
            return Work::Wait;
        }
        let full = self.ring.fill_permille_from(from) >= u64::from(tuning.destage_percent) * 10;
        if (full || placed) && closed > from {
            return Work::Round { new_tail: part.min(closed) };
        }
        if placed {
            self.close_wanted = true;
        }
        if idle && std::mem::take(&mut self.tidy) {
            return Work::Tidy { tail };
        }
        Work::Wait
    }
}
