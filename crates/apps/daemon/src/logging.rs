//! Logs: structured events on standard error, as text or one JSON object per line.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt, prelude::*, registry};

use crate::config::{ConfigError, LogConfig, LogFormat};

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
    // A second logger can only come from a test harness in one process: the first one stays.
    let _ = registry().with(filter).with(layer).try_init();
    Ok(())
}
