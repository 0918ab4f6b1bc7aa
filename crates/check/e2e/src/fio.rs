//! fio's nbd engine as a client: mixed sizes, verified by CRC-32C, its errors and its slowest request.
//!
//! fio gives up when its connection breaks. Where a host that it talks to dies, QEMU's NBD driver stands between (qemu-nbd with
//! reconnect-delay), as it does under a VM.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::Value;

use crate::{
    Outcome,
    process::Process,
    tools::tool,
    wait::{listens, wait_until},
};

/// A running fio job.
#[derive(Debug)]
pub struct Fio {
    process: Process,
    json: PathBuf,
}

/// What fio writes and reads back.
#[derive(Debug, Clone)]
pub struct Verified {
    /// From this MiB of the disk on.
    pub offset_mib: u64,
    /// So many.
    pub mib: u64,
    /// The largest request; the smallest is 4 KiB.
    pub largest_kib: u64,
    /// MiB written in a second, at most.
    pub rate_mib: u64,
    /// For so long.
    pub time: Duration,
}

/// What fio reports.
#[derive(Debug, Clone)]
pub struct FioReport {
    /// Requests, reads of the verification included.
    pub requests: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The slowest request.
    pub longest: Duration,
}

impl FioReport {
    /// The report in one line.
    pub fn line(&self) -> String {
        format!(
            "fio verify=crc32c: {} requests, {} MiB written, no error; longest request {:.2} s",
            self.requests,
            self.written_bytes >> 20,
            self.longest.as_secs_f64()
        )
    }
}

impl Fio {
    /// Random writes, each read back and checked.
    ///
    /// # Errors
    /// When fio cannot be started.
    pub fn verified(uri: &str, asked: &Verified, logs: &Path) -> Outcome<Self> {
        // Several disks may each have one.
        let number = (1..).find(|n| !logs.join(format!("fio-{n}.json")).exists()).expect("a number that is free");
        let json = logs.join(format!("fio-{number}.json"));
        std::fs::write(&json, "").map_err(|e| format!("{}: {e}", json.display()))?;
        let Verified { offset_mib, mib, largest_kib, rate_mib, time } = asked;
        let mut command = tool("fio");
        command.args(["--name=verified", "--ioengine=nbd", "--rw=randwrite", "--iodepth=8"]);
        command.args([format!("--bsrange=4k-{largest_kib}k"), format!("--rate=,{rate_mib}m")]);
        command.arg(format!("--uri={uri}"));
        command.args([
            format!("--offset={offset_mib}M"),
            format!("--size={mib}M"),
            format!("--runtime={}", time.as_secs()),
        ]);
        command.args([
            "--time_based",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_backlog=64",
            "--verify_backlog_batch=64",
        ]);
        // Bounded, so that a disk of some hundred MiB is not written many times over and the machine stays measurable.
        command.args(["--randrepeat=1", "--verify_state_save=0", "--output-format=json"]);
        command.arg(format!("--output={}", json.display()));
        Ok(Self { process: Process::start(&command, &logs.join(format!("fio-{number}.log")))?, json })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// An I/O error or a wrong byte, in fio's words.
    pub fn finish(self) -> Outcome<FioReport> {
        let log = self.process.log.clone();
        self.process.finish().map_err(|words| format!("fio: {words}"))?;
        let text = std::fs::read_to_string(&self.json).map_err(|e| e.to_string())?;
        let begin = text.find('{').ok_or_else(|| format!("fio said nothing: {}", crate::process::tail(&log, 10)))?;
        let report: Value = serde_json::from_str(&text[begin..]).map_err(|e| format!("fio's report: {e}"))?;
        let job = &report["jobs"][0];
        if job["error"] != 0 {
            return Err(format!("fio: error {}: {}", job["error"], crate::process::tail(&log, 10)));
        }
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let sides = [&job["read"], &job["write"]];
        Ok(FioReport {
            requests: sides.iter().map(|side| number(&side["total_ios"])).sum(),
            written_bytes: number(&job["write"]["io_bytes"]),
            longest: Duration::from_nanos(sides.iter().map(|side| number(&side["clat_ns"]["max"])).max().unwrap_or(0)),
        })
    }
}

/// QEMU's NBD driver before `server`, served again at `socket`: it reconnects for 60 s and sends again what was not answered.
///
/// # Errors
/// When it cannot be started.
pub fn reconnecting(server: &Path, export: &str, socket: &Path, logs: &Path) -> Outcome<Process> {
    let mut command: Command = tool("qemu-nbd");
    let _ = std::fs::remove_file(socket);
    command.args(["--persistent", "--shared=4", "--cache=none", "--image-opts", "--export-name", export]);
    command.arg("--socket").arg(socket);
    command.arg(format!(
        "driver=raw,file.driver=nbd,file.server.type=unix,file.server.path={},file.export={export},file.reconnect-delay=60",
        server.display()
    ));
    let mut process = Process::start(&command, &logs.join("qemu-nbd.log"))?;
    wait_until("qemu-nbd listens", Duration::from_secs(20), || match process.ended() {
        Some(how) => Err(format!("qemu-nbd ended: {how}: {}", crate::process::tail(&process.log, 5))),
        None if listens(socket) => Ok(()),
        None => Err("no socket yet".into()),
    })?;
    Ok(process)
}
