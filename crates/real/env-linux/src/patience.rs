//! How long a thread without work looks for more before it sleeps.
//!
//! Being woken takes a processor that had gone to sleep some 20 us. Looking for as long as that is cheaper than sleeping, where work
//! comes sooner. Whether it does is told by the waits before: as of KVM's halt polling (Documentation/virt/kvm/halt-polling.rst), the
//! window grows when a longer look would have found the work, and is given up when none would.
//!
//! Promises    each wait that a look of `max` would not have ended halves the window, down to none: who waits for long does not look
//! Not here    looking (`executor`)

use std::time::Duration;

/// The first window.
const FIRST: Duration = Duration::from_micros(10);

/// A thread's patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    max: Duration,
    window: Duration,
}

impl Patience {
    /// Looks for at most `max`; zero: sleeps at once, always.
    pub fn new(max: Duration) -> Self {
        Self { max, window: Duration::ZERO }
    }

    /// How long to look before sleeping.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The processor is wanted by others: no looking until work has come soon again.
    pub fn give_up(&mut self) {
        self.window = Duration::ZERO;
    }

    /// Work came after `waited`.
    pub fn on_work(&mut self, waited: Duration) {
        if waited > self.max {
            self.window /= 2;
            if self.window < FIRST {
                self.window = Duration::ZERO;
            }
        } else if waited > self.window {
            self.window = (self.window * 2).clamp(FIRST.min(self.max), self.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn it_grows_while_a_longer_look_finds_work_and_ends_when_none_does() {
        let mut patience = Patience::new(us(50));
        assert_eq!(patience.window(), us(0));
        let windows = [45, 45, 45, 45, 45, 5, 200, 200, 200].map(|waited| {
            patience.on_work(us(waited));
            patience.window()
        });
        assert_eq!(
            windows,
            [10_000, 20_000, 40_000, 50_000, 50_000, 50_000, 25_000, 12_500, 0].map(Duration::from_nanos)
        );
    }

    #[test]
    fn without_patience_it_never_looks() {
        let mut patience = Patience::new(us(0));
        for waited in [0, 1, 5, 100] {
            patience.on_work(us(waited));
            assert_eq!(patience.window(), us(0));
        }
    }

    #[test]
    fn it_begins_anew_where_others_want_the_processor() {
        let mut patience = Patience::new(us(50));
        (0..5).for_each(|_| patience.on_work(us(45)));
        patience.give_up();
        assert_eq!(patience.window(), us(0));
        patience.on_work(us(5));
        assert_eq!(patience.window(), us(10));
    }
}
