//! `cairn`: the administrator's command line. Noun, then verb.
//!
//! Promises    data on stdout, all else on stderr; exit 0 done, 1 refused or found bad, 2 usage, 3 cannot reach
//! Assumes     a management API to talk to (`--api`, CAIRN_API)
//! Not here    any knowledge of the cluster that the API does not give
#![forbid(unsafe_code)]

mod address;
mod args;
mod client;
mod commands;
mod confirm;
mod fail;
mod interrupt;
mod output;
mod progress;
mod units;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(commands::run(args)),
        Err(error) => Err(fail::Fail::refused(format!("cannot make a runtime: {error}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => fail.report(),
    }
}
