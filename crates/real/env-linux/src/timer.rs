//! [`Timer`]: waits to the microsecond, for who measures. The runtime's own timers know milliseconds.
//!
//! Promises    never wakes before it is due; a wait for what is past returns at once
//! Assumes     it is used on the thread of a host, one wait at a time

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::{Interest, unix::AsyncFd};

/// A timer of the system.
pub struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// A timer that nobody waits for.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: the descriptor is owned by the `AsyncFd`, which neither gives it away nor closes it before itself.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        Ok(Self(timer.map_err(|error| error.into_parts().1)?))
    }

    /// Waits until `due`.
    ///
    /// # Errors
    /// The system's words; none are known to happen.
    pub async fn until(&self, due: Instant) -> io::Result<()> {
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Ok(());
            }
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            let at = Itimerspec { it_interval: none, it_value: timespec(wait) };
            // Setting it takes back what it had to tell before.
            timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &at)?;
            self.expired().await?;
        }
    }

    async fn expired(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut count = [0; 8];
            if let Ok(read) = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut count)?)) {
                return read.map(drop);
            }
        }
    }
}

fn timespec(wait: Duration) -> Timespec {
    Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) }
}
