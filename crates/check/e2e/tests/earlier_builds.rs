//! Data directories as earlier builds left them: this build starts on each, has every byte, goes on, dies and starts again.
//!
//! A build's fixture is `fixtures/DAY.tar.gz`, the data directory of a daemon with three embedded hosts that was killed under writes: identity,
//! lists, directory, local copies, devices. `fixtures/DAY.json` is what was in it. Neither is ever changed. A new one:
//! `CAIRN_FORMATS_OUT=FOLDER`, for the test of this build's own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use cairn_e2e::{
    NbdClient, Outcome, Target, TimeLine,
    cli::Api,
    process::{Process, tail},
    tools::{Turn, program, run, target, tool},
    wait::{check, wait_until},
};
use flate2::Crc;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
const START: Duration = Duration::from_secs(60);

/// What was in a data directory.
#[derive(Serialize, Deserialize)]
struct Told {
    repair_delay_s: u64,
    policies: Vec<String>,
    disks: BTreeMap<String, Disk>,
}

#[derive(Serialize, Deserialize)]
struct Disk {
    bytes: u64,
    policy: String,
    /// CRC-32 of all that it holds.
    crc: u32,
}

/// A daemon with three embedded hosts on a data directory.
struct Daemon {
    process: Process,
    dir: PathBuf,
}

impl Daemon {
    fn start(dir: &Path) -> Outcome<Self> {
        let mut command = Command::new(program("cairnd"));
        command.args(["--embedded-hosts", "3", "--embedded-cache", "64MiB", "--embedded-capacity", "128MiB"]);
        command.args(["--listen-api", "", "--listen-nbd", ""]).arg("--data-dir").arg(dir);
        let daemon = Self { process: Process::start(&command, &dir.with_extension("log"))?, dir: dir.to_owned() };
        wait_until("the daemon answers", START, || daemon.api().call(&["cluster", "status"]))
            .map_err(|words| format!("{words}\n{}", tail(&daemon.process.log, 20)))?;
        Ok(daemon)
    }

    fn api(&self) -> Api {
        Api::new(self.dir.join("api.sock"))
    }

    fn call(&self, arguments: &str) -> Outcome<Value> {
        self.api().call(&arguments.split(' ').collect::<Vec<_>>())
    }

    fn client(&self, disk: &str) -> Outcome<NbdClient> {
        let target = Target::Unix(self.dir.join("host-1/nbd.sock"));
        NbdClient::connect(&target, disk, PATIENCE).map_err(|error| format!("{disk}: {error}"))
    }

    fn write(&self, disk: &str, offset: u64, data: &[u8]) -> Outcome<()> {
        self.client(disk)?.write(offset, data).map_err(|error| format!("{disk} at {offset}: {error}"))
    }

    /// What a disk holds.
    fn look(&self, disk: &str) -> Outcome<Disk> {
        let shown = self.call(&format!("disk show {disk}"))?;
        let (mut client, mut crc) = (self.client(disk)?, Crc::new());
        let mut piece = vec![0; MIB as usize];
        let (bytes, policy) = (client.size, shown["policy"].as_str().unwrap_or_default().to_owned());
        for offset in (0..bytes).step_by(MIB as usize) {
            let piece = &mut piece[..(bytes - offset).min(MIB) as usize];
            client.read(offset, piece).map_err(|error| format!("{disk} at {offset}: {error}"))?;
            crc.update(piece);
        }
        Ok(Disk { bytes, policy, crc: crc.sum() })
    }

    fn told(&self) -> Outcome<Told> {
        let names = |list: Value| {
            let names = list.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str().map(str::to_owned));
            names.collect::<Vec<String>>()
        };
        let settings = self.call("cluster settings")?;
        let mut policies = names(self.call("policy list")?);
        policies.sort();
        let disks = names(self.call("disk list")?);
        let disks = disks.into_iter().map(|name| self.look(&name).map(|disk| (name, disk)));
        let repair_delay_s = settings["repair_delay_s"].as_u64().ok_or("no repair delay is told")?;
        Ok(Told { repair_delay_s, policies, disks: disks.collect::<Outcome<_>>()? })
    }

    fn all_healthy(&self) -> Outcome<()> {
        wait_until("all disks are healthy", START, || {
            let disks = self.call("disk list")?;
            let bad = |disk: &&Value| disk["health"] != "healthy";
            match disks.as_array().into_iter().flatten().find(bad) {
                None => Ok(()),
                Some(disk) => Err(format!("{} is {}: {}", disk["name"], disk["health"], disk["reasons"])),
            }
        })
    }
}

/// Blocks that tell where they are of, and pack well.
fn blocks(tag: u64, first: u64, count: u64) -> Vec<u8> {
    (first..first + count).flat_map(|block| (tag << 32 | block).to_le_bytes().repeat(512)).collect()
}

/// Makes all kinds of things, and dies with some of them in the log alone.
fn make(dir: &Path) -> Outcome<Told> {
    let mut daemon = Daemon::start(dir)?;
    daemon.call("cluster settings --repair-delay-s 7200")?;
    daemon.call("policy create reserved --reservation 50 --iops-limit 5000")?;
    daemon.call("policy create single --ftt 0")?;
    daemon.call("disk create plain --size 16MiB --host host-2")?;
    daemon.call("disk create reserved --size 8MiB --policy reserved")?;
    daemon.call("disk create single --size 5000KiB --policy single")?;
    daemon.call("disk create gone --size 4MiB")?;
    daemon.write("gone", 0, &blocks(9, 0, 64))?;
    for (tag, disk) in ["plain", "reserved", "single"].into_iter().enumerate() {
        for first in (0..1200).step_by(48) {
            daemon.write(disk, first * 4096, &blocks(tag as u64 + 1, first, 32))?;
        }
    }
    daemon.call("disk delete gone --yes")?;
    daemon.call("disk resize plain --size 20MiB")?;
    daemon.call("cache clear")?;
    let mut plain = daemon.client("plain")?;
    let refused = |error: cairn_e2e::NbdError| error.to_string();
    // Over what is destaged, in part: blocks of which the metadata has one version and the log the next.
    plain.write(3 * 4096 + 512, &blocks(4, 3, 1)[..1024]).map_err(refused)?;
    plain.trim(64 * 4096, 64 * 4096).map_err(refused)?;
    plain.write_zeroes(300 * 4096, 8 * 4096).map_err(refused)?;
    daemon.write("plain", 17 * MIB, &blocks(5, 17 * 256, 64))?;
    daemon.write("reserved", 0, &blocks(6, 0, 100))?;
    let told = daemon.told()?;
    daemon.process.kill();
    Ok(told)
}

fn same(found: &Told, told: &Told) -> Outcome<()> {
    check((found.repair_delay_s, &found.policies) == (told.repair_delay_s, &told.policies), || {
        format!("settings: {} and {:?}", found.repair_delay_s, found.policies)
    })?;
    check(found.disks.keys().eq(told.disks.keys()), || format!("disks: {:?}", found.disks.keys()))?;
    for (name, disk) in &told.disks {
        let found = &found.disks[name];
        check((found.bytes, &found.policy, found.crc) == (disk.bytes, &disk.policy, disk.crc), || {
            format!("{name}: {} bytes, policy {}, CRC {:#x}", found.bytes, found.policy, found.crc)
        })?;
    }
    Ok(())
}

/// This build starts where another one was, has it all, goes on, dies, and starts again.
fn go_on(dir: &Path, told: &Told) -> Outcome<()> {
    let mut daemon = Daemon::start(dir)?;
    daemon.all_healthy()?;
    same(&daemon.told()?, told)?;
    for disk in told.disks.keys() {
        daemon.write(disk, 0, &blocks(7, 0, 40))?;
    }
    daemon.call("disk create later --size 4MiB")?;
    daemon.write("later", MIB, &blocks(8, 256, 16))?;
    let then = daemon.told()?;
    daemon.process.kill();
    let daemon = Daemon::start(dir)?;
    daemon.all_healthy()?;
    same(&daemon.told()?, &then)?;
    for disk in then.disks.keys() {
        daemon.call(&format!("disk delete {disk} --yes"))?;
    }
    daemon.call("disk create last --size 100MiB").map(drop)
}

/// Unpacks a data directory. Its lists have the names that devices had elsewhere: they are found under those of the configuration.
fn unpack(tar: &Path, dir: &Path) -> Outcome<()> {
    fs::create_dir(dir).map_err(|error| error.to_string())?;
    run(tool("tar").arg("-xzf").arg(tar).arg("-C").arg(dir)).map(drop)
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Runs `act` with a folder of its own, on a disk with direct I/O.
fn in_folder(name: &str, act: impl FnOnce(&Path, &mut TimeLine) -> Outcome<()>) {
    let _turn = Turn::take();
    let mut time = TimeLine::new(name);
    let folder = target().join("tmp").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let done = act(&folder, &mut time);
    if let Err(words) = done {
        panic!("{words}\n{}", tail(&folder.join("data.log"), 30));
    }
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn a_data_directory_of_this_build_is_gone_on_with_elsewhere() {
    in_folder("this_build", |folder, time| {
        let out = std::env::var_os("CAIRN_FORMATS_OUT").map(PathBuf::from);
        // What is kept has no names of the machine that it was made on.
        let made = out.as_ref().map_or_else(|| folder.join("made"), |_| PathBuf::from("/var/tmp/cairn"));
        let told = make(&made)?;
        time.say("made, and killed");
        let tar = folder.join("made.tar.gz");
        run(tool("tar").args(["--sparse", "--exclude=*.sock", "-czf"]).arg(&tar).arg("-C").arg(&made).arg("."))?;
        fs::remove_dir_all(&made).map_err(|error| error.to_string())?;
        if let Some(out) = out {
            let json = serde_json::to_vec_pretty(&told).expect("JSON");
            fs::copy(&tar, out.with_extension("tar.gz")).map_err(|error| error.to_string())?;
            fs::write(out.with_extension("json"), json).map_err(|error| error.to_string())?;
        }
        unpack(&tar, &folder.join("data"))?;
        go_on(&folder.join("data"), &told)
    });
}

#[test]
fn data_directories_of_earlier_builds_are_gone_on_with() {
    let entries = fs::read_dir(fixtures()).expect("fixtures").map(|entry| entry.expect("an entry").path());
    let mut builds: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    builds.sort();
    assert!(!builds.is_empty());
    for json in builds {
        in_folder("earlier_build", |folder, time| {
            let told: Told = serde_json::from_slice(&fs::read(&json).expect("what was in it")).expect("JSON");
            let data = folder.join("data");
            unpack(&json.with_extension("tar.gz"), &data)?;
            time.say(format!("{} is unpacked", json.display()));
            go_on(&data, &told)
        });
    }
}
