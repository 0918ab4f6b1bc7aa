//! How many test machines and disks of which size load a cluster properly: the rules of HCIBench's Easy Run.
//!
//! Promises    the numbers of the script, in its order of steps, with its 1.33 for RAID-5
//! Assumes     two tiers, cache and capacity. GB are whole and decimal here; the script takes what vSAN tells it
//! Not here    the single-tier rules of the script; running it
//! Source      vmware-labs/hci-benchmark-appliance, HCIBench/automation/lib/easy-run.rb (MIT)

use serde::Serialize;

use crate::{capacity::Protection, endurance::BUFFER_CAPS_GB, error::SizingError, exact::Exact};

/// Bytes of the GB in which the script counts.
const GB: u64 = 1_000_000_000;
/// Disk groups of a cluster, at most: 64 hosts of 5 are 320. Far above that a digit is wrong.
const GROUPS_MAX: u64 = 10_000;
/// Machines for each disk group.
const VMS_PER_GROUP: u64 = 2;
/// Data disks of a machine that is to give all it can.
const DISKS_MAX_LOAD: u64 = 8;
/// Data disks of a machine under a latency target.
const DISKS_LATENCY: u64 = 4;
/// Outstanding I/O of one machine.
const OUTSTANDING_PER_VM: u64 = 32;
/// The script's share of sequential load: a quarter of the threads (all of them where checksums are off).
const SEQUENTIAL_DIVISOR: u64 = 4;
/// Seconds before measuring, seconds of measuring.
const TIMES_S: (u64, u64) = (1800, 3600);

/// What the capacity devices are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Media {
    /// Flash: the cache is a write buffer. 75 % of it is to be written to, at most 600 GB for each group counted.
    AllFlash,
    /// Spinning disks: the cache holds reads and writes. 25 % of it is to be in use.
    Hybrid,
}

/// What the run is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Latency {
    /// As many I/Os as there are.
    Max,
    /// As many as keep a latency.
    Target,
}

/// The cluster under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cluster {
    /// Disk groups in all.
    pub disk_groups: u64,
    /// Bytes of one cache device; each group has one.
    pub cache_bytes: u64,
    /// Raw bytes of all capacity devices.
    pub capacity_bytes: u64,
    /// Of them, bytes that are free.
    pub free_bytes: u64,
    /// What the capacity devices are.
    pub media: Media,
    /// How the test disks are protected.
    pub protection: Protection,
    /// Whether blocks have checksums.
    pub checksums: bool,
    /// What the run is after.
    pub latency: Latency,
}

/// One of the four profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// As the script calls it: block size and per cent of reads.
    pub name: &'static str,
    /// Bytes of one I/O.
    pub block_bytes: u64,
    /// Per cent that are reads.
    pub read_percent: u64,
    /// Per cent that are at random places.
    pub random_percent: u64,
    /// Outstanding I/O of one disk.
    pub threads_per_disk: u64,
    /// Outstanding I/O of the cluster.
    pub outstanding: u64,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EasyRun {
    /// Test machines.
    pub vms: u64,
    /// Data disks of each.
    pub disks_per_vm: u64,
    /// GB (decimal) of each disk.
    pub disk_gb: u64,
    /// GB of cache that the data is cut from: after the cap and the halving.
    pub cache_gb: u64,
    /// How often it was halved, to leave a fifth of the capacity free.
    pub halved: u32,
    /// GB of all data disks.
    pub data_gb: u64,
    /// What is run on them.
    pub profiles: Vec<Profile>,
    /// Seconds before measuring.
    pub warm_up_s: u64,
    /// Seconds of measuring.
    pub run_s: u64,
}

/// Works out what the script would run.
///
/// 1. cache: groups x device; all-flash at most 600 GB x groups
/// 2. halved until free - cache is at least 20 % of the capacity
/// 3. data: cache x 0.25 (hybrid) or 0.75 (all-flash) / (copies; 1.33 for RAID-5; 1.5 for RAID-6)
/// 4. machines: 2 x groups; disks of each: 8, or 4 under a latency target
/// 5. size of a disk: data / (machines x disks), whole GB, at least 1
/// 6. threads of a disk: 32 / disks; a quarter of it for sequential profiles where checksums are on
///
/// # Errors
/// No groups, sizes of 0, more free than there is, less than a fifth of the capacity free.
pub fn easy_run(cluster: &Cluster) -> Result<EasyRun, SizingError> {
    check(cluster)?;
    let groups = cluster.disk_groups;
    let mut cache_gb = (cluster.cache_bytes / GB).checked_mul(groups).ok_or_else(SizingError::too_large)?;
    let (ratio, cap_gb) = match cluster.media {
        Media::AllFlash => (Exact::fraction(3, 4)?, BUFFER_CAPS_GB[0] * groups),
        Media::Hybrid => (Exact::fraction(1, 4)?, u64::MAX),
    };
    cache_gb = cache_gb.min(cap_gb);
    let (capacity_gb, free_gb) = (cluster.capacity_bytes / GB, cluster.free_bytes / GB);
    let mut halved = 0;
    // In fifths, to stay in whole numbers: free - cache < capacity x 0.2. Ends, since a fifth is free (`check`).
    while u128::from(free_gb) * 5 < u128::from(cache_gb) * 5 + u128::from(capacity_gb) {
        (cache_gb, halved) = (cache_gb / 2, halved + 1);
    }
    let amplification = match cluster.protection {
        Protection::RAID5 => Exact::fraction(133, 100)?,
        other => other.multiplier()?,
    };
    let vms = groups * VMS_PER_GROUP;
    let disks_per_vm = match cluster.latency {
        Latency::Max => DISKS_MAX_LOAD,
        Latency::Target => DISKS_LATENCY,
    };
    let disks = vms * disks_per_vm;
    let data = Exact::whole(cache_gb).times(ratio)?.over(amplification)?;
    let disk_gb = u64::try_from(data.over(Exact::whole(disks))?.floor()).map_err(|_| SizingError::too_large())?.max(1);
    Ok(EasyRun {
        vms,
        disks_per_vm,
        disk_gb,
        cache_gb,
        halved,
        data_gb: disks.checked_mul(disk_gb).ok_or_else(SizingError::too_large)?,
        profiles: profiles(cluster, disks, disks_per_vm),
        warm_up_s: TIMES_S.0,
        run_s: TIMES_S.1,
    })
}

fn check(cluster: &Cluster) -> Result<(), SizingError> {
    Exact::whole(cluster.disk_groups).positive("the number of disk groups")?;
    if cluster.disk_groups > GROUPS_MAX {
        return Err(SizingError::value(format!("{} disk groups", cluster.disk_groups), "give those of one cluster"));
    }
    if cluster.cache_bytes < GB {
        return Err(SizingError::value("a cache device holds less than 1 GB", "give its size, such as 375GB"));
    }
    if cluster.capacity_bytes < GB {
        return Err(SizingError::value("the capacity devices hold less than 1 GB", "give what all of them hold"));
    }
    if cluster.free_bytes > cluster.capacity_bytes {
        return Err(SizingError::value(
            "more is free than the capacity devices hold",
            "give raw bytes for both, of all capacity devices",
        ));
    }
    let (capacity_gb, free_gb) = (cluster.capacity_bytes / GB, cluster.free_bytes / GB);
    if u128::from(free_gb) * 5 < u128::from(capacity_gb) {
        return Err(SizingError::value(
            "less than a fifth of the capacity is free",
            "free some first: a run would fill the cluster above 80 %",
        ));
    }
    Ok(())
}

/// General purpose, mixed, and the four corners.
fn profiles(cluster: &Cluster, disks: u64, disks_per_vm: u64) -> Vec<Profile> {
    let random = OUTSTANDING_PER_VM / disks_per_vm;
    let sequential = if cluster.checksums { random / SEQUENTIAL_DIVISOR } else { random };
    let of = |name, kib: u64, read_percent, random_percent, threads_per_disk| Profile {
        name,
        block_bytes: kib << 10,
        read_percent,
        random_percent,
        threads_per_disk,
        outstanding: disks * threads_per_disk,
    };
    vec![
        of("4k70r", 4, 70, 100, random),
        of("8k50r", 8, 50, 100, random),
        of("4k100r", 4, 100, 100, random),
        of("4k0r", 4, 0, 100, random),
        of("256k100r", 256, 100, 0, sequential),
        of("256k0r", 256, 0, 0, sequential),
    ]
}
