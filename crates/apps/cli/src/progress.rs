//! Signs of progress on stderr, on a terminal only.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::fail::Fail;

/// A request that takes longer than this shows that it is waiting.
const SILENCE: Duration = Duration::from_millis(500);

/// Waits for `work`; where that takes long, and a person watches, something moves meanwhile.
pub async fn while_waiting<T>(work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    if let Ok(done) = tokio::time::timeout(SILENCE, &mut work).await {
        return done;
    }
    let spinner = match io::stderr().is_terminal() {
        true => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
        false => ProgressBar::hidden(),
    };
    spinner.set_style(
        ProgressStyle::with_template("{spinner} waiting for the cluster, {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    spinner.enable_steady_tick(Duration::from_millis(120));
    let done = work.await;
    spinner.finish_and_clear();
    done
}

/// Between two looks at what is left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks again and again while it `waits`, and shows meanwhile how much of `bytes_left` is moved. Whoever interrupts it ends the waiting, not
/// the moves.
pub async fn while_moving<T>(
    mut now: T,
    bytes_left: impl Fn(&T) -> u64,
    waits: impl Fn(&T) -> bool,
    look: impl AsyncFn() -> Result<T, Fail>,
) -> Result<T, Fail> {
    let bar = bytes_bar("moved", bytes_left(&now));
    while waits(&now) {
        tokio::time::sleep(LOOK_EVERY).await;
        now = look().await?;
        // Guests write meanwhile: there may be more to move than there was.
        let left = bytes_left(&now);
        let total = bar.length().unwrap_or(0).max(left);
        bar.set_length(total);
        bar.set_position(total - left);
    }
    bar.finish_and_clear();
    Ok(now)
}

/// A bar over bytes that are copied, with the time that the rest takes.
pub fn copy_bar(name: &str, total: u64) -> ProgressBar {
    styled(
        name,
        total,
        "{prefix} [{bar:30}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left",
    )
}

/// A bar over hundredths of a per cent, for work of which only that is known.
pub fn share_bar(name: &str) -> ProgressBar {
    styled(name, 10_000, "{prefix} [{bar:30}] {percent} %, {elapsed} so far, {eta} left")
}

/// A bar over bytes with a name before it.
pub fn bytes_bar(name: &str, total: u64) -> ProgressBar {
    styled(name, total, "{prefix} [{bar:30}] {binary_bytes} of {binary_total_bytes}  {msg}")
}

fn styled(name: &str, total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(name.to_owned());
    bar
}
