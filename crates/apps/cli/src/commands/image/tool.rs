//! Programs of others that read and write images.
//!
//! Promises    one that is missing is told with its Debian package, before anything is begun
//!             one that is given up is killed; what it said is told where it failed
//! Not here    what they are asked for (`export`, `import`)

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use indicatif::ProgressBar;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

use crate::fail::Fail;

/// A program.
#[derive(Debug)]
pub struct Tool {
    name: &'static str,
    package: &'static str,
    path: PathBuf,
}

/// Reads and writes all forms of images.
pub const QEMU_IMG: (&str, &str) = ("qemu-img", "qemu-utils");
/// Copies from NBD to pipes.
pub const NBDCOPY: (&str, &str) = ("nbdcopy", "libnbd-bin");

impl Tool {
    /// Looks for a program.
    ///
    /// # Errors
    /// It is not installed.
    pub fn find((name, package): (&'static str, &'static str)) -> Result<Self, Fail> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
        match found {
            Some(path) => Ok(Self { name, package, path }),
            None => Err(Fail::refused(format!("{name} is not installed, which this is done with"))
                .remedy(format!("apt-get install {package}"))),
        }
    }

    /// A command of it, with nothing to read and everything that it says caught. It dies with whoever waits for it.
    pub fn command(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.path);
        command.args(words).env("LC_ALL", "C").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn run(&self, command: &mut Command, bar: Option<&ProgressBar>) -> Result<Ran, Fail> {
        let mut child = command.spawn().map_err(|error| {
            Fail::refused(format!("cannot start {}: {error}", self.path.display()))
                .remedy(format!("see to it that the package {} is whole", self.package))
        })?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (out, err) = tokio::join!(read_all(out, bar), read_all(err, None));
        let status =
            child.wait().await.map_err(|error| Fail::refused(format!("cannot wait for {}: {error}", self.name)))?;
        Ok(Ran { status, out, err })
    }

    /// Runs it to its good end; gives what it wrote to standard output.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub async fn done(
        &self,
        act: &str,
        words: impl IntoIterator<Item = impl AsRef<OsStr>>,
        bar: Option<&ProgressBar>,
    ) -> Result<String, Fail> {
        let ran = self.run(&mut self.command(words), bar).await?;
        match ran.status.success() {
            true => Ok(ran.out),
            false => Err(self.failed(act, &ran)),
        }
    }

    /// What it did not do, and what it said.
    pub fn failed(&self, act: &str, ran: &Ran) -> Fail {
        let said: Vec<&str> = ran.err.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let said = if said.is_empty() { ran.status.to_string() } else { said.join("; ") };
        Fail::refused(format!("cannot {act}: {said}"))
    }

    /// Compares two images, sizes left out: what one has more must be zeroes.
    ///
    /// # Errors
    /// They differ, or cannot be read.
    pub async fn compare(&self, images: [&str; 2], what: &str, bar: Option<&ProgressBar>) -> Result<(), Fail> {
        let [one, other] = images;
        let ran = self.run(&mut self.command(["compare", "-p", one, other]), bar).await?;
        match ran.status.code() {
            Some(0) => Ok(()),
            Some(1) => {
                let said = ran.out.rsplit(['\r', '\n']).map(str::trim).find(|line| line.contains("mismatch"));
                Err(Fail::refused(format!("{what}: {}", said.unwrap_or("they differ")))
                    .remedy("try again; if it comes again, do not trust this medium or this network"))
            }
            _ => Err(self.failed("compare", &ran)),
        }
    }
}

/// What became of a program.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

/// Text of programs that is kept, at most: progress is told over and over.
const TEXT_BYTES_MAX: usize = 64 << 20;

async fn read_all(from: Option<impl AsyncRead + Unpin>, bar: Option<&ProgressBar>) -> String {
    let Some(mut from) = from else { return String::new() };
    let (mut text, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let new = &piece[..count];
        if let (Some(bar), Some(percent)) = (bar, percent(&String::from_utf8_lossy(new))) {
            bar.set_position((percent * 100.0) as u64);
            // What was told before is no news.
            text.clear();
        }
        if text.len() < TEXT_BYTES_MAX {
            text.extend_from_slice(new);
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// What qemu-img tells of its progress: "    (12.34/100%)\r".
fn percent(text: &str) -> Option<f64> {
    let (before, _) = text.rsplit_once("/100%)")?;
    before.rsplit_once('(')?.1.parse().ok()
}

/// A path as words of a command, for which no protocol is taken that its name may look like.
pub fn absolute(path: &Path) -> Result<OsString, Fail> {
    std::path::absolute(path)
        .map(PathBuf::into_os_string)
        .map_err(|error| Fail::refused(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn progress_is_read_from_pieces() {
        assert_eq!(percent("    (0.00/100%)\r    (12.34/100%)\r"), Some(12.34));
        assert_eq!(percent("/100%)\r    (100.00/100%)\r"), Some(100.0));
        assert_eq!(percent("    (12."), None);
        assert_eq!(percent("4/100%)"), None);
    }
}
