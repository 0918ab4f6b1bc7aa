//! fio on the demo's disk: started, waited for, its report read.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

/// A running fio. Dropping it ends it.
#[derive(Debug)]
pub struct Fio {
    child: Child,
    json: PathBuf,
    log: PathBuf,
}

/// What fio reports of a run without an error.
#[derive(Debug, Clone)]
pub struct FioReport {
    /// Requests answered.
    pub requests: u64,
    /// Bytes written.
    pub written: u64,
    /// Bytes read back and compared.
    pub read: u64,
    /// The slowest request.
    pub longest: Duration,
}

impl Fio {
    /// Writes `mib` MiB from `from_mib` on, once, in order.
    ///
    /// # Errors
    /// When fio cannot be started.
    pub fn fill(socket: &Path, export: &str, from_mib: u64, mib: u64, dir: &Path) -> Result<Self, String> {
        let area = [format!("--offset={from_mib}M"), format!("--size={mib}M")];
        Self::spawn(socket, export, dir, &["--rw=write", "--bs=1M", "--iodepth=4"], &area)
    }

    /// Verified random writes on the first `mib` MiB of `export`, for `time`.
    ///
    /// # Errors
    /// When fio cannot be started.
    pub fn start(socket: &Path, export: &str, mib: u64, time: Duration, dir: &Path) -> Result<Self, String> {
        let area = [format!("--size={mib}M"), format!("--runtime={}", time.as_secs())];
        let job = [
            "--rw=randwrite",
            "--bsrange=4k-256k",
            "--iodepth=8",
            "--time_based",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_backlog=64",
            "--verify_backlog_batch=64",
            "--verify_state_save=0",
            // A steady load: what the machine can do is the bench's matter.
            "--rate=,16m",
        ];
        Self::spawn(socket, export, dir, &job, &area)
    }

    fn spawn(socket: &Path, export: &str, dir: &Path, job: &[&str], area: &[String]) -> Result<Self, String> {
        let (json, log) = (dir.join("fio.json"), dir.join("fio.log"));
        let said = std::fs::File::create(&log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let mut command = Command::new("fio");
        command.args(["--name=demo", "--ioengine=nbd", "--output-format=json"]).args(job).args(area);
        command.arg(format!("--uri=nbd+unix:///{export}?socket={}", socket.display()));
        command.arg(format!("--output={}", json.display()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn();
        let child = child.map_err(|e| format!("cannot start fio: {e}; apt-get install fio"))?;
        Ok(Self { child, json, log })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// An I/O error or a wrong byte, in fio's words.
    pub async fn finish(mut self) -> Result<FioReport, String> {
        let status = loop {
            match self.child.try_wait().map_err(|e| e.to_string())? {
                Some(status) => break status,
                None => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        if !status.success() {
            return Err(format!("fio found an error: {status}\n{said}"));
        }
        let text = std::fs::read_to_string(&self.json).map_err(|e| e.to_string())?;
        let json = text.find('{').map_or("", |begin| &text[begin..]);
        let report: Value = serde_json::from_str(json).map_err(|e| format!("fio's report: {e}: {said}"))?;
        let job = &report["jobs"][0];
        if job["error"] != 0 {
            return Err(format!("fio found an error: {}\n{said}", job["error"]));
        }
        let number = |side: &str, key: &str| job[side][key].as_u64().unwrap_or(0);
        let slowest = |side: &str| job[side]["clat_ns"]["max"].as_u64().unwrap_or(0);
        Ok(FioReport {
            requests: number("read", "total_ios") + number("write", "total_ios"),
            written: number("write", "io_bytes"),
            read: number("read", "io_bytes"),
            longest: Duration::from_nanos(slowest("read").max(slowest("write"))),
        })
    }
}

impl Drop for Fio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
