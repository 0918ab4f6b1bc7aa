//! How the process ends: the same four numbers as the command line's.

use std::process::ExitCode;

/// Why the daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was asked to stop, and did.
    Done,
    /// It could not start or go on: a device, a lock, an address in use.
    Refused,
    /// The configuration or the command line is wrong.
    Usage,
    /// It needs something on the network that does not answer.
    Unreachable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::Unreachable => 3,
        })
    }
}
