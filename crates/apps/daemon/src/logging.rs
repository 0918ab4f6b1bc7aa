//! Logs: structured events on standard error, as text or one JSON object per line.

use std::{
    io::{self, IsTerminal as _},
    thread,
    time::{Duration, Instant},
};

use tracing_subscriber::{EnvFilter, fmt, prelude::*, registry};

use crate::{
    config::{ConfigError, LogConfig, LogFormat},
    repeats::Limit,
};

/// How often the counts of repeated events are looked at: they come so much later than their window ends, at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Installs the logger of the process. Once per process.
///
/// # Errors
/// When `log.level` is no filter.
pub fn start(config: &LogConfig) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.level).map_err(|error| {
        ConfigError(format!(
            "configuration key log.level: {:?} is not a level: {error}. Write info, debug, or info,cairn_object=debug",
            config.level
        ))
    })?;
    let layer = match config.format {
        LogFormat::Text => fmt::layer().with_ansi(io::stderr().is_terminal()).with_writer(io::stderr).boxed(),
        LogFormat::Json => fmt::layer().json().with_writer(io::stderr).boxed(),
    };
    let limit = Limit::default();
    // A second logger can only come from a test harness in one process: the first one stays.
    let _ = registry().with(filter).with(layer.with_filter(limit.clone())).try_init();
    let look = move || {
        loop {
            thread::sleep(LOOK_EVERY);
            limit.tell_due(Instant::now());
        }
    };
    // Without it a count waits for the next event of its kind: no reason not to start.
    if let Err(error) = thread::Builder::new().name("log".into()).spawn(look) {
        tracing::warn!(%error, "no thread counts repeated events");
    }
    Ok(())
}
