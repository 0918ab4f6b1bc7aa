//! Calls to the management API, by the `cairn` program as an administrator would type them.

use std::{path::PathBuf, process::Command};

use serde_json::Value;

use crate::{Outcome, tools::program};

/// The API of one host.
#[derive(Debug, Clone)]
pub struct Api {
    socket: PathBuf,
}

/// A call that failed: the exit code and what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The exit code of `cairn`.
    pub code: i32,
    /// What it wrote to standard error.
    pub words: String,
}

impl Api {
    /// The API at this unix socket.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Where it is.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// `cairn ARGUMENTS`, with JSON on standard output.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("cairn"));
        command.arg("--api").arg(format!("unix:{}", self.socket.display()));
        command.args(["--output", "json", "--timeout", "30"]).args(arguments);
        command
    }

    /// The parsed answer, or how it was refused.
    ///
    /// # Errors
    /// Exit code and words.
    pub fn ask(&self, arguments: &[&str]) -> Result<Value, Refused> {
        let refuse = |words: String| Refused { code: -1, words };
        let output = self.command(arguments).output().map_err(|e| refuse(e.to_string()))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Refused { code: output.status.code().unwrap_or(-1), words });
        }
        if output.stdout.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&output.stdout).map_err(|e| refuse(format!("answer is no JSON: {e}")))
    }

    /// The parsed answer.
    ///
    /// # Errors
    /// The call and what was said.
    pub fn call(&self, arguments: &[&str]) -> Outcome<Value> {
        self.ask(arguments)
            .map_err(|refused| format!("cairn {}: exit {}: {}", arguments.join(" "), refused.code, refused.words))
    }
}
