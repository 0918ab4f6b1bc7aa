//! Asking before something is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::fail::Fail;

/// Asks `question` unless `yes`; anything but y or yes refuses. Without a terminal there is nobody to ask.
pub fn confirm(question: &str, yes: bool) -> Result<(), Fail> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Fail::usage(format!("{question} There is no terminal to answer on")).remedy("add --yes"));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    match read {
        Ok(_) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(()),
        _ => Err(Fail::refused("nothing was done: it was not confirmed")),
    }
}
