//! Programs of Cairn that lie beside this one, and what they answer.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde::de::DeserializeOwned;

/// The path of `cairnd` or `cairn`: beside this program.
///
/// # Errors
/// It is not there.
pub(crate) fn beside(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot tell where this program lies: {e}"))?;
    let path = own.with_file_name(name);
    match path.is_file() {
        true => Ok(path),
        false => Err(format!(
            "{} is not there: a study that makes its own cluster needs {name} beside cairn-bench; install it, or name --target",
            path.display()
        )),
    }
}

/// Starts a program that the kernel ends with the thread that starts it, should this one be killed: at once, so that it touches
/// nothing of what a resumed run makes in its folder. What it says goes to `log`.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Child, String> {
    let told = |e: std::io::Error| format!("cannot start {} through setpriv (util-linux): {e}", program.display());
    let log = OpenOptions::new().create(true).append(true).open(log).map_err(told)?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(told)?).stderr(log);
    command.spawn().map_err(told)
}

/// Ends a process that was started, and waits for it.
pub(crate) fn kill(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

/// The last words of a log.
pub(crate) fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

/// The command line of Cairn, as the client of one cluster's API.
#[derive(Debug, Clone)]
pub(crate) struct Cairn {
    program: PathBuf,
    api: String,
}

impl Cairn {
    /// For the API at `api`.
    ///
    /// # Errors
    /// The program is not there.
    pub fn new(api: String) -> Result<Self, String> {
        Ok(Self { program: beside("cairn")?, api })
    }

    /// Carries out one command, and reads its answer.
    ///
    /// # Errors
    /// What it said on its standard error.
    pub fn call<T: DeserializeOwned>(&self, words: &[&str]) -> Result<T, String> {
        let out = self.output(words)?;
        serde_json::from_slice(&out)
            .map_err(|e| format!("cairn {}: its answer is not understood: {e}", words.join(" ")))
    }

    /// Carries out one command whose answer does not matter.
    ///
    /// # Errors
    /// What it said on its standard error.
    pub fn done(&self, words: &[&str]) -> Result<(), String> {
        self.output(words).map(drop)
    }

    fn output(&self, words: &[&str]) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.program);
        command.args(["--api", &self.api, "--output", "json"]).args(words).stdin(Stdio::null());
        let out = command.output().map_err(|e| format!("cannot run {}: {e}", self.program.display()))?;
        match out.status.success() {
            true => Ok(out.stdout),
            false => Err(format!("cairn {}: {}", words.join(" "), String::from_utf8_lossy(&out.stderr).trim())),
        }
    }
}
