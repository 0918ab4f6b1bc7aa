//! Trials of one fault: all hosts die at once, and a bit of the last two batches of one copy's log is flipped meanwhile.
//!
//! Promises    what was acknowledged before is read afterwards, or the trial tells what was read instead
//! Assumes     four hosts in one process: to die at once they need no more
//! Not here    which faults a log survives (docs/fault-model.md)

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt as _,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use cairn_cluster::ends::{Bit, bit_of_the_last_two};

use crate::{
    NbdClient, Outcome, Target,
    cli::Api,
    pattern::mix,
    process::{Process, tail},
    tools::{program, target},
    wait::{check, wait_until},
};

const DISK: &str = "ends";
const DISK_MIB: usize = 4;
const BLOCK: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of some trials.
#[derive(Debug, Clone, Default)]
pub struct Trials {
    /// Crashes with a flipped bit.
    pub trials: u64,
    /// Acknowledged writes before them.
    pub written: u64,
    /// Trials after which a log was told to be damaged.
    pub told: u64,
    /// Bytes that were acknowledged and not read again, in words.
    pub lost: Vec<String>,
    /// The longest time from the start of the daemon to the first bytes that were read.
    pub longest: Duration,
}

impl Trials {
    /// Adds those of another cluster.
    pub fn add(&mut self, other: Self) {
        self.trials += other.trials;
        self.written += other.written;
        self.told += other.told;
        self.lost.extend(other.lost);
        self.longest = self.longest.max(other.longest);
    }
}

/// A cluster for trials, one after the other.
pub struct Ends {
    folder: PathBuf,
    log: PathBuf,
    daemon: Option<Process>,
    random: u64,
    /// What the disk has to hold.
    content: Vec<u8>,
    copies: Vec<String>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.daemon.take();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Ends {
    /// Starts a cluster; `number` tells it from others.
    ///
    /// # Errors
    /// What did not start.
    pub fn start(number: u64, seed: u64) -> Outcome<Self> {
        let folder = target().join("tmp").join(format!("e2e-ends-{}-{number}", std::process::id()));
        let logs = target().join("e2e-logs");
        for path in [&folder, &logs] {
            std::fs::create_dir_all(path).map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        }
        let log = logs.join(format!("ends-{number}.log"));
        let _ = std::fs::remove_file(&log);
        let config = "[cluster]\nname = \"ends\"\nlease_ms = 1000\n[tuning]\nread_cache = \"16MiB\"\n";
        std::fs::write(folder.join("cairnd.toml"), config).map_err(|e| e.to_string())?;
        let content = vec![0; DISK_MIB << 20];
        let mut ends =
            Self { folder, log, daemon: None, random: mix(seed ^ number << 32), content, copies: Vec::new() };
        ends.start_daemon()?;
        wait_until("the daemon serves", PATIENCE, || {
            let up = ends.api().call(&["cluster", "status"])?["hosts_up"].as_u64();
            check(up == Some(4), || format!("{up:?} hosts up\n{}", tail(&ends.log, 10)))
        })?;
        ends.api().call(&["disk", "create", DISK, "--size", &format!("{DISK_MIB}MiB")])?;
        let disk = ends.api().call(&["disk", "show", DISK])?;
        let components = disk["components"].as_array().cloned().unwrap_or_default();
        let hosts = components.iter().filter(|c| c["role"] == "data").filter_map(|c| c["host_name"].as_str());
        ends.copies = hosts.map(str::to_owned).collect();
        check(ends.copies.len() == 2, || format!("{:?} have copies", ends.copies))?;
        Ok(ends)
    }

    fn start_daemon(&mut self) -> Outcome<()> {
        let mut command = Command::new(program("cairnd"));
        command.arg("--config").arg(self.folder.join("cairnd.toml"));
        command.args(["--embedded-hosts", "4", "--embedded-cache", "64MiB", "--embedded-capacity", "48MiB"]);
        command.args(["--listen-api", "", "--listen-nbd", "", "--vhost-user-dir", "", "--data-dir"]).arg(&self.folder);
        self.daemon = Some(Process::start(command.env("NO_COLOR", "1"), &self.log)?);
        Ok(())
    }

    fn api(&self) -> Api {
        Api::new(self.folder.join("api.sock"))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = mix(self.random);
        self.random % bound
    }

    fn client(&mut self) -> Outcome<NbdClient> {
        let host = 1 + self.below(4);
        let socket = Target::Unix(self.folder.join(format!("host-{host}")).join("nbd.sock"));
        wait_until("a host serves the disk", PATIENCE, || {
            NbdClient::connect(&socket, DISK, PATIENCE).map_err(|e| format!("{e}\n{}", tail(&self.log, 10)))
        })
    }

    /// So many trials. What is lost is told, and ends them.
    ///
    /// # Errors
    /// What kept a trial from being made: a host that does not start, a disk that is not served.
    pub fn trials(mut self, count: u64) -> Outcome<Trials> {
        let mut all = Trials::default();
        for trial in 0..count {
            self.healthy()?;
            all.written += self.write()?;
            thread::sleep(Duration::from_micros([0, 150_000][trial as usize % 2] * self.below(1000) / 1000));
            self.daemon.take();
            let bit = self.flip()?;
            let begin = Instant::now();
            let told_before = self.told();
            self.start_daemon()?;
            let lost = self.lost(&mut all.longest, begin)?;
            all.trials += 1;
            all.told += u64::from(self.told() > told_before);
            if let Some(words) = lost {
                all.lost.push(format!("trial {trial}, {bit}: {words}"));
                return Ok(all);
            }
        }
        Ok(all)
    }

    /// Waits until what the last trial damaged is made good: faults of two trials must not overlap, as the disk survives one.
    fn healthy(&self) -> Outcome<()> {
        wait_until("the disk is healthy", PATIENCE, || {
            let disk = self.api().call(&["disk", "show", DISK])?;
            check(disk["health"] == "healthy", || crate::cluster::describe(&disk))
        })?;
        wait_until("no log lacks anything", PATIENCE, || {
            let health = self.api().call(&["health"])?;
            let checks = health["checks"].as_array().cloned().unwrap_or_default();
            let logs = checks.into_iter().find(|check| check["name"] == "disk-group-logs").unwrap_or_default();
            check(logs["severity"] == "ok", || format!("{logs}"))
        })
    }

    /// Some writes, each acknowledged: one of 1 MiB, or up to eight of some blocks.
    fn write(&mut self) -> Outcome<u64> {
        let mut client = self.client()?;
        let large = self.below(4) == 0;
        let count = if large { 1 } else { 1 + self.below(8) };
        for _ in 0..count {
            let blocks = if large { 256 } else { 1 + self.below(16) as usize };
            let first = self.below((self.content.len() / BLOCK - blocks) as u64) as usize;
            let mut data = vec![0; blocks * BLOCK];
            data.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&self.below(u64::MAX).to_le_bytes()));
            client.write((first * BLOCK) as u64, &data).map_err(|e| format!("{e}\n{}", tail(&self.log, 10)))?;
            self.content[first * BLOCK..][..data.len()].copy_from_slice(&data);
        }
        Ok(count)
    }

    /// Flips any bit of the last two batches of one copy's log. In words.
    fn flip(&mut self) -> Outcome<String> {
        let (number, copy) = (self.below(u64::MAX), self.below(2) as usize);
        let path = self.folder.join(&self.copies[copy]).join("cache.img");
        let file =
            File::options().read(true).write(true).open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let read = |offset: u64, len: usize| {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset).map_or_else(|_| Vec::new(), |()| bytes)
        };
        let Bit { offset, bit } = bit_of_the_last_two(number, read).ok_or("the log is empty")?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).map_err(|e| e.to_string())?;
        file.write_all_at(&[byte[0] ^ 1 << bit], offset).map_err(|e| e.to_string())?;
        file.sync_all().map_err(|e| e.to_string())?;
        Ok(format!("bit {bit} of byte {offset} of {}", path.display()))
    }

    /// What was acknowledged and is not read, in words.
    fn lost(&mut self, longest: &mut Duration, began: Instant) -> Outcome<Option<String>> {
        let mut client = self.client()?;
        let mut found = vec![0; self.content.len()];
        for (part, bytes) in found.chunks_mut(1 << 20).enumerate() {
            client.read((part << 20) as u64, bytes).map_err(|e| format!("{e}\n{}", tail(&self.log, 20)))?;
            *longest = began.elapsed().max(*longest);
        }
        let blocks = found.chunks_exact(BLOCK).zip(self.content.chunks_exact(BLOCK)).enumerate();
        let wrong: BTreeMap<usize, ()> = blocks.filter(|(_, (is, was))| is != was).map(|(n, _)| (n, ())).collect();
        let first = wrong.keys().next().copied();
        Ok(first.map(|first| format!("{} blocks are not what was acknowledged, block {first} the first", wrong.len())))
    }

    /// How often a daemon of this cluster told that a log is damaged.
    fn told(&self) -> usize {
        let text = std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.unwrap_or_default().matches("its log is damaged").count()
    }
}
