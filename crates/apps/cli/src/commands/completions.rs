//! What needs no cluster: completion scripts and the release.

use clap::CommandFactory as _;

use super::Context;
use crate::{args::Args, fail::Fail, output};

/// Prints the completion script of `shell`.
pub fn completions(shell: clap_complete::Shell) -> Result<(), Fail> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "cairn", &mut script);
    output::line(&String::from_utf8_lossy(&script))
}

/// Prints the release.
pub fn version(context: &Context) -> Result<(), Fail> {
    let (version, commit) = (env!("CARGO_PKG_VERSION"), cairn_release::commit!());
    let version = serde_json::json!({ "name": "cairn", "version": version, "commit": commit });
    output::show(context.format, &version, |_| format!("cairn {}", cairn_release::release!()))
}
