//! The configuration file: what it may say, checked, with defaults.
//!
//! Promises    an unknown key is an error with file, line and the known keys; what is left out has the default that
//!             `cairnd --print-config` shows
//! Not here    how flags override it (`flags`); what is built from it (`plan`)

mod check;
mod file;
mod print;
mod size;

pub use check::{SHARDS_MAX, hostname};
pub use file::{
    ClusterConfig, Config, DirectoryConfig, DirectoryKind, DiskGroupConfig, EtcdMember, HostConfig, ListenConfig,
    LogConfig, LogFormat, MediumConfig, ServiceConfig, TuningConfig,
};
pub use print::print;
pub use size::Size;

use std::path::Path;

/// A configuration that cannot be used: where, what, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

impl Config {
    /// Reads the file at `path`. Call [`Config::check`] once flags are applied.
    ///
    /// # Errors
    /// When it cannot be read or says what this release does not know.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError(format!(
                "cannot read the configuration {}: {error}. Name another with --config, or leave it out to use defaults",
                path.display()
            ))
        })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// When it says what this release does not know.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError(explain(&error, text, origin)))
    }
}

/// One line out of the parser's error: place, the line itself, what is wrong with it.
fn explain(error: &toml::de::Error, text: &str, origin: &str) -> String {
    let what = error
        .message()
        .trim()
        .replace("unknown field", "unknown key")
        .replace(", expected one of ", ". Known keys here: ")
        .replace(", expected ", ". Expected ")
        .replace("missing field", "missing key")
        .replace('\n', "; ");
    let Some(span) = error.span() else {
        return format!("{origin}: {what}");
    };
    let start = span.start.min(text.len());
    let number = text[..start].matches('\n').count() + 1;
    let line = text.lines().nth(number - 1).unwrap_or_default().trim();
    format!("{origin}, line {number} ({line}): {what}")
}
