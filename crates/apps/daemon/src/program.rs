//! The program from its flags to its end: flags and file to a plan, plan to running hosts.
//!
//! Not here    the exit code and what is printed of an error (`main`)

use crate::{config, engine, exit::Exit, flags::Flags, http, logging, plan::Plan, supervise::supervise};

/// Runs `cairnd`.
///
/// # Errors
/// How the process ends, and why, in words for its last line.
pub fn run(flags: &Flags) -> Result<(), (Exit, String)> {
    let usage = |error: config::ConfigError| (Exit::Usage, error.0);
    if flags.print_openapi {
        print!("{}", http::openapi_json());
        return Ok(());
    }
    if flags.print_metrics {
        print!("{}", cairn_metrics::page());
        return Ok(());
    }
    let config = flags.effective_config().map_err(usage)?;
    let plan = Plan::new(&config, flags).map_err(usage)?;
    if flags.print_config {
        print!("{}", config::print(&config));
        return Ok(());
    }
    if flags.check_config {
        return Ok(());
    }
    logging::start(&config.log).map_err(usage)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| (Exit::Refused, format!("cannot make a runtime: {error}")))?
        .block_on(supervise(&plan, engine::start))
        .map_err(|error| (error.exit, error.message))
}
