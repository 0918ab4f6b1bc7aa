//! Why a command did not do what was asked, and the exit code that says so.

use std::process::ExitCode;

use cairn_api::{ApiError, ApiErrorKind};

/// The exit codes, the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Refused, or something was found bad.
    Refused = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The API, or the part of the cluster that is needed, cannot be reached.
    Unreachable = 3,
}

/// A failed command.
#[derive(Debug)]
pub struct Fail {
    exit: Exit,
    /// Empty: everything was said on stdout already.
    message: String,
    remedy: Option<String>,
}

impl Fail {
    /// Refused, or found bad.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, message: message.into(), remedy: None }
    }
    /// A wrong command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::refused(message) }
    }
    /// Nobody answers.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, ..Self::refused(message) }
    }
    /// Found bad; the findings are on stdout.
    pub fn found_bad() -> Self {
        Self::refused("")
    }
    /// The same with a way out.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same with what else is so now.
    pub fn also(mut self, what: impl std::fmt::Display) -> Self {
        self.message = format!("{}; {what}", self.message);
        self
    }

    /// Says on stderr what happened, why, and what to do; gives the exit code.
    pub fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            eprintln!("error: {}", self.message);
        }
        if let Some(remedy) = self.remedy {
            eprintln!("  try: {remedy}");
        }
        ExitCode::from(self.exit as u8)
    }
}

impl From<ApiError> for Fail {
    fn from(error: ApiError) -> Self {
        Self {
            exit: match error.kind {
                ApiErrorKind::Unavailable => Exit::Unreachable,
                _ => Exit::Refused,
            },
            message: error.message,
            remedy: error.remedy,
        }
    }
}
