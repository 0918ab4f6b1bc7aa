//! A process that the harness started: its log, its signals, its end.
//!
//! Promises    it dies with the thread that started it (setpriv --pdeathsig), however that ends

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Outcome, tools::tool};

/// A running process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Where its output goes.
    pub log: PathBuf,
}

impl Process {
    /// Starts `command`, which is wrapped so that it never outlives the test; its output is appended to `log`.
    ///
    /// # Errors
    /// When the log cannot be written or the program cannot be started.
    pub fn start(command: &Command, log: &Path) -> Outcome<Self> {
        let mut wrapped = tool("setpriv");
        wrapped.args(["--pdeathsig", "KILL", "--"]);
        wrapped.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                wrapped.env(key, value);
            }
        }
        let open = || {
            File::options()
                .create(true)
                .append(true)
                .open(log)
                .map_err(|e| format!("cannot write {}: {e}", log.display()))
        };
        let child = wrapped
            .stdin(Stdio::null())
            .stdout(open()?)
            .stderr(open()?)
            .spawn()
            .map_err(|e| format!("cannot start {command:?}: {e}"))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it ends with another code than 0: the end of its log.
    pub fn finish(mut self) -> Outcome<()> {
        let status = self.child.wait().map_err(|e| e.to_string())?;
        if status.success() {
            return Ok(());
        }
        Err(format!("{status}:\n{}", tail(&self.log, 20)))
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process that is known to be of the harness; one that is gone is no error.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The last lines of a log.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_else(|e| format!("({e})"));
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Clock ticks of processor time that a process has used, user and system; 0 when it is gone.
pub fn cpu_ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold spaces: fields count from behind its bracket.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    field(11) + field(12)
}
