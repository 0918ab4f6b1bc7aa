//! What the service manager is told: ready, alive, stopping. Without one all of it does nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The daemon serves; `status` is one line for `systemctl status`.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The daemon is stopping on purpose.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// The daemon is alive.
pub fn alive() {
    tell(&[NotifyState::Watchdog]);
}

/// How often the service manager wants to hear [`alive`]: half of the time after which it gives up.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
