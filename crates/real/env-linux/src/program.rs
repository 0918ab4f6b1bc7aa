//! Programs of the system that do one thing and end.
//!
//! Promises    no shell reads a word of it
//!             whoever asks has an answer after the time it gives, whatever the program does
//! Assumes     a thread that may sleep; a program that says some hundred bytes: they fit into a pipe that nobody reads meanwhile
//! Not here    what their answers mean (`occupant`, `locate`)

use std::{
    ffi::OsStr,
    io::Read as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// Its exit code; none: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unanswered {
    NotInstalled,
    /// It goes on; it was told to end.
    TooLong,
    /// The system said so.
    Failed(String),
}

/// Runs the first of these programs that starts, for so long at most.
pub(crate) fn ask(programs: &[&str], arguments: &[&OsStr], time_max: Duration) -> Result<Said, Unanswered> {
    let failed = |error: std::io::Error| Unanswered::Failed(error.to_string());
    let start = |program: &&str| {
        let mut command = Command::new(program);
        command.args(arguments).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let mut child = programs.iter().find_map(|program| start(program).ok()).ok_or(Unanswered::NotInstalled)?;
    let begun = Instant::now();
    let code = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status.code(),
            None if begun.elapsed() > time_max => {
                // Not waited for: a process that waits for a dead device does not end.
                let _ = child.kill();
                return Err(Unanswered::TooLong);
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let (mut out, mut err) = (String::new(), String::new());
    if let (Some(mut from), Some(mut complaints)) = (child.stdout.take(), child.stderr.take()) {
        let _ = from.read_to_string(&mut out);
        let _ = complaints.read_to_string(&mut err);
    }
    Ok(Said { code, out, err })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each end is told as what it is, and none is waited for too long. Method: programs that each machine has, and one that is not
    /// there.
    #[test]
    fn each_end_is_told() {
        let run = |programs: &[&str], words: &[&str], ms: u64| {
            let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
            ask(programs, &words, Duration::from_millis(ms))
        };
        assert_eq!(run(&["/nowhere/x"], &[], 1000), Err(Unanswered::NotInstalled));
        assert_eq!(run(&["/bin/sleep"], &["600"], 50), Err(Unanswered::TooLong));
        let said = run(&["/nowhere/echo", "/bin/echo"], &["$(id)", ";", "a b"], 10_000);
        assert_eq!(said, Ok(Said { code: Some(0), out: "$(id) ; a b\n".into(), err: String::new() }));
        assert_eq!(run(&["/bin/false"], &[], 10_000).map(|said| said.code), Ok(Some(1)));
    }
}
