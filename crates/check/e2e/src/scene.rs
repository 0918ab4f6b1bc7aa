//! What most tests begin with: a disk, a load with a shadow model on its beginning, fio behind it.

use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Cluster, Door, Load, NbdClient, Outcome, Shape, Target,
    fio::{Fio, FioReport, Verified, reconnecting},
    load::StoppedLoad,
    pattern::{self, SECTOR},
    process::Process,
    tools::load_time,
    wait::check,
};

/// MiB of the disk.
pub const DISK_MIB: u64 = 1024;
/// MiB at its beginning that the load with the shadow model writes, and as many behind them that fio writes.
pub const LOAD_MIB: u64 = 64;
/// Its name.
pub const DISK: &str = "vm-1";

/// What fills disks.
const FILL: u64 = 2;

/// What a scene is to have.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The disk's name.
    pub disk: &'a str,
    /// Its size.
    pub mib: u64,
    /// Its policy, which exists; none: the default one.
    pub policy: Option<&'a str>,
    /// What fio does.
    pub fio: Verified,
}

impl Default for Asked<'_> {
    fn default() -> Self {
        let fio = Verified { offset_mib: LOAD_MIB, mib: LOAD_MIB, largest_kib: 256, rate_mib: 24, time: load_time() };
        Self { disk: DISK, mib: DISK_MIB, policy: None, fio }
    }
}

/// A disk under load.
pub struct Scene {
    /// Its name.
    pub disk: String,
    /// The owner when the scene began.
    pub owner: u8,
    /// The load with the shadow model.
    pub load: Load,
    fio: Fio,
    /// What leads fio's QEMU to a host.
    pub door: Door,
    begun: Instant,
    time: Duration,
    _qemu: Process,
}

impl Scene {
    /// Makes the disk at host `owner` and starts both loads; clients try the hosts of `through` in order.
    ///
    /// # Errors
    /// What could not be made.
    pub fn begin(cluster: &Cluster, owner: u8, through: &[u8]) -> Outcome<Self> {
        Self::begin_on(cluster, owner, through, &Asked::default())
    }

    /// The same with another disk.
    ///
    /// # Errors
    /// What could not be made.
    pub fn begin_on(cluster: &Cluster, owner: u8, through: &[u8], asked: &Asked<'_>) -> Outcome<Self> {
        let disk = asked.disk;
        cluster.create_disk_of(disk, asked.mib, owner, asked.policy)?;
        let targets = targets(cluster, through);
        let socket = |name: &str| cluster.host(owner).sockets.join(format!("{disk}-{name}.sock"));
        let door = Door::open(&socket("door"), targets.clone())?;
        let qemu = reconnecting(&door.socket, disk, &socket("qemu"), &cluster.logs)?;
        let load = Load::start(targets, disk, LOAD_MIB, 4, Duration::from_millis(5), 1);
        let uri = Target::Unix(socket("qemu")).uri(disk);
        let fio = Fio::verified(&uri, &asked.fio, &cluster.logs)?;
        let (begun, time) = (Instant::now(), asked.fio.time);
        Ok(Self { disk: disk.to_owned(), owner, load, fio, door, begun, time, _qemu: qemu })
    }

    /// Sleeps until this part of the load's time, in per cent, has passed.
    pub fn sleep_until(&self, percent: u32) {
        thread::sleep((self.time * percent / 100).saturating_sub(self.begun.elapsed()));
    }

    /// Waits until the load is answered again: `requests` more than now.
    ///
    /// # Errors
    /// When it is not, within `limit`.
    pub fn goes_on(&self, cluster: &Cluster, what: &str, limit: Duration) -> Outcome<()> {
        let (begin, before) = (Instant::now(), self.load.done());
        crate::wait_until(&format!("I/O of {} goes on {what}", self.disk), limit, || {
            check(self.load.done() > before + 8, || "no answers".into())
        })?;
        cluster.say(format!("I/O of {} goes on {what} ({:.2} s)", self.disk, begin.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Waits for fio's end and ends the load; every host is still as it is.
    ///
    /// # Errors
    /// An I/O error or a wrong byte that fio met.
    pub fn stop(self, cluster: &Cluster) -> Outcome<Ended> {
        let fio = self.fio.finish()?;
        cluster.say(fio.line());
        Ok(Ended { fio, load: self.load.stop()? })
    }

    /// [`Scene::stop`] and [`Ended::verify`].
    ///
    /// # Errors
    /// As those.
    pub fn finish(self, cluster: &Cluster, through: &[u8], stall_max: Duration) -> Outcome<()> {
        self.stop(cluster)?.verify(cluster, through, stall_max)
    }
}

/// Loads that have ended.
#[derive(Debug)]
pub struct Ended {
    fio: FioReport,
    load: StoppedLoad,
}

impl Ended {
    /// Reads everything back through the hosts of `through`, and prints what was found.
    ///
    /// # Errors
    /// An I/O error, a wrong byte, or a request longer than `stall_max`.
    pub fn verify(self, cluster: &Cluster, through: &[u8], stall_max: Duration) -> Outcome<()> {
        let report = self.load.verify(&targets(cluster, through))?;
        cluster.say(report.line());
        report.clean()?;
        let longest = report.longest.0.max(self.fio.longest);
        cluster.say(format!("LONGEST STALL {:.2} s (bound {} s)", longest.as_secs_f64(), stall_max.as_secs()));
        check(longest <= stall_max, || format!("I/O stalled for {:.2} s", longest.as_secs_f64()))
    }
}

/// Writes `mib` MiB of noise from `from_mib` on through host `n`.
///
/// # Errors
/// What the host answered.
pub fn fill(cluster: &Cluster, n: u8, from_mib: u64, mib: u64) -> Outcome<()> {
    write_version(cluster, n, DISK, from_mib..from_mib + mib, 1)?;
    cluster.say(format!("{mib} MiB more are written"));
    Ok(())
}

/// Writes a version of these MiB through host `n`.
///
/// # Errors
/// What the host answered.
pub fn write_version(cluster: &Cluster, n: u8, disk: &str, mib: Range<u64>, version: u32) -> Outcome<()> {
    let mut client = open(cluster, n, disk)?;
    for at in mib {
        client.write(at << 20, &mib_of(at, version)).map_err(|e| format!("write {disk} at {at} MiB: {e}"))?;
    }
    Ok(())
}

/// Whether an export has a version of these MiB at host `n`.
///
/// # Errors
/// Where it does not, or what the host answered.
pub fn has_version(cluster: &Cluster, n: u8, export: &str, mib: Range<u64>, version: u32) -> Outcome<()> {
    let mut client = open(cluster, n, export)?;
    let mut data = vec![0; 1 << 20];
    for at in mib {
        client.read(at << 20, &mut data).map_err(|e| format!("read {export} at {at} MiB: {e}"))?;
        let want = mib_of(at, version);
        let wrong = data.chunks(SECTOR).zip(want.chunks(SECTOR)).find(|(is, want)| is != want);
        check(wrong.is_none(), || {
            let [is, want] =
                wrong.map_or([&[][..]; 2], |(is, want)| [is, want]).map(|bytes| pattern::name(bytes, FILL));
            format!("{export} at h{n}, {at} MiB: {is} in the place of {want}")
        })?;
    }
    Ok(())
}

fn open(cluster: &Cluster, n: u8, export: &str) -> Outcome<NbdClient> {
    let target = Target::Unix(cluster.host(n).nbd_socket());
    NbdClient::connect(&target, export, Duration::from_secs(20)).map_err(|e| format!("{export} at h{n}: {e}"))
}

fn mib_of(at: u64, version: u32) -> Vec<u8> {
    let mut data = vec![0; 1 << 20];
    for (number, sector) in data.chunks_mut(SECTOR).enumerate() {
        pattern::fill(sector, FILL, at * 2048 + number as u64, version);
    }
    data
}

/// The NBD sockets of hosts.
pub fn targets(cluster: &Cluster, hosts: &[u8]) -> Vec<Target> {
    hosts.iter().map(|n| Target::Unix(cluster.host(*n).nbd_socket())).collect()
}

/// Starts a cluster of the default shape and runs a scenario on it.
///
/// # Panics
/// When it fails.
pub fn play(name: &str, shape: &Shape, scenario: impl FnOnce(&mut Cluster) -> Outcome<()>) {
    let cluster = Cluster::start(name, shape).unwrap_or_else(|words| panic!("{words}"));
    cluster.run(scenario);
}

/// A copy's host that is not `owner`, and a host without a copy.
///
/// # Errors
/// When the disk has no such copy.
pub fn roles(cluster: &Cluster, owner: u8) -> Outcome<(u8, u8)> {
    let replicas = cluster.replicas(owner, DISK)?;
    let other = *replicas.iter().find(|n| **n != owner).ok_or("no copy beside the owner's")?;
    let hosts = 1..=cluster.hosts().len() as u8;
    let spare = hosts.rev().find(|n| !replicas.contains(n) && *n != owner);
    Ok((other, spare.ok_or("no host without a copy")?))
}
