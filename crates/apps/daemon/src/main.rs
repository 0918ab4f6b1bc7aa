//! `cairnd`: an exit code for whatever the program ended with.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use cairnd::{exit::Exit, flags::Flags, program};
use clap::{Command, CommandFactory as _, FromArgMatches as _};

/// 15 % more 4 KiB random writes at QD 32 than with the system's, which spends them on small short-lived objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Here and not where the flags are: that is the library, which each commit would compile anew.
    let mut command = Flags::command().version(cairn_release::release!());
    // clap itself ends with 2 on a wrong command line, 0 on --help and --version.
    let flags = Flags::from_arg_matches(&command.get_matches_mut()).unwrap_or_else(|error| error.exit());
    let done = match described(&flags, &mut command) {
        None => program::run(&flags),
        Some(told) => told.map_err(|error| (Exit::Refused, format!("cannot print that: {error}"))),
    };
    match done {
        Ok(()) => Exit::Done.into(),
        Err((exit, message)) => {
            eprintln!("cairnd: {message}");
            exit.into()
        }
    }
}

/// Prints the man page or a completion script, where one was asked for: the packages have both.
fn described(flags: &Flags, command: &mut Command) -> Option<io::Result<()>> {
    let mut text = Vec::new();
    if let Some(shell) = flags.print_completions {
        clap_complete::generate(shell, command, "cairnd", &mut text);
    } else if flags.print_manual {
        let page = clap_mangen::Man::new(command.clone()).section("8");
        page.render(&mut text).expect("memory takes all that is written");
    } else {
        return None;
    }
    Some(io::stdout().write_all(&text))
}
